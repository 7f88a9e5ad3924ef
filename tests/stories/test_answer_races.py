"""The first answer to a question is the answer, at every door and on every store."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.engine.environment import current_store
from windlass.testing import call, scripted

ASK: Any = {"rules": [{"ask": "pay"}]}
ANN, BEA = w.Caller("ann", tenant="acme"), w.Caller("bea", tenant="acme")


def paying(ran: list[str], *more: Any) -> w.Agent[Any, str]:
    """An agent that pays once, if somebody says yes."""

    @w.tool
    async def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return f"paid {to}"

    model = scripted(call("pay", to="bob"), "Paid.", *more)
    return w.Agent(model, tools=[pay], approval_policy=ASK)


async def test_answer_race_of_approve_and_deny_has_one_winner():
    ran: list[str] = []
    agent = paying(ran)
    await agent.run("go", session_id="s")
    [waiting] = await w.approvals()
    told = await asyncio.gather(
        w.approve(waiting.id),
        w.deny(waiting.id, reason="no"),
        w.deny(waiting.id),
        w.approve(waiting.id),
        return_exceptions=True,
    )
    assert [one for one in told if one is None] == [None]
    assert [type(one) for one in told].count(w.AlreadyAnswered) == 3
    yes = told[0] is None or told[3] is None
    out = await agent.resume("s")
    assert out.status == "done" and ran == (["bob"] if yes else [])


async def test_answer_given_to_resume_after_a_posted_one_is_refused():
    ran: list[str] = []
    agent = paying(ran)
    out = await agent.run("go", session_id="s", caller=ANN)
    [waiting] = await w.approvals()
    await w.deny(waiting.id, reason="not now", by=ANN)
    with pytest.raises(w.AlreadyAnswered, match="answered already, by acme/ann: deny") as told:
        await agent.resume("s", decisions={out.pending[0].id: w.Allow()})
    assert (told.value.by, told.value.action) == ("acme/ann", "deny")
    assert ran == []
    out = await agent.resume("s")  # nothing is lost by it
    assert (out.status, ran) == ("done", [])
    assert out.tool_calls[0].result == "Denied: not now"


async def test_answer_said_again_by_the_same_person_is_no_second_one():
    ran: list[str] = []
    agent = paying(ran)
    out = await agent.run("go", session_id="s", caller=ANN)
    [waiting] = await w.approvals()
    await w.approve(waiting.id, by=ANN)
    out = await agent.resume("s", decisions={out.pending[0].id: w.Allow(by=ANN)})
    assert (out.status, ran) == ("done", ["bob"])


async def test_answer_through_the_inbox_after_another_is_refused():
    ran: list[str] = []
    agent = paying(ran)
    out = await agent.run("go", session_id="s")
    store, pending = out._run.store, out.pending[0].id
    await store.post("s", "decision", {pending: {"action": "deny", "by": "ann"}})
    for late in ({"action": "allow"}, True):
        with pytest.raises(w.AlreadyAnswered, match="by ann: deny"):
            await store.post("s", "decision", {pending: late})
    [waiting] = await w.approvals()
    with pytest.raises(w.AlreadyAnswered, match="answered already, by ann: deny"):
        await w.approve(waiting.id)
    out = await agent.resume("s")
    assert (out.status, ran) == ("done", [])


async def test_answer_batch_is_stored_wholly_or_not_at_all():
    ran: list[str] = []
    agent = paying(ran).with_(
        model=scripted([call("pay", to="bob"), call("pay", to="eve")], "Paid.")
    )
    out = await agent.run("go", session_id="s")
    one, two = [pending.id for pending in out.pending]
    [first, _] = await w.approvals()
    await w.deny(first.id)
    with pytest.raises(w.AlreadyAnswered):
        await agent.resume("s", decisions={one: True, two: True})
    assert [each.answered for each in await w.approvals()] == ["deny", None]
    out = await agent.resume("s", decisions={two: True})
    assert (out.status, ran) == ("done", ["eve"])


@pytest.mark.parametrize("by", ["ann", 7, {"user": "ann"}, object()])
async def test_answer_is_given_by_a_caller_and_nothing_else(by: Any):
    agent = paying([])
    await agent.run("go", session_id="s")
    [waiting] = await w.approvals()
    for answer in (w.approve, w.deny):
        with pytest.raises(w.ConfigError, match=r"by is who answers, a Caller such as Caller\("):
            await answer(waiting.id, by=by)
    for make in (w.Allow, w.Deny):
        with pytest.raises(w.ConfigError, match="by is who answers"):
            make(by=by)
    await w.approve(waiting.id)
    assert (await agent.resume("s")).status == "done"


RACE = """
import asyncio, sys
import windlass as w

