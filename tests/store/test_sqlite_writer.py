"""The writer thread: what it commits together, how bodies are kept short, what cancelling does."""

import asyncio
import logging
import sqlite3
import threading

import pytest

from windlass import seams
from windlass.errors import Locked, StoreError
from windlass.events import InboxTaken, IterationStart, Noted
from windlass.store import transaction
from windlass.store.sqlite import schema
from windlass.store.sqlite.store import SqliteStore
from windlass.store.transaction import BodyTooSlow
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


@pytest.fixture
async def store(tmp_path):
    store = SqliteStore(tmp_path / "sessions.db")
    yield store
    await store.aclose()


class Traced:
    """Everything SQLite and the named points say, in one list."""

    def __init__(self, monkeypatch):
        self.said = []
        connect = schema.connect

        def traced(path, busy_timeout, **how):
            # The connection as the store makes it, but listened to from its first statement.
            real = sqlite3.connect

            def listening(*args, **kwargs):
                connection = real(*args, **kwargs)
                connection.set_trace_callback(self.said.append)
                return connection

            with monkeypatch.context() as patch:
                patch.setattr(schema.sqlite3, "connect", listening)
                return connect(path, busy_timeout, **how)

        monkeypatch.setattr(schema, "connect", traced)

    def commits(self):
        return [i for i, said in enumerate(self.said) if said.upper().startswith(("COMMIT", "END"))]


async def test_every_commit_stands_between_its_points(tmp_path, monkeypatch):
    traced = Traced(monkeypatch)
    with seams.watch_points(lambda name: traced.said.append(f"point {name}")):
        store = SqliteStore(tmp_path / "s.db")
        journal = await store.open("s")
        await journal.commit(make_table, lambda _: [])
        await journal.commit(insert(1), lambda v: [result("c1", "1")])
        await add(journal, note(1), result("big", "x" * 100_000))
        await store.post("s", "steer", "hi")
        await store.fork("s", "t", journal.entries, 1)
        await store.delete("t")
        await store.prune(0)
        await journal.close()
        await (await store.open("s")).close()
        await store.sessions()
        await store.aclose()
    commits = traced.commits()
    assert len(commits) >= 9
    for place in commits:
        assert traced.said[place - 1] == "point journal.before_commit"
        assert traced.said[place + 1] == "point journal.after_commit"
    inside = False  # nothing is written outside of a transaction, where it would commit by itself
    for said in traced.said:
        word = said.split()[0].upper()
        if word in ("BEGIN", "COMMIT", "ROLLBACK") and "TO" not in said.upper().split():
            inside = word == "BEGIN"
        if word in ("INSERT", "UPDATE", "DELETE", "CREATE", "DROP"):
            assert inside, said
    points = [said[6:] for said in traced.said if said.startswith("point ")]
    for name in (
        "session.before_open",
        "session.after_open",
        "inbox.before_post",
        "inbox.after_post",
    ):
        assert name in points


async def test_many_sessions_share_a_commit(tmp_path, monkeypatch):
    traced = Traced(monkeypatch)
    store = SqliteStore(tmp_path / "s.db")
    journals = [await store.open(f"s{n}") for n in range(64)]
    before = len(traced.commits())
    for number in range(5):
        for journal in journals:
            journal.append(note(number))
            journal.flush()
        await asyncio.gather(*(journal.durable() for journal in journals))
    assert len(traced.commits()) - before < 5 * 64 / 4
    for journal in journals:
        assert numbers(await store.read(journal.session_id)) == list(range(5))
    await store.aclose()


async def test_a_large_value_is_stored_once(store):
    journal = await store.open("s")
    long = "x" * 100_000
    for number in range(5):
        await add(journal, result(f"c{number}", long), Noted("n", {"deep": [long]}))
    await journal.close()
    sizes = await store._read(
        lambda db: db.execute("SELECT count(*), sum(length(data)) FROM windlass_blobs").fetchone()
    )
    assert sizes == (1, 100_002)
    await store.delete("s")
    count = await store._read(
        lambda db: db.execute("SELECT count(*) FROM windlass_blobs").fetchone()
    )
    assert count == (0,)


