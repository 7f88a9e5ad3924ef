"""The local engine keeps the promises of an engine, on every store."""

from __future__ import annotations

import asyncio

import pytest

import windlass as w
from windlass import seams
from windlass.fleet.driver import Driver
from windlass.fleet.limits import NO_LIMITS
from windlass.fleet.local import LocalFleet
from windlass.fleet.locks import FileLock
from windlass.runtime.runtime import Runtime
from windlass.store.memory import MemoryStore
from windlass.store.postgres.store import PostgresStore
from windlass.store.sqlite.store import SqliteStore
from windlass.store.wishes import read_wish
from windlass.testing import scripted
from windlass.testing.fleet_kit import FleetKit
from windlass.testing.postgres import MISSING, find_binaries, shared_server


@pytest.mark.virtual_time
class TestMemory(FleetKit):
    def store(self, folder):
        return MemoryStore()

    def engine(self, store):
        return LocalFleet(store)


@pytest.mark.virtual_time
class TestSqlite(FleetKit):
    def store(self, folder):
        return SqliteStore(folder / "fleet.db")

    def engine(self, store):
        return LocalFleet(store)


@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
class TestPostgres(FleetKit):
    def store(self, folder):
        return PostgresStore(shared_server().schema())

    def engine(self, store):
        return LocalFleet(store)


async def test_lock_of_a_file_is_held_by_one_and_free_again(tmp_path):
    one, other = FileLock(tmp_path / "a.db"), FileLock(tmp_path / "a.db")
    assert await one.try_acquire() and await one.try_acquire()
    assert not await other.try_acquire()
    await one.release()
    assert await other.try_acquire()
    await other.release()


@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
async def test_lock_of_a_server_is_held_by_one_process_and_goes_with_its_connection():
    url = shared_server().schema()
    one, other = PostgresStore(url), PostgresStore(url)
    assert await one.try_driver_lock() and await one.try_driver_lock()
    assert not await other.try_driver_lock()
    await one.release_driver_lock()
    async with asyncio.timeout(30):
        while True:  # the server may take a moment to notice
            if await other.try_driver_lock():
                break
    await one.aclose()
    await other.aclose()


@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
async def test_lock_that_is_released_while_it_is_taken_is_free():
    """An engine that stops while it connects keeps neither the connection nor the lock."""
    url = shared_server().schema()
    one, other = PostgresStore(url), PostgresStore(url)
    await one.sessions()
    taking = asyncio.create_task(one.try_driver_lock())
    await asyncio.sleep(0)
    await one.release_driver_lock()
    await taking
    async with asyncio.timeout(30):
        while True:  # the server may take a moment to notice
            if await other.try_driver_lock():
                break
    await one.aclose()
    await other.aclose()


@pytest.mark.virtual_time
@pytest.mark.parametrize("where", ["fleet.after_begin", "fleet.before_settle"])
async def test_driver_that_dies_beside_a_run_neither_loses_nor_repeats_it(where):
    """A crash before the run drives it again; after its end nothing is left to do."""
    model = scripted("one", "two")
    died: list[str] = []

    def die(name: str) -> None:
        if name == where and not died:
            died.append(name)
            raise KeyboardInterrupt

    async with Runtime(store="memory:", environ={}) as runtime:
        handle = await runtime.submit("writer", "go")
        agents = {"writer@1": w.Agent(model, name="writer")}
        first = Driver(runtime, runtime.store, agents, "host/1/a", NO_LIMITS)
        with seams.watch_points(die), pytest.raises(KeyboardInterrupt):
            await first.drive(handle.session_id)
        wish = await runtime.store.consult(lambda tx: read_wish(tx, handle.session_id))
        # The end of a run and that nobody waits for it are one transaction.
        assert wish is not None and wish.is_wanted == (where == "fleet.after_begin")
        await Driver(runtime, runtime.store, agents, "host/2/b", NO_LIMITS).drive(handle.session_id)
        out = await handle.result(timeout=5)
        assert (out.output, len(model.requests)) == ("one", 1)
        wish = await runtime.store.consult(lambda tx: read_wish(tx, handle.session_id))
        assert wish is not None and not wish.is_wanted
