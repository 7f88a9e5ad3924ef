"""Machines whose clocks differ: leases and due times are those of the server."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

import windlass as w
from windlass import seams
from windlass.fleet.driver import Driver
from windlass.fleet.limits import NO_LIMITS
from windlass.fleet.sweep import claim_sweep
from windlass.fleet.workers import beat, drives_now, is_lost, new_worker
from windlass.runtime.runtime import Runtime
from windlass.store.postgres.server_clock import ServerClock
from windlass.store.wishes import next_due, read_wish
from windlass.testing import call, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

HOUR = 3600.0
NAP = call("agent_await_resumption", reason="early", conditions={"timeout": "1h"})
pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


@contextlib.contextmanager
def clock_ahead(monkeypatch, seconds):
    """Let this machine's clock be wrong."""
    real = seams.now
    with monkeypatch.context() as patch:
        patch.setattr(seams, "now", lambda: real() + seconds)
        yield


def build_driver(runtime, model):
    agents = {"writer@1": w.Agent(model, name="writer", await_resumption=True)}
    return Driver(runtime, runtime.store, agents, "host/1/a", NO_LIMITS, exclusive=False)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
async def test_worker_whose_clock_is_wrong_is_not_taken_for_lost(monkeypatch, ahead):
    async with Runtime(store=shared_server().schema(), environ={}) as runtime:
        store = runtime.store
        with clock_ahead(monkeypatch, ahead):
            worker = new_worker("queue", (), 1, 30.0)
            await store.commit(lambda tx: beat(tx, worker))
            journal = await store.open("held")
        assert await store.consult(lambda tx: drives_now(tx, worker.id))
        holder = (await store.info("held")).holder
        assert not await is_lost(store, "another", holder)
        await journal.close()


async def test_worker_that_is_lost_is_noticed_by_a_machine_whose_clock_is_behind(monkeypatch):
    async with Runtime(store=shared_server().schema(), environ={}) as runtime:
        store = runtime.store
        worker = msgspec.structs.replace(new_worker("queue", (), 1, 30.0), lease=-1.0)
        await store.commit(lambda tx: beat(tx, worker))
        with clock_ahead(monkeypatch, -HOUR):
            assert not await store.consult(lambda tx: drives_now(tx, worker.id))


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
async def test_run_submitted_by_a_machine_whose_clock_is_wrong_begins_at_once(monkeypatch, ahead):
    async with Runtime(store=shared_server().schema(), environ={}) as runtime:
        with clock_ahead(monkeypatch, ahead):
            handle = await runtime.submit("writer", "go")
        await build_driver(runtime, scripted("done")).drive(handle.session_id)
        assert (await handle.result(timeout=30)).output == "done"


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
async def test_session_is_woken_by_mail_of_a_machine_whose_clock_is_wrong(monkeypatch, ahead):
    async with Runtime(store=shared_server().schema(), environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        driver = build_driver(runtime, scripted(NAP, "awake"))
        await driver.drive(handle.session_id)
        assert await handle.status() == "parked"
        with clock_ahead(monkeypatch, ahead):
            await runtime.store.post(handle.session_id, "resume", {})
        await driver.drive(handle.session_id)
        assert (await handle.result(timeout=30)).output == "awake"


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
async def test_condition_of_a_machine_whose_clock_is_wrong_is_due_in_time(monkeypatch, ahead):
    async with Runtime(store=shared_server().schema(), environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        with clock_ahead(monkeypatch, ahead):
            await build_driver(runtime, scripted(NAP, "awake")).drive(handle.session_id)
        rows = await runtime.store.consult(
            lambda tx: tx.execute("SELECT due FROM windlass_triggers").fetchall()
        )
        assert [round((due - seams.now()) / HOUR) for (due,) in rows] == [1]


async def test_turns_to_sweep_are_by_the_server(monkeypatch):
    async with Runtime(store=shared_server().schema(), environ={}) as runtime:
        with clock_ahead(monkeypatch, HOUR):
            assert await runtime.store.commit(lambda tx: claim_sweep(tx, 60.0)) is None
        left = await runtime.store.commit(lambda tx: claim_sweep(tx, 60.0))
        assert left is not None and 0 < left <= 60


async def test_wish_that_was_postponed_waits_by_the_server(monkeypatch):
    async with Runtime(store=shared_server().schema(), environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        driver = build_driver(runtime, scripted("done"))

        async def fail(*_arguments, **_how):
            raise RuntimeError("not now")

        with clock_ahead(monkeypatch, HOUR), monkeypatch.context() as patch:
            patch.setattr(w.Agent, "run", fail)
            await driver.drive(handle.session_id)
        coming = await runtime.store.consult(lambda tx: next_due(tx, seams.now()))
        wish = await runtime.store.consult(lambda tx: read_wish(tx, handle.session_id))
        assert wish is not None and "not now" in (wish.error or "")
        assert coming is not None and coming - seams.now() < 60


async def test_clock_of_the_server_goes_on_when_that_of_the_machine_is_set(monkeypatch):
    clock = ServerClock()
    assert clock.is_old and clock.now() == pytest.approx(seams.now(), abs=5)
    async with Runtime(store=shared_server().schema(), environ={}) as runtime:
        await runtime.store.sessions()
        before = runtime.store.read_clock()
        with clock_ahead(monkeypatch, HOUR):
            assert runtime.store.read_clock() - before < 60
        assert not runtime.store.clock.is_old
