"""Postgres is away for longer than a store waits, and fails over: runs go on, and nothing is lost.

`make prove-fleet` plays both at full size.
"""

from __future__ import annotations

import asyncio

import pytest

import windlass as w
from tests.fleet.outage import play_failover, play_outage
from tests.fleet.takeover import Size
from windlass.errors import Locked
from windlass.fleet.jobs import cancel_all
from windlass.store.body_sessions import create_session, remove_stray_wish
from windlass.store.postgres.store import PostgresStore
from windlass.store.wishes import raise_wish, read_wish
from windlass.testing import call, scripted
from windlass.testing.postgres import MISSING, Server, find_binaries, own_server, shared_server
from windlass.testing.store_pieces import effects, insert, make_table

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


def build_payer(server: Server) -> tuple[w.Agent[None, str], asyncio.Event]:
    """Build an agent whose tool stops the server before it commits, and what tells that it has."""
    stopped = asyncio.Event()

    @w.tool(transactional=True)
    async def pay(ctx: w.ToolContext[None]) -> str:
        """Pay."""
        await asyncio.to_thread(server.stop)
        stopped.set()
        return await ctx.commit(lambda tx: insert(7)(tx) or "paid")

    return w.Agent(scripted(call("pay"), "done"), name="payer", tools=[pay]), stopped


@pytest.mark.parametrize("engine", ["local", "procrastinate", "pgqueuer"])
async def test_run_outlasts_an_outage_that_is_longer_than_its_store_waits(engine):
    """A client is refused after `busy_timeout`; what is driven waits for the server."""
    with own_server(durable=False) as server:
        store = PostgresStore(server.url(), busy_timeout=0.3)
        await store.commit(make_table)
        agent, stopped = build_payer(server)
        async with w.Runtime(store=store, environ={}, fleet=engine) as runtime:
            serving = asyncio.create_task(runtime.serve(agent, lease=1.5))
            handle = await runtime.submit("payer", "go", key="one")
            await stopped.wait()
            with pytest.raises(Locked, match="cannot be reached; start it and resume"):
                await runtime.submit("payer", "go", key="two")
            await asyncio.to_thread(server.start)
            out = await handle.result(timeout=30)
            assert (out.status, out.output) == ("done", "done")
            assert await store.consult(effects) == [7]
            serving.cancel()
            await asyncio.wait({serving})
        await store.aclose()


async def test_worker_that_ends_during_an_outage_does_not_wait_for_the_server():
    with own_server(durable=False) as server:
        store = PostgresStore(server.url(), busy_timeout=0.3)
        await store.commit(make_table)
        agent, stopped = build_payer(server)
        async with w.Runtime(store=store, environ={}) as runtime:
            serving = asyncio.create_task(runtime.serve(agent))
            await runtime.submit("payer", "go", key="one")
            await stopped.wait()
            serving.cancel()
            async with asyncio.timeout(30):
                await asyncio.wait({serving})
        async with asyncio.timeout(30):
            await store.aclose()


async def test_listener_that_loses_its_cancellation_does_not_keep_a_queue_from_its_next_start():
    cancelled: list[str] = []

    async def listen() -> None:
        while len(cancelled) < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append("once")

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await cancel_all([listening])
    assert listening.done()


async def test_wish_of_a_session_is_not_removed_because_a_lost_primary_does_not_know_it():
    store = PostgresStore(shared_server().schema())
    await store.commit(lambda tx: create_session(tx, "known"))
    for session in ("known", "unknown"):
        await store.commit(lambda tx, one=session: raise_wish(tx, one, agent="a", due=1.0))
        await store.commit(lambda tx, one=session: remove_stray_wish(tx, one))
    assert await store.consult(lambda tx: read_wish(tx, "known")) is not None
    assert await store.consult(lambda tx: read_wish(tx, "unknown")) is None
    await store.aclose()


def build_size(engine: str, **more: float) -> Size:
    """Return a small size."""
    return Size(engine, 2, 16, 8.0, 0, lease=1.5, pace=0.2, alone=True, **more)


@pytest.mark.deep
@pytest.mark.parametrize("engine", ["procrastinate", "pgqueuer"])
async def test_workers_come_back_by_themselves_after_an_outage(engine, monkeypatch):
    monkeypatch.setenv("WINDLASS_STORE_BUSY_TIMEOUT", "1")
    report = await play_outage(build_size(engine), away=4.0)
    assert report.problems == []
    assert report.report.books.ended["done"] == 16


@pytest.mark.deep
async def test_workers_go_on_at_a_standby_that_is_promoted():
    report = await play_failover(build_size("procrastinate"), notice=1.0)
    assert report.problems == []
    assert report.report.books.ended["done"] == 16
