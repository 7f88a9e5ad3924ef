"""Every decision names its rule, its asker, who answered and why: in journal, transcript, audit and events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.tool_helpers import look, write
from windlass.events import PermissionGrant, ToolCallAudit, ToolDecided
from windlass.testing import call, scripted

ANN = w.Caller("ann", ("clerk",), "acme")
RULES = [{"ask": "write", "rationale": "files are dear"}]


class Seen:
    """One run, and what each place says of its last decision."""

    def __init__(self, out: Any, events: list[Any], page: Any) -> None:
        self.out = out
        entries = [e for e in out.entries if type(e) is ToolDecided]
        self.journal = entries[-1].policy_decision
        told = [e for e in events if type(e) is ToolCallAudit]
        self.events = [e.audit for e in told]
        self.event = self.events[-1]["policyDecision"]
        self.entry = next(e for e in page.entries if e.call == entries[-1].call_id)
        self.audit = self.entry.policy_decision
        transcript = [e for e in out.trace["events"] if e["kind"] == "decision"]
        self.trace = transcript[-1]["policyDecision"]

    def everywhere(self) -> dict[str, Any]:
        """The decision, if all places agree."""
        assert self.journal == self.event == self.audit == self.trace
        return self.journal


async def run(tool: str = "write", session_id: str | None = "s", **options: Any) -> Seen:
    events: list[Any] = []
    async with w.Runtime(store="memory:", environ={}) as scope:
        out = await w.agent_loop(
            "go",
            model=scripted(call(tool, path="b"), "ok"),
            tools=[look, write],
            on_event=events.append,
            session_id=session_id,
            **options,
        )
        return Seen(out, events, await scope.audit.query())


@pytest.mark.parametrize("yes", [True, False], ids=["approved", "denied"])
async def test_question_that_the_host_answers_at_once_is_recorded_whole(yes: bool):
    bea = w.Caller("bea")
    answer = w.Allow(by=bea, reason="she knows") if yes else w.Deny("not today", by=bea)
    policy = {"rules": RULES, "request_permission": lambda asked: answer}
    seen = await run(approval_policy=policy)
    told = seen.everywhere()
    assert told["action"] == ("allow" if yes else "deny")
    assert told["rule"] == "rule 0 (ask: tool=write)" and told["rationale"] == "files are dear"
    assert told["asker"] == told["policy"] == "approval_policy"
    assert told["question"] == "may write run? files are dear"
    assert told["answered_by"] == "bea"
    assert told["answer_reason"] == ("she knows" if yes else "not today")
    assert (seen.entry.answered_by, seen.entry.asker) == ("bea", "approval_policy")


ASKERS: dict[str, tuple[dict[str, Any], str]] = {
    "request_permission": (
        {"approval_policy": {"rules": RULES, "request_permission": lambda asked: True}},
        "approval_policy",
    ),
    "consent": ({"consent": lambda asked: {"allow": True, "reason": "fine"}}, "Consent"),
    "on_escalation": (
        {"permissions": {"deny": "write", "on_escalation": lambda request: True}},
        "permissions",
    ),
}


@pytest.mark.parametrize("which", ASKERS)
async def test_function_that_answers_is_named(which: str):
    options, policy = ASKERS[which]
    told = (await run(**options)).everywhere()
    assert (told["action"], told["policy"], told["answered_by"]) == ("allow", policy, which)
    assert "write" in told["question"]


LISTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "allow": ({"permissions": {"allow": "wr*"}}, "allow", "allow wr*"),
    "deny": ({"permissions": {"deny": "wr*"}}, "deny", "deny wr*"),
    "not allowed": ({"permissions": {"allow": "look"}}, "deny", "not allowed"),
    "ceiling": ({"policy": {"tools": ["look"]}}, "deny", "ceiling"),
    "rule": (
        {"approval_policy": {"rules": [{"deny": "write"}]}},
        "deny",
        "rule 0 (deny: tool=write)",
    ),
    "rule that allows": (
        {"approval_policy": {"rules": [{"allow": "write"}]}},
        "allow",
        "rule 0 (allow: tool=write)",
    ),
    "limit": ({"rate_limit": {"max_calls": 0}}, "deny", "RateLimit"),
    "nothing": ({}, "allow", "default"),
}


@pytest.mark.parametrize("which", LISTS)
async def test_rule_of_every_decision_is_named(which: str):
    options, action, rule = LISTS[which]
    seen = await run(**options)
    told = seen.everywhere()
    assert (told["action"], told["rule"]) == (action, rule) and told["rationale"]
    assert seen.events[-1]["event_type"] == f"tool_{action}"


async def test_list_that_grants_leaves_a_grant():
    for options, count in (({"allow": "wr*"}, 1), ({"deny": "look"}, 0)):
        seen = await run(permissions=options)
        grants = [e for e in seen.out.entries if type(e) is PermissionGrant]
        assert [(e.tool, e.reason) for e in grants] == [("write", "allowed by wr*")] * count


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_grant_of_a_call_that_others_parked_is_recorded_once(store: str, tmp_path: Path):
    place = store if store == "memory:" else f"sqlite:///{tmp_path}/s.db"
    rules: Any = {"rules": [{"ask": "write"}]}
    async with w.Runtime(store=place, environ={}):
        agent = w.Agent(
            scripted(
                [call("write", path="a"), call("write", path="b")], call("write", path="a"), "ok"
            ),
            tools=[write],
            permissions={"allow": "wr*"},
            approval_policy=rules,
        )
        out = await agent.run("go", session_id="s")
        for _ in range(2):  # a parked call is decided on again when it goes on
            assert out.status == "suspended"
            out = await agent.resume("s", decisions={each.id: True for each in out.pending})
        assert out.status == "done"
        granted = [e.call_id for e in out.entries if type(e) is PermissionGrant]
        assert granted == [each.id for each in out.tool_calls] and len(granted) == 3


async def test_answer_that_comes_later_is_recorded_whole():
    async with w.Runtime(store="memory:", environ={}) as scope:
        agent = w.Agent(
            scripted(call("write", path="b"), "ok"), tools=[write], approval_policy={"rules": RULES}
        )
        events: list[Any] = []
        out = await agent.run("go", session_id="s", on_event=events.append)
        asked = next(e for e in events if type(e) is ToolCallAudit).audit
        assert asked["event_type"] == "tool_ask"
        assert asked["policyDecision"]["asker"] == "approval_policy"
        [waiting] = await w.approvals()
        await w.approve(waiting.id, by=w.Caller("bea"), reason="she looked")
        out = await agent.resume("s", on_event=events.append)
        told = Seen(out, events, await scope.audit.query()).everywhere()
    assert (told["action"], told["answered_by"]) == ("allow", "bea")
    assert told["answer_reason"] == "she looked"
    assert told["rule"] == "rule 0 (ask: tool=write)" and told["rationale"] == "files are dear"
    assert told["question"] == "may write run? files are dear"


class Order(w.Resource):
    """What somebody bought."""

    id: str
    item: str = ""


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
async def test_denial_by_a_role_is_a_denial_everywhere(store: str, tmp_path: Any):
    place = f"sqlite:///{tmp_path}/shop.db" if store == "sqlite" else store
    for grants, action in (({"clerk": ["order.get"]}, "deny"), ({"clerk": ["order.*"]}, "allow")):
        events: list[Any] = []
        async with w.Runtime(store=place, environ={}, resources=[Order], roles=grants) as scope:
            model = scripted(call("create_order", id=f"o-{action}", item="pen"), "ok")
            create = [tool for tool in scope.tools() if tool.name == "create_order"]
            out = await w.agent_loop(
                "go",
                model=model,
                tools=create,
                caller=ANN,
                session_id=f"s-{action}",
                on_event=events.append,
            )
            seen = Seen(out, events, await scope.audit.query(session=f"s-{action}"))
        told = seen.everywhere()
        rule = "roles" if action == "deny" else "default"
        assert (told["action"], told["rule"]) == (action, rule)
        assert (seen.entry.action, seen.entry.rule) == (action, rule)
        if action == "deny":
            assert "no role of acme/ann grants order.create" in told["rationale"]
            assert "no role" in (seen.entry.reason or "")


# --------------------------------------------------------------------------- sessions without a name


async def test_decisions_of_unnamed_sessions_are_in_the_audit():
    seen = await run(session_id=None, permissions={"deny": "write"})
    assert seen.everywhere()["action"] == "deny" and seen.entry.session == seen.out.session_id


def scripted_write() -> Any:
    return scripted(call("write", path="b"), "ok")


DOORS: dict[str, Callable[[w.Runtime], Any]] = {
    "agent_loop": lambda scope: w.agent_loop("go", model=scripted_write(), tools=[write]),
    "Agent": lambda scope: w.Agent(scripted_write(), tools=[write]).run("go"),
    "generate": lambda scope: scope.models.generate("go", model=scripted_write(), tools=[write]),
}


@pytest.mark.parametrize("door", DOORS)
async def test_unnamed_sessions_of_every_door_are_in_the_audit(door: str):
    async with w.Runtime(store="memory:", environ={}) as scope:
        await DOORS[door](scope)
        [entry] = (await scope.audit.query()).entries
    assert (entry.tool, entry.action, entry.rule, entry.outcome) == (
        "write",
        "allow",
        "default",
        "ok",
    )


async def test_unnamed_sessions_are_kept_in_the_audit_by_the_thousand():
    async with w.Runtime(store="memory:", environ={}) as scope:
        for number in range(300):
            model = scripted(call("write", path=str(number)), "ok")
            await w.agent_loop("go", model=model, tools=[write])
        page = await scope.audit.query(limit=1000)
        assert len(page.entries) == 300
        assert len({entry.session for entry in page.entries}) == 300
        one = page.entries[-1]
        alone = await scope.audit.query(session=one.session or "")
        assert alone.entries == (one,)


async def test_unnamed_session_that_is_resumed_is_in_the_audit_once():
    async with w.Runtime(store="memory:", environ={}) as scope:
        agent = w.Agent(scripted(call("write", path="b"), "ok", "more"), tools=[write])
        out = await agent.run("go")
        await agent.run("again", session_id=out.session_id)
        page = await scope.audit.query()
        assert [(e.tool, e.session) for e in page.entries] == [("write", out.session_id)]


async def test_denial_of_a_plain_tool_by_a_role_is_a_denial_everywhere():
    for grants, action in (({"clerk": ["tool.look"]}, "deny"), ({"clerk": ["tool.*"]}, "allow")):
        events: list[Any] = []
        async with w.Runtime(
            store="memory:", environ={}, tools=[look, write], roles=grants
        ) as scope:
            tools = [tool for tool in scope.tools() if tool.name == "write"]
            out = await w.agent_loop(
                "go",
                model=scripted(call("write", path="b"), "ok"),
                tools=tools,
                caller=ANN,
                session_id="s",
                on_event=events.append,
            )
            seen = Seen(out, events, await scope.audit.query())
        rule = "roles" if action == "deny" else "default"
        assert (seen.everywhere()["action"], seen.everywhere()["rule"]) == (action, rule)
        assert seen.out.tool_calls[0].outcome == ("denied" if action == "deny" else "ok")
