"""Several policies ask about one call: one question with all reasons, and one answer is enough."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import windlass as w
from tests.stories.helpers import kept
from windlass.events import ToolDecided
from windlass.loop.approval_request import binding
from windlass.testing import call, scripted


@w.tool(annotations={"reads_private": True, "reads_untrusted": True}, kind="read")
async def read_mail() -> str:
    """Read mail."""
    return "hello"


def send_tool(ran: list[str]) -> w.Tool:
    async def send(to: str) -> str:
        """Send something."""
        ran.append(to)
        return "sent"

    return w.tool(annotations={"sends_out": True}, kind="edit")(send)


class Asks(w.Policy[None]):
    """A policy of the host that asks too."""

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Suspend | None:
        return w.Suspend("the host asks") if call.name == "send" else None


RULE: dict[str, Any] = {
    "approval_policy": {"rules": [{"ask": "send", "rationale": "mail leaves the house"}]}
}
CONSENT: dict[str, Any] = {
    "consent": lambda call: (
        {"allow": "ask", "reason": "consent asks"} if call.name == "send" else True
    )
}
LISTS: dict[str, Any] = {"permissions": {"deny": "send", "on_escalation": lambda request: "ask"}}
TAINT: dict[str, Any] = {"taint": True}
HOST: dict[str, Any] = {"policies": [Asks()]}
SOURCES = {
    "rule + taint": (RULE | TAINT, ["approval_policy", "taint"]),
    "rule + consent": (RULE | CONSENT, ["approval_policy", "Consent"]),
    "lists + rule": (LISTS | RULE, ["permissions", "approval_policy"]),
    "host + rule": (HOST | RULE, ["Asks", "approval_policy"]),
    "all": (
        LISTS | RULE | TAINT | CONSENT | HOST,
        ["Asks", "permissions", "approval_policy", "taint", "Consent"],
    ),
}


def agent_of(ran: list[str], options: dict[str, Any]) -> w.Agent[Any, Any]:
    model = scripted(call("read_mail"), call("send", to="bob"), "done")
    given = {"taint": False, **options}
    return w.Agent(model, tools=[read_mail, send_tool(ran)], **given)


@pytest.mark.parametrize("which", SOURCES)
@pytest.mark.parametrize("yes", [True, False], ids=["approved", "denied"])
async def test_one_answer_settles_all_who_ask(which: str, yes: bool):
    options, rules = SOURCES[which]
    ran: list[str] = []
    agent = agent_of(ran, options)
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended", out.error
    [waiting] = await w.approvals(session_id="s")
    questions = [e for e in out.entries if type(e) is ToolDecided and e.action == "ask"]
    assert [[ask["rule"] for ask in e.asks] for e in questions] == [rules]
    for ask in questions[0].asks:
        assert ask["reason"] in (waiting.reason or "") and ask["reason"] in out.pending[0].reason
    await (
        w.approve(waiting.id, by=w.Caller("ann")) if yes else w.deny(waiting.id, by=w.Caller("ann"))
    )
    out = await agent.resume("s")
    assert out.status == "done" and ran == (["bob"] if yes else [])
    decided = [e for e in out.entries if type(e) is ToolDecided and e.tool == "send"][-1]
    assert decided.answered_by == "ann" and [ask["rule"] for ask in decided.asks] == rules
    await kept(out)


async def test_answer_of_one_question_is_not_taken_for_a_source_that_asks_later():
    ran: list[str] = []
    agent = agent_of(ran, RULE)
    out = await agent.run("go", session_id="s")
    later = agent.with_(**CONSENT)
    out = await later.resume("s", decisions={out.pending[0].id: True})
    assert out.status == "suspended" and not ran
    assert "consent asks" in out.pending[0].reason and "leaves the house" in out.pending[0].reason
    out = await later.resume("s", decisions={out.pending[0].id: True})
    assert out.status == "done" and ran == ["bob"]


async def test_refusal_beats_every_ask_and_nobody_is_asked():
    ran: list[str] = []
    agent = agent_of(ran, HOST | RULE | {"policy": {"tools": ["read_mail"]}})
    out = await agent.run("go", session_id="s")
    assert out.status == "done" and not ran
    assert out.tool_calls[1].outcome == "denied"
    assert not [e for e in out.entries if type(e) is ToolDecided and e.action == "ask"]


async def test_host_that_answered_at_once_is_not_asked_again_when_another_source_parks():
    ran: list[str] = []
    asked: list[str] = []

    def request(call: Any) -> w.Allow:
        asked.append(call.name)
        return w.Allow(by=w.Caller("ann"), reason="she knows bob")

    rules = RULE["approval_policy"] | {"request_permission": request}
    agent = agent_of(ran, {"approval_policy": rules} | TAINT)
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended" and asked == ["send"]
    [waiting] = await w.approvals(session_id="s")
    assert waiting.rule == "taint"
    out = await agent.resume("s", decisions={out.pending[0].id: w.Allow(by=w.Caller("eve"))})
    assert out.status == "done" and ran == ["bob"] and asked == ["send"]
    decided = [e for e in out.entries if type(e) is ToolDecided and e.tool == "send"][-1]
    assert decided.answered_by == "eve"
    assert [ask.get("by") for ask in decided.asks] == ["ann", None]


async def test_shortest_time_of_all_sources_counts():
    class Brief(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Ask | None:
            return w.Ask("quick?", expires_in=60) if call.name == "send" else None

    out = await agent_of([], RULE | {"policies": [Brief()]}).run("go", session_id="s")
    [question] = [e for e in out.entries if type(e) is ToolDecided and e.action == "ask"]
    alone = await agent_of([], {"policies": [Brief()]}).run("go", session_id="t")
    [brief] = [e for e in alone.entries if type(e) is ToolDecided and e.action == "ask"]
    assert question.expires_at is not None and brief.expires_at is not None
    assert abs(question.expires_at - brief.expires_at) < 30


async def test_yes_to_a_call_that_waits_only_for_others_of_its_turn_is_no_error():
    ran: list[str] = []
    model = scripted([call("read_mail"), call("send", to="bob")], "done")
    tools = [read_mail, send_tool(ran)]
    agent = w.Agent(model, tools=tools, taint=False, eager_tools=False, **RULE)
    out = await agent.run("go", session_id="s")
    assert {each.name for each in out.pending} == {"read_mail", "send"}
    out = await agent.resume("s", decisions={each.id: True for each in out.pending})
    assert out.status == "done" and ran == ["bob"]


@pytest.mark.parametrize("same", [True, False], ids=["unchanged", "another workspace"])
async def test_question_of_an_older_version_can_still_be_answered(same: bool, tmp_path: Any):
    """It has no `asks`, and is bound to what its one policy looked at."""
    ran: list[str] = []
    agent = agent_of(ran, RULE)
    out = await agent.run("go", session_id="s")
    run, entries = out._run, out._run.journal.entries
    [at] = [n for n, e in enumerate(entries) if type(e) is ToolDecided and e.action == "ask"]
    new = entries[at]
    assert isinstance(new, ToolDecided)
    asked, about = run.turn.calls[0], new.asks[0]["about"]
    bound = binding(run, asked, run.tools["send"], about, new.expires_at)
    entries[at] = msgspec.structs.replace(new, asks=(), ask=bound)
    if not same:
        rules = {**RULE["approval_policy"], "workspace": str(tmp_path)}
        agent = agent.with_(approval_policy=rules)
    out = await agent.resume("s", decisions={asked.id: True})
    expected = ("done", ["bob"]) if same else ("suspended", [])  # what is different is asked again
    assert (out.status, ran) == expected