async def test_a_row_that_cannot_be_written_is_taken_back_whole(store):
    journal = await store.open("s")
    await store.post("s", "steer", "x")
    await mail(journal)
    item = journal.mail[0]
    journal.take(item)
    journal.append(InboxTaken(item.id, "steer"))
    journal.append(Noted("bad", "\ud800"))
    with pytest.raises(StoreError, match=r"note entry \(2 of 2\).*surrogate"):
        journal.flush()
    assert journal.mail == [item] and len(journal.entries) == 1
    await add(journal, note(1))
    assert await store.read("s") == journal.entries
    assert await store.inbox("s") == [item]
    await journal.close()


# --------------------------------------------------------------------------- bodies


async def test_a_slow_body_is_reported(store, monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr(seams, "monotonic", lambda: now[0])
    journal = await store.open("s")

    def slow(tx):
        now[0] += 0.2
        return tx.execute("SELECT 1").fetchone()

    with caplog.at_level(logging.WARNING, "windlass.store"):
        await journal.commit(slow, lambda _: [])
    assert "200 ms" in caplog.text
    await journal.close()


async def test_a_body_without_end_is_interrupted_and_loses_alone(store, monkeypatch):
    """SQLite rolls the whole group back with an interrupted write; the others are written again."""
    ticks = [0.0]

    def clock():
        ticks[0] += 0.01
        return ticks[0]

    monkeypatch.setattr(seams, "monotonic", clock)
    monkeypatch.setattr(transaction, "LIMIT_SECONDS", 1.0)
    journal = await store.open("s")
    other = await store.open("other")
    await journal.commit(make_table, lambda _: [])
    endless = (
        "INSERT INTO effects WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT i FROM n"
    )
    journal.append(note(1))
    other.append(note(2))
    other.flush()
    commit = asyncio.create_task(
        journal.commit(lambda tx: tx.execute(endless), lambda _: [result("c1", "x")])
    )
    good = asyncio.create_task(other.commit(insert(5), lambda _: [result("c1", "5")]))
    with pytest.raises(BodyTooSlow, match="do its slow work before"):
        await commit
    assert await good == 5
    await add(journal, note(3))
    assert await journal.commit(effects, lambda _: []) == [5]
    assert numbers(await store.read("s")) == [1, 3]
    assert await store.read("s") == journal.entries
    assert await store.read("other") == other.entries
    await store.verify("s")
    await store.verify("other")
    await journal.close()
    await other.close()


async def test_a_body_that_thinks_too_long_is_stopped_at_its_next_statement(store, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(seams, "monotonic", lambda: now[0])

    def body(tx):
        make_table(tx)
        now[0] += transaction.LIMIT_SECONDS + 0.5
        insert(1)(tx)

    journal = await store.open("s")
    with pytest.raises(BodyTooSlow):
        await journal.commit(body, lambda _: [])
    tables = "SELECT count(*) FROM sqlite_master WHERE name = 'effects'"
    assert await journal.commit(lambda tx: tx.execute(tables).fetchone(), lambda _: []) == (0,)
    await journal.close()


async def test_a_body_may_not_touch_the_journal(store):
    journal = await store.open("s")
    for sql in (
        "DELETE FROM windlass_rows",
        "UPDATE windlass_sessions SET epoch = 9",
        "DROP TABLE windlass_rows",
        "CREATE TRIGGER t AFTER INSERT ON windlass_rows BEGIN SELECT 1; END",
        "CREATE TEMP TRIGGER t AFTER INSERT ON windlass_rows BEGIN DELETE FROM windlass_rows; END",
        "CREATE TEMP VIEW windlass_rows AS SELECT 1",
        "CREATE TEMP TABLE Windlass_Rows (key)",
        "CREATE VIEW windlass_other AS SELECT 1",
        "ALTER TABLE windlass_rows RENAME TO other",
        "ALTER TABLE windlass_rows ADD COLUMN more",
        "PRAGMA synchronous = OFF",
    ):
        with pytest.raises(StoreError, match="a body may not"):
            await journal.commit(lambda tx, sql=sql: tx.execute(sql), lambda _: [])
    for sql in (
        "SELECT count(*) FROM windlass_rows",
        "CREATE TABLE mine (windlass_key)",
        "CREATE INDEX mine_key ON mine (windlass_key)",
        "CREATE VIEW seen AS SELECT seq FROM windlass_rows",
        "INSERT INTO mine SELECT seq FROM seen",
        "UPDATE mine SET windlass_key = 7",
        "ALTER TABLE mine ADD COLUMN more",
        "CREATE TEMP TRIGGER t AFTER INSERT ON mine BEGIN SELECT 1; END",
    ):
        await journal.commit(lambda tx, sql=sql: tx.execute(sql).fetchall(), lambda _: [])
    await add(journal, note(1))
    assert await store.verify("s") == 2
    await journal.close()


async def test_bodies_see_the_callers_context(store):
    import contextvars

    who = contextvars.ContextVar("who")
    who.set("ann")
    journal = await store.open("s")
    assert await journal.commit(lambda _: (who.get(), threading.current_thread().name), no) == (
        "ann",
        "windlass-store-writer",
    )
    await journal.close()


def no(_value):
    return []


async def test_odd_exceptions_of_a_body_come_out(store):
    journal = await store.open("s")
    with pytest.raises(RuntimeError, match="StopIteration"):
        await journal.commit(lambda _: next(iter(())), no)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await journal.commit(lambda tx: tx.execute("SELECT * FROM nowhere"), no)
    await add(journal, note(1))
    await journal.close()


# --------------------------------------------------------------------------- cancelling


class Gate:
    """Holds the writer thread at a point until it is opened."""

    def __init__(self, name):
        self.name, self.reached, self.open = name, threading.Event(), threading.Event()

    def __call__(self, name):
        if name == self.name and not self.open.is_set():
            self.reached.set()
            self.open.wait(10)


async def test_a_commit_cancelled_before_its_turn_never_happens(store):
    journal = await store.open("s")
    await journal.commit(make_table, no)
    gate = Gate("journal.before_commit")
    with seams.watch_points(gate):
        journal.append(note(1))
        journal.flush()
        await asyncio.to_thread(gate.reached.wait, 10)
        journal.append(note(2))
        commit = asyncio.create_task(journal.commit(insert(1), lambda _: [result("c1", "1")]))
        await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        gate.open.set()
        await journal.durable()
    assert await journal.commit(effects, no) == []
    assert await store.result_of("s", "c1") is None
    assert numbers(await store.read("s")) == [1, 2]
    assert await store.read("s") == journal.entries
    await journal.close()


async def test_a_commit_cancelled_on_its_way_is_waited_for(store):
    journal = await store.open("s")
    await journal.commit(make_table, no)
    gate = Gate("journal.before_commit")
    with seams.watch_points(gate):
        commit = asyncio.create_task(journal.commit(insert(1), lambda _: [result("c1", "1")]))
        await asyncio.to_thread(gate.reached.wait, 10)
        journal.append(note(2))  # said while the commit was on its way
        commit.cancel()
        await asyncio.sleep(0)
        commit.cancel()
        await asyncio.sleep(0)
        assert not commit.done()
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await commit
    assert journal.entries[-2:] == [result("c1", "1"), IterationStart(2)]
    journal.flush()
    await journal.durable()
    assert await store.read("s") == journal.entries
    assert await journal.commit(effects, no) == [1]
    await journal.close()


async def test_waiting_for_the_disk_may_be_cancelled(store):
    journal = await store.open("s")
    gate = Gate("journal.before_commit")
    with seams.watch_points(gate):
        journal.append(note(1))
        journal.flush()
        waiting = asyncio.create_task(journal.durable())
        await asyncio.to_thread(gate.reached.wait, 10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.open.set()
    await journal.durable()
    assert numbers(await store.read("s")) == [1]
    await journal.close()


async def test_an_open_that_was_cancelled_leaves_the_session_free(store):
    await store.sessions()
    gate = Gate("journal.before_commit")
    with seams.watch_points(gate):
        opening = asyncio.create_task(store.open("s"))
        await asyncio.to_thread(gate.reached.wait, 10)
        with pytest.raises(Locked):
            await store.open("s")
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        gate.open.set()
    journal = await store.open("s")
    await store.post("s", "steer", "x")
    await add(journal, note(1))
    await journal.close()
