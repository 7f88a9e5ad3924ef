"""Conditions are forgotten with what they would wake: a session that is deleted, cancelled or discarded."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.events import RunResumed
from windlass.runtime.runtime import Runtime
from windlass.testing import call, scripted

pytestmark = pytest.mark.virtual_time


def nap(**conditions: Any) -> Any:
    return call("agent_await_resumption", reason="nap", conditions=conditions)


def build_sleeper(name: str = "sleeper") -> w.Agent[None, str]:
    return w.Agent(scripted(nap(on_event="dawn"), "up"), name=name, await_resumption=True)


def build_outer() -> w.Agent[None, str]:
    model = scripted(call("sleeper", task="Sleep."), "over", "again")
    return w.Agent(model, name="outer", tools=[build_sleeper().as_tool()])


def build_graph() -> w.WorkflowGraph:
    nodes: dict[str, Any] = {
        "begin": {"mode": "llm", "model": scripted("go")},
        "one": {"agent": build_sleeper("one")},
        "two": {"agent": build_outer()},
    }
    edges = [{"from": "begin", "to": "one"}, {"from": "begin", "to": "two"}]
    return w.workflow_graph({"name": "flow", "entry": "begin", "nodes": nodes, "edges": edges})


async def list_conditions(world: Runtime) -> list[str]:
    return [one.id for one in await w.trigger_list(store=world.store)]


@pytest.mark.parametrize("end", ["close", "prune", "reset"])
async def test_conditions_of_a_session_go_with_it(end: str, own_world: Runtime):
    store = own_world.store
    for session_id in ("gone", "stays"):
        await build_sleeper().run("go", session_id=session_id, store=store)
    assert await list_conditions(own_world) == ["resume:on_event:gone", "resume:on_event:stays"]
    match end:
        case "close":
            await w.agent_session_close("gone", store=store)
        case "reset":
            await w.agent_session_reset("gone", store=store)
        case _:
            await seams.sleep(100)
            await w.agent_session_post("stays", "steer", "Stay.", store=store)
            await build_sleeper().resume("stays", store=store)
            await store.prune(seams.now() - 50)
    assert await list_conditions(own_world) == ["resume:on_event:stays"]


async def test_conditions_of_a_sub_agent_that_is_discarded_are_forgotten(own_world: Runtime):
    outer, store = build_outer(), own_world.store
    assert (await outer.run("go", session_id="s", store=store)).status == "suspended"
    assert len(await list_conditions(own_world)) == 1
    out = await outer.run("something else", session_id="s", store=store, on_pending="discard")
    assert out.status == "done" and await list_conditions(own_world) == []


@pytest.mark.parametrize("build", [build_sleeper, build_outer, build_graph])
async def test_cancelled_run_leaves_nothing_that_waits(build: Any, own_world: Runtime):
    store = own_world.store
    handle = await own_world.submit(build(), "go")
    while await handle.status() != "parked":
        await seams.sleep(0.05)
    assert await list_conditions(own_world) != []
    await handle.cancel("enough")
    assert await list_conditions(own_world) == []
    states = {info.id: info.state for info in await store.sessions()}
    assert set(states.values()) <= {"cancelled", "done"}, states
    await w.publish_event("dawn", {}, store=store)
    await seams.sleep(10)
    assert await handle.status() == "cancelled"
    for session_id in states:
        entries = await store.read(session_id)
        assert not [one for one in entries if type(one) is RunResumed]
        assert await store.inbox(session_id) == []
