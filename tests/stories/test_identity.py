"""Sessions by who asks: every entry point asks one rule, and a foreign id is unknown at all of them."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass as w
from windlass.events import RunResumed, RunStarted, ToolResulted
from windlass.runtime.runtime import Runtime
from windlass.testing import call, scripted

ANN = w.Caller("ann", ("clerk",), "acme")
BEA = w.Caller("bea", ("clerk",), "acme")
LEA = w.Caller("lea", ("lead",), "acme")
EVE = w.Caller("eve", ("lead",), "evil")
FORGED = w.Caller("local")
HOST = w.Caller.local()
SECRET = "the-secret-of-ann"
Door = Callable[[str, w.Caller | None], Awaitable[Any]]


@w.tool(side_effect_level="none")
async def look() -> str:
    """Look."""
    return "seen"


def parking(*replies: Any) -> w.Agent[Any, str]:
    rules: Any = {"rules": [{"ask": "look"}]}
    return w.Agent(scripted(*replies), tools=[look], approval_policy=rules)


async def stream(session_id: str, caller: w.Caller | None) -> Any:
    agent = w.Agent(scripted("more"))
    async with agent.stream("and?", session_id=session_id, caller=caller) as run:
        return await run.result()


def run(session_id: str, caller: w.Caller | None) -> Awaitable[Any]:
    return w.Agent(scripted("more")).run("and?", session_id=session_id, caller=caller)


def loop(session_id: str, caller: w.Caller | None) -> Awaitable[Any]:
    given: Any = {} if caller is None else {"caller": caller}
    return w.agent_loop("and?", model=scripted("more"), session_id=session_id, **given)


def turn(session_id: str, caller: w.Caller | None) -> Awaitable[Any]:
    given: Any = {} if caller is None else {"caller": caller}
    return w.agent_turn(
        "and?", model=scripted("##DONE##", then="##DONE##"), session_id=session_id, **given
    )


def generate(session_id: str, caller: w.Caller | None) -> Awaitable[Any]:
    given: Any = {} if caller is None else {"caller": caller}
    models = w.engine.environment.current_environment().models
    return models.generate("and?", model=scripted("more"), session_id=session_id, **given)


def resume(session_id: str, caller: w.Caller | None) -> Awaitable[Any]:
    return parking("more").resume(session_id, caller=caller)


#: By the action that a role grants. All but `run` refuse an unknown id as well.
DOORS: dict[str, tuple[str, Door]] = {
    "run": ("run", run),
    "stream": ("run", stream),
    "agent_loop": ("run", loop),
    "agent_turn": ("run", turn),
    "generate": ("run", generate),
    "resume": ("resume", resume),
    "read": ("read", lambda id, who: w.agent_session_read(id, caller=who)),
    "scratchpad": ("read", lambda id, who: w.agent_session_scratchpad(id, caller=who)),
    "fork": ("fork", lambda id, who: w.agent_session_fork(id, caller=who)),
    "fork_at": ("fork", lambda id, who: w.agent_session_fork_at(id, 1, caller=who)),
    "remind": ("mail", lambda id, who: w.agent_session_remind(id, "Hurry.", caller=who)),
    "post": ("mail", lambda id, who: w.agent_session_post(id, "steer", "Hurry.", caller=who)),
    "approvals": ("answer", lambda id, who: w.approvals(session_id=id, caller=who)),
    "undoable": ("undo", lambda id, who: w.undoable(id, tools=[look], caller=who)),
    "audit": ("audit", lambda id, who: w.audit_query(session=id, viewer=who)),
    "reset": ("edit", lambda id, who: w.agent_session_reset(id, caller=who)),
    "trim": ("edit", lambda id, who: w.agent_session_trim(id, 1, caller=who)),
    "clear": ("edit", lambda id, who: w.agent_session_clear_scratchpad(id, caller=who)),
}
RUNS = {name for name, (action, _) in DOORS.items() if action == "run"}


async def anns_session(own_world: Runtime, door: str) -> Any:
    if door in ("resume", "approvals", "undoable"):
        out = await parking(call("look"), SECRET).run(SECRET, session_id="s", caller=ANN)
        assert out.status == "suspended"
    else:
        await w.Agent(scripted(SECRET)).run(SECRET, session_id="s", caller=ANN)
    return await own_world.store.read("s")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("who", [ANN, None, HOST], ids=["owner", "nobody named", "host"])
async def test_owner_and_host_may(own_world: Runtime, door: str, who: w.Caller | None):
    await anns_session(own_world, door)
    await DOORS[door][1]("s", who)


@pytest.mark.parametrize("door", DOORS)
async def test_role_holder_may_what_his_role_grants(own_world: Runtime, door: str):
    action, enter = DOORS[door]
    own_world.roles.grant("lead", "agent_session.nothing")
    await anns_session(own_world, door)
    with pytest.raises(w.NoSuchSession):
        await enter("s", LEA)
    own_world.roles.grant("lead", f"agent_session.{action}")
    await enter("s", LEA)
    with pytest.raises(w.NoSuchSession):
        await enter("s", BEA)
    own_world.roles.revoke("lead", user="lea", tenant="acme")
    with pytest.raises(w.NoSuchSession):
        await enter("s", LEA)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("who", [BEA, LEA, EVE, FORGED], ids=str)
async def test_foreign_session_is_unknown_and_untouched(
    own_world: Runtime, door: str, who: w.Caller
):
    own_world.roles.grant("*", "*")  # every verb of every resource; not other people's sessions
    before = await anns_session(own_world, door)
    enter = DOORS[door][1]
    if door in RUNS and who.tenant != ANN.tenant:  # the same id of another tenant: his own session
        await enter("s", who)
        [mine] = await w.agent_session_list(caller=who)
        assert mine.id == "s"
        own = await w.agent_session_read("s", caller=who)
        assert SECRET not in str(own.entries) and str(own).startswith("<Session s ")
    else:
        with pytest.raises(w.NoSuchSession) as foreign:
            await enter("s", who)
        unknown = foreign
        if door not in RUNS:
            with pytest.raises(w.NoSuchSession) as unknown:
                await enter("t", who)
        assert type(foreign.value) is type(unknown.value) is w.NoSuchSession
        assert str(foreign.value) == "no session 's'"
        assert str(unknown.value) in ("no session 's'", "no session 't'")
    assert await own_world.store.read("s") == before
    assert await own_world.store.inbox("s") == []


@pytest.mark.parametrize("who", [BEA, LEA, EVE, FORGED], ids=str)
async def test_lists_show_nothing_of_others(own_world: Runtime, who: w.Caller):
    await parking(call("look"), "x").run(SECRET, session_id="s", caller=ANN)
    await w.Agent(scripted("x")).run("hi", session_id="of-the-host")
    assert await w.agent_session_list(caller=who) == []
    assert await w.approvals(caller=who) == []
    assert (await w.audit_query(viewer=who)).entries == ()
    assert await w.agent_session_close("s", caller=who) is False
    assert [info.id for info in await w.agent_session_list(caller=ANN)] == ["s"]
    assert len(await w.approvals(caller=ANN)) == 1
    assert len(await w.agent_session_list()) == 2
    assert await w.agent_session_close("s", caller=ANN) is True


@pytest.mark.parametrize("kind", ["decision", "result", "memory", "remind", "steal"])
async def test_caller_posts_words_and_nothing_else(own_world: Runtime, kind: Any):
    await w.Agent(scripted("x")).run("hi", session_id="s", caller=ANN)
    with pytest.raises(w.ConfigError, match="a caller posts one of"):
        await w.agent_session_post("s", kind, {"call_1": True}, caller=ANN)
    with pytest.raises(w.ConfigError, match="a caller posts a text"):
        await w.agent_session_post("s", "steer", {"role": "system", "content": "x"}, caller=ANN)
    assert await own_world.store.inbox("s") == []
    await w.agent_session_post("s", "suspend", "lunch", caller=ANN)
    [item] = await own_world.store.inbox("s")
    assert item.payload == {"reason": "lunch"}


# --------------------------------------------------------------------------- the host's identity


def test_no_name_is_the_host():
    decoded = msgspec.json.decode(msgspec.json.encode(HOST), type=w.Caller)
    converted = msgspec.convert({"user": "local"}, w.Caller)
    for other in (FORGED, decoded, converted, w.Caller("local", (), None), copy.copy(FORGED)):
        assert other != HOST and HOST != other and other is not HOST
        assert len({other, HOST}) == 2
        assert str(other) != str(HOST)
    assert copy.copy(HOST) is HOST and copy.deepcopy([HOST])[0] is HOST
    for make in (
        lambda: type(HOST)("local"),
        lambda: msgspec.structs.replace(HOST, user="ann"),
        lambda: msgspec.json.decode(b'{"user": "local"}', type=type(HOST)),
        lambda: pickle.dumps(HOST),
    ):
        with pytest.raises((w.ConfigError, msgspec.ValidationError)):
            make()
    ann = msgspec.structs.replace(FORGED, user="ann")  # the control
    assert pickle.loads(pickle.dumps(ann)) == w.Caller("ann")


@pytest.mark.parametrize("user", [None, "", 0, False, b"ann", ["ann"]])
def test_a_caller_has_a_name(user: Any):
    with pytest.raises(w.ConfigError, match="user is a name"):
        w.Caller(user)


def test_no_two_callers_are_written_alike():
    callers = [
        HOST,
        FORGED,
        w.Caller("ann"),
        w.Caller("acme/ann"),
        ANN,
        w.Caller("a/b", tenant="c"),
        w.Caller("b", tenant="c/a"),
        w.Caller("b/a", tenant="c"),
        w.Caller("local", tenant="acme"),
        w.Caller("acme%2Fann"),
        w.Caller("a%2Fb", tenant="c"),
    ]
    assert len({str(one) for one in callers}) == len(callers)
    assert str(ANN) == "acme/ann" and str(w.Caller("ann")) == "ann" and str(HOST) == "local"


async def test_user_called_local_does_not_go_on_for_the_host(own_world: Runtime):
    agent = parking(call("look"), "done")
    await agent.run("go", session_id="s")
    for who in (FORGED, w.Caller("local", ("admin",)), ANN):
        with pytest.raises(w.NoSuchSession):
            await agent.resume("s", caller=who)
        with pytest.raises(w.NoSuchSession):
            await w.agent_session_read("s", caller=who)
    assert (await agent.resume("s", caller=HOST)).status == "suspended"


async def test_run_of_a_user_called_local_is_his_own(own_world: Runtime):
    await w.Agent(scripted("x")).run("go", session_id="s", caller=FORGED)
    assert (await w.agent_session_read("s", caller=FORGED)).id == "s"
    [begun] = [e for e in await own_world.store.read("s") if type(e) is RunStarted]
    assert begun.user == "local" and begun.caller == "/local"


# --------------------------------------------------------------------------- whose it stays


async def test_session_stays_its_owners_whoever_runs_on_it(own_world: Runtime):
    own_world.roles.grant("lead", "agent_session.run")
    agent = w.Agent(scripted(*["x"] * 9))
    await agent.run("hi", session_id="s", caller=ANN)
    await agent.run("hi", session_id="s")
    await agent.run("hi", session_id="s", caller=LEA)
    own_world.roles.revoke("lead", "agent_session.run")
    with pytest.raises(w.NoSuchSession):
        await agent.run("hi", session_id="s", caller=LEA)
    assert (await agent.run("hi", session_id="s", caller=ANN)).status == "done"


async def test_role_holder_goes_on_in_the_name_of_who_began(own_world: Runtime):
    own_world.roles.grant("lead", "agent_session.resume", "agent_session.answer")
    seen: list[w.Caller] = []

    @w.tool(side_effect_level="none")
    async def who(ctx: w.ToolContext[Any]) -> str:
        """Who."""
        seen.append(ctx.caller)
        return "ok"

    rules: Any = {"rules": [{"ask": "who"}]}
    agent = w.Agent(scripted(call("who"), "done"), tools=[who], approval_policy=rules)
    out = await agent.run("go", session_id="s", caller=ANN)
    out = await agent.resume("s", decisions={out.pending[0].id: True}, caller=LEA)
    assert out.status == "done" and seen == [ANN]
    [resumed] = [e for e in out.entries if type(e) is RunResumed]
    assert resumed.by == "acme/lea"


async def test_owner_of_a_session_is_not_lent_the_host(own_world: Runtime):
    seen: list[w.Caller] = []

    @w.tool(side_effect_level="none")
    async def who(ctx: w.ToolContext[Any]) -> str:
        """Who."""
        seen.append(ctx.caller)
        return "ok"

    rules: Any = {"rules": [{"ask": "who"}]}
    first = w.Agent(scripted("hi"))
    await first.run("hi", session_id="s", caller=ANN)
    agent = w.Agent(scripted(call("who"), "done", "x"), tools=[who], approval_policy=rules)
    await agent.run("go", session_id="s")
    await agent.resume("s", caller=ANN)
    assert not any(one is HOST for one in seen)


async def test_children_belong_with_their_parent(own_world: Runtime):
    child = w.Agent(scripted(SECRET), name="child")
    parent = w.Agent(scripted(call("child", task="go"), "ok"), tools=[child.as_tool()])
    await w.Agent(scripted("hi")).run("hi", session_id="s", caller=ANN)
    await parent.run("go", session_id="s")  # the host, on ann's session
    assert (await w.agent_session_read("s.call_1", caller=ANN)).parent_id == "s"
    for who in (BEA, EVE, FORGED):
        with pytest.raises(w.NoSuchSession):
            await w.agent_session_read("s.call_1", caller=who)
    assert {info.id for info in await w.agent_session_list(caller=ANN)} == {"s", "s.call_1"}


async def test_fork_belongs_to_who_forks(own_world: Runtime):
    own_world.roles.grant("lead", "agent_session.fork")
    await w.Agent(scripted("x")).run("hi", session_id="s", caller=ANN)
    await w.agent_session_fork("s", "f", caller=LEA)
    assert (await w.agent_session_read("f", caller=LEA)).id == "f"
    with pytest.raises(w.NoSuchSession):
        await w.agent_session_read("f", caller=ANN)
    await w.agent_session_fork("s", "g")  # by the host: it stays ann's
    assert (await w.agent_session_read("g", caller=ANN)).id == "g"


async def test_opened_session_is_the_callers(own_world: Runtime):
    await w.agent_session_open("s", metadata={"a": 1}, caller=ANN)
    await w.agent_session_open("h")
    assert (await w.Agent(scripted("x")).run("hi", session_id="s", caller=ANN)).status == "done"
    assert (await w.agent_session_read("s", caller=ANN)).metadata == {"a": 1}
    for id, who in (("s", BEA), ("h", FORGED)):
        with pytest.raises(w.NoSuchSession):
            await w.Agent(scripted("x")).run("hi", session_id=id, caller=who)
    with pytest.raises(w.ConfigError, match="windlass_owner"):
        await w.agent_session_open("t", metadata={"windlass_owner": {"user": "ann"}}, caller=BEA)


# --------------------------------------------------------------------------- one id, two tenants


async def test_one_id_in_many_tenants_is_many_sessions(own_world: Runtime):
    callers = [ANN, EVE, w.Caller("ann"), w.Caller("x", tenant="a/b"), w.Caller("x", tenant="@a")]
    agents = [w.Agent(scripted(f"answer {at}", "again")) for at in range(len(callers))]
    await asyncio.gather(
        *(
            agent.run("hi", session_id="same", caller=who)
            for agent, who in zip(agents, callers, strict=True)
        )
    )
    for at, who in enumerate(callers):
        out = await agents[at].run("more", session_id="same", caller=who)
        own = await w.agent_session_read("same", caller=who)
        assert own.id == "same" and f"answer {at}" in str(own.entries)
        assert not any(f"answer {other}" in str(own.entries) for other in range(5) if other != at)
        assert (await agents[at].resume(out.session_id, caller=who)).status == "done"
        assert (await agents[at].resume("same", caller=who)).status == "done"
        assert len(await w.agent_session_list(caller=who)) == 1
    assert len(await w.agent_session_list()) == len(callers)


@pytest.mark.parametrize("how", ["run", "open", "fork"])
async def test_id_that_many_tenants_begin_at_once(tmp_path: Path, how: str):
    """In a file: between looking whose it is and beginning it, others come to their turn."""
    callers = [ANN, EVE, w.Caller("ann"), w.Caller("x", tenant="a/b"), w.Caller("x", tenant="@a")]

    async def begin(who: w.Caller) -> Any:
        if how == "run":
            return await w.Agent(scripted("ok")).run("hi", session_id="same", caller=who)
        if how == "open":
            return await w.agent_session_open("same", caller=who)
        return await w.agent_session_fork(f"of-{callers.index(who)}", "same", caller=who)

    async with Runtime(store=tmp_path / "s.db", environ={}):
        for who in callers if how == "fork" else ():
            await w.Agent(scripted("ok")).run(
                "hi", session_id=f"of-{callers.index(who)}", caller=who
            )
        await asyncio.gather(*map(begin, callers))
        for who in callers:
            assert (await w.agent_session_read("same", caller=who)).id == "same"
        taken = [info for info in await w.agent_session_list() if info.id.endswith("same")]
        assert len(taken) == len(callers)


@pytest.mark.parametrize("id", ["@evil/s", "@/s", "@acme/s", "@", "@@", "@evil%2Fs"])
async def test_no_id_can_be_chosen_to_be_anothers(own_world: Runtime, id: str):
    await w.Agent(scripted("x")).run(SECRET, session_id="s", caller=w.Caller("zoe", tenant="z"))
    for who in (EVE, w.Caller("ann"), ANN):  # each has a session `s` of his own beside zoe's
        await w.Agent(scripted("x")).run(SECRET, session_id="s", caller=who)
    mallory = w.Caller("mallory", tenant="mal")
    await w.Agent(scripted("x")).run("hi", session_id=id, caller=mallory)
    own = await w.agent_session_read(id, caller=mallory)
    assert SECRET not in str(own.entries)
    assert len(await w.agent_session_list(caller=mallory)) == 1


async def test_session_of_older_records_is_its_first_callers(own_world: Runtime):
    journal = await own_world.store.open("old")
    journal.append(RunStarted("r", "agent", "acme/ann", "p", "m", tenant="acme"))
    await journal.close()
    assert (await w.agent_session_read("old", caller=ANN)).id == "old"
    for who in (BEA, EVE, FORGED):
        with pytest.raises(w.NoSuchSession):
            await w.agent_session_read("old", caller=who)


# --------------------------------------------------------------------------- plain tools and roles


async def test_plain_tools_take_part_in_roles():
    calls: list[str] = []

    @w.tool(side_effect_level="none")
    async def refund(ctx: w.ToolContext[Any]) -> str:
        """Refund."""
        calls.append(str(ctx.caller))
        return "ok"

    roles = w.Roles({"clerk": ["tool.refund"]})
    async with w.Runtime(tools=[refund], roles=roles, environ={}) as scope:
        assert [tool.name for tool in scope.tools(ANN)] == ["refund"]
        assert [tool.name for tool in scope.tools(LEA)] == []
        assert [tool.name for tool in scope.tools()] == ["refund"]
        model = scripted(call("refund"), "ok")
        await scope.models.generate("go", model=model, caller=ANN)
        assert calls == ["acme/ann"] and len(model.requests[0].tools) == 1
        for given in ({"caller": LEA}, {}):
            model = scripted("none")
            await scope.models.generate("go", model=model, **given)
            assert not model.requests[0].tools
            with pytest.raises(w.ConfigError, match="no tool 'refund'"):
                await scope.models.generate("go", model=model, tools=["refund"], **given)
        # a tool that a caller was not offered is refused when it is called, too
        agent = w.Agent(scripted(call("refund"), "ok"), tools=scope.tools())
        out = await agent.run("go", caller=LEA)
        assert out.tool_calls[0].outcome == "denied" and calls == ["acme/ann"]
    async with w.Runtime(tools=[refund], environ={}) as scope:  # no roles: as ever
        await scope.models.generate("go", model=scripted(call("refund"), "ok"), caller=LEA)
        await scope.models.generate("go", model=scripted(call("refund"), "ok"))
    assert calls == ["acme/ann", "acme/lea", "local"]


async def test_plain_tool_taken_from_a_role_in_the_middle_of_a_run():
    roles = w.Roles({"clerk": ["tool.*"]})

    @w.tool(side_effect_level="none")
    async def leave() -> str:
        """Leave."""
        roles.revoke("clerk", user="ann", tenant="acme")
        return "left"

    async with w.Runtime(tools=[leave], roles=roles, environ={}) as scope:
        model = scripted(call("leave"), call("leave"), "ok")
        out = await scope.models.generate("go", model=model, caller=ANN, include_tool_trace=True)
        outcomes = [step.outcome for step in out.trace or () if step.type == "tool_result"]
        assert outcomes == ["ok", "denied"]


@pytest.mark.parametrize("door", ["generate", "agent", "child", "old_list"])
async def test_plain_tool_is_bound_by_roles_that_begin_in_the_middle_of_a_run(door: str):
    roles = w.Roles()

    @w.tool(side_effect_level="none")
    async def leave() -> str:
        """Leave."""
        if roles.is_open:
            roles.grant("clerk", "tool.other")
        return "left"

    async with w.Runtime(tools=[leave], roles=roles, environ={}) as scope:
        tools = scope.tools()
        if door == "old_list":  # a list that was made before there were roles
            roles.grant("clerk", "tool.leave")
        model = scripted(call("leave"), call("leave"), "ok")
        outcomes: list[str | None] = []
        if door == "generate":
            out = await scope.models.generate(
                "go", model=model, caller=ANN, include_tool_trace=True
            )
            outcomes = [step.outcome for step in out.trace or () if step.type == "tool_result"]
        elif door == "child":
            child = w.Agent(model, tools=tools, name="child")
            lead = w.Agent(scripted(call("child", task="go"), "ok"), tools=[child.as_tool()])
            out = await lead.run("go", session_id="s", caller=ANN)
            [child_id] = (await scope.store.info("s")).child_ids
            entries = await scope.store.read(child_id)
            outcomes = [e.outcome for e in entries if isinstance(e, ToolResulted)]
        else:
            out = await w.Agent(model, tools=tools).run("go", caller=ANN)
            outcomes = [record.outcome for record in out.tool_calls]
        assert outcomes == (["ok", "ok"] if door == "old_list" else ["ok", "denied"])
