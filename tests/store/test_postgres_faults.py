"""Postgres goes away and comes back: what was acknowledged is there, and nothing is there twice."""

import asyncio

import pytest

from tests.sizes import pick_size
from windlass.errors import ConfigError, Locked, StaleWriter, StoreError
from windlass.events import ToolResulted
from windlass.store.postgres.schema import SCHEMA
from windlass.store.postgres.store import PostgresStore
from windlass.store.wishes import raise_wish
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


class Storm:
    """Sessions that write rows and run bodies, each after the other is acknowledged, until told."""

    def __init__(self, store, sessions):
        self.store, self.sessions, self.over = store, sessions, False
        self.rows, self.done = [0] * sessions, [0] * sessions
        self.went_on = asyncio.Event()

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
            self.went_on.set()
        await journal.close()

    async def run(self, trouble):
        journal = await self.store.open("tables")
        await journal.commit(make_table, lambda _: [])
        await journal.close()
        self.writers = [asyncio.create_task(self.writer(n)) for n in range(self.sessions)]
        for writer in self.writers:
            writer.add_done_callback(lambda _: self.went_on.set())
        try:
            await trouble(self)
        finally:
            self.over = True
            await asyncio.gather(*self.writers)

    async def progress(self, rows, done):
        """Wait for so many more rows and bodies."""
        rows, done = rows + sum(self.rows), done + sum(self.done)
        while sum(self.rows) < rows or sum(self.done) < done:
            self.went_on.clear()
            await self.went_on.wait()
            for writer in self.writers:
                if writer.done():
                    writer.result()

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
            await storm.progress(storm.sessions, 8)
            await asyncio.to_thread(server.restart)

    return trouble


async def test_the_server_is_restarted_under_writers():
    with own_server(durable=False) as server:
        storm = Storm(store := PostgresStore(server.url()), 20)
        await storm.run(restarting(server, 2))
        await storm.check()
        await store.aclose()


@pytest.mark.deep
async def test_the_server_is_restarted_often_with_a_hundred_writes_in_flight():
    """`make prove-kills`: twenty times."""
    with own_server() as server:
        storm = Storm(store := PostgresStore(server.url(), busy_timeout=300), 100)
        await storm.run(restarting(server, pick_size(6, 20)))
        await storm.check()
        assert min(storm.rows) > 0
        await store.aclose()


# --------------------------------------------------------------------------- connections


def cut_off(name, also=""):
    """End the connections of a store at the server."""
    return int(
        shared_server().sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            f" WHERE application_name = '{name}' {also}"
        )
    )


async def test_every_connection_is_cut_again_and_again():
    """At any moment: the server stays, the connections go."""

    async def trouble(storm):
        for _ in range(10):
            assert await asyncio.to_thread(cut_off, "cut")
            await storm.progress(8, 2)

    store = PostgresStore(shared_server().schema() + "&application_name=cut")
    storm = Storm(store, 8)
    await storm.run(trouble)
    await storm.check()
    await store.aclose()


async def test_mail_comes_also_after_the_listener_was_cut_off():
    store = PostgresStore(shared_server().schema() + "&application_name=deaf")
    journal = await store.open("s")
    assert cut_off("deaf")
    posted = await store.post("s", "steer", "are you there?")
    await mail(journal)
    assert [item.id for item in journal.mail] == [posted]
    await journal.close()
    await store.aclose()


async def test_a_server_that_is_not_there_is_named_without_the_password(tmp_path):
    address = f"postgresql://ann:s3cret@/agents?host={tmp_path}"
    store = PostgresStore(address, busy_timeout=0.05)
    for ask in (store.open, store.read, store.delete):
        with pytest.raises(Locked, match="cannot be reached; start it and resume") as caught:
            await ask("s")
        error = caught.value
        while error is not None:
            assert "s3cret" not in str(error) and "s3cret" not in repr(error)
            error = error.__cause__ or error.__context__
    assert "s3cret" not in repr(store)
    await store.aclose()


async def test_what_the_server_refuses_is_said_in_our_words():
    server = shared_server()
    for address, words in (
        (server.url().replace("/postgres?", "/nowhere?"), "no such database; create it"),
        (server.url(search_path="nowhere"), "no schema to keep tables in"),
        (server.url().replace("windlass@", "stranger:s3cret@"), "stranger"),
    ):
        store = PostgresStore(address)
        with pytest.raises(StoreError, match=words) as caught:
            await store.open("s")
        assert "s3cret" not in str(caught.value)
        await store.aclose()


