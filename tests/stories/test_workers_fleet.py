"""Workers of a fleet: any process that serves the agent takes them up, and their handles work anywhere."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

import windlass as w
from tests.fleet.team import build_boss, create_table, expect_payments, read_payments
from windlass import seams
from windlass.events import InboxTaken, RunEnded, RunResumed, WorkerUpdate
from windlass.fleet.overview import read_fleet
from windlass.fleet.workers import list_workers
from windlass.runtime.runtime import Runtime
from windlass.store.wishes import read_wish
from windlass.testing import call, scripted
from windlass.workers.record import read_worker

pytestmark = pytest.mark.virtual_time


async def read(store, session_id):
    return await store.consult(lambda tx: read_wish(tx, session_id))


@asynccontextmanager
async def serving(runtime, *agents, **options):
    """Serve agents while the block runs."""
    known = len(await runtime.store.consult(list_workers))
    task = asyncio.create_task(runtime.serve(*agents, **options))
    while len(await runtime.store.consult(list_workers)) == known:
        await seams.sleep(0.01)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_parked_parent_is_woken_by_the_ends_of_its_workers(own_world):
    await create_table(own_world.store)
    async with serving(own_world, build_boss()):
        handle = await own_world.submit("boss", "hire 3")
        out = await handle.result(timeout=120)
    text = "w0: completed paid 0, w1: completed paid 1, w2: completed paid 2"
    assert (out.status, out.output) == ("done", text)
    assert await read_payments(own_world.store) == expect_payments(3)
    workers = await w.list_agents(store=own_world.store)
    assert [one.status for one in workers] == ["completed"] * 3
    for one in workers:
        assert not (await read(own_world.store, one.id)).is_wanted
        entries = await own_world.store.read(one.id)
        assert len([e for e in entries if type(e) is WorkerUpdate]) == 1
    entries = await own_world.store.read(handle.session_id)
    told = [e for e in entries if type(e) is InboxTaken and e.item == "result"]
    names = {name for entry in told for name in dict(entry.payload)}
    assert names == {one.id for one in workers}
    resumed = [e for e in entries if type(e) is RunResumed]
    assert 1 <= len(resumed) <= 3
    assert not (await read(own_world.store, handle.session_id)).is_wanted


class Crew:
    """The same agents in each process: a lead that hires workers, and workers that work once a task.

    The tool `work` waits while the gate is closed, and notes which tasks were worked on.
    """

    def __init__(self):
        self.gate, self.begun, self.worked = asyncio.Event(), asyncio.Event(), []
        self.gate.set()

    def build(self, *, extra=(), **config):
        """Build the lead; a worker has its tools and its model."""
        model, crew = Speaker(), self

        @w.tool(keyed=True)
        async def work(what: str) -> str:
            """Work."""
            crew.begun.set()
            await crew.gate.wait()
            crew.worked.append(what)
            return "ok"

        @w.tool(keyed=True)
        async def hire(ctx: w.ToolContext[None], task: str) -> str:
            """Hire a worker."""
            tools = [work, hire, *extra]
            node = {"model_policy": {"model": model}, "tools": tools}
            worker = await w.spawn_agent({"task": task, "node": node, **config}, parent=ctx)
            return worker.id

        return w.Agent(model, name="lead", tools=[work, hire])


class Speaker(w.Model):
    """Calls the tool that a task names, once for each thing that it is told; then says so."""

    provider, name = "speaker", "speaker"

    async def respond(self, request, emit):
        heard = [m.text for m in request.messages if m.role == "user"]
        blocks = [one for m in request.messages for one in m.content]
        done = [one for one in blocks if isinstance(one, w.ToolResult)]
        if len(done) < len(heard):
            word, _, rest = heard[len(done)].partition(" ")
            made = call("hire", task=rest) if word == "hire" else call("work", what=rest or word)
            made = w.ToolCall(f"c{len(done)}", made.name, made.arguments)
            return w.Response(w.Message("assistant", (made,)), w.Usage(10, 5), "tool_use")
        said = done[-1].text if heard[-1].startswith("hire") else f"did {heard[-1]}"
        return w.Response(w.Message("assistant", said), w.Usage(10, 5), "end_turn")


def other_process(world):
    """Return a Runtime on the same store, as another process would have it."""
    given = world._given_store
    return Runtime(store=world.store if given == "memory:" else given, environ={})


async def hire_by_hand(world, agent, task="work a"):
    """Run the lead by hand; return the id of the worker that it hired."""
    out = await agent.run(f"hire {task}", store=world.store)
    return out.final_text


async def test_worker_whose_process_ends_goes_on_in_one_that_serves_its_agent(own_world):
    crew = Crew()
    crew.gate.clear()
    async with other_process(own_world) as first:
        worker_id = await hire_by_hand(first, crew.build())
        await crew.begun.wait()
    crew.gate.set()
    assert crew.worked == []
    [known] = await w.list_agents(store=own_world.store)
    assert (known.id, known.status) == (worker_id, "suspended")
    async with serving(own_world, crew.build()):
        done = await w.wait_agent(worker_id, store=own_world.store)
    assert (done.status, done.text, done.agent) == ("completed", "did work a", "lead@1")
    assert crew.worked == ["a"]
    entries = await own_world.store.read(worker_id)
    assert len([e for e in entries if type(e) is WorkerUpdate]) == 1
    assert not (await read(own_world.store, worker_id)).is_wanted


async def test_worker_that_its_process_drives_is_not_driven_by_the_fleet(own_world):
    crew = Crew()
    crew.gate.clear()
    async with other_process(own_world) as first, serving(own_world, crew.build()):
        worker_id = await hire_by_hand(first, crew.build())
        await crew.begun.wait()
        await seams.sleep(12)
        wish = await read(own_world.store, worker_id)
        assert wish.is_wanted and wish.tries == 0
        crew.gate.set()
        done = await w.wait_agent(worker_id, store=first.store)
        assert (done.status, crew.worked) == ("completed", ["a"])
        starts = [e for e in await own_world.store.read(worker_id) if type(e) is RunResumed]
        assert starts == []
        assert not (await read(own_world.store, worker_id)).is_wanted


async def test_worker_with_code_that_no_agent_has_stays_with_its_process(own_world):
    @w.tool
    def lookup(what: str) -> str:
        """Look it up."""
        return what

    crew = Crew()
    crew.gate.clear()
    async with other_process(own_world) as first:
        agent = crew.build(extra=[lookup])
        worker_id = await hire_by_hand(first, agent)
        await crew.begun.wait()
    async with serving(own_world, crew.build()):
        await seams.sleep(70)
        [known] = await w.list_agents(store=own_world.store)
        assert known.status == "suspended"
        state = await read_fleet(own_world.store)
        [stuck] = [one for one in state.stuck if one.session == worker_id]
        assert "stays with the process" in stuck.why and "the tool lookup" in stuck.why
        wish = await read(own_world.store, worker_id)
        assert (wish.is_wanted, wish.tries) == (True, 0)
        crew.gate.set()
        code = {"tools": [*agent.plan.tools.values(), lookup], "model": Speaker()}
        worker = await w.resume_agent(worker_id, options=code, store=own_world.store)
        assert worker.stays == ("the tool lookup",)
        done = await w.wait_agent(worker, store=own_world.store)
        assert (done.status, crew.worked) == ("completed", ["a"])
    assert not (await read(own_world.store, worker_id)).is_wanted


@pytest.mark.parametrize("mode", ["inherit", "fork"])
async def test_handle_works_from_a_process_without_the_code(own_world, mode):
    """One process serves; another one has the store, and nothing but the id."""
    crew = Crew()
    agent = crew.build(carry={"transcript_mode": mode})
    async with other_process(own_world) as client, serving(own_world, agent):
        with own_world.as_current():
            handle = await own_world.submit("lead", "hire work a")
            worker_id = (await handle.result(timeout=60)).output
        done = await w.wait_agent(worker_id, store=client.store)
        assert (done.status, done.text) == ("awaiting", "did work a")
        again = await w.send_input(worker_id, "work b", store=client.store)
        assert (again.status, again.task) == ("running", "work b")
        done = await w.wait_agent(again, store=client.store)
        assert (done.status, done.text) == ("awaiting", "did work b")
        assert [one.task for one in done.history] == ["work a", "work b"]
        assert crew.worked == ["a", "b"]
        [known] = await w.list_agents(store=client.store)
        assert known.status == "awaiting"
        closed = await w.close_agent(worker_id, store=client.store)
        assert (closed.status, closed.is_closed) == ("completed", True)


async def test_worker_is_suspended_and_resumed_from_a_process_without_the_code(own_world):
    crew = Crew()
    crew.gate.clear()
    async with other_process(own_world) as client, serving(own_world, crew.build()):
        with own_world.as_current():
            handle = await own_world.submit("lead", "hire work a")
            worker_id = (await handle.result(timeout=60)).output
        await crew.begun.wait()
        suspending = asyncio.create_task(
            w.suspend_agent(worker_id, "the freeze", store=client.store)
        )
        await seams.sleep(1)
        crew.gate.set()
        worker = await suspending
        assert (worker.status, worker.suspension.reason) == ("suspended", "the freeze")
        await seams.sleep(10)  # nobody wakes it
        assert (await w.wait_agent(worker_id, store=client.store)).status == "suspended"
        assert not (await read(own_world.store, worker_id)).is_wanted
        await w.resume_agent(worker_id, "work again", store=client.store)
        done = await w.wait_agent(worker_id, store=client.store)
        assert (done.status, done.text) == ("completed", "did work again")
        assert crew.worked == ["a", "again"]


async def test_worker_of_a_process_that_is_drained_goes_on_in_the_next(own_world):
    crew = Crew()
    crew.gate.clear()
    async with other_process(own_world) as client:
        async with other_process(own_world) as first, serving(first, crew.build()):
            with first.as_current():
                handle = await first.submit("lead", "hire work a")
                worker_id = (await handle.result(timeout=60)).output
            await crew.begun.wait()
            asyncio.get_running_loop().call_later(1, crew.gate.set)
        async with serving(own_world, crew.build()):
            done = await w.wait_agent(worker_id, store=client.store)
    assert (done.status, done.text, crew.worked) == ("completed", "did work a", ["a"])


async def test_worker_of_a_worker_is_taken_up_as_well(own_world):
    crew = Crew()
    crew.gate.clear()
    async with other_process(own_world) as first:
        outer = await hire_by_hand(first, crew.build(), "hire work deep")
        await w.wait_agent(outer, store=first.store)
        await crew.begun.wait()
    crew.gate.set()
    async with serving(own_world, crew.build()):
        found = await w.list_agents(parent=outer, store=own_world.store)
        done = await w.wait_agent(found[0].id, store=own_world.store)
    assert (done.status, done.agent, crew.worked) == ("completed", "lead@1", ["deep"])


async def test_worker_of_an_agent_without_a_name_has_no_wish(own_world):
    """It is run by hand, as its parent is: no fleet takes it."""
    crew = Crew()
    agent = crew.build().with_(name=None)
    worker_id = await hire_by_hand(own_world, agent)
    done = await w.wait_agent(worker_id, store=own_world.store)
    assert (done.status, done.agent) == ("completed", None)
    assert await read(own_world.store, worker_id) is None


async def test_worker_that_is_closed_wakes_its_parent_as_well(own_world):
    await create_table(own_world.store)
    asks = {"rules": [{"ask": "pay"}]}
    boss = build_boss(approval_policy=asks)
    async with other_process(own_world) as client, serving(own_world, boss):
        handle = await own_world.submit("boss", "hire 1")
        found = []
        while not found or found[0].status != "suspended":
            await seams.sleep(0.1)
            found = await w.list_agents(store=client.store)
        assert await handle.status() == "parked"
        await w.close_agent(found[0].id, store=client.store)
        out = await handle.result(timeout=60)
    assert (out.status, out.output) == ("done", "w0: cancelled ")
    assert await read_payments(own_world.store) == []


async def test_tool_with_stricter_rules_than_the_agents_own_stays(own_world):
    """Another process has the function, and not the question that comes before it."""
    crew = Crew()
    seen = []

    @w.tool(keyed=True)
    async def work(what: str) -> str:
        """Work."""
        return "ok"

    @w.tool(keyed=True)
    async def hire(ctx: w.ToolContext[None], task: str) -> str:
        """Hire a worker that has to ask."""
        careful = w.Tool(
            "work", work.description, work.parameters, work.handler, requires_approval=True
        )
        node = {"model_policy": {"model": Speaker()}, "tools": [careful]}
        worker = await w.spawn_agent({"task": task, "node": node}, parent=ctx)
        seen.append(worker.stays)
        return worker.id

    agent = crew.build().with_(tools=[work, hire])
    worker_id = await hire_by_hand(own_world, agent)
    assert seen == [("model", "the tool work")]
    assert (await w.wait_agent(worker_id, store=own_world.store)).status == "suspended"


async def test_worker_runs_until_its_end_is_on_record(own_world):
    """A run can have ended while its artifacts are not kept: nobody is told of an end yet."""
    await create_table(own_world.store)
    async with serving(own_world, build_boss()):
        handle = await own_world.submit("boss", "hire 1")
        await handle.result(timeout=120)
    [one] = await w.list_agents(store=own_world.store)
    state = await read_worker(own_world.store, one.id)
    [at] = [n for n, entry in enumerate(state.entries) if type(entry) is WorkerUpdate]
    before = msgspec.structs.replace(state, entries=state.entries[:at])
    assert type(before.entries[-1]) is RunEnded and before.is_left
    assert (before.status, state.status) == ("running", "completed")


async def test_worker_with_a_workflow_is_woken_by_its_node(own_world):
    asked = call("agent_await_resumption", reason="night", conditions={"on_event": "dawn"})
    graph = {"name": "nap", "nodes": {"a": {"await_resumption": True}}}

    @w.tool(keyed=True)
    async def hire(ctx: w.ToolContext[None]) -> str:
        """Hire a worker."""
        graph["nodes"]["a"]["model"] = scripted(asked, "up")
        worker = await w.spawn_agent({"task": "Sleep.", "graph": graph}, parent=ctx)
        return worker.id

    lead = w.Agent(scripted(call("hire"), "hired"), name="lead", tools=[hire])
    async with serving(own_world, lead):
        handle = await own_world.submit("lead", "go")
        assert (await handle.result(timeout=30)).output == "hired"
        [worker] = await w.list_agents(store=own_world.store)
        while (await read_worker(own_world.store, worker.id)).status != "suspended":
            await seams.sleep(0.1)
        await seams.sleep(20)
        assert (await read_worker(own_world.store, worker.id)).status == "suspended"
        await w.publish_event("dawn", store=own_world.store)
        await seams.sleep(20)
        assert (await read_worker(own_world.store, worker.id)).status == "completed"
