"""Stories of sub-agents whose sessions go on without their parent: its rules and budget still hold."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.test_budget_tree import priced, usd
from windlass.engine.environment import current_environment
from windlass.events import RunStarted
from windlass.testing import call, scripted

from .helpers import kept

ran: list[str] = []


ask_host = w.Tool("ask_host", "Ask the host.", {"x": {"type": "string"}}, kind="think")


@w.tool
async def write_file(path: str, text: str) -> str:
    """Write a file."""
    ran.append(f"write {path}")
    return "written"


@w.tool(side_effect_level="read_only")
async def look(what: str) -> str:
    """Look something up."""
    ran.append(f"look {what}")
    return "seen"


@pytest.fixture(autouse=True)
def nothing_ran():
    ran.clear()


def helper(*script: Any, **options: Any) -> w.Agent[Any, Any]:
    """Build the sub-agent: it asks the host first."""
    return w.Agent(
        scripted(call("ask_host", x="?"), *script),
        tools=[ask_host, write_file, look],
        name="helper",
        **options,
    )


WRITE = call("write_file", path="/etc/passwd", text="x")
LOOK = call("look", what="sky")


async def leave_child(*script: Any, depth: int = 1, **rules: Any) -> str:
    """Park a sub-agent below an agent with these rules; return the sub-agent's session."""
    agent = helper(*script)
    for _ in range(depth - 1):
        model = scripted(call("helper", task="go"), "done")
        agent = w.Agent(model, tools=[agent.as_tool()], name="helper")
    parent = w.Agent(scripted(call("helper", task="go"), "done"), tools=[agent.as_tool()], **rules)
    out = await parent.run("go", session_id="s")
    assert out.status == "suspended"
    store, session = current_environment().store, "s"
    while children := (await store.info(session)).child_ids:
        [session] = children
    return session


async def go_on(session: str, *script: Any, **options: Any) -> w.AgentResult[Any]:
    """Resume the sub-agent's session without its parent, in a program that has no rules."""
    alone = w.Agent(scripted(*script), tools=[ask_host, write_file, look], **options)
    [waiting] = (await alone.resume(session)).pending
    return await alone.resume(session, results={waiting.id: "go on"})


RULES: dict[str, dict[str, Any]] = {
    "ceiling": {"policy": {"tools": ["helper", "ask_*", "look"]}},
    "deny": {"permissions": {"deny": {"write_file": "/etc/*"}}},
    "allow": {"permissions": {"allow": ["helper", "ask_host", "look"]}},
    "path scope": {
        "permissions": {
            "allow": ["helper", "ask_host", "look", {"write_file": w.path_scope("path")}]
        }
    },
    "approval deny": {"approval_policy": {"rules": [{"deny": "write_*"}]}},
}


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
async def test_rules_of_the_parent_hold_without_it(rules: dict[str, Any], depth: int):
    async with w.Runtime(store="memory:", environ={}):
        session = await leave_child(depth=depth, **rules)
        out = await go_on(session, WRITE, LOOK, "done")
        assert out.status == "done" and ran == ["look sky"]
        assert [r.outcome for r in out.tool_calls if r.name == "write_file"] == ["denied"]
        await kept(out)


async def test_without_rules_of_the_parent_nothing_is_refused():
    async with w.Runtime(store="memory:", environ={}):
        out = await go_on(await leave_child(), WRITE, "done")
        assert ran == ["write /etc/passwd"]
        begun = next(e for e in out.entries if type(e) is RunStarted)
        assert "under" not in (begun.metadata or {})


async def test_question_that_the_parent_wants_asked_is_asked_without_it():
    rules = {"rules": [{"ask": "write_*"}], "request_permission": lambda request: True}
    async with w.Runtime(store="memory:", environ={}):
        session = await leave_child(approval_policy=rules)
        out = await go_on(session, call("write_file", path="a.txt", text="x"), "done")
        assert out.status == "suspended" and not ran
        alone = w.Agent(scripted("done"), tools=[ask_host, write_file, look])
        out = await alone.resume(session, decisions={out.pending[0].id: True})
        assert out.status == "done" and ran == ["write a.txt"]


class HouseRule(w.Policy[None]):
    """A rule that only the program has."""

    decides = True

    def for_child(self, run: Any) -> w.Policy[Any]:
        return self

    async def before_tool(self, run: Any, call: w.ToolCall) -> Any:
        return None


RULES_OF_PROGRAM: dict[str, dict[str, Any]] = {
    "predicate": {"permissions": {"deny": {"write_file": lambda args: True}}},
    "own policy": {"policies": [HouseRule()]},
}


