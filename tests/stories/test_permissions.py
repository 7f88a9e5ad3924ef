"""What an agent may do of itself: ceilings, lists by tool and by argument, and who may grant more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, results
from tests.stories.tool_helpers import (
    both,
    decisions,
    look,
    write,
)
from windlass.events import PermissionDeny, PermissionEscalation, PermissionGrant
from windlass.testing import call, scripted


def told(out: Any, tool: str) -> dict[str, Any]:
    outcome, words = results(out)[tool]
    assert outcome == "denied"
    return json.loads(words)


def notes(out: Any) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for e in out.entries:
        if isinstance(e, PermissionGrant):
            found.append(("grant", e.tool, e.grant))
        elif isinstance(e, (PermissionDeny, PermissionEscalation)):
            found.append(("deny" if isinstance(e, PermissionDeny) else "escalation", e.tool))
    return found


async def writes(path: str, **options: Any) -> Any:
    model = scripted(call("write", path=path), "ok")
    out = await w.agent_loop("go", model=model, tools=[look, write], **options)
    assert out.status == "done", out.error
    await kept(out, model)
    return out


# --------------------------------------------------------------------------- the ceiling


async def test_nothing_above_the_ceiling_runs():
    out = await both(policy={"tools": ["loo*"]})
    assert results(out)["look"][0] == "ok"
    assert told(out, "write") == {
        "error": "permission_denied",
        "tool": "write",
        "reason": "write is not among the tools of this agent's policy",
    }
    assert decisions(out) == [("look", "allow", "default"), ("write", "deny", "policy")]
    assert out.tools.rejected == ["write"]


async def test_a_ceiling_over_effects_holds_back_what_says_nothing_of_itself():
    out = await both(policy=w.Ceiling(side_effect_level="read_only"))
    assert results(out)["look"][0] == "ok" and "read_only" in told(out, "write")["reason"]


async def test_no_grant_lifts_a_ceiling():
    out = await both(
        policy={"tools": ["look"]},
        permissions={"deny": ["write"], "on_escalation": lambda request: True},
        approval_policy={"rules": [{"allow": "*"}]},
    )
    assert told(out, "write")["reason"].startswith("write is not among")
    assert not notes(out)


# --------------------------------------------------------------------------- the lists


@pytest.mark.parametrize(
    ("permissions", "runs"),
    [
        ({"deny": ["wri*"]}, False),
        ({"deny": "look"}, True),
        ({"allow": ["look"]}, False),
        ({"allow": ["*"]}, True),
        ({"allow": ["*"], "deny": ["write"]}, False),
        ({"deny": {"write": "*/secret/*"}}, True),
        ({"deny": {"write": ["*.md", "b"]}}, False),
        ({"deny": {"write": {"arg_key": "path", "patterns": ["b"]}}}, False),
        ({"deny": {"write": {"arg_key": "other", "patterns": ["b"]}}}, True),
        ({"allow": ["look", {"write": {"patterns": "b"}}]}, True),
        ({"allow": {"look": True, "write": None}}, True),
        ({"allow": {"look": True, "write": lambda args: args["path"] == "b"}}, True),
        ({"deny": {"write": lambda args: args["path"] == "b"}}, False),
        ({"allow": []}, False),
        (w.Permissions(), True),
    ],
)
async def test_lists_by_tool_and_by_argument(permissions: Any, runs: bool):
    out = await writes("b", permissions=permissions)
    assert (results(out)["write"][0] == "ok") is runs
    granted = (
        [("grant", "write", "once")]
        if isinstance(permissions, dict) and "allow" in permissions
        else []
    )
    assert notes(out) == (granted if runs else [("deny", "write")])


async def test_a_predicate_may_wait_and_one_that_fails_denies():
    async def slow(args: dict[str, Any]) -> bool:
        args["path"] = "elsewhere"  # a copy: what runs stays as it is
        return False

    def broken(args: dict[str, Any]) -> bool:
        raise RuntimeError("no idea")

    out = await writes("b", permissions={"deny": {"write": slow}})
    assert results(out)["write"] == ("ok", "wrote b")
    for lists in ({"deny": {"*": broken}}, {"allow": {"*": broken}}):
        out = await writes("b", permissions=lists)
        assert "no idea" in told(out, "write")["reason"]


async def test_paths_are_kept_in_the_workspace(tmp_path: Path):
    inside, data = tmp_path / "inside", tmp_path / "data"
    inside.mkdir()
    data.mkdir()
    (inside / "out").symlink_to(tmp_path)
    scope = w.path_scope("path", workspace=inside, roots={str(data): "extend"})
    for path, runs in (
        ("a.txt", True),
        (str(inside / "b"), True),
        ("../x", False),
        ("/etc/passwd", False),
        ("out/x", False),
        (str(data / "y"), True),
        ("sub/../../x", False),
        ("a\0b", False),
    ):
        out = await writes(path, permissions={"allow": {"write": scope}})
        assert (results(out)["write"][0] == "ok") is runs, path
    narrow = w.path_scope(workspace=inside, roots={str(data): "read"}, mount_modes=["extend"])
    out = await writes(str(data / "y"), permissions={"allow": {"write": narrow}})
    assert results(out)["write"][0] == "denied"


async def test_what_lies_in_a_folder_can_be_denied_as_well(tmp_path: Path):
    inside, data = tmp_path / "inside", tmp_path / "data"
    inside.mkdir()
    data.mkdir()
    scope = w.path_scope("path", workspace=inside, roots={str(data): "read"})
    narrow = w.path_scope(workspace=inside, roots={str(data): "read"}, mount_modes=["extend"])
    for denied, path, runs in (
        (scope, "a.txt", False),
        (scope, str(inside / "b"), False),
        (scope, str(tmp_path / "x"), True),
        (scope, str(data / "y"), False),
        (narrow, str(data / "y"), True),
        (narrow, "a.txt", False),
    ):
        out = await writes(path, permissions={"deny": {"write": denied}})
        assert (results(out)["write"][0] == "ok") is runs, path


# --------------------------------------------------------------------------- who may grant more


@pytest.mark.parametrize(
    ("answer", "grant"),
    [
        (True, "once"),
        ({"grant": "once"}, "once"),
        ({"grant": "session"}, "session"),
        (w.Allow(), "once"),
        (False, None),
        (None, None),
        (w.Deny("not today"), None),
        ("yes", None),
        ({"grant": "for ever"}, None),
        ({"granted": True}, None),
        (1, None),
    ],
)
async def test_an_escalation_is_granted_or_not(answer: Any, grant: str | None):
    asked: list[w.PermissionRequest] = []

    async def escalate(request: w.PermissionRequest) -> Any:
        asked.append(request)
        return answer

    out = await writes("b", permissions={"deny": ["write"], "on_escalation": escalate})
    assert [(r.tool, r.args, r.session) for r in asked] == [
        ("write", {"path": "b"}, out.session_id)
    ]
    assert asked[0].reason == "denied by write"
    last = ("deny", "write") if grant is None else ("grant", "write", grant)
    assert notes(out) == [("escalation", "write"), last]
    assert (results(out)["write"][0] == "ok") is (grant is not None)
    if isinstance(answer, w.Deny):
        assert told(out, "write")["reason"] == "not today"


async def test_a_grant_for_the_session_holds_for_this_very_call_and_no_other():
    asked: list[Any] = []

    def escalate(request: w.PermissionRequest) -> Any:
        asked.append(request.args["path"])
        return {"grant": "session"}

    options: Any = {"permissions": {"deny": ["write"], "on_escalation": escalate}}
    model = scripted(
        call("write", path="b"), call("write", path="b"), call("write", path="c"), "ok"
    )
    out = await w.agent_loop("go", model=model, tools=[write], session_id="s", **options)
    assert asked == ["b", "c"]
    assert notes(out) == [
        ("escalation", "write"),
        ("grant", "write", "session"),
        ("grant", "write", "session"),
        ("escalation", "write"),
        ("grant", "write", "session"),
    ]
    model = scripted(call("write", path="c"), "ok")
    out = await w.agent_loop("more", model=model, tools=[write], session_id="s", **options)
    assert asked == ["b", "c"] and results(out)["write"][0] == "ok"


async def test_a_grant_for_once_is_for_once():
    asked: list[Any] = []

    def escalate(request: w.PermissionRequest) -> bool:
        asked.append(request)
        return True

    model = scripted(call("write", path="b"), call("write", path="b"), "ok")
    permissions = {"deny": ["write"], "on_escalation": escalate}
    out = await w.agent_loop("go", model=model, tools=[write], permissions=permissions)
    assert len(asked) == 2 and out.status == "done"


async def test_an_escalation_may_wait_for_a_person():
    agent = w.Agent(
        scripted(call("write", path="b"), "ok"),
        tools=[write],
        permissions={"deny": ["write"], "on_escalation": lambda request: "ask"},
    )
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended"
    out = await agent.resume("s", decisions={out.pending[0].id: w.Allow(by=w.Caller("ann"))})
    assert out.status == "done" and results(out)["write"] == ("ok", "wrote b")
    assert decisions(out)[-1] == ("write", "allow", "permissions:ann")
    assert [note[0] for note in notes(out)] == ["escalation"]  # nobody was asked twice


async def test_an_escalation_that_fails_denies():
    def escalate(request: w.PermissionRequest) -> bool:
        raise OSError("the bridge is down")

    out = await writes("b", permissions={"deny": ["write"], "on_escalation": escalate})
    assert "the bridge is down" in told(out, "write")["reason"]


# --------------------------------------------------------------------------- delegation


@pytest.mark.parametrize(
    "binding",
    [
        {"policy": {"tools": ["helper", "look"]}},
        {"permissions": {"deny": ["write"]}},
        {"approval_policy": {"rules": [{"deny": "write"}]}},
    ],
)
async def test_what_binds_a_parent_binds_its_sub_agents(binding: Any):
    child_model = scripted([call("look", path="a"), call("write", path="b")], "could not write")
    child = w.Agent(child_model, name="helper", tools=[look, write], permissions={"allow": ["*"]})
    model = scripted(call("helper", task="write b"), "ok")
    out = await w.Agent(model, tools=[child.as_tool()], **binding).run("go", session_id="p")
    assert out.status == "done" and results(out)["helper"] == ("ok", "could not write")
    [answer] = [m for m in child_model.requests[1].messages if m.role == "tool"]
    looked, wrote = answer.content
    assert isinstance(looked, w.ToolResult) and looked.outcome == "ok"
    assert isinstance(wrote, w.ToolResult) and wrote.outcome == "denied"


async def test_a_child_may_be_bound_further_but_not_less():
    child_model = scripted([call("look", path="a"), call("write", path="b")], "nothing")
    child = w.Agent(child_model, name="helper", tools=[look, write], policy={"tools": ["write"]})
    parent = w.Agent(
        scripted(call("helper", task="x"), "ok"),
        tools=[child.as_tool()],
        policy={"tools": ["helper", "look"]},
    )
    await parent.run("go")
    [answer] = [m for m in child_model.requests[1].messages if m.role == "tool"]
    assert [r.outcome for r in answer.content if isinstance(r, w.ToolResult)] == ["denied"] * 2


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policy": {"tool": ["x"]}}, "policy has no key 'tool'; did you mean 'tools'?"),
        ({"policy": {"side_effect_level": "some"}}, "policy.side_effect_level is one of"),
        ({"policy": ["x"]}, "policy is a dict"),
        ({"permissions": {"allow": 3}}, "permissions.allow is a list of tool globs"),
        ({"permissions": {"alow": []}}, "did you mean 'allow'"),
        (
            {"permissions": {"deny": {"x": {"arg": "y"}}}},
            "permissions.deny.x has no key 'arg'; it has ",
        ),
        ({"permissions": {"deny": {"x": {"arg_key": 3}}}}, "is the name of an argument"),
        ({"permissions": {"deny": {"x": []}}}, "a glob or a list of globs"),
        ({"permissions": {"deny": {"": True}}}, "names tools by globs"),
        ({"permissions": {"on_escalation": "me"}}, "permissions.on_escalation is a function"),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_any_call(options: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words.replace("?", r"\?")):
        await w.agent_loop("go", model=model, tools=[write], **options)
    assert not model.requests


# --------------------------------------------------------------------------- whose a session is


class WhoAsks(w.Policy[None]):
    """Every call wants a yes; remembers in whose name calls were decided."""

    def __init__(self) -> None:
        self.seen: list[w.Caller] = []

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Suspend:
        self.seen.append(run.caller)
        return w.Suspend("may it?")


ANN = w.Caller("ann", ("clerk", "night shift"), "acme")


async def waiting_for_ann(who: WhoAsks) -> tuple[w.Agent[None, str], str]:
    agent = w.Agent(scripted(call("write", path="b"), "ok"), tools=[write], policies=[who])
    out = await agent.run("go", session_id="s", caller=ANN)
    return agent, out.pending[0].id


async def test_a_run_goes_on_in_the_name_of_who_began_it():
    who = WhoAsks()
    agent, ask = await waiting_for_ann(who)
    out = await agent.resume("s", decisions={ask: True})
    assert out.status == "done" and who.seen == [ANN, ANN]


async def test_the_roles_that_count_are_those_of_now():
    who = WhoAsks()
    agent, _ = await waiting_for_ann(who)
    demoted = w.Caller("ann", (), "acme")
    await agent.resume("s", caller=demoted)
    assert who.seen[-1] == demoted


@pytest.mark.parametrize("other", [w.Caller("eve", tenant="acme"), w.Caller("ann", tenant="evil")])
async def test_nobody_else_goes_on_with_it(other: w.Caller):
    who = WhoAsks()
    agent, ask = await waiting_for_ann(who)
    with pytest.raises(w.NoSuchSession, match="no session 's'"):
        await agent.resume("s", decisions={ask: True}, caller=other)
    assert len(who.seen) == 1
    assert (await agent.resume("s", decisions={ask: True})).status == "done"


async def test_no_tenant_speaks_in_another_s_session():
    model = scripted("one", "two", "three", "four")
    agent = w.Agent(model)
    await agent.run("hello", session_id="s", caller=ANN)
    for other in (w.Caller("ann", tenant="evil"), w.Caller("ann")):
        out = await agent.run("what did ann say?", session_id="s", caller=other)
        assert out.session_id != "s"  # the same id of another tenant is another session
        assert len(model.requests[-1].messages) == 1
    with pytest.raises(w.NoSuchSession, match="no session 's'"):
        await agent.run("more", session_id="s", caller=w.Caller("bea", tenant="acme"))
    assert (await agent.run("more", session_id="s")).status == "done"  # the host itself
