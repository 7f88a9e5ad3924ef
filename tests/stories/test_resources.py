"""Resources: your rows as tools, under permissions, each call once and on record."""

from __future__ import annotations

import json
from typing import Annotated

import pytest

import windlass as w
from windlass.resources import audit
from windlass.runtime.runtime import Runtime
from windlass.testing import call, scripted
from windlass.tools.middleware.base import ToolWrapper

ANN = w.Caller("ann", ("clerk",), "acme")
BOSS = w.Caller("bo", ("manager",), "acme")


class Product(w.Resource):
    """Things we sell."""

    id: str
    name: Annotated[str, w.field(unique=True)]
    price: float
    stock: int = 0
    mcp_tools = ["restock"]

    def allow_update(self, caller: w.Caller) -> bool | str:
        return "manager" in caller.roles or "only a manager changes a product"

    def allow_restock(self, caller: w.Caller) -> bool:
        return True

    def restock(self, tx: w.ResourceTx, amount: int) -> Product:
        """Put more on the shelf."""
        self.stock += amount
        return tx.save(self)


def shop(world: Runtime, **options: object) -> Runtime:
    """A shop in the store of this story."""
    return Runtime(store=world.store, environ={}, resources=[Product], **options)  # type: ignore


async def test_an_agent_works_with_rows_as_its_caller(own_world):
    async with shop(own_world) as scope:
        model = scripted(
            call("create_product", id="p1", name="Pen", price=1.5),
            call("restock_product", id="p1", amount=7),
            call("update_product", id="p1", values={"price": 0.01}),
            call("search_product", where={"stock": {"gte": 5}}),
            "All done.",
        )
        out = await w.Agent(model, tools=scope.tools(ANN)).run("go", caller=ANN)
        assert [one.outcome for one in out.tool_calls] == ["ok", "ok", "denied", "ok"]
        denied = json.loads(out.tool_calls[2].result)
        assert denied == {
            "error": "permission_denied",
            "tool": "update_product",
            "reason": "only a manager changes a product",
        }
        pen = await scope.resources[Product].get("p1", caller=BOSS)
        assert (pen.price, pen.stock, pen.version) == (1.5, 7, 2)


async def test_what_did_this_agent_do_is_one_query(own_world):
    async with shop(own_world) as scope:
        model = scripted(
            call("create_product", id="p1", name="Pen", price=1.5),
            call("update_product", id="p1", values={"price": 9}),
            "ok",
        )
        agent = w.Agent(model, tools=[scope.resources])
        await agent.run("go", caller=ANN, session_id="s1", request_id="r1", conversation_id="c1")
        rows = await scope.resources.audit(session="s1", request="r1", conversation="c1")
        assert [(one.caller, one.verb, one.row, one.outcome) for one in rows] == [
            ("ann", "create", "p1", "ok"),
            ("ann", "update", "p1", "denied"),
        ]
        audit.verify(rows)


async def test_a_person_and_an_agent_leave_the_same_kind_of_row(own_world):
    async with shop(own_world) as scope:
        await scope.resources[Product].create(id="p1", name="Pen", price=1.5, caller=ANN)
        model = scripted(call("create_product", id="p2", name="Ink", price=1.5), "ok")
        await w.agent_loop("go", model=model, tools=scope.tools(), caller=ANN)
        person, agent = await scope.resources.audit(tenant="acme")
        assert (person.verb, person.caller) == (agent.verb, agent.caller) == ("create", "ann")
        assert person.session is None and agent.session is not None


async def test_each_call_commits_alone(own_world):
    async with shop(own_world) as scope:
        model = scripted(
            [
                call("create_product", id="p1", name="Pen", price=1),
                call("create_product", name="Pen", price=2),
            ],
            "ok",
        )
        out = await w.Agent(model, tools=scope.tools(), max_concurrent_tools=1).run(
            "go", caller=ANN
        )
        assert [one.outcome for one in out.tool_calls] == ["ok", "error"]
        assert [one.id for one in await scope.resources[Product].search(caller=ANN)] == ["p1"]


async def test_roles_say_what_is_listed_and_what_runs(own_world):
    roles = {"clerk": ["product.get", "product.search"]}
    async with shop(own_world, roles=roles) as scope:
        assert [tool.name for tool in scope.tools(ANN)] == ["get_product", "search_product"]
        model = scripted(call("create_product", name="Pen", price=1), "ok")
        out = await w.Agent(model, tools=scope.tools()).run(
            "go", caller=ANN
        )  # offered all the same
        assert out.tool_calls[0].outcome == "denied"
        with pytest.raises(w.PermissionDenied, match="no role of acme/ann grants product.create"):
            await scope.resources[Product].create(name="Pen", price=1, caller=ANN)


async def test_another_tenant_sees_nothing_of_it(own_world):
    async with shop(own_world) as scope:
        await scope.resources[Product].create(id="p1", name="Pen", price=1, caller=ANN)
        model = scripted(call("search_product"), call("get_product", id="p1"), "ok")
        stranger = w.Caller("eve", ("manager",), "evil")
        out = await w.Agent(model, tools=scope.tools(stranger)).run("go", caller=stranger)
        assert json.loads(out.tool_calls[0].result)["rows"] == []
        assert json.loads(out.tool_calls[1].result)["error"] == "not_found"


async def test_tools_of_the_runtime_stand_beside_its_resources(own_world):
    @w.tool
    def today() -> str:
        """What day it is."""
        return "Monday"

    async with shop(own_world, tools=[today]) as scope:
        last = scope.tools(ANN)[-1]
        assert isinstance(last, ToolWrapper) and last.inner is today
        assert len(scope.tools(ANN)) == 7


async def test_a_journal_can_be_replayed_with_its_results(own_world):
    async with shop(own_world) as scope:
        model = scripted(call("create_product", id="p1", name="Pen", price=1), "ok")
        await w.Agent(model, tools=scope.tools()).run("go", caller=ANN, session_id="s1")
        result = await scope.store.result_of("s1", "call_1")
        assert result is not None and json.loads(result.result.text)["id"] == "p1"
        (row,) = await scope.resources.audit(session="s1")
        assert row.call == "call_1"
