"""Workflows whose nodes wait for conditions go on by themselves, in one process and on a fleet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.events import RunResumed, RunStarted
from windlass.fleet import driver
from windlass.runtime.runtime import Runtime
from windlass.sessions.approvals import approvals, approve
from windlass.store.wishes import read_wish
from windlass.testing import call, scripted

pytestmark = pytest.mark.virtual_time


def wait_for(**conditions: Any) -> Any:
    return call("agent_await_resumption", reason="not yet", conditions=conditions)


def build_graph(**waits: Any) -> w.WorkflowGraph:
    """Build a graph with one node for each of these waits, side by side, and a join."""
    nodes: dict[str, Any] = {
        name: {"await_resumption": True, "model": scripted(wait, f"{name} is over")}
        for name, wait in waits.items()
    }
    nodes["begin"] = {"mode": "llm", "model": scripted("go")}
    nodes["join"] = {"mode": "llm", "model": scripted("all is over")}
    edges = [{"from": "begin", "to": name} for name in waits]
    edges += [{"from": name, "to": "join"} for name in waits]
    spec = {"name": "desk", "entry": "begin", "nodes": nodes, "edges": edges}
    return w.workflow_graph(spec)


def build_function(**waits: Any) -> w.Workflow:
    agents = {
        name: w.Agent(scripted(wait, f"{name} is over"), name=name, await_resumption=True)
        for name, wait in waits.items()
    }
    last = w.Agent(scripted("all is over"), name="join")

    @w.workflow(name="desk")
    async def desk(wf: w.WorkflowContext, task: str) -> str:
        await wf.parallel(*[wf.run(agent, task) for agent in agents.values()])
        return (await wf.run(last, task)).output

    return desk


FORMS = pytest.mark.parametrize("build", [build_graph, build_function])


@asynccontextmanager
async def serve(runtime: Runtime, *flows: Any) -> AsyncIterator[None]:
    serving = asyncio.create_task(runtime.serve(*flows, grace=2.0))
    try:
        yield
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def until_parked(handle: Any, *, resumes: int = 0) -> None:
    """Wait until the workflow is parked, and nobody drives it."""
    while True:
        wish = await handle._wish()
        entries = await handle._entries()
        if sum(type(one) is RunResumed for one in entries) >= resumes:
            if await handle.status() == "parked" and wish.due is None:
                return
        await asyncio.sleep(0.05)


@FORMS
async def test_timer_of_a_node_wakes_the_workflow(build: Any, own_world: Runtime):
    flow, begun = build(wait=wait_for(timeout="20s")), seams.now()
    handle = await own_world.submit(flow, "go")
    out = await handle.result(timeout=200)
    assert (out.status, out.output) == ("done", "all is over")
    assert 20 <= seams.now() - begun < 30


@FORMS
async def test_event_wakes_its_node_alone(build: Any, own_world: Runtime):
    flow = build(
        first=wait_for(on_event="shop.open"), second=wait_for(on_event="bank.open", timeout="30s")
    )
    async with serve(own_world, flow):
        handle = await own_world.submit("desk", "go", session_id="s")
        await until_parked(handle)
        await w.publish_event("shop.open", {"at": "nine"})
        await until_parked(handle, resumes=1)
        steps = {one.name: one.status for one in (await flow.run("go", session_id="s")).steps}
        assert (steps["first"], steps["second"]) == ("done", "running")
        await w.publish_event("bank.open")
        out = await handle.result(timeout=60)
    assert out.output == "all is over"
    result = await flow.resume("s")
    heard = [
        message.text
        for step in result.steps
        if step.name == "first"
        for message in (await w.sessions.agent_session_read(step.session_id)).messages
    ]
    assert any("on_event" in text and "nine" in text for text in heard)
    assert await count_starts(own_world, "s") == {1}


async def count_starts(runtime: Runtime, session_id: str) -> set[int]:
    """Return how many runs the sessions of a workflow have had."""
    counts: set[int] = set()
    for info in await runtime.store.sessions():
        if info.id.startswith(session_id):
            entries: Sequence[Any] = await runtime.store.read(info.id)
            counts.add(sum(type(entry) is RunStarted for entry in entries))
    return counts


@FORMS
async def test_changed_file_wakes_the_workflow(build: Any, own_world: Runtime, tmp_path: Path):
    file = tmp_path / "ready"
    wait = wait_for(trigger={"kind": "file", "paths": [str(file)]})
    flow = build(wait=wait)
    async with serve(own_world, flow):
        handle = await own_world.submit("desk", "go")
        await until_parked(handle)
        file.write_text("yes")
        out = await handle.result(timeout=60)
    assert out.output == "all is over"


@FORMS
async def test_workflow_that_was_run_by_hand_is_woken_by_hand(build: Any, own_world: Runtime):
    flow = build(wait=wait_for(on_event="go"))
    parked = await flow.run("go", session_id="s")
    assert parked.status == "suspended"
    await w.publish_event("go")
    await w.fire_due(own_world.store)
    assert await own_world.store.consult(lambda tx: read_wish(tx, "s")) is None
    assert (await flow.resume("s")).output == "all is over"


async def test_approval_of_a_node_wakes_the_workflow(own_world: Runtime):
    paid: list[int] = []

    @w.tool(requires_approval=True)
    async def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    nodes = {
        "pay": {"tools": [pay], "model": scripted(call("pay", cents=5), "paid")},
        "tell": {"mode": "llm", "model": scripted("told")},
    }
    edges = [{"from": "pay", "to": "tell"}]
    graph = w.workflow_graph({"name": "desk", "nodes": nodes, "edges": edges})
    async with serve(own_world, graph):
        handle = await own_world.submit("desk", "go")
        await until_parked(handle)
        [question] = await approvals()
        await approve(question.id)
        out = await handle.result(timeout=60)
    assert (out.output, paid) == ("told", [5])


async def test_sub_agent_of_a_submitted_agent_wakes_it(own_world: Runtime):
    helper = w.Agent(
        scripted(wait_for(timeout="30s"), "helped"), name="helper", await_resumption=True
    )
    agent = w.Agent(scripted(call("helper", task="help"), "thanks"), name="boss", agents=[helper])
    out = await (await own_world.submit(agent, "go")).result(timeout=200)
    assert (out.status, out.output) == ("done", "thanks")


async def test_worker_that_is_drained_leaves_a_waiting_node_parked(own_world: Runtime):
    flow = build_graph(first=wait_for(timeout="20s"), second=wait_for(on_event="bank.open"))
    handle = await own_world.submit("desk", "go", session_id="s")
    async with serve(own_world, flow):
        await until_parked(handle)
    async with serve(own_world, flow):
        await w.publish_event("bank.open")
        await until_parked(handle, resumes=1)
        at = seams.now()
        out = await handle.result(timeout=200)
    assert out.output == "all is over" and seams.now() - at > 10


async def test_submitted_task_that_does_not_fit_is_refused(own_world: Runtime):
    @w.workflow
    async def two(wf: w.WorkflowContext, a: int, b: int) -> int:
        return await wf.step(lambda: a + b, name="add")

    handle = await own_world.submit(two, "[2, 3]")
    assert (await handle.result(timeout=60)).output == "5"
    handle = await own_world.submit(two, "2 and 3")
    out = await handle.result(timeout=600)
    assert (out.status, out.stop_reason) == ("failed", "poison")
    assert "JSON list" in (out.error or {})["message"]


async def test_draining_worker_hands_a_workflow_over_after_the_turn(own_world: Runtime):
    """The step under way parks before its next turn, no further one begins, and none runs twice."""
    entered, release, calls = asyncio.Event(), asyncio.Event(), list[str]()

    @w.tool
    async def work(what: str) -> str:
        """Work."""
        calls.append(what)
        entered.set()
        await release.wait()
        return "worked"

    model = scripted(call("work", what="a"), "a is over", "b is over")
    nodes = {"a": {"tools": [work], "model": model}, "b": {"mode": "llm", "model": model}}
    spec = {"name": "desk", "nodes": nodes, "edges": [{"from": "a", "to": "b"}]}
    graph = w.workflow_graph(spec)
    handle = await own_world.submit("desk", "go", session_id="s")
    worker = own_world.build_worker(graph)
    serving = asyncio.create_task(worker.serve())
    await entered.wait()
    stopping = asyncio.create_task(worker.stop(30.0))
    await asyncio.sleep(0.2)
    release.set()
    assert await stopping  # all has parked
    await serving
    assert len(model.requests) == 1
    assert (await handle._wish()).is_wanted
    async with serve(own_world, graph):
        out = await handle.result(timeout=60)
    assert (out.output, calls) == ("b is over", ["a"])
    assert [step.name for step in (await graph.resume("s")).steps] == ["a", "b"]


@pytest.mark.parametrize("form", ["graph", "function"])
async def test_workflow_that_somebody_suspends_parks_between_steps(form: str, own_world: Runtime):
    @w.tool
    async def tell() -> str:
        """Tell."""
        await w.sessions.agent_session_post("s", "suspend", {"reason": "lunch"})
        return "told"

    first = w.Agent(scripted(call("tell"), "told"), name="first", tools=[tell])
    second = w.Agent(scripted("two"), name="second")

    @w.workflow
    async def lunch(wf: w.WorkflowContext, task: str) -> str:
        await wf.run(first, task)
        return (await wf.run(second, task)).output

    nodes = {"one": {"agent": first}, "two": {"agent": second}}
    spec = {"name": "l", "nodes": nodes, "edges": [{"from": "one", "to": "two"}]}
    flow = lunch if form == "function" else w.workflow_graph(spec)
    parked = await flow.run("go", session_id="s")
    assert (parked.status, parked.stop_reason) == ("suspended", "lunch")
    done = await flow.resume("s")
    assert (done.status, done.output) == ("done", "two")


async def test_changed_workflow_waits_for_the_code_that_it_was_begun_with(
    own_world: Runtime, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver, "CHANGED_SECONDS", 1.0)
    flow = build_graph(wait=wait_for(on_event="go"))
    handle = await own_world.submit("desk", "go", session_id="s")
    async with serve(own_world, flow):
        await until_parked(handle)
    other = w.workflow_graph({"name": "desk", "nodes": {"begin": {"mode": "llm", "task": "x"}}})
    async with serve(own_world, other.with_(model=scripted())):
        await w.publish_event("go")
        await asyncio.sleep(2)
        wish = await handle._wish()
        assert "another node 'begin'" in (wish.error or "")
        await asyncio.sleep(8)  # more often than a run may fail
        assert await handle.status() == "parked"
    async with serve(own_world, flow):
        assert (await handle.result(timeout=200)).output == "all is over"
