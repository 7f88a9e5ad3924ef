"""Who drives a session is on record with its opening: both or neither, on stores with transactions."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import windlass as w
from windlass import seams
from windlass.fleet.driver import MAX_TRIES, Driver
from windlass.fleet.engine import SeenWish
from windlass.fleet.limits import NO_LIMITS
from windlass.fleet.workers import beat, new_worker
from windlass.runtime.runtime import Runtime
from windlass.store.wishes import begin_drive, postpone_wish, raise_wish, read_wish
from windlass.testing import scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

MINE, THEIRS = "host/1/a", "host/2/b"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/fleet.db"
    if find_binaries() is None:
        pytest.skip(MISSING)
    return shared_server().schema()


def build_driver(runtime, model, worker=MINE, *, exclusive=False):
    agents = {"writer@1": w.Agent(model, name="writer")}
    return Driver(runtime, runtime.store, agents, worker, NO_LIMITS, exclusive=exclusive)


async def read(runtime, session):
    return await runtime.store.consult(lambda tx: read_wish(tx, session))


async def act_before_opening(runtime, driver, session, act):
    """Drive a session; `act` happens after its wish was read, and before it is opened."""
    real, acted = runtime.store.open, []

    async def open_later(*arguments, **how):
        if not acted:
            acted.append(True)
            await act()
        return await real(*arguments, **how)

    runtime.store.open = open_later
    try:
        await driver.drive(session)
    finally:
        runtime.store.open = real
    assert acted


async def test_first_drive_takes_no_transaction_of_its_own(url):
    begun = []

    def note(name):
        begun.append(name)

    async with Runtime(store=url, environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        with seams.watch_points(note):
            await build_driver(runtime, scripted("done")).drive(handle.session_id)
        assert (await handle.result(timeout=30)).output == "done"
        assert "fleet.after_begin" not in begun
        wish = await read(runtime, handle.session_id)
        assert (wish.worker, wish.tries, wish.is_wanted) == (MINE, 0, False)


async def test_session_that_another_worker_has_begun_meanwhile_is_left_to_it(url):
    async with Runtime(store=url, environ={}) as runtime:
        session = (await runtime.submit("writer", "go")).session_id
        theirs = msgspec.structs.replace(new_worker("queue", (), 1, 30.0), id=THEIRS)

        async def begin_there():
            wish = await read(runtime, session)
            await runtime.store.commit(lambda tx: beat(tx, theirs))
            assert await runtime.store.commit(lambda tx: begin_drive(tx, wish, THEIRS, 1))

        model = scripted("done")
        await act_before_opening(runtime, build_driver(runtime, model), session, begin_there)
        wish = await read(runtime, session)
        assert (wish.worker, wish.is_wanted, len(model.requests)) == (THEIRS, True, 0)
        assert (await runtime.store.info(session)).entries == 1  # nobody has opened it


async def test_session_that_was_woken_meanwhile_is_driven_by_its_new_wish(url):
    async with Runtime(store=url, environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        session = handle.session_id

        async def wake():
            await runtime.store.commit(lambda tx: raise_wish(tx, session))

        driver = build_driver(runtime, scripted("done"))
        await act_before_opening(runtime, driver, session, wake)
        assert (await handle.result(timeout=30)).output == "done"
        wish = await read(runtime, session)
        assert (wish.number, wish.is_wanted) == (2, False)


async def test_wish_that_was_seen_before_it_changed_is_read_again(url):
    async with Runtime(store=url, environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        session = handle.session_id
        seen = SeenWish(await read(runtime, session), 1)
        later = seams.now() + 60.0
        await runtime.store.commit(lambda tx: postpone_wish(tx, session, 1, later))
        model = scripted("done")
        await build_driver(runtime, model).drive(session, seen)
        assert len(model.requests) == 0 and (await read(runtime, session)).due == later
        await runtime.store.commit(lambda tx: raise_wish(tx, session))
        await build_driver(runtime, model).drive(session, seen)
        assert (await handle.result(timeout=30)).output == "done"
        wish = await read(runtime, session)
        assert (wish.number, wish.is_wanted, len(model.requests)) == (2, False, 1)


async def test_of_two_workers_at_once_one_drives(url):
    model = scripted("done", "again")
    async with Runtime(store=url, environ={}) as one, Runtime(store=url, environ={}) as two:
        for runtime, name in ((one, MINE), (two, THEIRS)):
            row = msgspec.structs.replace(new_worker("queue", (), 1, 30.0), id=name)
            await runtime.store.commit(lambda tx, row=row: beat(tx, row))
        handle = await one.submit("writer", "go")
        drivers = [build_driver(one, model), build_driver(two, model, THEIRS)]
        await asyncio.gather(*[driver.drive(handle.session_id) for driver in drivers])
        assert (await handle.result(timeout=30)).output == "done"
        assert len(model.requests) == 1


async def test_drives_that_fail_before_the_session_is_opened_are_counted(url, monkeypatch):
    async with Runtime(store=url, environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        driver = build_driver(runtime, scripted("done"), exclusive=True)

        async def fail(*_arguments, **_how):
            raise RuntimeError("no plan")

        monkeypatch.setattr(w.Agent, "run", fail)
        for tries in range(1, MAX_TRIES + 1):
            await runtime.store.commit(lambda tx: raise_due(tx, handle.session_id))
            await driver.drive(handle.session_id)
            wish = await read(runtime, handle.session_id)
            assert wish.tries == tries and "no plan" in wish.error
        await runtime.store.commit(lambda tx: raise_due(tx, handle.session_id))
        await driver.drive(handle.session_id)
        out = await handle.result(timeout=30)
        assert (out.status, out.stop_reason) == ("failed", "poison")


def raise_due(tx, session):
    """Let a wish that was postponed be due now."""
    tx.keep(
        "UPDATE windlass_wishes SET due = ? WHERE session = ? /* windlass */",
        (seams.now(), session),
    )