async def main(folder, action):
    async with w.Runtime(store=f"sqlite:///{folder}/s.db"):
        waiting = await w.approvals()
        print("ready", flush=True)
        sys.stdin.readline()
        for one in waiting:
            try:
                await (w.approve if action == "allow" else w.deny)(one.id)
                print("stored", one.session_id, flush=True)
            except (w.AlreadyAnswered, w.NoSuchApproval) as error:
                print("refused", one.session_id, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_answer_race_of_two_processes_has_one_winner(tmp_path: Path):
    ran: list[str] = []
    sessions = [f"s{n}" for n in range(12)]
    async with w.Runtime(store=f"sqlite:///{tmp_path}/s.db"):
        for session in sessions:
            assert (await paying(ran).run("go", session_id=session)).status == "suspended"
    told = await asyncio.to_thread(_race, tmp_path)
    async with w.Runtime(store=f"sqlite:///{tmp_path}/s.db"):
        for session in sessions:
            stored = [action for action in told if f"stored {session}" in told[action]]
            assert len(stored) == 1
            ran.clear()
            agent = paying(ran).with_(model=scripted("Done."))
            assert (await agent.resume(session)).status == "done"
            assert ran == (["bob"] if stored == ["allow"] else [])


def _race(folder: Path) -> dict[str, list[str]]:
    racing = {
        action: subprocess.Popen(
            [sys.executable, "-c", RACE, str(folder), action],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for action in ("allow", "deny")
    }
    for process in racing.values():
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in racing.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return {action: process.communicate()[0].splitlines() for action, process in racing.items()}


# --------------------------------------------------------------------------- who may answer

LEAD = w.Caller("lea", roles=("lead",), tenant="acme")
STRANGERS = [
    w.Caller("ann", tenant="evil"),
    w.Caller("ann"),
    w.Caller("lea", roles=("lead",), tenant="evil"),
    w.Caller("local"),
    w.Caller("bob", tenant="acme"),
    w.Caller("bob", ("clerk",), "acme"),
]


@pytest.mark.parametrize("stranger", STRANGERS, ids=repr)
async def test_answer_of_somebody_without_the_right_is_none(stranger: w.Caller):
    ran: list[str] = []
    roles: Any = {"lead": ["agent_session.answer"], "clerk": ["product.*"]}
    async with w.Runtime(store=current_store(), resources=[], roles=roles):
        agent = paying(ran)
        out = await agent.run("go", session_id="s", caller=ANN)
        [waiting] = await w.approvals()
        assert await w.approvals(caller=stranger) == []
        for answer in (w.approve, w.deny):
            with pytest.raises(w.NoSuchApproval):
                await answer(waiting.id, by=stranger)
        for decision in (w.Allow(by=stranger), w.Deny(by=stranger)):
            for resumes in (None, ANN):
                with pytest.raises(w.NoSuchSession):
                    said = {out.pending[0].id: decision}
                    await agent.resume("s", decisions=said, caller=resumes)
        assert [one.answered for one in await w.approvals()] == [None] and ran == []
        await w.approve(waiting.id, by=LEAD)
        out = await agent.resume("s", caller=ANN)
        assert (out.status, ran) == ("done", ["bob"])


@pytest.mark.parametrize("by", [None, ANN, LEAD], ids=repr)
async def test_answer_of_somebody_with_the_right_counts_and_names_them(by: w.Caller | None):
    ran: list[str] = []
    roles: Any = {"lead": ["agent_session.answer"]}
    async with w.Runtime(store=current_store(), resources=[], roles=roles):
        agent = paying(ran)
        await agent.run("go", session_id="s", caller=ANN)
        [waiting] = await w.approvals(caller=by)
        await w.approve(waiting.id, by=by)
        [waiting] = await w.approvals()
        assert waiting.answered_by == ("the host" if by is None else str(by))
        out = await agent.resume("s", caller=ANN)
        assert (out.status, ran) == ("done", ["bob"])


async def test_decision_about_a_call_that_nobody_asked_about():
    """A yes to a sibling of what waits changes nothing; a no would be lost, so it is refused."""
    ran: list[str] = []
    policy: Any = {"rules": [{"ask": {"path": "b"}}]}

    @w.tool(annotations={"kind": "edit", "path_args": ["path"]})
    async def put(path: str) -> str:
        """Put."""
        ran.append(path)
        return path

    model = scripted([call("put", path="a"), call("put", path="b")], "ok")
    agent = w.Agent(model, tools=[put], approval_policy=policy)
    out = await agent.run("go", session_id="s")
    asked = {one.arguments["path"]: one.id for one in out.pending}
    with pytest.raises(w.ConfigError, match="nobody was asked about call"):
        await agent.resume("s", decisions={asked["a"]: w.Deny("no"), asked["b"]: True})
    assert ran == [] and [one.answered for one in await w.approvals()] == [None]
    out = await agent.resume("s", decisions={one: True for one in asked.values()})
    assert (out.status, sorted(ran)) == ("done", ["a", "b"])


async def test_answer_survives_a_resume_that_fails():
    """Somebody else may not go on with the session; the answer is there for whoever may."""
    ran: list[str] = []
    agent = paying(ran)
    await agent.run("go", session_id="s", caller=ANN)
    [waiting] = await w.approvals()
    await w.approve(waiting.id, by=ANN)
    with pytest.raises(w.NoSuchSession):
        await agent.resume("s", caller=w.Caller("eve", tenant="acme"))
    out = await agent.resume("s", caller=ANN)
    assert (out.status, ran) == ("done", ["bob"])
