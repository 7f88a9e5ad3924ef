"""Postgres goes away and comes back: what was acknowledged is there, and nothing is there twice."""

import asyncio
import time

import pytest

from windlass.errors import Locked, StaleWriter, StoreError
from windlass.events import ToolResulted
from windlass.store.postgres import PostgresStore
from windlass.testing.postgres import MISSING, find_binaries, own_server, shared_server
from windlass.testing.store_pieces import (
    add,
    effects,
    insert,
    mail,
    make_table,
    note,
    numbers,
    result,
)

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


@pytest.fixture
async def store():
    store = PostgresStore(shared_server().schema())
    yield store
    await store.aclose()


class Storm:
    """Sessions that write rows and run bodies, each after the other is acknowledged, until told."""

    def __init__(self, store, sessions):
        self.store, self.sessions, self.over = store, sessions, False
        self.rows, self.done = [0] * sessions, [0] * sessions

    async def writer(self, number):
        journal = await self.store.open(f"s{number}")
        turn = 0
        while not self.over:
            turn += 1
            if turn % 3:
                await add(journal, note(self.rows[number] + 1))
                self.rows[number] += 1
            else:
                call = self.done[number] + 1
                effect = number * 1_000_000 + call
                await journal.commit(insert(effect), lambda _, c=call: [result(f"c{c}", "ok")])
                self.done[number] += 1
        await journal.close()

    async def run(self, trouble):
        journal = await self.store.open("tables")
        await journal.commit(make_table, lambda _: [])
        await journal.close()
        writers = [asyncio.create_task(self.writer(n)) for n in range(self.sessions)]
        try:
            await trouble(self)
        finally:
            self.over = True
            await asyncio.gather(*writers)

    async def check(self):
        """Acknowledged and found are the same, in order; an effect stands beside each result."""
        happened = await self.store.consult(effects)
        expected = []
        for number in range(self.sessions):
            entries = await self.store.read(f"s{number}")
            await self.store.verify(f"s{number}")
            assert numbers(entries) == list(range(1, self.rows[number] + 1))
            results = [e.call_id for e in entries if isinstance(e, ToolResulted)]
            assert results == [f"c{n}" for n in range(1, self.done[number] + 1)]
            expected += [number * 1_000_000 + n for n in range(1, self.done[number] + 1)]
        assert happened == sorted(expected)


def restarting(server, times):
    async def trouble(storm):
        for _ in range(times):
            rows, done = sum(storm.rows), sum(storm.done)
            while sum(storm.rows) < rows + storm.sessions or sum(storm.done) < done + 8:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(server.restart)

    return trouble


async def test_the_server_is_restarted_under_writers():
    with own_server(durable=False) as server:
        storm = Storm(store := PostgresStore(server.url()), 20)
        await storm.run(restarting(server, 2))
        await storm.check()
        await store.aclose()


@pytest.mark.deep
async def test_the_server_is_restarted_twenty_times_with_a_hundred_writes_in_flight():
    with own_server() as server:
        storm = Storm(store := PostgresStore(server.url(), busy_timeout=300), 100)
        await storm.run(restarting(server, 20))
        await storm.check()
        assert min(storm.rows) > 0
        await store.aclose()
