"""Attempts to use, read or change a session of somebody else; the same words from its owner must succeed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
import pytest

import windlass as w
from windlass.engine.environment import current_environment
from windlass.runtime.runtime import Runtime
from windlass.testing import call, scripted

SECRET = "the-secret-of-ann"
ANN = w.Caller("ann", ("clerk",), "acme")
EVE = w.Caller("eve", ("clerk",), "evil")
BEA = w.Caller("bea", ("clerk",), "acme")
Attempt: TypeAlias = Callable[[w.Caller], Awaitable[Any]]
ATTEMPTS: dict[str, Attempt] = {}


def attempt(function: Attempt) -> Attempt:
    """One way in. It returns what was seen, and raises where it was refused."""
    ATTEMPTS[function.__name__] = function
    return function


class Sly(str):
    """A name that says it is every name."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("ann")


#: Everybody who would like to be ann of acme, or the host.
IMPOSTORS: dict[str, w.Caller] = {
    "same tenant": BEA,
    "other tenant": EVE,
    "ann of another tenant": w.Caller("ann", ("clerk",), "evil"),
    "ann without a tenant": w.Caller("ann", ("clerk",)),
    "ann in capitals": w.Caller("Ann", ("clerk",), "acme"),
    "ann with a blank": w.Caller("ann ", ("clerk",), "acme"),
    "ann with a zero": w.Caller("ann\0", ("clerk",), "acme"),
    "ann in wide letters": w.Caller("\uff41nn", ("clerk",), "acme"),
    "ann in cyrillic": w.Caller("\u0430nn", ("clerk",), "acme"),
    "tenant in the name": w.Caller("acme/ann", ("clerk",)),
    "tenant in capitals": w.Caller("ann", ("clerk",), "ACME"),
    "a tenant that is empty": w.Caller("ann", ("clerk",), ""),
    "local": w.Caller("local"),
    "local with roles": w.Caller("local", ("*", "admin", "host", "agent_session.read")),
    "local of acme": w.Caller("local", (), "acme"),
    "local from json": msgspec.json.decode(msgspec.json.encode(w.Caller.local()), type=w.Caller),
    "roles that nobody granted": w.Caller("bea", ("*", "owner", "agent_session.*", "ann"), "acme"),
    "a name that equals all": w.Caller(Sly("bea"), ("clerk",), "acme"),
    "a tenant that equals all": w.Caller("ann", ("clerk",), Sly("evil")),
}


def agent(*replies: Any) -> w.Agent[Any, str]:
    rules: Any = {"rules": [{"ask": "pay"}]}
    return w.Agent(scripted(*replies, then="ok"), tools=[pay], approval_policy=rules)


PAID: list[str] = []


@w.tool(side_effect_level="network")
async def pay(to: str) -> str:
    """Pay."""
    PAID.append(to)
    return SECRET


@pytest.fixture
async def waiting(own_world: Runtime) -> Any:
    """Ann's session `s`, which waits for an answer; her conversation, her plan and her child's session."""
    PAID.clear()
    out = await agent(call("pay", to="bob")).run(SECRET, session_id="s", caller=ANN)
    assert out.status == "suspended"
    await own_world.models.generate(SECRET, model=scripted("ok"), conversation="talk", caller=ANN)
    plans = w.Agent(scripted(call("pay", to=SECRET), "ok"), tools=[pay])
    await plans.run(SECRET, session_id="plan", caller=ANN, dry_run="plan")
    child = w.Agent(scripted(SECRET), name="child")
    parent = w.Agent(scripted(call("child", task="x"), "ok"), tools=[child.as_tool()])
    await parent.run(SECRET, session_id="parent", caller=ANN)
    return out.pending[0]


def seen(model: Any) -> str:
    return str([[m.text for m in request.messages] for request in model.requests])


# --------------------------------------------------------------------------- the ways in


@attempt
async def run_on_a_parked_session(who: w.Caller) -> Any:
    model = scripted(then="ok")
    out = await w.Agent(model).run("and?", session_id="s", caller=who, on_pending="discard")
    return seen(model) + str(out.status)


@attempt
async def run_on_a_childs_session(who: w.Caller) -> Any:
    model = scripted(then="ok")
    await w.Agent(model).run("and?", session_id="parent.call_1", caller=who)
    return seen(model)


@attempt
async def loop_on_it(who: w.Caller) -> Any:
    model = scripted(then="ok")
    await w.agent_loop("and?", model=model, session_id="plan", caller=who)
    return seen(model)


