"""A preview of calls to resources: true results and diffs, and not a row is different afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import windlass as w
from windlass.testing import call, scripted

ANN = w.Caller("ann", (), "acme")
LATER: list[str] = []


class Product(w.Resource):
    id: str
    name: str
    price: float = 1.0
    secret: Annotated[str | None, w.field(private=True)] = None
    mcp_tools = ["discount", "announce"]

    def allow_delete(self, caller: w.Caller) -> bool | str:
        return "pens stay" if self.name == "Pen" else True

    def discount(self, tx: w.ResourceTx, percent: int) -> Product:
        """Lower the price."""
        self.price = self.price * (100 - percent) / 100
        return tx.save(self)

    async def announce(self, ctx: w.ToolContext[None]) -> str:
        """Tell everybody."""
        LATER.append(self.id)
        return await ctx.commit(lambda tx: "told")


async def seeded(runtime: Callable[..., Any], **options: Any) -> w.Runtime:
    scope = await runtime(Product, **options)
    products = scope.resources[Product]
    await products.create(id="p1", name="Pen", price=2.0, caller=ANN)
    await products.create(id="p2", name="Ink", price=4.0, caller=ANN)
    return scope


def agent(scope: w.Runtime, *script: Any, **options: Any) -> w.Agent[Any, str]:
    return w.Agent(scripted(*script, "ok"), tools=list(scope.resources), caller=ANN, **options)


async def rows(scope: w.Runtime) -> list[tuple[str, str, float, int]]:
    found = await scope.resources[Product].search(sort="id", caller=ANN)
    return [(one.id, one.name, one.price, one.version) for one in found.rows]


SEED = [("p1", "Pen", 2.0, 1), ("p2", "Ink", 4.0, 1)]


async def test_a_write_gives_its_true_result_and_diff_and_changes_nothing(runtime: Any):
    scope = await seeded(runtime)
    async with scope:
        out = await agent(
            scope,
            call("update_product", id="p1", values={"price": 3.0}),
            call("delete_product", id="p2"),
        ).run("go", dry_run="plan")
        assert json.loads(out.tool_calls[0].result)["price"] == 3.0
        assert [effect.diff for effect in out.plan.effects] == [
            (
                {
                    "resource": "product",
                    "id": "p1",
                    "verb": "update",
                    "fields": {"price": [2.0, 3.0]},
                },
            ),
            (
                {
                    "resource": "product",
                    "id": "p2",
                    "verb": "delete",
                    "fields": {"id": ["p2", None], "name": ["Ink", None], "price": [4.0, None]},
                },
            ),
        ]
        assert await rows(scope) == SEED
        assert await scope.resources.audit(session=out.session_id) == []


async def test_later_calls_see_what_earlier_ones_would_have_done(runtime: Any):
    scope = await seeded(runtime)
    async with scope:
        out = await agent(
            scope,
            [
                call("get_product", id="p1"),
                call("update_product", id="p1", values={"price": 3.0}),
                call("discount_product", id="p1", percent=50),
                call("get_product", id="p1"),
            ],
            call("delete_product", id="p2"),
            [call("search_product"), call("get_product", id="p2")],
        ).run("go", dry_run="plan")
        seen = [json.loads(one.result) for one in out.tool_calls]
        assert [seen[at]["price"] for at in range(4)] == [2.0, 3.0, 1.5, 1.5]
        assert [row["id"] for row in seen[5]["rows"]] == ["p1"]
        assert seen[6]["error"] == "not_found"
        assert len(out.plan.effects) == 3 and await rows(scope) == SEED


async def test_what_would_fail_is_told_and_not_planned(runtime: Any):
    scope = await seeded(runtime)
    async with scope:
        out = await agent(
            scope,
            call("create_product", id="p1", name="Twice"),
            call("delete_product", id="p1"),
            call("update_product", id="p9", values={"price": 1.0}),
            call("update_product", id="p1", values={"price": 1.0}, version=7),
        ).run("go", dry_run="plan")
        told = [json.loads(one.result)["error"] for one in out.tool_calls]
        assert told == ["conflict", "permission_denied", "not_found", "conflict"]
        assert out.plan.effects == () and await rows(scope) == SEED


async def test_what_may_do_more_than_rows_show_is_not_rehearsed(runtime: Any):
    scope = await seeded(runtime)
    async with scope:
        out = await agent(scope, call("announce_product", id="p1")).run("go", dry_run="plan")
        (effect,) = out.plan.effects
        assert effect.diff is None and "not rehearsed" in (effect.note or "") and LATER == []


async def test_a_private_field_is_not_in_the_plan(runtime: Any):
    scope = await seeded(runtime)
    async with scope:
        out = await agent(scope, call("update_product", id="p1", values={"secret": "x"})).run(
            "go", dry_run="plan"
        )
        assert out.plan.effects[0].diff[0]["fields"] == {"secret": "private"}


async def test_the_real_run_makes_the_very_row_that_was_planned(runtime: Any):
    scope = await seeded(runtime)
    made: list[str] = []

    def script() -> Any:
        def update(request: w.Request) -> Any:
            result = request.messages[-1].content[-1]
            made.append(json.loads(result.text)["id"])
            return call("update_product", id=made[-1], values={"price": 9.0})

        return call("create_product", name="Nib"), update, call("get_product", id="p1")

    async with scope:
        out = await agent(scope, *script()).run("go", dry_run="plan")
        assert out.status == "done", out.error
        assert out.plan.effects[0].pinned == {"id": made[0]} and await rows(scope) == SEED
        await w.approve_plan(out.plan)
        real = await agent(scope, *script(), plan=out.plan).run("go")
        assert real.status == "done" and made[0] == made[1]
        nib = await scope.resources[Product].get(made[0], caller=ANN)
        assert (nib.name, nib.price, nib.version) == ("Nib", 9.0, 2)
        others = [row for row in await rows(scope) if row[0] != made[0]]
        assert others == SEED


async def test_a_preview_that_was_parked_rehearses_again_what_it_had(runtime: Any):
    scope = await seeded(runtime)
    reads: Any = {"rules": [{"ask": "search_product"}]}
    script = (
        call("update_product", id="p1", values={"price": 3.0}),
        call("search_product"),
        call("get_product", id="p1"),
    )
    async with scope:
        first = await agent(scope, *script, approval_policy=reads).run(
            "go", dry_run="plan", session_id="p"
        )
        assert first.status == "suspended"
        out = await agent(scope, *script[2:], approval_policy=reads).resume(
            "p", decisions={first.pending[0].id: True}
        )
        assert out.status == "done", out.error
        found = json.loads(out.tool_calls[1].result)["rows"]
        assert [row["price"] for row in found] == [3.0, 4.0]
        assert json.loads(out.tool_calls[2].result)["price"] == 3.0
        assert len(out.plan.effects) == 1 and await rows(scope) == SEED


async def test_a_role_that_may_not_is_told_so(runtime: Any):
    scope = await seeded(runtime)
    async with scope:
        pass
    other = await runtime(Product, roles={"reader": ["product.get"]})
    who = w.Caller("bob", ("reader",), "acme")
    async with other:
        doing = w.Agent(
            scripted(call("update_product", id="p1", values={"price": 1.0}), "ok"),
            tools=list(other.resources),
            caller=who,
        )
        out = await doing.run("go", dry_run="plan")
        assert json.loads(out.tool_calls[0].result)["error"] == "permission_denied"
        assert out.plan.effects == ()
