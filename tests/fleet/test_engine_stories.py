"""A fleet on an engine with a queue: any Runtime submits, any worker drives, others take over."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import asyncpg
import msgspec
import pytest

import windlass as w
from windlass import seams
from windlass.errors import ConfigError
from windlass.fleet.workers import beat, list_workers, new_worker
from windlass.runtime.runtime import Runtime
from windlass.store.wishes import begin_drive, read_wish
from windlass.testing import call, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)
LEASE = 1.5
FIRST = [reply for _ in range(40) for reply in (call("work"), "done")]


@pytest.fixture(params=["procrastinate", "pgqueuer"])
def place(request):
    """Return the arguments of a Runtime on a database of its own."""
    return {"store": shared_server().schema(), "fleet": request.param}


@asynccontextmanager
async def served(runtime, *agents, **options):
    """Serve in the background while the block runs."""
    options = {"lease": LEASE, "grace": 1.0, **options}
    task = asyncio.create_task(runtime.serve(*agents, **options))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def build_agent(*replies, name="writer", **options):
    return w.Agent(scripted(*replies), name=name, **options)


async def test_run_that_is_submitted_here_is_driven_there(place):
    agent = build_agent('{"total": 7}', name="adder", output={"type": "object"})
    async with Runtime(**place) as here, Runtime(**place) as there:
        handle = await here.submit(agent, "Add.", key="order-7")
        assert await handle.status() == "queued"  # nobody serves it yet
        async with served(there, agent):
            out = await handle.result(timeout=30)
            again = await there.submit("adder", "Add.", key="order-7")
            assert again.session_id == handle.session_id
        assert (out.status, out.output) == ("done", {"total": 7})
        assert await there.store.consult(list_workers) == []


async def test_submission_within_a_transaction_of_the_caller_counts_when_it_commits(place):
    agent = build_agent("one", "two")
    async with Runtime(**place) as runtime:
        await runtime.submit(agent, "first")  # makes the tables
        connection = await asyncpg.connect(place["store"])
        with pytest.raises(RuntimeError):
            async with connection.transaction():
                lost = await runtime.submit(agent, "go", session_id="lost", connection=connection)
                raise RuntimeError("no")
        async with connection.transaction():
            kept = await runtime.submit(agent, "go", session_id="kept", connection=connection)
        await connection.close()
        async with served(runtime, agent):
            assert (await kept.result(timeout=30)).status == "done"
        with pytest.raises(w.NoSuchSession):
            await lost.status()


async def test_parked_run_goes_on_when_its_call_is_approved_from_anywhere(place):
    @w.tool(requires_approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    agent = build_agent(call("pay", cents=5), "done", tools=[pay])
    async with Runtime(**place) as here, Runtime(**place) as there:
        handle = await here.submit(agent, "Pay.")
        async with served(there, agent):
            async with asyncio.timeout(30):
                while await handle.status() != "parked":
                    await handle._changes.wait(handle.session_id, 0.05)
            (question,) = await w.approvals(here.store)
            await w.approve(question.id, store=here.store)
            out = await handle.result(timeout=30)
        assert out.status == "done" and out.tool_calls[0].result == "paid 5"


async def test_worker_that_ends_hands_its_runs_over_at_once(place):
    began, go_on = asyncio.Event(), asyncio.Event()

    @w.tool
    async def work() -> str:
        """Work."""
        began.set()
        await go_on.wait()
        return "worked"

    agent = build_agent(call("work"), "done", tools=[work])
    async with Runtime(**place) as one, Runtime(**place) as other:
        handle = await one.submit(agent, "go")
        async with served(one, agent, grace=20.0, lease=30.0):
            async with asyncio.timeout(30):
                await began.wait()
            asyncio.get_running_loop().call_later(0.2, go_on.set)
        assert await handle.status() == "parked"
        async with served(other, agent, lease=30.0):
            out = await handle.result(timeout=30)
        assert (out.status, len(out.tool_calls)) == ("done", 1)


async def test_run_of_a_silent_worker_is_taken_over_and_that_of_a_live_one_is_not(place):
    agent = build_agent("done", "done")
    async with Runtime(**place) as runtime:
        handles = {name: await runtime.submit(agent, "go") for name in ("lost", "alive")}
        lost = new_worker("other", ["writer@1"], 1, LEASE)
        alive = msgspec.structs.replace(lost, id="host/2/alive", lease=60.0)

        def begin(tx):
            for row, name in ((lost, "lost"), (alive, "alive")):
                beat(tx, row)
                begin_drive(tx, read_wish(tx, handles[name].session_id), row.id, 1)

        await runtime.store.commit(begin)
        async with served(runtime, agent):
            assert (await handles["lost"].result(timeout=30)).status == "done"
            assert await handles["alive"].status() == "running"
            late = msgspec.structs.replace(alive, seen_at=seams.now() - 99, lease=1.0)
            await runtime.store.commit(
                lambda tx: tx.keep(
                    "UPDATE windlass_workers SET seen_at = 0 WHERE id = ?", (late.id,)
                )
            )
            assert (await handles["alive"].result(timeout=30)).status == "done"


async def test_two_workers_share_what_waits_and_drive_nothing_twice(place):
    seen = []

    @w.tool
    async def work() -> str:
        """Work."""
        seen.append(1)
        return "ok"

    def build():
        return build_agent(*FIRST, tools=[work])

    async with Runtime(**place) as one, Runtime(**place) as other:
        handles = [await one.submit("writer", "go", priority=n % 3) for n in range(20)]
        async with served(one, build(), slots=4), served(other, build(), slots=4):
            results = [await handle.result(timeout=60) for handle in handles]
    assert {out.status for out in results} == {"done"} and len(seen) == 20


async def test_delayed_run_begins_when_it_is_due(place):
    agent = build_agent("done")
    async with Runtime(**place) as runtime:
        due = seams.now() + 1.0
        handle = await runtime.submit(agent, "go", not_before=due)
        async with served(runtime, agent):
            out = await handle.result(timeout=30)
        assert out.status == "done" and seams.now() >= due


async def test_engine_that_cannot_be_had_is_refused_before_anything_is_stored(tmp_path):
    agent = build_agent("done")
    async with Runtime(store=tmp_path / "a.db", fleet="procrastinate") as runtime:
        with pytest.raises(ConfigError, match="needs a store in Postgres"):
            await runtime.submit(agent, "go")
        assert await runtime.store.sessions() == []
        with pytest.raises(ConfigError, match="lease is a number of seconds from 1"):
            await runtime.serve(agent, lease=0)


@pytest.mark.parametrize("fleet", ["local", "procrastinate", "pgqueuer"])
async def test_many_submissions_at_once_are_all_there_and_one_key_is_one_run(fleet):
    async with Runtime(store=shared_server().schema(), fleet=fleet) as runtime:
        handles = await asyncio.gather(*(runtime.submit("writer", "go") for _ in range(40)))
        assert len({handle.session_id for handle in handles}) == 40
        same = await asyncio.gather(*(runtime.submit("writer", "go", key="k") for _ in range(20)))
        assert len({handle.session_id for handle in same}) == 1
        assert len(await runtime.store.sessions()) == 41