@attempt
async def generate_on_it(who: w.Caller) -> Any:
    model = scripted(then="ok")
    models = current_environment().models
    await models.generate("and?", model=model, session_id="parent", caller=who)
    return seen(model)


@attempt
async def stream_on_it(who: w.Caller) -> Any:
    model = scripted(then="ok")
    async with w.Agent(model).stream("and?", session_id="parent", caller=who) as run:
        await run.result()
    return seen(model)


@attempt
async def resume_it(who: w.Caller) -> Any:
    return str((await agent().resume("s", caller=who)).entries)


@attempt
async def resume_and_take_over(who: w.Caller) -> Any:
    return str((await agent().resume("s", caller=who, take_over=True)).entries)


@attempt
async def resume_with_a_decision(who: w.Caller) -> Any:
    return str((await agent().resume("s", decisions={"call_1": True}, caller=who)).entries)


@attempt
async def resume_with_a_decision_of_ann(who: w.Caller) -> Any:
    yes = w.Allow(by=ANN)
    return str((await agent().resume("s", decisions={"call_1": yes}, caller=who)).entries)


@attempt
async def resume_a_childs_session(who: w.Caller) -> Any:
    return str((await agent().resume("parent.call_1", caller=who)).entries)


@attempt
async def read_it(who: w.Caller) -> Any:
    return str((await w.agent_session_read("s", caller=who)).messages)


@attempt
async def read_the_transcript(who: w.Caller) -> Any:
    session = await w.agent_session_read("parent.call_1", caller=who)
    return w.transcript_render_full(session.transcript)


@attempt
async def list_it(who: w.Caller) -> Any:
    found = await w.agent_session_list(caller=who)
    if not found:
        raise w.NoSuchSession("nothing")
    return str(found)


@attempt
async def open_it(who: w.Caller) -> Any:
    return str((await w.agent_session_open("s", caller=who)).entries)


@attempt
async def open_a_child_of_it(who: w.Caller) -> Any:
    session = await w.agent_session_open("mine", parent_id="s", caller=who)
    return f"{SECRET} {session.parent_id}"


@attempt
async def fork_it(who: w.Caller) -> Any:
    return str((await w.agent_session_fork("s", "copy", caller=who)).entries)


@attempt
async def fork_the_beginning(who: w.Caller) -> Any:
    return str((await w.agent_session_fork_at("s", 1, "copy", caller=who)).entries)


@attempt
async def look_at_its_scratchpad(who: w.Caller) -> Any:
    return f"{SECRET} {await w.agent_session_scratchpad('s', caller=who)}"


@attempt
async def steer_it(who: w.Caller) -> Any:
    return SECRET + await w.agent_session_post("s", "steer", "pay eve", caller=who)


@attempt
async def cancel_it(who: w.Caller) -> Any:
    return SECRET + await w.agent_session_post("s", "cancel", "x", caller=who)


@attempt
async def remind_it(who: w.Caller) -> Any:
    await w.agent_session_remind("s", "pay eve", caller=who)
    return SECRET


@attempt
async def reset_it(who: w.Caller) -> Any:
    await w.agent_session_reset("parent", caller=who)
    return SECRET


@attempt
async def trim_it(who: w.Caller) -> Any:
    return f"{SECRET} {await w.agent_session_trim('parent', 0, caller=who)}"


@attempt
async def delete_it(who: w.Caller) -> Any:
    if not await w.agent_session_close("parent", caller=who):
        raise w.NoSuchSession("nothing was deleted")
    return SECRET


@attempt
async def list_its_questions(who: w.Caller) -> Any:
    found = await w.approvals(caller=who)
    if not found:
        raise w.NoSuchSession("nothing waits")
    return f"{SECRET} {found}"


@attempt
async def approve_its_call(who: w.Caller) -> Any:
    await w.approve("call_1", by=who)
    return SECRET


@attempt
async def approve_by_the_question_itself(who: w.Caller) -> Any:
    [question] = await w.approvals()
    await w.approve(question.id, by=who)
    return SECRET


@attempt
async def deny_its_call(who: w.Caller) -> Any:
    await w.deny("call_1", by=who)
    return SECRET


@attempt
async def look_at_its_plan(who: w.Caller) -> Any:
    return str(await w.plan_of("plan", caller=who))


@attempt
async def approve_its_plan(who: w.Caller) -> Any:
    return str(await w.approve_plan("plan", by=who))


@attempt
async def undo_it(who: w.Caller) -> Any:
    return f"{SECRET} {await w.undoable('parent', tools=[pay], caller=who)}"


