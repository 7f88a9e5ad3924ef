"""Bodies that belong to no session: alone in their transaction, and never spoiling another's."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from windlass.errors import StoreError
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    await made.commit(lambda tx: tx.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
    yield made
    await made.aclose()


def insert(n):
    return lambda tx: tx.execute("INSERT INTO t VALUES (?)", (n,)).rowcount


def numbers(tx):
    return [n for (n,) in tx.execute("SELECT n FROM t ORDER BY n")]


async def test_what_a_body_did_stays_and_what_failed_did_not_happen(store):
    assert await store.commit(insert(1)) == 1
    with pytest.raises(sqlite3.IntegrityError):
        await store.commit(lambda tx: (insert(2)(tx), insert(1)(tx)))
    assert await store.consult(numbers) == [1]


async def test_one_that_fails_leaves_its_neighbours_alone(store):
    outcomes = await asyncio.gather(
        *[store.commit(insert(n % 5)) for n in range(20)], return_exceptions=True
    )
    assert sum(outcome == 1 for outcome in outcomes) == 5
    assert await store.consult(numbers) == [0, 1, 2, 3, 4]


async def test_the_stores_own_tables_take_only_its_own_statements(store):
    sql = "CREATE TABLE windlass_thing (n)"
    with pytest.raises(StoreError, match="windlass_thing"):
        await store.commit(lambda tx: tx.execute(sql))
    await store.commit(lambda tx: tx.keep(f"{sql} /* windlass */"))
    with pytest.raises(StoreError, match="windlass_thing"):
        await store.commit(lambda tx: tx.execute("INSERT INTO windlass_thing VALUES (1)"))
    assert await store.commit(lambda tx: tx.dialect) == "sqlite"


async def test_a_body_that_began_ends_before_its_cancelled_caller_goes_on(tmp_path):
    made = SqliteStore(tmp_path / "s.db")
    task = asyncio.create_task(made.commit(lambda tx: tx.execute("CREATE TABLE t (n)") and 1))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await made.consult(numbers) == []  # the table is there
    await made.aclose()


async def test_a_reader_cannot_write(tmp_path):
    made = SqliteStore(tmp_path / "s.db")
    with pytest.raises(StoreError):
        await made.consult(lambda tx: tx.execute("CREATE TABLE t (n)"))
    await made.aclose()
