"""Rules before every call, and a person who says yes tomorrow, from somewhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, results
from tests.stories.tool_helpers import decisions, look, write
from windlass import seams
from windlass.events import ToolDecided
from windlass.testing import call, scripted


@w.tool(kind="execute", side_effect_level="process_exec")
async def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@w.tool(kind="fetch", side_effect_level="network", annotations={"capability": "net.fetch"})
async def fetch(url: str, method: str = "GET") -> str:
    """Fetch a page."""
    return f"page {url}"


TOOLS = [look, write, shell, fetch]
ANN = w.Caller("ann", ("clerk",), "acme")


async def asks(asked: w.ToolCall, rules: Any, **options: Any) -> Any:
    """What becomes of one call under these rules."""
    policy = rules if isinstance(rules, dict) else {"rules": rules}
    agent = w.Agent(scripted(asked, "ok"), tools=TOOLS, approval_policy=policy, **options)
    return await agent.run("go")


async def action(asked: w.ToolCall, rules: Any, **options: Any) -> str:
    out = await asks(asked, rules, **options)
    if out.status == "suspended":
        return "ask"
    assert out.status == "done", out.error
    return "allow" if out.tool_calls[0].outcome == "ok" else "deny"


# --------------------------------------------------------------------------- rules

WRITE, SHELL = call("write", path="b"), call("shell", command="git push --force")
FETCH = call("fetch", url="https://Api.Example.com/v1?x=1", method="post")


@pytest.mark.parametrize(
    ("asked", "match", "fits"),
    [
        (WRITE, "write", True),
        (WRITE, ["look", "wr*"], True),
        (WRITE, {"tool": "look"}, False),
        (WRITE, {"kind": "edit"}, True),
        (WRITE, {"kind": ["read", "execute"]}, False),
        (SHELL, {"side_effect_level": "process_exec"}, True),
        (WRITE, {"side_effect_level": "*"}, False),
        (WRITE, {"path": "b"}, True),
        (WRITE, {"path": "src/**"}, False),
        (call("write", path="src/a/b.py"), {"path": "src/**"}, True),
        (call("write", path="src/a/b.py"), {"path": "src/*"}, False),
        (call("write", path="src/a/b.py"), {"path": "*.py"}, True),
        (call("write", path="lib/../src/b.py"), {"path": "src/*.py"}, True),
        (SHELL, {"command": "git push*"}, True),
        (SHELL, {"command": "git pull*"}, False),
        (FETCH, {"url": "https://*/v1*"}, True),
        (FETCH, {"domain": "*.example.com"}, True),
        (FETCH, {"domain": "example.org"}, False),
        (FETCH, {"method": "POST"}, True),
        (FETCH, {"method": "get"}, False),
        (FETCH, {"capability": "net.*"}, True),
        (FETCH, {"mcp_server": "*"}, False),
        (WRITE, {"agent": "bob"}, True),
        (WRITE, {"persona": "intern"}, True),
        (WRITE, {"mode": "native"}, True),
        (WRITE, {"mode": "text"}, False),
        (WRITE, {"kind": "edit", "path": "b"}, True),
        (WRITE, {"kind": "edit", "path": "c"}, False),
        (WRITE, {}, True),
        (WRITE, True, True),
        (WRITE, {"repeat_count": 1}, True),
        (WRITE, {"repeat_count": 2}, False),
    ],
)
async def test_a_rule_looks_at_everything_that_is_known_of_a_call(
    asked: w.ToolCall, match: Any, fits: bool
):
    found = await action(asked, [{"action": "deny", "match": match}], name="bob", role="intern")
    assert found == ("deny" if fits else "allow")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], "allow"),
        ([{"allow": "*"}], "allow"),
        ([{"allow": "*"}, {"ask": "write"}], "ask"),
        ([{"ask": "write"}, {"allow": "*"}], "ask"),
        ([{"ask": "write"}, {"deny": {"path": "b"}}, {"allow": "*"}], "deny"),
        ([{"deny": "look"}, {"ask": "fetch"}], "allow"),
        ([w.Rule("deny", {"tool": ("write",)})], "deny"),
    ],
)
async def test_deny_beats_ask_and_ask_beats_allow(rules: Any, expected: str):
    assert await action(WRITE, rules) == expected


async def test_a_receipt_names_the_rule_and_why_it_is_there():
    rules = [{"allow": "*"}, {"deny": "write", "rationale": "a freeze until Monday"}]
    out = await asks(WRITE, rules)
    told = json.loads(out.tool_calls[0].result)
    assert told["error"] == "permission_denied" and told["reason"] == "a freeze until Monday"
    assert told["policyDecision"] == {
        "action": "deny",
        "rule": "rule 1 (deny: tool=write)",
        "rationale": "a freeze until Monday",
        "index": 1,
    }
    assert decisions(out) == [("write", "deny", "approval_policy")]


async def test_a_call_that_repeats_itself_is_counted_in_the_whole_session():
    policy: Any = {"rules": [{"deny": {"tool": "write", "repeat_count": 3}}]}
    model = scripted(WRITE, call("write", path="c"), call("write", path="b"), "ok")
    await w.agent_loop("go", model=model, tools=[write], session_id="s", approval_policy=policy)
    model = scripted(call("write", path="b"), call("write", path="c"), "ok")
    out = await w.agent_loop(
        "go", model=model, tools=[write], session_id="s", approval_policy=policy
    )
    assert [record.outcome for record in out.tool_calls] == ["denied", "ok"]


# --------------------------------------------------------------------------- guards


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "config/.env.local",
        "id_rsa",
        "keys/server.PEM",
        "tls.key",
        ".ENV",
        ".env/",
        "a/../.env",
        "~/.aws/credentials",
        "/etc/passwd",
        "../other",
        "a/../../x",
        "link/x",
        "a\0b",
        "\\.env",
        "alias",
    ],
)
async def test_secrets_and_what_is_outside_are_kept_from_tools(path: str, tmp_path: Path):
    (tmp_path / "link").symlink_to("/")
    (tmp_path / ".env").touch()
    (tmp_path / "alias").symlink_to(".env")
    policy = {"rules": [{"allow": "*"}], "workspace": str(tmp_path)}
    assert await action(call("look", path=path), policy) == "deny"
    assert await action(call("look", path=path), {**policy, "guards": False}) == "allow"


@pytest.mark.parametrize(
    "path", ["os.environment.rs", "id_rsa.pub", "keynote.md", "a/b", "./c", ".envoy"]
)
async def test_lookalikes_pass(path: str, tmp_path: Path):
    assert await action(call("look", path=path), {"workspace": str(tmp_path)}) == "allow"


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("cat .env", False),
        ("cat<.env", False),
        ("grep x --file=.env", False),
        ("base64 'a/.env'", False),
        ("cat $(echo id_rsa)", False),
        ("echo environment", True),
        ("ls -la", True),
    ],
)
async def test_commands_that_name_secrets_do_not_run(command: str, runs: bool):
    assert (await action(call("shell", command=command), []) == "allow") is runs


async def test_an_external_root_is_let_in_by_name(tmp_path: Path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    policy: Any = {"workspace": inside}
    there = call("look", path=str(outside / "x"))
    out = await asks(there, policy)
    assert "external_roots" in out.tool_calls[0].result
    assert await action(there, {**policy, "external_roots": [str(outside)]}) == "allow"
    still = call("look", path=str(outside / ".env"))
    assert await action(still, {**policy, "external_roots": [str(outside)]}) == "deny"


async def test_free_text_is_not_searched():
    @w.tool
    async def say(text: str) -> str:
        """Say."""
        return text

    agent = w.Agent(scripted(call("say", text="see .env"), "ok"), tools=[say], approval_policy={})
    assert (await agent.run("go")).tool_calls[0].outcome == "ok"


# --------------------------------------------------------------------------- somebody is asked

ASK: Any = {"rules": [{"ask": "write", "rationale": "it changes things"}]}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (True, "ok"),
        (w.Allow(), "ok"),
        (False, "denied"),
        (w.Deny("no"), "denied"),
        ("yes", "denied"),
        (None, None),
        ("ask", None),
    ],
)
async def test_who_can_answer_at_once_is_asked_first(answer: Any, outcome: str | None):
    seen: list[Any] = []

    async def request(asked: Any) -> Any:
        seen.append(asked)
        return answer

    out = await asks(WRITE, {**ASK, "request_permission": request})
    assert (
        seen[0].name == "write" and seen[0]["policyDecision"]["rule"] == "rule 0 (ask: tool=write)"
    )
    assert len(seen) == 1
    if outcome is None:
        assert out.status == "suspended"
    else:
        assert out.tool_calls[0].outcome == outcome


async def test_who_fails_to_answer_has_not_said_yes():
    def request(asked: Any) -> bool:
        raise OSError("no bridge")

    out = await asks(WRITE, {**ASK, "request_permission": request})
    assert "no bridge" in out.tool_calls[0].result


async def parked(**options: Any) -> tuple[w.Agent[None, str], Any, w.PendingApproval]:
    """A run that waits, and what somebody elsewhere sees of it."""
    model = scripted(call("write", path="b"), "ok")
    agent: Any = w.Agent(model, tools=[write], approval_policy={**ASK, **options})
    out = await agent.run("go", session_id="s", caller=ANN)
    assert out.status == "suspended"
    [waiting] = await w.approvals()
    return agent, out, waiting


async def test_a_call_waits_until_somebody_elsewhere_approves_it():
    agent, out, waiting = await parked()
    assert (waiting.tool, waiting.arguments, waiting.caller, waiting.tenant) == (
        "write",
        {"path": "b"},
        "acme/ann",
        "acme",
    )
    assert waiting.receipt is not None and waiting.receipt["rationale"] == "it changes things"
    assert waiting.answered is None and not waiting.expired
    await w.approve(waiting.id[:10], by=ANN)
    assert [one.answered for one in await w.approvals()] == ["allow"]
    out = await agent.resume("s", caller=ANN)
    assert out.status == "done" and results(out)["write"] == ("ok", "wrote b")
    assert decisions(out)[-1] == ("write", "allow", "approval_policy:acme/ann")
    assert await w.approvals() == []
    await kept(out, agent.options["model"])


async def test_a_no_from_elsewhere_is_told_to_the_model():
    agent, _, waiting = await parked()
    await w.deny(waiting.id, reason="not this file", by=ANN)
    out = await agent.resume("s", caller=ANN)
    assert results(out)["write"] == ("denied", "Denied: not this file")


async def test_an_answer_may_be_given_by_the_id_of_the_approval_or_of_the_call():
    for by_call in (True, False):
        agent, out, waiting = await parked()
        key = out.pending[0].id if by_call else waiting.id
        caller = ANN
        out = await agent.resume("s", decisions={key: w.Allow(by=ANN)}, caller=caller)
        assert results(out)["write"][0] == "ok"
        await w.agent_session_reset("s")


async def test_several_are_answered_together_or_none_is():
    model = scripted([call("write", path="b"), call("write", path="c")], "ok")
    agent = w.Agent(model, tools=[write], approval_policy=ASK)
    await agent.run("go", session_id="s")
    waiting = await w.approvals()
    assert [one.arguments["path"] for one in waiting] == ["b", "c"]
    with pytest.raises(w.NoSuchApproval, match="nothing waits"):
        await w.approve(waiting[0].id, "deadbeef")
    assert [one.answered for one in await w.approvals()] == [None, None]
    await w.approve(*[one.id for one in waiting])
    out = await agent.resume("s")
    assert [record.outcome for record in out.tool_calls] == ["ok", "ok"]


async def test_an_answer_is_given_once():
    agent, _, waiting = await parked()
    await w.approve(waiting.id)
    for again in (w.approve, w.deny):
        with pytest.raises(w.ConfigError, match="was answered already, by the host: allow"):
            await again(waiting.id)
    caller = ANN
    out = await agent.resume("s", caller=caller)
    assert len(out.tool_calls) == 1
    with pytest.raises(w.NoSuchApproval):
        await w.approve(waiting.id)
    assert (await agent.resume("s", caller=caller)).status == "done"


# --------------------------------------------------------------------------- what an answer is bound to

OTHER = w.Tool(
    "write", "Write a file, or whatever.", {"path": {"type": "string"}}, lambda args: "elsewhere"
)
LOUD = w.Tool(
    "write",
    write.description,
    write.parameters,
    lambda args: "elsewhere",
    annotations={"kind": "edit", "loud": True},
)


class Rewrites(w.Policy[None]):
    """Changes what was approved, after the rules have looked."""

    def __init__(self) -> None:
        self.on = False

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.ToolCall | None:
        return w.ToolCall(call.id, call.name, {"path": "elsewhere"}) if self.on else None


@pytest.mark.parametrize(
    ("changed", "caller"),
    [
        ({"tools": [OTHER]}, None),
        ({"tools": [LOUD]}, None),
        ({"approval_policy": {**ASK, "workspace": "/"}}, None),
        ({}, w.Caller("eve", ("clerk",), "acme")),
        ({}, w.Caller("ann", ("clerk", "admin"), "acme")),
        ({}, w.Caller("ann", (), "acme")),
    ],
)
async def test_an_approval_is_for_the_call_as_it_was(changed: Any, caller: w.Caller | None):
    agent, _, waiting = await parked()
    await w.approve(waiting.id)
    other = agent.with_(**changed) if changed else agent
    who = caller or ANN
    try:
        out = await other.resume("s", caller=who)
    except w.NoSuchSession:
        assert caller is not None and caller.user == "eve"  # the session is somebody else's
        return
    assert (out.status, out.tool_calls) == ("suspended", [])
    assert "no longer what was approved" in out.pending[0].reason
    [again] = await w.approvals()
    assert again.id != waiting.id and again.answered is None
    out = await agent.resume("s", caller=ANN)  # the answer was not used up by that
    assert results(out)["write"][0] == "ok"


async def test_question_about_a_changed_call_has_an_answer_of_its_own():
    agent, _, waiting = await parked()
    await w.approve(waiting.id)
    loud = agent.with_(tools=[LOUD])
    for _ in range(2):
        out = await loud.resume("s", caller=ANN)
        assert out.status == "suspended"
    [again] = await w.approvals()
    asks = [e for e in out.entries if isinstance(e, ToolDecided) and e.action == "ask"]
    assert [e.ask for e in asks] == [waiting.id, again.id]  # asked once each
    await w.approve(again.id)
    out = await loud.resume("s", caller=ANN)
    assert results(out)["write"] == ("ok", "elsewhere")


async def test_answer_to_an_earlier_question_is_none_to_the_next():
    agent, _, waiting = await parked()
    loud = agent.with_(tools=[LOUD])
    assert (await loud.resume("s", caller=ANN)).status == "suspended"
    [again] = await w.approvals()
    assert again.id != waiting.id
    out = await loud.resume("s", decisions={waiting.id: True}, caller=ANN)
    assert out.status == "suspended"
    [still] = await w.approvals()
    assert (still.id, still.answered) == (again.id, None)
    await w.approve(again.id)
    out = await loud.resume("s", caller=ANN)
    assert results(out)["write"] == ("ok", "elsewhere")


async def test_question_stands_though_the_session_is_resumed_without_an_answer():
    agent, _, waiting = await parked()
    for _ in range(2):
        assert (await agent.resume("s", caller=ANN)).status == "suspended"
    assert [one.id for one in await w.approvals()] == [waiting.id]
    await w.approve(waiting.id)
    assert results(await agent.resume("s", caller=ANN))["write"][0] == "ok"


@pytest.mark.parametrize("changed", [{}, {"rules": []}, {"rules": [{"ask": "look"}]}])
async def test_answer_is_good_whoever_resumes(changed: Any):
    """The program that resumes does not know the rule that asked."""
    _, _, waiting = await parked()
    await w.approve(waiting.id)
    policy = {"approval_policy": changed} if changed else {}
    other = w.Agent(scripted("ok"), tools=[write], **policy)
    out = await other.resume("s", caller=ANN)
    assert results(out)["write"] == ("ok", "wrote b")


async def test_refusal_of_the_program_that_resumes_outranks_an_answer():
    _, _, waiting = await parked()
    await w.approve(waiting.id)
    other = w.Agent(scripted("ok"), tools=[write], approval_policy={"rules": [{"deny": "write"}]})
    out = await other.resume("s", caller=ANN)
    assert results(out)["write"][0] == "denied"


async def test_program_that_asks_for_more_is_answered_for_that():
    _, _, waiting = await parked()
    await w.approve(waiting.id)
    other = w.Agent(scripted("ok"), tools=[write], approval_policy=ASK, policies=[Asking()])
    out = await other.resume("s", caller=ANN)
    assert out.status == "suspended" and "Asking had not asked" in out.pending[0].reason
    [again] = await w.approvals()
    await w.approve(again.id)
    assert results(await other.resume("s", caller=ANN))["write"][0] == "ok"


async def test_an_approval_does_not_outlive_its_time(monkeypatch: pytest.MonkeyPatch):
    agent, _, waiting = await parked(expires_in=60)
    await w.approve(waiting.id)
    late = seams.now() + 61
    monkeypatch.setattr(seams, "now", lambda: late)
    out = await agent.resume("s", caller=ANN)
    assert results(out)["write"] == ("denied", "Denied: the approval has expired")


async def test_what_has_expired_cannot_be_approved(monkeypatch: pytest.MonkeyPatch):
    _, _, waiting = await parked(expires_in=60)
    late = seams.now() + 61
    monkeypatch.setattr(seams, "now", lambda: late)
    with pytest.raises(w.ConfigError, match="can no longer be approved"):
        await w.approve(waiting.id)
    await w.deny(waiting.id)


async def test_a_link_that_is_turned_after_the_approval_is_noticed(tmp_path: Path):
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "link"
    first.touch()
    second.touch()
    link.symlink_to(first)
    agent = w.Agent(
        scripted(call("write", path="link"), "ok"),
        tools=[write],
        approval_policy={**ASK, "workspace": tmp_path},
    )
    await agent.run("go", session_id="s")
    [waiting] = await w.approvals()
    await w.approve(waiting.id)
    link.unlink()
    link.symlink_to(second)
    out = await agent.resume("s")
    assert (out.status, out.tool_calls) == ("suspended", [])
    link.unlink()
    link.symlink_to(first)
    assert results(await agent.resume("s"))["write"][0] == "ok"


async def test_an_approval_of_another_session_is_none():
    agent, _, waiting = await parked()
    model = scripted(call("write", path="b"), "ok")
    other = w.Agent(model, tools=[write], approval_policy=ASK)
    out = await other.run("go", session_id="t", caller=ANN)
    said = w.Allow(ask=waiting.id)
    caller = ANN
    out = await other.resume("t", decisions={out.pending[0].id: said}, caller=caller)
    assert (out.status, out.tool_calls) == ("suspended", [])  # it is no answer to this question
    out = await other.resume("t", decisions={out.pending[0].id: w.Allow()}, caller=caller)
    assert results(out)["write"][0] == "ok"


async def test_what_runs_is_what_was_shown():
    """Arguments that a policy changes are changed before anybody is asked, or the answer is void."""
    after = Rewrites()
    agent = w.Agent(
        scripted(call("write", path="b"), "ok"), tools=[write], policies=[after, Asking()]
    )
    await agent.run("go", session_id="s")
    [waiting] = await w.approvals()
    assert waiting.arguments == {"path": "b"}
    await w.approve(waiting.id)
    after.on = True
    out = await agent.resume("s")
    assert (out.status, out.tool_calls) == ("suspended", [])
    assert "its arguments" in out.pending[0].reason
    after.on = False
    assert results(await agent.resume("s"))["write"] == ("ok", "wrote b")


class Asking(w.Policy[None]):
    """Wants a yes to everything."""

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Ask:
        return w.Ask(f"may {call.name} run?")


async def test_a_question_stands_though_whoever_asked_is_gone():
    agent, _, waiting = await parked()
    careless = agent.with_(approval_policy={})
    out = await careless.resume("s")
    assert out.status == "suspended" and not out.tool_calls
    [still] = await w.approvals()
    assert (still.tool, still.rule) == (waiting.tool, waiting.rule)
    await w.deny(still.id)
    out = await careless.resume("s")
    assert results(out)["write"] == ("denied", "Denied.")


async def test_the_question_is_on_record_with_what_it_is_bound_to():
    _, out, waiting = await parked()
    [question] = [e for e in out.entries if type(e) is ToolDecided]
    assert question.action == "ask" and question.ask == waiting.id
    assert question.expires_at == pytest.approx(seams.now() + 7 * 24 * 3600, abs=60)


async def test_a_sub_agent_s_call_is_approved_in_its_own_session():
    child = w.Agent(
        scripted(call("write", path="b"), "written"),
        name="helper",
        tools=[write],
        approval_policy=ASK,
    )
    parent = w.Agent(scripted(call("helper", task="x"), "ok"), tools=[child.as_tool()])
    out = await parent.run("go", session_id="p")
    assert out.status == "suspended"
    [waiting] = await w.approvals()
    assert waiting.session_id.startswith("p.") and waiting.agent == "helper"
    await w.approve(waiting.id)
    out = await parent.resume("p")
    assert out.status == "done" and results(out)["helper"] == ("ok", "written")


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"rule": []}, "did you mean 'rules'"),
        ({"rules": {"deny": "x"}}, "approval_policy.rules is a list of rules"),
        ({"rules": ["deny"]}, r"approval_policy.rules\[0\] is a dict"),
        ({"rules": [{"action": "deny", "ask": "x"}]}, "says action and ask"),
        ({"rules": [{"deny": "x", "ask": "y"}]}, "says one of allow, ask and deny"),
        ({"rules": [{"action": "denny"}]}, "did you mean 'deny'"),
        ({"rules": [{"deny": "x", "becuse": "y"}]}, "has no key 'becuse'"),
        ({"rules": [{"deny": {"tol": "x"}}]}, "did you mean 'tool'"),
        ({"rules": [{"deny": {"tool": []}}]}, "a glob or a list of globs"),
        ({"rules": [{"deny": {"tool": [3]}}]}, "a glob or a list of globs"),
        ({"rules": [{"deny": {"repeat_count": 0}}]}, "a whole number of at least 1"),
        ({"rules": [{"deny": 3}]}, "match is a dict"),
        ({"rules": [{"deny": "x", "rationale": 3}]}, "rationale is a text"),
        ({"external_roots": ["here"]}, "are absolute paths"),
        ({"expires_in": 0}, "approval_policy.expires_in"),
        ({"request_permission": "me"}, "is a function"),
        ({"workspace": 3}, "is a folder"),
        ("ask", "approval_policy is a dict"),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_any_call(policy: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=model, tools=[write], approval_policy=policy)
    assert not model.requests