async def test_rows_wait_for_a_server_that_comes_back():
    with own_server(durable=False) as server:
        store = PostgresStore(server.url(), busy_timeout=0.1)
        journal = await store.open("s")
        server.stop()
        journal.append(note(1))
        journal.flush()
        with pytest.raises(Locked, match="cannot be reached"):
            await journal.durable()
        with pytest.raises(Locked, match="cannot be reached"):
            await journal.commit(make_table, lambda _: [])
        journal.append(note(2))
        server.start()
        journal.flush()
        await journal.durable()
        assert numbers(await store.read("s")) == [1, 2]
        await journal.close()
        await store.aclose()


async def test_schema_from_before_wishes_is_upgraded(store):
    url = store.address.url
    await (await store.open("s")).close()
    for table in ("wishes", "triggers", "workers", "sweeps", "allotments"):
        await store.commit(lambda tx, table=table: tx.keep(f"DROP TABLE windlass_{table}"))
    await store.commit(lambda tx: tx.keep("UPDATE windlass_meta SET value = '2'"))
    newer = PostgresStore(url)
    assert await newer.commit(lambda tx: raise_wish(tx, "s", agent="a", due=1.0)) == 1
    read = "SELECT value FROM windlass_meta"
    assert (await newer.consult(lambda tx: tx.execute(read).fetchone()))[0] == str(SCHEMA)
    await newer.aclose()


async def test_schema_of_the_next_version_is_used_as_it_is(store):
    """Old and new code share a store during a rolling deploy; the next version only adds."""
    url, read = store.address.url, "SELECT value FROM windlass_meta"
    await (await store.open("s")).close()
    for change in (
        "ALTER TABLE windlass_wishes ADD COLUMN colour text",
        "ALTER TABLE windlass_wishes ADD COLUMN hue bigint NOT NULL DEFAULT 0",
        "CREATE TABLE windlass_colours (name text PRIMARY KEY)",
        f"UPDATE windlass_meta SET value = '{SCHEMA + 1}'",
    ):
        await store.commit(lambda tx, change=change: tx.keep(change))
    older = PostgresStore(url)
    await older.commit(lambda tx: raise_wish(tx, "s", agent="a", due=1.0))
    await (await older.open("s")).close()
    assert (await older.consult(lambda tx: tx.execute(read).fetchone()))[0] == str(SCHEMA + 1)
    await older.aclose()
    change = "ALTER TABLE windlass_triggers ADD COLUMN x text NOT NULL"
    await store.commit(lambda tx: tx.keep(change))
    older = PostgresStore(url)
    with pytest.raises(StoreError, match="'x' on 'windlass_triggers' is none of ours"):
        await older.sessions()
    await older.aclose()


async def test_tables_of_a_newer_version_ask_for_an_upgrade(store):
    await (await store.open("s")).close()
    url = store.address.url
    await store.commit(lambda tx: tx.keep("UPDATE windlass_meta SET value = '99'"))
    newer = PostgresStore(url)
    with pytest.raises(StoreError, match="schema 99.*upgrade windlass"):
        await newer.sessions()
    await newer.aclose()


async def test_many_processes_may_make_the_tables_at_once():
    url = shared_server().schema()
    stores = [PostgresStore(url) for _ in range(8)]
    await asyncio.gather(*(store.open(f"s{n}") for n, store in enumerate(stores)))
    assert len(await stores[0].sessions()) == 8
    await asyncio.gather(*(store.aclose() for store in stores))


async def test_two_may_make_one_session_at_once():
    url = shared_server().schema()
    stores = [PostgresStore(url) for _ in range(4)]
    await stores[0].sessions()
    journals = await asyncio.gather(*(store.open("s", take_over=True) for store in stores))
    for journal in journals:
        journal.append(note(1))
        journal.flush()
    ended = await asyncio.gather(*(j.durable() for j in journals), return_exceptions=True)
    assert sum(error is None for error in ended) == 1
    assert all(isinstance(error, StaleWriter) for error in ended if error is not None)
    assert numbers(await stores[0].read("s")) == [1]
    assert await stores[0].verify("s") == 2
    await asyncio.gather(*(store.aclose() for store in stores))