@pytest.mark.parametrize("rules", RULES_OF_PROGRAM.values(), ids=RULES_OF_PROGRAM)
async def test_rule_that_only_the_program_has_needs_the_parent(rules: dict[str, Any]):
    async with w.Runtime(store="memory:", environ={}):
        session = await leave_child(WRITE, "done", **rules)
        alone = w.Agent(scripted(), tools=[ask_host, write_file, look])
        with pytest.raises(w.ParentRequired, match=r"resume 's'") as refused:
            await alone.resume(session)
        assert refused.value.session_id == "s"
        with pytest.raises(w.ParentRequired):
            await alone.run("Go on.", session_id=session)
        await w.agent_session_fork(session, "fork")
        with pytest.raises(w.ParentRequired):
            await alone.resume("fork")
        assert not ran


async def test_new_run_and_fork_of_a_sub_agents_session_are_held_to_the_rules():
    async with w.Runtime(store="memory:", environ={}):
        session = await leave_child(**RULES["ceiling"])
        await w.agent_session_fork(session, "fork")
        for key in ("fork", session):
            model = scripted(WRITE, "done")
            agent = w.Agent(model, tools=[ask_host, write_file, look])
            out = await agent.run("Go on.", session_id=key, on_pending="discard")
            assert out.status == "done" and not ran
        again = w.Agent(scripted(WRITE, "done"), tools=[ask_host, write_file, look])
        out = await again.run("And again.", session_id=session)
        assert out.status == "done" and not ran


# --------------------------------------------------------------------------- budgets


async def leave_priced_child(**rules: Any) -> str:
    """Park a sub-agent that spent a dollar below an agent that spent another."""
    inner = priced(call("ask_host", x="?"), usage=usd(1000))
    child = w.Agent(inner, tools=[ask_host], name="helper", max_tokens=100)
    model = priced(call("helper", task="go"), "done", usage=usd(1000))
    parent = w.Agent(model, tools=[child.as_tool()], max_tokens=100, **rules)
    out = await parent.run("go", session_id="s")
    assert (out.status, out.cost_usd) == ("suspended", pytest.approx(2.0))
    return out.pending[0].session_id or ""


@pytest.mark.parametrize(
    "budget", [w.Budget(usd=2.0), w.Budget(tokens=2000)], ids=["usd", "tokens"]
)
async def test_budget_of_the_parent_holds_without_it(budget: w.Budget):
    async with w.Runtime(store="memory:", environ={}):
        session = await leave_priced_child(budget=budget)
        model = priced("done", usage=usd(1000))
        alone = w.Agent(model, tools=[ask_host], max_tokens=100)
        [waiting] = (await alone.resume(session)).pending
        out = await alone.resume(session, results={waiting.id: "go on"})
        assert out.status == "budget_exhausted" and not model.requests


async def test_budget_of_the_parent_that_is_not_spent_lets_the_child_go_on():
    async with w.Runtime(store="memory:", environ={}):
        session = await leave_priced_child(budget=w.Budget(usd=4.0))
        alone = w.Agent(priced("done", usage=usd(1000)), tools=[ask_host], max_tokens=100)
        [waiting] = (await alone.resume(session)).pending
        out = await alone.resume(session, results={waiting.id: "go on"})
        assert (out.status, out.own_cost_usd) == ("done", pytest.approx(2.0))


async def test_time_of_the_parent_holds_without_it():
    async with w.Runtime(store="memory:", environ={}):
        session = await leave_priced_child(budget=w.Budget(seconds=60))
        alone = w.Agent(scripted("done"), tools=[ask_host])
        [waiting] = (await alone.resume(session)).pending
        out = await alone.resume(session, results={waiting.id: "go on"})
        assert out.status == "done"
        limit = out._run.ledger.limits.seconds
        assert limit is not None and 0 < limit <= 60


async def test_sub_agent_of_a_deleted_parent_with_rules_keeps_them_and_its_budget_refuses():
    async with w.Runtime(store="memory:", environ={}) as runtime:
        session = await leave_child(**RULES["ceiling"])
        await runtime.store.delete("s")
        alone = w.Agent(scripted(WRITE, "done"), tools=[ask_host, write_file, look])
        with pytest.raises(w.ParentRequired, match="deleted"):
            await alone.resume(session)


async def test_rules_of_the_parent_hold_when_a_callback_changes_the_options_of_the_sub_agent():
    def change(*_: Any) -> dict[str, Any]:
        return {"next_options": {"system": "Be brief."}}

    child = w.Agent(
        scripted(LOOK, WRITE, "done"),
        tools=[write_file, look],
        name="helper",
        post_turn_callback=change,
    )
    model = scripted(call("helper", task="go"), "done")
    out = await w.Agent(model, tools=[child.as_tool()], **RULES["ceiling"]).run("go")
    assert out.status == "done" and ran == ["look sky"]
