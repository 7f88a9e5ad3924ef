"""What the world does to a database file: held, full, damaged, forked, forgotten."""

import asyncio
import gc
import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading

import pytest

from windlass.errors import Corrupt, Full, Locked, StaleWriter, StoreError
from windlass.events import ReplyFailed
from windlass.store.sqlite import schema
from windlass.store.sqlite.store import SqliteStore
from windlass.store.wishes import raise_wish
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


def python(script, *args, **more):
    code = [sys.executable, "-c", textwrap.dedent(script), *map(str, args)]
    return subprocess.Popen(
        code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


def holder(path):
    """A process that holds the database until its input ends."""
    process = python(
        """
        import sqlite3, sys
        db = sqlite3.connect(sys.argv[1], isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        print("held", flush=True)
        sys.stdin.read()
        db.execute("ROLLBACK")
        """,
        path,
    )
    assert process.stdout.readline() == b"held\n"
    return process


def let_go(process):
    process.communicate(timeout=10)
    assert process.returncode == 0


# --------------------------------------------------------------------------- held


async def test_a_held_database_is_waited_for(store):
    journal = await store.open("s")
    process = await asyncio.to_thread(holder, store.path)
    journal.append(note(1))
    journal.flush()
    waiting = asyncio.create_task(journal.durable())
    assert numbers(await store.read("s")) == []  # reading goes on meanwhile
    assert not waiting.done()
    await asyncio.to_thread(let_go, process)
    await waiting
    assert numbers(await store.read("s")) == [1]
    await journal.close()


async def test_after_the_wait_it_is_locked_and_nothing_is_lost(tmp_path):
    store = SqliteStore(tmp_path / "sessions.db", busy_timeout=0.01)
    journal = await store.open("s")
    await journal.commit(make_table, lambda _: [])
    process = await asyncio.to_thread(holder, store.path)
    journal.append(note(1))
    journal.flush()
    with pytest.raises(Locked, match="another process holds"):
        await journal.durable()
    journal.append(note(2))
    with pytest.raises(Locked):
        await journal.commit(insert(1), lambda _: [result("c1", "1")])
    with pytest.raises(Locked):
        await store.post("s", "cancel")
    with pytest.raises(Locked):
        await journal.close()
    await asyncio.to_thread(let_go, process)
    await journal.durable()
    assert await journal.commit(effects, lambda _: []) == []
    assert numbers(await store.read("s")) == [1, 2]
    assert await store.read("s") == journal.entries
    await journal.close()
    await store.aclose()


# --------------------------------------------------------------------------- full


async def limit(store, pages):
    await store._write(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone())


async def test_a_full_disk_keeps_rows_for_later_in_order(store):
    journal = await store.open("s")
    other = await store.open("other")
    await journal.commit(make_table, lambda _: [])
    await limit(store, 1)  # as small as it is now
    written = 0
    with pytest.raises(Full, match="make room"):
        for number in range(1, 200):
            journal.append(note(number))
            journal.append(result(f"c{number}", os.urandom(1500).hex()))
            journal.flush()
            written = number
            await journal.durable()
    journal.append(note(written + 1))
    journal.flush()
    with pytest.raises(Full):
        await journal.durable()
    with pytest.raises(Full):
        await journal.commit(insert(7), lambda _: [result("x", "y" * 9000)])
    seen = numbers(await store.read("s"))  # readable all the while
    assert seen == list(range(1, len(seen) + 1)) and len(seen) < written + 1
    await limit(store, 100_000)
    await journal.durable()
    assert numbers(await store.read("s")) == list(range(1, written + 2))
    assert await store.read("s") == journal.entries
    assert await journal.commit(effects, lambda _: []) == []
    await store.verify("s")
    await add(other, note(1))
    await other.close()
    await journal.close()


async def test_rows_kept_back_by_a_full_disk_are_written_at_the_end(store):
    journal = await store.open("s")
    await limit(store, 1)
    journal.append(result("c", os.urandom(9000).hex()))
    journal.flush()
    with pytest.raises(Full):
        await journal.durable()
    await limit(store, 100_000)
    await store.aclose()
    again = SqliteStore(store.path)
    assert await again.result_of("s", "c") is not None
    await again.aclose()


# --------------------------------------------------------------------------- damaged, or not ours


@pytest.mark.parametrize("keep", [100, 4096, 0.5])
async def test_a_truncated_file_is_named(tmp_path, keep):
    path = tmp_path / "sessions.db"
    first = SqliteStore(path)
    journal = await first.open("s")
    await add(journal, *(result(f"c{n}", os.urandom(500).hex()) for n in range(100)))
    await first.aclose()
    size = path.stat().st_size
    os.truncate(path, int(size * keep) if keep < 1 else keep)
    store = SqliteStore(path)
    with pytest.raises(Corrupt, match=r"sessions\.db|session 's'"):
        await store.read("s")
        await store.verify("s")
    await store.aclose()


async def test_a_file_that_is_no_database_is_named(tmp_path):
    path = tmp_path / "notes.db"
    path.write_bytes(b"These are my notes. " * 300)
    store = SqliteStore(path)
    for ask in (store.open, store.read):
        with pytest.raises(Corrupt, match="not a SQLite database; name another file"):
            await ask("s")
    await store.aclose()
    assert path.read_bytes().startswith(b"These are my notes. ")


async def test_garbled_pages_are_a_typed_error(tmp_path):
    path = tmp_path / "sessions.db"
    first = SqliteStore(path)
    journal = await first.open("s")
    await add(journal, *(result(f"c{n}", os.urandom(500).hex()) for n in range(100)))
    await first.aclose()
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = os.urandom(64)
    path.write_bytes(data)
    store = SqliteStore(path)
    with pytest.raises(StoreError):
        await store.read("s")
        await store.verify("s")
    await store.aclose()


async def test_a_file_from_before_the_books_is_upgraded_and_says_so(tmp_path, caplog):
    """The journals are as they were; the books begin now."""
    first = SqliteStore(tmp_path / "sessions.db")
    journal = await first.open("s")
    await add(journal, note(1))
    await journal.close()
    await first.aclose()
    with sqlite3.connect(first.path) as db:
        db.executescript(
            "DROP VIEW windlass_model_calls; DROP TABLE windlass_calls; DROP TABLE windlass_runs;"
            "ALTER TABLE windlass_sessions DROP COLUMN run;"
            "ALTER TABLE windlass_sessions DROP COLUMN holder; DROP TABLE windlass_beats;"
            "DROP TABLE windlass_wishes; DROP TABLE windlass_triggers; DROP TABLE windlass_workers;"
            "DROP TABLE windlass_sweeps; DROP TABLE windlass_allotments;"
            "UPDATE windlass_meta SET value = '1' WHERE key = 'schema'"
        )
    db.close()
    store = SqliteStore(first.path)
    journal = await store.open("s")
    assert "upgraded" in caplog.text and "cost table" in caplog.text
    assert numbers(journal.entries) == [1]
    await add(journal, ReplyFailed("timeout", "late", "p", "m"))
    await journal.close()
    assert [(c.session, c.outcome) for c in await store.calls()] == [("s", "timeout")]
    await store.aclose()


async def test_a_newer_schema_asks_for_an_upgrade(tmp_path):
    first = SqliteStore(tmp_path / "sessions.db")
    await (await first.open("s")).close()
    await first.aclose()
    with sqlite3.connect(first.path) as db:
        db.execute("UPDATE windlass_meta SET value = '99'")
    db.close()
    store = SqliteStore(first.path)
    with pytest.raises(StoreError, match="schema 99.*upgrade"):
        await store.read("s")
    await store.aclose()


async def test_schema_from_before_wishes_is_upgraded(tmp_path):
    first = SqliteStore(tmp_path / "sessions.db")
    journal = await first.open("s")
    await add(journal, note(1))
    await journal.close()
    await first.aclose()
    with sqlite3.connect(first.path) as db:
        db.executescript(
            "DROP TABLE windlass_wishes; DROP TABLE windlass_triggers; DROP TABLE windlass_workers;"
            "DROP TABLE windlass_sweeps; DROP TABLE windlass_allotments;"
            "UPDATE windlass_meta SET value = '3' WHERE key = 'schema'"
        )
    db.close()
    store = SqliteStore(first.path)
    assert await store.commit(lambda tx: raise_wish(tx, "s", agent="a", due=1.0)) == 1
    assert numbers(await store.read("s")) == [1]
    await store.aclose()
    with sqlite3.connect(first.path) as db:
        assert db.execute("SELECT value FROM windlass_meta").fetchone() == (str(schema.SCHEMA),)
    db.close()


@pytest.mark.parametrize("read_only", [False, True])
async def test_schema_of_the_next_version_is_used_as_it_is(tmp_path, read_only):
    """Old and new code share a store during a rolling deploy; the next version only adds."""
    first = SqliteStore(tmp_path / "sessions.db")
    await (await first.open("s")).close()
    await first.aclose()
    with sqlite3.connect(first.path) as db:
        db.executescript(
            "ALTER TABLE windlass_wishes ADD COLUMN colour TEXT;"
            "CREATE TABLE windlass_colours (name TEXT PRIMARY KEY);"
            f"UPDATE windlass_meta SET value = '{schema.SCHEMA + 1}' WHERE key = 'schema'"
        )
    db.close()
    store = SqliteStore(first.path, read_only=read_only)
    assert [info.id for info in await store.sessions()] == ["s"]
    if not read_only:
        await store.commit(lambda tx: raise_wish(tx, "s", agent="a", due=1.0))
        await (await store.open("s")).close()
    await store.aclose()
    with sqlite3.connect(first.path) as db:
        found = db.execute("SELECT value FROM windlass_meta").fetchone()
    db.close()
    assert found == (str(schema.SCHEMA + 1),)


async def test_schema_of_the_next_version_may_not_bring_expressions(tmp_path):
    first = SqliteStore(tmp_path / "sessions.db")
    await (await first.open("s")).close()
    await first.aclose()
    with sqlite3.connect(first.path) as db:
        db.executescript(
            "ALTER TABLE windlass_wishes ADD COLUMN evil TEXT AS (upper(session));"
            f"UPDATE windlass_meta SET value = '{schema.SCHEMA + 1}' WHERE key = 'schema'"
        )
    db.close()
    store = SqliteStore(first.path)
    with pytest.raises(StoreError, match="'windlass_wishes' is none of ours"):
        await store.read("s")
    await store.aclose()


async def test_a_database_of_your_own_may_hold_the_journal_too(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 7")
        db.execute("CREATE TABLE orders (id, paid)")
        db.execute("INSERT INTO orders VALUES (1, 0)")
    db.close()
    store = SqliteStore(path, add_tables=True)
    journal = await store.open("s")
    pay = "UPDATE orders SET paid = 1 WHERE id = 1"
    await journal.commit(lambda tx: tx.execute(pay).rowcount, lambda v: [result("c", str(v))])
    await journal.close()
    await store.aclose()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT paid FROM orders").fetchall() == [(1,)]
        assert db.execute("PRAGMA user_version").fetchone() == (7,)
    db.close()


async def test_paths_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "x.db", tmp_path):
        store = SqliteStore(path)
        with pytest.raises(StoreError, match="check the path"):
            await store.open("s")
        await store.aclose()


def test_a_read_only_database_says_what_to_do(tmp_path):
    sqlite3.connect(tmp_path / "x.db").executescript("CREATE TABLE t (n)").connection.close()
    db = sqlite3.connect(f"file:{tmp_path}/x.db?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError) as caught:
        db.execute("INSERT INTO t VALUES (1)")
    db.close()
    assert "allow writing" in str(schema.meaning(caught.value, tmp_path))


async def test_the_file_is_its_owners_own(tmp_path):
    store = SqliteStore(tmp_path / "new" / "deep" / "sessions.db")
    await (await store.open("s")).close()
    mode = stat.S_IMODE
    assert mode(store.path.stat().st_mode) == 0o600
    assert mode(store.path.parent.stat().st_mode) == 0o700
    for beside in store.path.parent.iterdir():
        assert mode(beside.stat().st_mode) == 0o600, beside
    await store.aclose()


# --------------------------------------------------------------------------- processes and threads


def test_a_forked_child_is_told_to_open_its_own(tmp_path):
    process = python(
        """
        import asyncio, os, sys, warnings
        warnings.simplefilter("ignore")
        from windlass.errors import StoreError
        from windlass.events import IterationStart
        from windlass.store.sqlite.store import SqliteStore

        async def main():
            store = SqliteStore(sys.argv[1])
            journal = await store.open("s")
            await store.read("s")
            pid = os.fork()
            if pid == 0:
                said = []
                journal.append(IterationStart(1))
                for ask in (lambda: store.read("s"), lambda: store.open("t"), journal.close):
                    try:
                        await ask()
                    except StoreError as error:
                        said.append("before os.fork()" in str(error))
                await store.aclose()
                os.write(1, repr(said).encode())
                os._exit(0)
            os.waitpid(pid, 0)
            journal.append(IterationStart(2))
            await journal.close()
            print(await store.verify("s"), len(await store.read("s")))
            await store.aclose()

        asyncio.run(main())
        """,
        tmp_path / "s.db",
    )
    out, err = process.communicate(timeout=30)
    assert out == b"[True, True, True]2 2\n", err


def test_a_store_nobody_closed_does_not_hang_the_exit_and_loses_nothing(tmp_path):
    process = python(
        """
        import asyncio, sys
        from windlass.events import IterationStart
        from windlass.store.sqlite.store import SqliteStore

        async def main():
            journal = await store.open("s")
            await store.read("s")
            for number in range(50):
                journal.append(IterationStart(number))
                journal.flush()

        store = SqliteStore(sys.argv[1])
        asyncio.run(main())
        """,
        tmp_path / "s.db",
    )
    assert process.communicate(timeout=30) == (b"", b"")
    assert process.returncode == 0

    async def count():
        store = SqliteStore(tmp_path / "s.db")
        rows = await store.verify("s")
        await store.aclose()
        return rows

    assert asyncio.run(count()) == 51


def test_loops_in_several_threads_share_a_store(tmp_path):
    store = SqliteStore(tmp_path / "s.db")
    failures = []

    async def run(name):
        journal = await store.open(name)
        for number in range(20):
            await add(journal, note(number))
        assert numbers(await store.read(name)) == list(range(20))
        await journal.close()

    def thread(index):
        async def many():
            await asyncio.gather(*(run(f"s{index}.{n}") for n in range(4)))

        try:
            asyncio.run(many())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=thread, args=(index,)) for index in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert len(asyncio.run(closing(store))) == 16


async def closing(store):
    listed = await store.sessions()
    await store.aclose()
    return listed


async def test_nothing_outlives_a_closed_store(tmp_path):
    def open_files():
        names = [
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if os.path.islink(f"/proc/self/fd/{fd}")
        ]
        return sorted(name for name in names if str(tmp_path) in name)

    def threads():
        return [t.name for t in threading.enumerate() if t.name.startswith("windlass-store")]

    before = threads()
    for _ in range(3):
        store = SqliteStore(tmp_path / "s.db")
        journal = await store.open("s")
        await add(journal, note(1))
        await store.read("s")
        assert len(threads()) == len(before) + 2 and open_files()
        await journal.close()
        await store.aclose()
    gc.collect()
    assert threads() == before
    assert open_files() == []
    assert not list(tmp_path.glob("s.db-*"))  # no log is left behind


async def test_a_loop_that_is_gone_does_not_stop_the_others(tmp_path):
    store = SqliteStore(tmp_path / "s.db")

    async def leave():
        journal = await store.open("left")
        journal.append(note(1))
        journal.flush()

    await asyncio.to_thread(lambda: asyncio.run(leave()))
    journal = await store.open("s")
    await store.post("left", "cancel")
    await add(journal, note(1))
    assert numbers(await store.read("left")) == [1]
    await journal.close()
    await store.aclose()


OTHER = """
import asyncio, sys
from windlass.events import IterationStart
from windlass.store.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.post("s", "cancel", "from elsewhere")
    sys.stdin.readline()
    journal = await store.open("s", take_over=True)
    journal.append(IterationStart(2))
    await journal.close()
    await store.aclose()

asyncio.run(main())
"""


async def test_another_process_posts_and_then_takes_over(store):
    journal = await store.open("s")
    await add(journal, note(1))
    process = python(OTHER, store.path)
    await mail(journal)
    assert journal.mail[0].payload == "from elsewhere"
    _, err = await asyncio.to_thread(process.communicate, b"\n", 20)
    assert process.returncode == 0, err
    journal.append(note(3))
    journal.flush()
    with pytest.raises(StaleWriter, match="taken over"):
        await journal.durable()
    with pytest.raises(StaleWriter):
        await journal.close()
    assert numbers(await store.read("s")) == [1, 2]
    again = await store.open("s")  # it may come back, and starts from what is there
    assert numbers(again.entries) == [1, 2] and len(again.mail) == 1
    await again.close()


async def test_a_read_that_was_waiting_when_the_store_was_closed_opens_nothing(tmp_path):
    store = SqliteStore(tmp_path / "sessions.db")
    reading = asyncio.create_task(store.sessions())
    await asyncio.sleep(0)  # it waits for the writer to make the tables
    await store.aclose()
    with pytest.raises(StoreError, match="closed"):
        await reading
    assert store._readers is None and store._reader is None


def test_a_reader_that_cannot_begin_is_closed(tmp_path, monkeypatch):
    closed = []

    class Refuses(sqlite3.Connection):
        def execute(self, *_):
            raise sqlite3.OperationalError("disk I/O error")

        def close(self):
            closed.append(self)
            super().close()

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Refuses, **k))
    with pytest.raises(sqlite3.OperationalError):
        schema.connect_reader(tmp_path / "x.db", 1.0)
    assert len(closed) == 1