async def test_text_that_postgres_cannot_hold_is_no_trouble_for_others(store):
    from windlass.events import RunStarted
    from windlass.testing.store_pieces import user

    journals = [await store.open(f"s{n}") for n in range(3)]
    for journal in journals:
        journal.append(RunStarted("r\0", "agent", "a\0nn", "p", "m"))
        journal.append(user("nul \0 in it"))
        journal.flush()
    await asyncio.gather(*(journal.durable() for journal in journals))
    assert (await store.read("s1"))[-1] == user("nul \0 in it")
    assert (await store.info("s1")).title == "nul \ufffd in it"
    with pytest.raises(ConfigError, match="plain name"):
        await store.open("a\0b")
    for journal in journals:
        await journal.close()


def test_a_store_outlives_an_event_loop_and_serves_several():
    store = PostgresStore(shared_server().schema())

    async def use(name):
        journal = await store.open(name)
        await add(journal, note(1))
        await journal.close()
        return sorted(info.id for info in await store.sessions())

    assert asyncio.run(use("a")) == ["a"]
    assert asyncio.run(use("b")) == ["a", "b"]
    asyncio.run(store.aclose())


async def test_what_nobody_waits_for_is_written_when_the_store_is_closed():
    url = shared_server().schema()
    store = PostgresStore(url)
    journal = await store.open("s")
    journal.append(note(1))
    journal.flush()
    await store.aclose()
    again = PostgresStore(url)
    assert numbers(await again.read("s")) == [1]
    await again.aclose()


async def test_tokens_are_tidied_up(store):
    await (await store.open("s")).close()
    for number in range(70):
        await store.post("s", "steer", number)
    left = await store.consult(
        lambda tx: tx.execute("SELECT count(*) FROM windlass_tokens").fetchone()[0]
    )
    assert left < 64


async def test_one_that_cannot_be_stored_does_not_hold_up_the_others(store, monkeypatch):
    journals = [await store.open(f"s{n}") for n in range(4)]
    monkeypatch.setattr(journals[2].line, "epoch", "none")  # what no server takes for a number
    for journal in journals:
        journal.append(note(1))
        journal.flush()
    ended = await asyncio.gather(*(j.durable() for j in journals), return_exceptions=True)
    assert [error is None for error in ended] == [True, True, False, True]
    assert isinstance(ended[2], StoreError)
    assert [numbers(await store.read(f"s{n}")) for n in range(4)] == [[1], [1], [], [1]]


async def test_pruning_goes_in_steps(store, monkeypatch):
    from windlass.store.postgres import sessions as postgres_changes

    monkeypatch.setattr(postgres_changes, "AT_ONCE", 2)
    for number in range(5):
        await (await store.open(f"s{number}")).close()
    assert sorted(await store.prune(float("inf"))) == [f"s{n}" for n in range(5)]
    assert await store.sessions() == []


async def cancelled_at_once(waiting):
    """It ends because it is cancelled, long before the store loses its patience."""
    for _ in range(3):
        await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_nobody_who_is_cancelled_waits_for_a_server_that_is_away():
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    def cut_off(tx):
        tx.execute("INSERT INTO effects VALUES (2)")
        loop.call_soon_threadsafe(began.set)
        server.stop()
        tx.execute("INSERT INTO effects VALUES (3)")

    with own_server(durable=False) as server:
        store = PostgresStore(server.url(), busy_timeout=60)
        journal = await store.open("s")
        await journal.commit(make_table, lambda _: [])
        journal.append(note(1))
        waiting = asyncio.create_task(journal.commit(cut_off, lambda _: [result("c1", "ok")]))
        await began.wait()
        await cancelled_at_once(waiting)  # begun, and lost with the server
        journal.append(note(2))
        waiting = asyncio.create_task(journal.commit(insert(4), lambda _: [result("c2", "ok")]))
        await cancelled_at_once(waiting)  # not begun
        await cancelled_at_once(asyncio.create_task(store.commit(insert(5))))
        await asyncio.to_thread(server.start)
        await journal.commit(insert(6), lambda _: [result("c3", "ok")])
        await journal.close()
        entries = await store.read("s")
        assert numbers(entries) == [1, 2] and journal.entries == entries
        assert [e.call_id for e in entries if isinstance(e, ToolResulted)] == ["c3"]
        assert await store.consult(effects) == [6]
        await store.aclose()
