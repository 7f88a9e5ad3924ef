"""Workers that nodes, steps and sub-agents of a submitted run spawn: their ends wake the whole run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.test_workers_fleet import other_process, read, serving
from windlass import seams
from windlass.runtime.runtime import Runtime
from windlass.testing import scripted

pytestmark = pytest.mark.virtual_time


class CallsOnce(w.Model):
    """Calls a tool, and says a text when it has the result: in any process the same."""

    provider, name = "calls", "once"

    def __init__(self, made: w.ToolCall, text: str) -> None:
        self._made, self._text = made, text

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        blocks = [one for message in request.messages for one in message.content]
        if any(isinstance(one, w.ToolResult) for one in blocks):
            return w.Response(w.Message("assistant", self._text), w.Usage(10, 5), "end_turn")
        return w.Response(w.Message("assistant", (self._made,)), w.Usage(10, 5), "tool_use")


class Desk:
    """The same program in each process: somebody hires a worker and is parked until it has ended."""

    def __init__(self) -> None:
        self.gate, self.begun = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.worked = 0

    def build_agent(self) -> w.Agent[None, str]:
        desk, clerk = self, CallsOnce(w.ToolCall("c1", "work", {}), "counted")

        @w.tool(keyed=True)
        async def work() -> str:
            """Work."""
            desk.begun.set()
            await desk.gate.wait()
            desk.worked += 1
            return "ok"

        @w.tool(keyed=True)
        async def hire(ctx: w.ToolContext[None]) -> str | w.Parked:
            """Hire a worker."""
            node = {"model_policy": {"model": clerk}, "tools": [work]}
            worker = await w.spawn_agent({"task": "Count.", "node": node}, parent=ctx)
            return w.Parked("it counts") if worker.status == "running" else worker.text

        return w.Agent(
            CallsOnce(w.ToolCall("c1", "hire", {}), "all is counted"), name="lead", tools=[hire]
        )

    def build_node(self) -> w.WorkflowGraph:
        return w.workflow_graph({"name": "desk", "nodes": {"lead": {"agent": self.build_agent()}}})

    def build_step(self) -> w.Workflow:
        lead = self.build_agent()

        @w.workflow(name="desk")
        async def desk(wf: w.WorkflowContext, task: str) -> str:
            return (await wf.run(lead, task)).output

        return desk

    def build_sub_agent(self) -> w.Agent[None, str]:
        model = CallsOnce(w.ToolCall("c1", "lead", {"task": "Count."}), "all is counted")
        return w.Agent(model, name="desk", tools=[self.build_agent().as_tool()])


async def until_parked(world: Runtime, handle: w.RunHandle) -> None:
    """Wait until the run is parked, and its driver has let it go."""
    while True:
        wish = await read(world.store, handle.session_id)
        if wish is not None and not wish.is_wanted and await handle.status() == "parked":
            return
        await seams.sleep(0.05)


FORMS = pytest.mark.parametrize("form", ["build_node", "build_step", "build_sub_agent"])


@FORMS
async def test_end_of_a_worker_wakes_the_run_that_its_step_belongs_to(
    form: str, own_world: Runtime
):
    desk = Desk()
    async with serving(own_world, getattr(desk, form)()):
        handle = await own_world.submit("desk", "Count all.")
        out = await handle.result(timeout=60)
    assert (out.status, out.output, desk.worked) == ("done", "all is counted", 1)
    [worker] = await w.list_agents(store=own_world.store)
    assert worker.status == "completed"
    for one in (worker.id, handle.session_id):
        wish = await read(own_world.store, one)
        assert wish is not None and not wish.is_wanted


@FORMS
async def test_worker_of_a_step_whose_process_ends_goes_on_where_the_run_is_served(
    form: str, own_world: Runtime
):
    desk = Desk()
    desk.gate.clear()
    async with other_process(own_world) as first:
        async with serving(first, getattr(desk, form)()):
            handle = await own_world.submit("desk", "Count all.")
            await desk.begun.wait()
            await until_parked(own_world, handle)
    desk.gate.set()
    assert desk.worked == 0
    async with serving(own_world, getattr(desk, form)()):
        out = await handle.result(timeout=200)
    assert (out.status, out.output, desk.worked) == ("done", "all is counted", 1)


async def test_run_is_told_once_of_a_worker_that_nobody_can_go_on_with(own_world: Runtime):
    """The second program has another agent of the name: it does not hire again."""
    desk = Desk()
    desk.gate.clear()
    async with other_process(own_world) as first:
        async with serving(first, desk.build_sub_agent()):
            handle = await own_world.submit("desk", "Count all.")
            await desk.begun.wait()
            await until_parked(own_world, handle)
    woken: list[Any] = []

    @w.tool(keyed=True)
    async def hire() -> w.Parked:
        """Hire nobody."""
        woken.append(seams.now())
        return w.Parked("for ever")

    lead = w.Agent(scripted(), name="lead", tools=[hire])
    other = w.Agent(scripted(), name="desk", tools=[lead.as_tool()])
    async with serving(own_world, other):
        await seams.sleep(300)
        assert await handle.status() == "parked"
    assert len(woken) == 1
