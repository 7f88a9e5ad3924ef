"""Drivers that were replaced settle nothing, and a parked session is not woken by what its driver left."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import windlass as w
from windlass import seams
from windlass.fleet.driver import SUSPECT_SECONDS, Driver
from windlass.fleet.limits import NO_LIMITS
from windlass.fleet.workers import beat, new_worker
from windlass.runtime.runtime import Runtime
from windlass.store.wishes import begin_drive, clear_wish, raise_wish, read_wish
from windlass.testing import call, scripted

pytestmark = pytest.mark.virtual_time
MINE, THEIRS = "host/1/a", "host/2/b"
NAP = call("agent_await_resumption", reason="early", conditions={"timeout": "1h"})


def build_driver(runtime, model, worker=MINE, **options):
    agent = w.Agent(model, name="writer", await_resumption=True, **options)
    agents = {"writer@1": agent}
    return Driver(runtime, runtime.store, agents, worker, NO_LIMITS, exclusive=False)


async def read(runtime, session):
    return await runtime.store.consult(lambda tx: read_wish(tx, session))


@pytest.mark.parametrize("reply", ["done", NAP])
async def test_driver_that_was_replaced_leaves_the_wish_to_the_other(reply):
    """A frozen worker goes on after its lease: the wish belongs to who took over."""
    async with Runtime(store="memory:", environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        session = handle.session_id
        theirs = msgspec.structs.replace(new_worker("queue", (), 1, 30.0), id=THEIRS)

        @w.tool
        async def work() -> str:
            """Let another worker begin meanwhile."""
            wish = await read(runtime, session)
            await runtime.store.commit(lambda tx: beat(tx, theirs))
            assert await runtime.store.commit(lambda tx: begin_drive(tx, wish, THEIRS, 1))
            return "ok"

        driver = build_driver(runtime, scripted(call("work"), reply, "never"), tools=[work])
        await driver.drive(session)
        wish = await read(runtime, session)
        assert wish.is_wanted and wish.worker == THEIRS and wish.since is not None


async def test_parked_session_whose_driver_died_before_it_settled_sleeps_on():
    model = scripted(NAP, "awake")
    async with Runtime(store="memory:", environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        session = handle.session_id
        driver = build_driver(runtime, model)

        def die(name: str) -> None:
            if name == "fleet.before_settle":
                raise KeyboardInterrupt

        with seams.watch_points(die), pytest.raises(KeyboardInterrupt):
            await driver.drive(session)
        assert (await read(runtime, session)).is_wanted
        await build_driver(runtime, model, THEIRS).drive(session)
        assert len(model.requests) == 1  # nobody has woken it
        assert not (await read(runtime, session)).is_wanted
        await asyncio.sleep(3601)
        await w.fire_due(runtime.store)
        assert (await read(runtime, session)).is_wanted
        await build_driver(runtime, model, THEIRS).drive(session)
        assert (await handle.result(timeout=5)).output == "awake"


async def test_message_to_a_parked_session_wakes_it_although_its_condition_holds_not():
    model = scripted(NAP, "awake")
    async with Runtime(store="memory:", environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        driver = build_driver(runtime, model)
        await driver.drive(handle.session_id)
        assert not (await read(runtime, handle.session_id)).is_wanted
        await runtime.store.post(handle.session_id, "resume", "now")
        assert await runtime.store.commit(lambda tx: raise_wish(tx, handle.session_id))
        await driver.drive(handle.session_id)
        assert (await handle.result(timeout=5)).output == "awake"


async def test_sessions_whose_processes_died_again_and_again_begin_one_after_the_other():
    """One of them kills its process: the others are not driven beside it, and not blamed for it."""
    began, go_on = [], asyncio.Event()

    @w.tool
    async def work() -> str:
        """Work."""
        began.append(seams.now())
        await go_on.wait()
        return "ok"

    async with Runtime(store="memory:", environ={}) as runtime:
        handles = [await runtime.submit("writer", "go") for _ in range(3)]

        def die(tx):
            for handle in handles[:2]:
                begin_drive(tx, read_wish(tx, handle.session_id), THEIRS, 2)

        await runtime.store.commit(die)
        replies = [call("work"), call("work"), call("work"), "done", "done", "done"]
        driver = build_driver(runtime, scripted(*replies), tools=[work])
        drives = [asyncio.create_task(driver.drive(one.session_id)) for one in handles]
        await seams.sleep(SUSPECT_SECONDS / 2)
        assert len(began) == 2  # one of the two, and the one that never died
        await seams.sleep(SUSPECT_SECONDS)
        assert len(began) == 3
        go_on.set()
        await asyncio.gather(*drives)
        assert [await one.status() for one in handles] == ["done"] * 3


async def test_worker_session_whose_process_was_replaced_often_is_not_given_up():
    """What a deploy or a kill interrupts is counted by the journal of the session, which knows progress."""
    driven = []

    class Workers:
        name, version = "writer", "1.workers"

        async def drive_session(self, wish, store, may_take_over):
            driven.append(wish.session)
            await store.commit(lambda tx: clear_wish(tx, wish.session, wish.number))
            return False

    async with Runtime(store="memory:", environ={}) as runtime:
        session = (await runtime.submit("writer", "go")).session_id
        driver = build_driver(runtime, scripted(NAP))
        await driver.drive(session)  # its run has begun, and waits

        def replace_often(tx):
            raise_wish(tx, session, agent="writer@1.workers")
            begin_drive(tx, read_wish(tx, session), THEIRS, 5)

        await runtime.store.commit(replace_often)
        agents = {"writer@1.workers": Workers()}
        await Driver(runtime, runtime.store, agents, MINE, NO_LIMITS).drive(session)
        assert driven == [session]