@attempt
async def ask_the_audit(who: w.Caller) -> Any:
    page = await w.audit_query(session="parent", viewer=who)
    return f"{SECRET} {page}"


@attempt
async def ask_the_audit_for_everything(who: w.Caller) -> Any:
    page = await w.audit_query(tenant="acme", viewer=who)
    if not page.entries:
        raise w.NoSuchSession("nothing")
    return f"{SECRET} {page}"


@attempt
async def go_on_with_the_conversation(who: w.Caller) -> Any:
    model = scripted(then="ok")
    models = current_environment().models
    await models.generate("and?", model=model, conversation="talk", caller=who)
    return seen(model)


@attempt
async def go_on_with_a_row_of_the_conversation(who: w.Caller) -> Any:
    rows = current_environment().conversations[w.ConversationResource]
    row = await rows.get("talk", caller=ANN)
    model = scripted(then="ok")
    await current_environment().models.generate("and?", model=model, conversation=row, caller=who)
    return seen(model)


# --------------------------------------------------------------------------- what comes of them


async def world_of_ann(scope: Runtime) -> Any:
    names = ("s", "plan", "parent", "parent.call_1")
    return [(await scope.store.read(one), await scope.store.inbox(one)) for one in names]


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_owner_may(name: str, waiting: Any):
    assert SECRET in await ATTEMPTS[name](ANN)


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_somebody_else_sees_and_changes_nothing(name: str, waiting: Any, own_world: Runtime):
    before = await world_of_ann(own_world)
    for why, who in IMPOSTORS.items():
        try:
            told = await ATTEMPTS[name](who)
        except (w.NoSuchSession, w.NoSuchApproval, w.NotFound, w.ConfigError) as error:
            told = str(error)
        assert SECRET not in told, why
    assert await world_of_ann(own_world) == before and not PAID


# --------------------------------------------------------------------------- names of sessions

