"""Tools that require approval: always or by a predicate, asked through the one approval path."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.server.asgi import app_of, post
from tests.stories.helpers import kept
from windlass.events import ToolDecided
from windlass.testing import call, scripted


def make_refund(requires: Any, done: list[int]) -> Any:
    @w.tool(requires_approval=requires)
    async def refund(amount: int) -> str:
        """Refund a customer."""
        done.append(amount)
        return f"refunded {amount}"

    return refund


def decided(out: Any) -> list[ToolDecided]:
    return [entry for entry in out.entries if isinstance(entry, ToolDecided)]


async def test_a_tool_that_requires_approval_parks_the_run_and_goes_on_with_a_yes():
    done: list[int] = []
    model = scripted(call("refund", amount=5), "Done.")
    agent = w.Agent(model, tools=[make_refund(True, done)])
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended"
    assert done == []
    (waits,) = out.pending
    assert waits.reason == "may refund run? the tool requires approval"
    out = await agent.resume("s", decisions={waits.id: w.Allow(by=w.Caller("bea"))})
    assert out.output == "Done."
    assert done == [5]
    await kept(out, model)


async def test_a_no_is_told_to_the_model_and_nothing_runs():
    done: list[int] = []
    agent = w.Agent(scripted(call("refund", amount=5), "ok"), tools=[make_refund(True, done)])
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", decisions={out.pending[0].id: w.Deny("too much")})
    assert done == []
    assert out.tool_calls[0].outcome == "denied"
    assert "too much" in str(out.tool_calls[0].result)


async def over_ten(args: dict[str, Any]) -> bool:
    await asyncio.sleep(0)
    return args["amount"] > 10


def by_whom(args: dict[str, Any], ctx: w.ToolContext[Any]) -> bool:
    return ctx.caller.user != "boss"


def raises(args: dict[str, Any]) -> bool:
    raise ValueError("no rate today")


@pytest.mark.parametrize(
    ("requires", "amount", "caller", "reason"),
    [
        (False, 50, "ann", None),
        (lambda args: args["amount"] > 10, 5, "ann", None),
        (lambda args: args["amount"] > 10, 50, "ann", "the tool requires approval"),
        (lambda args: f"{args['amount']} is a lot", 50, "ann", "50 is a lot"),
        (over_ten, 5, "ann", None),
        (over_ten, 50, "ann", "the tool requires approval"),
        (by_whom, 5, "boss", None),
        (by_whom, 5, "ann", "the tool requires approval"),
        (raises, 5, "ann", "requires_approval failed: no rate today"),
        (lambda args: None, 5, "ann", "requires_approval answers True or False, not None"),
        (lambda args: "", 5, "ann", "requires_approval answers True or False, not ''"),
        (lambda: False, 5, "ann", "requires_approval failed"),
    ],
)
async def test_a_predicate_decides_and_asks_when_in_doubt(
    requires: Any, amount: int, caller: str, reason: str | None
):
    done: list[int] = []
    agent = w.Agent(
        scripted(call("refund", amount=amount), "ok"), tools=[make_refund(requires, done)]
    )
    out = await agent.run("go", caller=w.Caller(caller))
    if reason is None:
        assert (out.status, done) == ("done", [amount])
    else:
        assert (out.status, done) == ("suspended", [])
        assert reason in out.pending[0].reason


async def test_a_predicate_that_changes_its_arguments_changes_nothing():
    done: list[int] = []

    def meddle(args: dict[str, Any]) -> bool:
        args["amount"] = 1
        return False

    agent = w.Agent(scripted(call("refund", amount=7), "ok"), tools=[make_refund(meddle, done)])
    await agent.run("go")
    assert done == [7]


async def test_one_question_lists_all_reasons_and_one_answer_settles_it():
    done: list[int] = []
    agent = w.Agent(
        scripted(call("refund", amount=7), "ok"),
        tools=[make_refund(True, done)],
        approval_policy={"rules": [{"ask": ["refund"], "rationale": "money leaves"}]},
    )
    out = await agent.run("go", session_id="s")
    assert len(out.pending) == 1
    assert "the tool requires approval" in out.pending[0].reason
    assert "money leaves" in out.pending[0].reason
    questions = [entry for entry in decided(out) if entry.action == "ask"]
    assert [entry.rule for entry in questions] == ["approval_policy + requires_approval"]
    out = await agent.resume("s", decisions={out.pending[0].id: True})
    assert (out.status, done) == ("done", [7])


async def test_request_permission_of_the_rules_is_asked_at_once():
    done: list[int] = []
    asked: list[str] = []

    def permit(request: Any) -> bool:
        asked.append(request["reason"])
        return True

    agent = w.Agent(
        scripted(call("refund", amount=7), "ok"),
        tools=[make_refund(True, done)],
        approval_policy={"rules": [], "request_permission": permit},
    )
    out = await agent.run("go")
    assert (out.status, done) == ("done", [7])
    assert asked == ["may refund run? the tool requires approval"]


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_answer_for_the_session_holds_for_later_calls_and_runs(allowed: bool):
    done: list[int] = []
    model = scripted(call("refund", amount=1), call("refund", amount=2), "ok")
    agent = w.Agent(model, tools=[make_refund(True, done)])
    out = await agent.run("go", session_id="s")
    answer = w.Allow(scope="session") if allowed else w.Deny(scope="session")
    out = await agent.resume("s", decisions={out.pending[0].id: answer})
    assert out.status == "done"
    later = agent.with_(model=scripted(call("refund", amount=3), "ok"))
    out = await later.run("again", session_id="s")
    assert out.status == "done"
    assert done == ([1, 2, 3] if allowed else [])
    other = await later.with_(model=scripted(call("refund", amount=4), "ok")).run("go")
    assert other.status == "suspended"  # another session is asked


async def test_a_run_that_was_killed_while_parked_asks_the_same_question_in_another_process(
    tmp_path: Path,
):
    done: list[int] = []
    asked: list[int] = []

    def needs(args: dict[str, Any]) -> bool:
        asked.append(args["amount"])
        return True

    store = f"sqlite:///{tmp_path / 's.db'}"
    options: dict[str, Any] = {"tools": [make_refund(needs, done)]}
    first = w.Agent(scripted(call("refund", amount=5), "Done."), **options)
    parked = await first.run("go", store=store, session_id="s")
    second = w.Agent(scripted("Done."), **options)
    again = await second.resume("s", store=store)
    assert again.status == "suspended"
    assert [one.id for one in again.pending] == [one.id for one in parked.pending]
    assert len([entry for entry in decided(again) if entry.action == "ask"]) == 1
    count = len(asked)
    out = await second.resume("s", store=store, decisions={parked.pending[0].id: True})
    assert (out.status, done) == ("done", [5])
    assert len(asked) == count  # a person has answered: the predicate is not asked again


async def test_loop_generate_and_http_ask_alike():
    done: list[int] = []
    refund = make_refund(True, done)
    looped = await w.agent_loop(
        "go", model=scripted(call("refund", amount=1), "ok"), tools=[refund]
    )
    assert looped.status == "suspended"
    async with w.Runtime(store="memory:") as scope:
        model = scripted(call("refund", amount=2), "ok")
        with pytest.raises(w.Suspended) as raised:
            await scope.models.generate("go", model=model, tools=[refund])
        waiting = raised.value
        out = await scope.models.resume(
            waiting.session_id,
            model=model,
            tools=[refund],
            decisions={waiting.pending[0].id: True},
        )
        assert (out.content, done) == ("ok", [2])
        app = app_of(scope, scripted(call("refund", amount=3), "ok"), tools=[refund])
        reply = await post(app, {"input": "go"})
        assert "may refund run?" in str(reply.error)
    assert done == [2]


async def test_a_sub_agent_asks_through_its_parent():
    done: list[int] = []
    child = w.Agent(
        scripted(call("refund", amount=5), "Refunded."),
        name="clerk",
        tools=[make_refund(True, done)],
    )
    parent = w.Agent(scripted(call("clerk", task="refund 5"), "All done."), tools=[child.as_tool()])
    out = await parent.run("go", session_id="p")
    assert (out.status, done) == ("suspended", [])
    (asked,) = await w.approvals()
    await w.approve(asked.id)
    out = await parent.resume("p")
    assert (out.output, done) == ("All done.", [5])


async def test_a_tool_that_a_policy_brings_is_asked_about():
    done: list[int] = []

    class Bring(w.Policy[None]):
        async def start(self, run: Any) -> Any:
            return [make_refund(True, done)]

    agent = w.Agent(scripted(call("refund", amount=5), "ok"), policies=[Bring()])
    out = await agent.run("go")
    assert (out.status, done) == ("suspended", [])


async def test_an_early_read_waits_for_its_approval():
    reads: list[str] = []

    @w.tool(side_effect_level="read_only", requires_approval=True)
    async def open_letter(name: str) -> str:
        """Open a letter."""
        reads.append(name)
        return "secret"

    agent = w.Agent(
        scripted(call("open_letter", name="a"), "ok"), tools=[open_letter], eager_tools=True
    )
    out = await agent.run("go")
    assert (out.status, reads) == ("suspended", [])


@pytest.mark.parametrize("wrong", [1, "yes", None, int, []])
def test_requires_approval_that_is_no_answer_is_refused(wrong: Any):
    with pytest.raises(w.ConfigError, match="requires_approval is True, False or a function"):
        make_refund(wrong, [])


async def test_agents_without_such_tools_have_no_policy_for_it():
    @w.tool
    def plain() -> str:
        """Do."""
        return "ok"

    names = [policy.name for policy in w.Agent(scripted("x"), tools=[plain]).plan.policies]
    assert "requires_approval" not in names
