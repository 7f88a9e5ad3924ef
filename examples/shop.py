"""A shop: rows as tools under roles, a refusal, a yes from somebody, and what it all came to.

    python examples/shop.py

Three people use one agent. Each call runs as the person who asked, in a transaction of its own, and
leaves a row in the audit log. `docs/tutorials/shop.md` builds it step by step.
"""

from __future__ import annotations

import asyncio
import tempfile

import windlass as w
from windlass.testing import call, scripted


class Product(w.Resource):
    """Something that we sell."""

    id: str
    price: float
    stock: int = 0


class Order(w.Resource):
    """What somebody has ordered."""

    id: str
    product: str
    quantity: int
    customer: str
    mcp_tools = ("place",)

    def allow_read(self, caller: w.Caller) -> bool | str:
        mine = self.customer == caller.user or "clerk" in caller.roles
        return mine or "it is somebody else's order"

    @classmethod
    def place(cls, tx: w.ResourceTx, product: str, quantity: int) -> Order:
        """Order so many of a product: from the shelf and into the book, or neither."""
        found = tx.get(Product, product)
        if found is None or found.stock < quantity:
            raise w.Retry(f"there are {0 if found is None else found.stock} of {product!r}")
        found.stock -= quantity
        tx.save(found)
        return tx.create(cls, product=product, quantity=quantity, customer=tx.caller.user)


ROLES = {
    "*": ["product.get", "product.search"],
    "customer": ["order.get", "order.search", "order.place"],
    "clerk": ["order.get", "order.search", "order.delete", "product.*"],
}
ANN = w.Caller("ann", roles=("clerk",), tenant="acme")
CY = w.Caller("cy", roles=("customer",), tenant="acme")


async def buy(scope: w.Runtime) -> None:
    """Cy orders too much, then less; prices are not his to change."""
    model = scripted(
        call("place_order", product="cup", quantity=3),
        call("place_order", product="cup", quantity=2),
        "Two cups are yours.",
    )
    out = await scope.models.generate("Three cups, please.", model=model, caller=CY)
    print(f"cy: {out.content}")
    try:
        await scope.resources[Product].update("cup", {"price": 0.01}, caller=CY)
    except w.PermissionDenied as error:
        print(f"cy: {error}")


async def remove(scope: w.Runtime) -> None:
    """Ann's agent may delete an order once somebody has said yes."""
    [order] = await scope.resources[Order].search(caller=ANN)
    agent = w.Agent(
        scripted(call("delete_order", id=order.id), "It is gone."),
        tools=scope.tools(ANN),
        approval_policy={"rules": [{"ask": "delete_*"}]},
    )
    out = await agent.run("Delete the order of cy.", caller=ANN, session_id="deleting")
    print(f"ann: {out.status}")
    [waiting] = await w.approvals(scope.store)
    await w.approve(waiting.id, store=scope.store)
    out = await agent.resume("deleting")
    print(f"ann: {out.status}: {out.output}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        where = f"sqlite:///{folder}/shop.db"
        async with w.Runtime(store=where, resources=[Product, Order], roles=ROLES) as scope:
            await scope.resources[Product].create(id="cup", price=4.5, stock=2, caller=ANN)
            await buy(scope)
            await remove(scope)
            for row in await scope.resources.audit(tenant="acme"):
                print(f"log: {row.caller} {row.verb} {row.resource}: {row.outcome}")


if __name__ == "__main__":
    asyncio.run(main())