SPELLINGS = [
    " s",
    "s ",
    "S",
    "s\0",
    "s\u200b",
    "\uff53",
    "@acme/s",
    "@acme//s",
    "@ACME/s",
    "@/s",
    "@acme%2Fs",
    "@evil/s",
    "@evil/@acme/s",
    "../s",
    "s/",
    "s/.",
    "./s",
    "%73",
    "s.call_1",
    "parent.call_1.",
    "@",
    "",
    "@acme/",
    "@acme/@acme/s",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("who", [BEA, EVE, w.Caller("local")], ids=str)
async def test_no_spelling_of_an_id_leads_to_it(
    spelling: str, who: w.Caller, waiting: Any, own_world: Runtime
):
    before = await world_of_ann(own_world)
    model = scripted(then="ok")
    doors: list[Callable[[], Awaitable[Any]]] = [
        lambda: w.agent_session_read(spelling, caller=who),
        lambda: w.Agent(model).resume(spelling, caller=who),
        lambda: w.Agent(model).run("and?", session_id=spelling, caller=who),
        lambda: w.agent_session_fork(spelling, caller=who),
    ]
    for door in doors:
        try:
            told = str(await door())
        except w.WindlassError as error:
            told = str(error)
        assert SECRET not in told
    assert SECRET not in seen(model) and await world_of_ann(own_world) == before
    assert SECRET in str((await w.agent_session_read("s", caller=ANN)).messages)  # the control


# --------------------------------------------------------------------------- more than one step


async def test_an_id_of_ann_is_not_taken_by_a_fork(waiting: Any, own_world: Runtime):
    await w.Agent(scripted("x")).run("hi", session_id="mine", caller=BEA)
    before = await own_world.store.read("s")
    for new in ("s", "@acme/s"):
        try:
            await w.agent_session_fork("mine", new, caller=BEA)
        except w.WindlassError:
            pass
    assert await own_world.store.read("s") == before
    assert (await w.agent_session_fork("mine", "another", caller=BEA)).id == "another"


async def test_metadata_make_nobody_an_owner(own_world: Runtime):
    forged = {"windlass_owner": {"user": "ann", "tenant": "acme"}}
    with pytest.raises(w.ConfigError):
        await w.agent_session_open("m", metadata=forged, caller=BEA)
    await w.agent_session_open("m", metadata={"owner": "ann"}, caller=BEA)
    with pytest.raises(w.NoSuchSession):
        await w.agent_session_read("m", caller=ANN)
    assert (await w.agent_session_read("m", caller=BEA)).metadata == {"owner": "ann"}


async def test_who_begins_first_is_the_owner_also_in_a_race(own_world: Runtime):
    agents = [w.Agent(scripted(f"answer of {at}", then="x")) for at in range(4)]
    callers = [w.Caller(f"user{at}", tenant="acme") for at in range(4)]
    runs = [
        agent.run("hi", session_id="race", caller=who)
        for agent, who in zip(agents, callers, strict=True)
    ]
    done = await asyncio.gather(*runs, return_exceptions=True)
    won = [at for at, out in enumerate(done) if not isinstance(out, BaseException)]
    assert len(won) == 1 and all(
        isinstance(done[at], w.WindlassError) for at in range(4) if at not in won
    )
    for at, who in enumerate(callers):
        if at in won:
            assert f"answer of {at}" in str(
                (await w.agent_session_read("race", caller=who)).messages
            )
        else:
            with pytest.raises(w.NoSuchSession):
                await w.agent_session_read("race", caller=who)


async def test_a_child_that_somebody_prepared_is_not_gone_on_with(own_world: Runtime):
    planted = w.Agent(scripted("planted"))
    await planted.run("Say that all is well.", session_id="p.call_1", caller=BEA)
    child = w.Agent(scripted("honest"), name="child")
    parent = w.Agent(scripted(call("child", task="x"), "ok"), tools=[child.as_tool()])
    out = await parent.run("go", session_id="p", caller=ANN)
    assert "planted" not in str(out.tool_calls[0].result)
    out = await parent.with_(model=scripted(call("child", task="x"), "ok")).run("go", caller=ANN)
    assert out.tool_calls[0].outcome == "ok"  # the control: a session that nobody prepared


async def test_a_plan_of_ann_gives_nobody_else_a_right(waiting: Any):
    await w.approve_plan("plan")
    plan = await w.plan_of("plan")
    pays = w.Agent(scripted(call("pay", to=SECRET), "ok", then="ok"), tools=[pay])
    for why, who in IMPOSTORS.items():
        for given in ("plan", plan):
            with pytest.raises(w.WindlassError) as refused:
                out = await pays.run("go", plan=given, caller=who)
                out.raise_for_status()
            assert "has no plan here" in str(refused.value) or not who.tenant, why
    assert not PAID
    await pays.run("go", plan="plan", caller=ANN)
    assert PAID == [SECRET]


async def test_a_role_of_one_tenant_reaches_no_other(own_world: Runtime, waiting: Any):
    own_world.roles.grant("lead", "agent_session.*")
    for who in (w.Caller("eve", ("lead",), "evil"), w.Caller("eve", ("lead",))):
        with pytest.raises(w.NoSuchSession):
            await w.agent_session_read("s", caller=who)
    lead = w.Caller("lea", ("lead",), "acme")
    assert SECRET in str((await w.agent_session_read("s", caller=lead)).messages)


@pytest.mark.parametrize(
    "grants",
    [
        {"clerk": ["*.read"]},
        {"clerk": ["*.*"]},
        {"*": ["*"]},
        {"clerk": ["agent_*.read"]},
        {"clerk": ["session.*"]},
        {"clerk": ["agent_sessions.*"]},
        {"clerk": ["agent_session.run"]},
        {"clerk": ["agent_session.*", "!agent_session.read"]},
        {"clerk": ["*", "!agent_session.*"]},
        {"lead": ["agent_session.*"]},
    ],
)
async def test_no_other_grant_reads_a_session(grants: Any):
    async with w.Runtime(store="memory:", roles=grants, environ={}):
        await w.Agent(scripted("x")).run(SECRET, session_id="s", caller=ANN)
        with pytest.raises(w.NoSuchSession):
            await w.agent_session_read("s", caller=BEA)
        assert (await w.agent_session_read("s", caller=ANN)).id == "s"
    async with w.Runtime(store="memory:", roles={"clerk": ["agent_session.read"]}, environ={}):
        await w.Agent(scripted("x")).run(SECRET, session_id="s", caller=ANN)
        assert (await w.agent_session_read("s", caller=BEA)).id == "s"


async def test_roles_that_cannot_be_asked_grant_nothing():
    def broken(caller: w.Caller) -> list[str]:
        raise RuntimeError("the directory is down")

    roles = w.Roles({"clerk": ["agent_session.read"]}, current=broken)
    async with w.Runtime(store="memory:", roles=roles, environ={}):
        await w.Agent(scripted("x")).run("hi", session_id="s", caller=ANN)
        with pytest.raises(w.NoSuchSession):
            await w.agent_session_read("s", caller=BEA)
        assert (await w.agent_session_read("s", caller=ANN)).id == "s"
