"""Resources as tools: their names, schemas and answers, and methods of one's own."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import pytest

import windlass as w
from windlass.testing import call, scripted
from windlass.tools.middleware.base import ToolWrapper

ANN = w.Caller("ann", ("manager",), "acme")


class Product(w.Resource):
    """Things we sell."""

    id: str
    name: Annotated[str, w.field(description="as on the shelf")]
    price: float
    kind: Literal["book", "pen"] = "pen"
    stock: int = 0
    path = "shop/products"
    mcp_tools = {
        "restock": {},
        "count": {"name": "count_all", "side_effect_level": "read_only", "kind": "search"},
        "order": {"description": "Order more from far away."},
    }

    def restock(self, tx: w.ResourceTx, amount: Annotated[int, "how many"]) -> Product:
        """Put more on the shelf."""
        if amount <= 0:
            raise w.Retry("amount must be positive")
        self.stock += amount
        return tx.save(self)

    @classmethod
    def count(cls, tx: w.ResourceTx) -> dict[str, int]:
        """How many there are."""
        return {"count": len(tx.search(cls, limit=100))}

    async def order(self, ctx: w.ToolContext[Any], amount: int) -> str:
        await asyncio.sleep(0)  # a supplier far away
        body = lambda tx: tx.update(Product, self.id, {"stock": self.stock + amount}, self.version)  # noqa: E731
        return await ctx.commit(body)


def tool(scope: w.Runtime, name: str) -> w.Tool:
    return next(one for one in scope.tools() if one.name == name)


async def run(scope: w.Runtime, *calls: Any, caller: w.Caller = ANN, **options: Any) -> list[Any]:
    """The records of these calls, one per turn."""
    agent = w.Agent(scripted(*calls, "done"), tools=scope.tools(), max_turns=50, **options)
    async with scope:
        out = await agent.run("go", caller=caller)
    assert out.status == "done", out.error
    return out.tool_calls


async def test_names_words_and_kinds(runtime):
    scope = await runtime(Product)
    found = {one.name: one for one in scope.tools()}
    assert set(found) == {
        "get_shop_products",
        "search_shop_products",
        "create_shop_products",
        "update_shop_products",
        "delete_shop_products",
        "restock_shop_products",
        "count_all",
        "order_shop_products",
    }
    effects = {name: one.effect for name, one in found.items()}
    reads = {name for name, effect in effects.items() if effect == "read_only"}
    assert reads == {"get_shop_products", "search_shop_products", "count_all"}
    assert set(effects.values()) == {"read_only", "transactional"}
    assert found["update_shop_products"].annotations == {
        "kind": "edit",
        "side_effect_level": "workspace_write",
        "resource": "shop_products",
        "verb": "update",
    }
    assert (
        found["get_shop_products"].description
        == "Read one shop products by its id. Things we sell."
    )
    assert found["order_shop_products"].description == "Order more from far away."
    assert found["restock_shop_products"].parameters == {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "the id of the shop products"},
            "amount": {"type": "integer", "description": "how many"},
        },
        "required": ["id", "amount"],
        "additionalProperties": False,
    }


async def test_schemas_come_from_the_fields(runtime):
    scope = await runtime(Product)
    create = tool(scope, "create_shop_products").parameters
    assert create["required"] == ["name", "price"]
    assert create["properties"]["name"] == {"type": "string", "description": "as on the shelf"}
    assert create["properties"]["kind"]["enum"] == ["book", "pen"]
    search = tool(scope, "search_shop_products")
    for good in (
        {},
        {"where": {"price": {"lt": 3}, "kind": "pen"}, "sort": ["-price"], "limit": 5},
    ):
        assert not search.prepare(good).problems
    for bad in (
        {"where": {"prize": 1}},
        {"where": {"price": {"like": 1}}},
        {"sort": ["prize"]},
        {"limit": 101},
        {"where": {"price": "x"}},
        {"order": 1},
    ):
        assert search.prepare(bad).problems, bad


async def test_a_model_works_with_rows(runtime):
    scope = await runtime(Product)
    made, found, changed, stale, gone, none = await run(
        scope,
        call("create_shop_products", id="p1", name="Pen", price=1.5),
        call("search_shop_products", where={"name": {"prefix": "P"}}),
        call("update_shop_products", id="p1", values={"price": 2}, version=1),
        call("update_shop_products", id="p1", values={"price": 3}, version=1),
        call("delete_shop_products", id="p1"),
        call("get_shop_products", id="p1"),
    )
    row = {"id": "p1", "name": "Pen", "price": 1.5, "kind": "pen", "stock": 0, "version": 1}
    assert json.loads(made.result) == row
    assert json.loads(found.result) == {"rows": [row], "cursor": None}
    assert json.loads(changed.result) == {**row, "price": 2.0, "version": 2}
    conflict = json.loads(stale.result)
    assert (stale.is_error, conflict["error"], conflict["version"]) == (True, "conflict", 2)
    assert json.loads(gone.result)["id"] == "p1"
    assert json.loads(none.result)["error"] == "not_found" and none.is_error


async def test_methods_of_ones_own(runtime):
    scope = await runtime(Product)
    records = await run(
        scope,
        call("create_shop_products", id="p1", name="Pen", price=1.5),
        call("restock_shop_products", id="p1", amount=3),
        call("restock_shop_products", id="p1", amount=-1),
        call("order_shop_products", id="p1", amount=4),
        call("count_all"),
        call("restock_shop_products", id="p9", amount=3),
    )
    assert [one.outcome for one in records] == ["ok", "ok", "retry", "ok", "ok", "error"]
    assert json.loads(records[3].result)["stock"] == 7
    assert json.loads(records[4].result) == {"count": 1}
    handle = scope.resources[Product]
    assert (await handle.run("restock", "p1", amount=1, caller=ANN)).stock == 8
    assert (await handle.run("order", "p1", amount=1, caller=ANN)).stock == 9
    assert await handle.run("count", caller=ANN) == {"count": 1}
    with pytest.raises(w.ConfigError, match="offers no 'restok'"):
        await handle.run("restok", "p1")


async def test_a_method_may_do_several_things_at_once_or_none(runtime):
    class Account(w.Resource):
        id: str
        balance: int = 0
        mcp_tools = ["pay"]

        def pay(self, tx: w.ResourceTx, to: str, amount: int) -> dict[str, int]:
            """Pay somebody."""
            self.balance -= amount
            tx.save(self)
            other = tx.get(Account, to)
            if other is None:
                raise w.Retry(f"there is no account {to}")
            other.balance += amount
            return {"left": self.balance, "theirs": tx.save(other).balance}

    scope = await runtime(Account)
    accounts = scope.resources[Account]
    for name in ("a", "b"):
        await accounts.create(id=name, balance=10, caller=ANN)
    records = await run(
        scope,
        call("pay_account", id="a", to="b", amount=4),
        call("pay_account", id="a", to="x", amount=4),
    )
    assert json.loads(records[0].result) == {"left": 6, "theirs": 14}
    assert records[1].outcome == "retry"
    assert [one.balance for one in await accounts.search(caller=ANN)] == [6, 14]
    rows = await scope.resources.audit(verb="pay")
    assert [change["id"] for change in json.loads(rows[0].changes)] == ["a", "b"] and len(rows) == 1


async def test_an_async_method_sees_what_its_body_returned_and_may_do_without_one(runtime):
    class Job(w.Resource):
        id: str
        done: int = 0
        mcp_tools = ["work", "look"]

        async def work(self, ctx: w.ToolContext[Any]) -> Job:
            """Do it."""
            made = await ctx.commit(lambda tx: tx.update(Job, self.id, {"done": self.done + 1}))
            assert isinstance(made, Job) and made.version == self.version + 1
            with pytest.raises(RuntimeError, match="commits once"):
                await ctx.commit(lambda tx: None)
            return made

        async def look(self, ctx: w.ToolContext[Any]) -> str:
            """Look far away."""
            return f"{ctx.caller.user} sees {self.done}"

    scope = await runtime(Job)
    jobs = scope.resources[Job]
    await jobs.create(id="j", caller=ANN)
    assert (await jobs.run("work", "j", caller=ANN)).done == 1
    records = await run(scope, call("work_job", id="j"), call("look_job", id="j"))
    assert json.loads(records[0].result) == {"id": "j", "done": 2, "version": 3}
    assert records[1].result == "ann sees 2"
    verbs = [one.verb for one in await scope.resources.audit()]
    assert verbs == ["create", "work", "work", "look"]


async def test_a_method_reaches_resources_of_its_runtime_only(runtime):
    class Foreign(w.Resource):
        id: str

    class Home(w.Resource):
        id: str
        mcp_tools = ["reach"]

        @classmethod
        def reach(cls, tx: w.ResourceTx) -> Any:
            """Reach out."""
            return tx.create(Foreign, id="f")

    scope = await runtime(Home)
    with pytest.raises(w.ConfigError, match="verbs=\\[\\]"):
        await scope.resources[Home].run("reach", caller=ANN)
    w.export(scope=scope, verbs=[])(Foreign)
    assert (await scope.resources[Home].run("reach", caller=ANN)).id == "f"
    assert "get_foreign" not in [one.name for one in scope.tools()]


async def test_a_class_may_do_a_verb_otherwise(runtime):
    class Note(w.Resource):
        id: str
        text: str
        verbs = ("get", "create", "search")

        @classmethod
        def create(cls, tx: w.ResourceTx, values: dict[str, Any]) -> Note:
            """Write a note; it is trimmed."""
            return tx.create(cls, {**values, "text": values["text"].strip()})

        @classmethod
        def get(cls, tx: w.ResourceTx, id: str) -> Note | None:
            return None if id.startswith("hidden") else tx.get(cls, id)

    scope = await runtime(Note)
    notes = scope.resources[Note]
    assert (await notes.create(id="hidden1", text="  x ", caller=ANN)).text == "x"
    with pytest.raises(w.NotFound):
        await notes.get("hidden1", caller=ANN)
    names = [one.name for one in scope.tools()]
    assert names == ["get_note", "search_note", "create_note"]
    assert tool(scope, "create_note").description.startswith("Write a note")
    with pytest.raises(w.ConfigError, match="offers no 'delete'"):
        await notes.delete("hidden1")


async def test_an_export_belongs_to_the_runtime_around_it():
    async with w.Runtime(environ={}, resources=[]) as one:

        @w.export(name="Far/Away-Things", verbs=["get"])
        class Local(w.Resource):
            id: str

        assert [tool.name for tool in one.tools()] == ["get_far_away_things"]
        assert Local in one.resources and one.resources.Local
    other = w.Runtime(environ={}, resources=[])
    assert not other.tools()

    @w.export(scope=other)
    class Given(w.Resource):
        id: str

    assert len(other.tools()) == 5 and len(one.tools()) == 1
    with pytest.raises(AttributeError, match="did you mean 'Given'"):
        _ = other.resources.Givn
    with pytest.raises(w.ConfigError, match="not exported here"):
        _ = other.resources[Local]
    assert Given in other.resources


async def test_what_is_exported_before_any_runtime_is_in_every_one(monkeypatch):
    from windlass.resources import registry

    monkeypatch.setattr(registry, "_exported", {})

    @w.export
    class Early(w.Resource):
        id: str

    one, two = w.Runtime(environ={}), w.Runtime(environ={})
    assert Early in one.resources and Early in two.resources
    assert one.tools()[0] is not two.tools()[0]
    assert Early not in w.Runtime(environ={}, resources=[]).resources

    @w.export
    class Late(w.Resource):
        id: str

    assert Late in one.resources


def test_names_that_clash_are_an_error():
    class Order(w.Resource):
        id: str

    class Other(w.Resource):
        id: str
        path = "order"
        table = "others"

    class SameTable(w.Resource):
        id: str
        table = "order"

    with pytest.raises(w.ConfigError, match="tool 'get_order'"):
        w.Runtime(environ={}, resources=[Order, Other]).tools()
    with pytest.raises(w.ConfigError, match="table 'order'"):
        w.Runtime(environ={}, resources=[Order, SameTable]).tools()
    with pytest.raises(w.ConfigError, match="w.Resource"):
        w.Runtime(environ={}, resources=[w.Resource]).tools()
    with pytest.raises(w.ConfigError, match="w.Resource"):
        w.export(int)  # pyright: ignore

    @w.tool
    def get_order() -> str:
        """Mine."""
        return "x"

    with pytest.raises(w.ConfigError, match="two tools of this Runtime"):
        w.Runtime(environ={}, resources=[Order], tools=[get_order]).tools()
    [only] = w.Runtime(environ={}, resources=[], tools=[get_order]).tools()
    assert isinstance(only, ToolWrapper) and only.inner is get_order


async def test_a_session_in_another_store_cannot_reach_the_rows(runtime, tmp_path):
    scope = await runtime(Product)
    records = await run(
        scope,
        call("create_shop_products", name="Pen", price=1.5),
        store=f"sqlite:///{tmp_path}/elsewhere.db",
    )
    assert records[0].is_error and "in another" in records[0].result
    assert not (await scope.resources[Product].search(caller=ANN)).rows


async def test_arguments_that_nobody_checked_do_no_harm(runtime):
    scope = await runtime(Product)
    records = await run(
        scope,
        call("create_shop_products", name="Pen", price="free"),
        call("create_shop_products", **{'name", id) --': 1}),
        call("search_shop_products", where={"x": 1}),
        call("search_shop_products", sort={"name": 1}, limit="many"),
        call("update_shop_products"),
        call("restock_shop_products", id="p1"),
        call("restock_shop_products", amount=1, more=2),
        tool_arg_validation="none",
    )
    assert all(one.is_error for one in records)
    assert [one.outcome for one in records] == ["invalid"] * 7


async def test_a_host_may_call_by_the_tools_name(runtime):
    scope = await runtime(Product)
    made = await scope.resources.call(
        "create_shop_products", {"name": "Pen", "price": 1}, caller=ANN
    )
    assert isinstance(made, Product) and made.price == 1.0
    with pytest.raises(w.InvalidValue, match="name"):
        await scope.resources.call("create_shop_products", {"price": 1}, caller=ANN)
    with pytest.raises(w.ConfigError, match="did you mean"):
        await scope.resources.call("create_shop_product", {})
