"""Bodies on Postgres: the same functions as on SQLite, one after the other in effect."""

import asyncio
import contextvars
import logging

import pytest

from windlass.errors import Locked, StoreError
from windlass.store import transaction as limits
from windlass.store.postgres.store import PostgresStore
from windlass.store.transaction import BodyTooSlow
from windlass.testing.postgres import MISSING, find_binaries, shared_server
from windlass.testing.store_pieces import effects, insert, make_table, numbers, result

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


async def ledger(store):
    """Two accounts with fifty each; together they may not fall below nothing."""

    def make(tx):
        tx.execute("CREATE TABLE accounts (id text PRIMARY KEY, amount integer NOT NULL)")
        tx.executemany("INSERT INTO accounts VALUES (?, ?)", [("a", 50), ("b", 50)])

    await store.commit(make)


def withdraw(account, amount):
    def body(tx):
        (total,) = tx.execute("SELECT sum(amount) FROM accounts").fetchone()
        if total < amount:
            return "refused"
        done = tx.execute("UPDATE accounts SET amount = amount - ? WHERE id = ?", (amount, account))
        assert done.rowcount == 1
        return "paid"

    return body


async def test_bodies_at_once_are_as_if_one_came_after_the_other(store):
    """Each reads both accounts and writes one: no row is written twice, and yet they conflict."""
    await ledger(store)
    journals = [await store.open(f"s{n}") for n in range(8)]
    said = await asyncio.gather(
        *(
            journal.commit(withdraw("ab"[n % 2], 40), lambda v: [result("c", v)])
            for n, journal in enumerate(journals)
        )
    )
    assert sorted(said) == ["paid"] * 2 + ["refused"] * 6
    total = await store.consult(
        lambda tx: tx.execute("SELECT sum(amount) FROM accounts").fetchone()[0]
    )
    assert total == 20
    for n, journal in enumerate(journals):
        found = await store.result_of(f"s{n}", "c")
        assert found.result.content == said[n]
        await journal.close()


async def test_bodies_of_sessions_that_have_nothing_to_do_with_each_other_run_once(store):
    ran = []
    journals = [await store.open(f"s{n}") for n in range(8)]

    def make(tx):
        tx.execute("CREATE TABLE things (n integer PRIMARY KEY, at integer)")
        tx.executemany("INSERT INTO things VALUES (?, 0)", [(n,) for n in range(8)])

    await store.commit(make)

    def touch(number):
        def body(tx):
            ran.append(number)
            tx.execute("UPDATE things SET at = at + 1 WHERE n = ?", (number,))

        return body

    for turn in range(5):
        await asyncio.gather(
            *(
                journal.commit(touch(n), lambda _, t=turn: [result(f"c{t}", "ok")])
                for n, journal in enumerate(journals)
            )
        )
    seen = await store.consult(lambda tx: tx.execute("SELECT at FROM things").fetchall())
    assert seen == [(5,)] * 8
    assert len(ran) < 60  # forty, and hardly any again
    for journal in journals:
        await journal.close()


async def test_what_tx_can_do(store):
    def body(tx):
        assert tx.dialect == "postgres"
        tx.execute("CREATE TABLE t (n integer, s text)")
        many = tx.executemany("INSERT INTO t VALUES (?, ?)", [(1, "a"), (2, "b"), (3, None)])
        assert many.fetchall() == []
        assert tx.execute("UPDATE t SET s = ? WHERE n > ?", ("z", 1)).rowcount == 2
        assert tx.execute("DELETE FROM t WHERE n = :n", {"n": 3}).rowcount == 1
        found = tx.execute("SELECT n, s FROM t ORDER BY n")
        assert found.rowcount == -1
        assert found.fetchone() == (1, "a")
        assert list(found) == [(2, "z")]
        assert found.fetchone() is None
        cursor = tx.cursor()
        assert cursor.execute("SELECT n FROM t ORDER BY n").fetchmany(1) == [(1,)]
        assert cursor.fetchall() == [(2,)]
        (n,) = tx.execute("INSERT INTO t VALUES (9, '?') RETURNING n").fetchone()
        with pytest.raises(StoreError, match="RETURNING"):
            tx.execute("SELECT 1").lastrowid  # noqa: B018
        with pytest.raises(StoreError, match=":m"):
            tx.execute("SELECT :m", {"n": 3})
        return n

    assert await store.commit(body) == 9


async def test_a_body_sees_the_context_of_its_caller(store):
    name = contextvars.ContextVar("name", default="nobody")
    name.set("ann")

    def body(tx):
        tx.execute("SELECT 1")
        return name.get()

    assert await store.commit(body) == "ann"
    assert await store.consult(body) == "ann"
    journal = await store.open("s")
    assert await journal.commit(body, lambda _: []) == "ann"
    await journal.close()


async def test_an_error_in_a_statement_ends_the_body_also_when_it_is_caught(store):
    await store.commit(make_table)

    def stubborn(tx):
        insert(1)(tx)
        try:
            tx.execute("SELECT 1 / 0")
        except Exception:
            pass
        return "fine"

    def more_stubborn(tx):
        stubborn(tx)
        tx.execute("SELECT 1")

    for body in (stubborn, more_stubborn):
        with pytest.raises(StoreError, match="rolled the body's transaction back; let it out"):
            await store.commit(body)
    assert await store.consult(effects) == []


async def test_a_slow_body_is_reported_and_a_very_slow_one_rolled_back(store, caplog, monkeypatch):
    await store.commit(make_table)
    monkeypatch.setattr(limits, "SLOW_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING, "windlass.store"):
        await store.commit(insert(1))
    assert "a body held its locks for" in caplog.text
    monkeypatch.setattr(limits, "LIMIT_SECONDS", 0.0)

    def slow(tx):
        insert(2)(tx)

    with pytest.raises(BodyTooSlow, match="do its slow work before"):
        await store.commit(slow)
    assert await store.consult(effects) == [1]


async def test_a_statement_that_takes_too_long_is_ended_by_the_server(monkeypatch):
    monkeypatch.setattr(limits, "LIMIT_SECONDS", 0.2)
    store = PostgresStore(shared_server().schema())
    await store.commit(make_table)

    def slow(tx):
        insert(2)(tx)
        tx.execute("SELECT pg_sleep(3600)")  # nobody waits for that

    with pytest.raises(BodyTooSlow):
        await store.commit(slow)
    assert await store.consult(effects) == []
    await store.aclose()


async def test_a_transaction_is_over_when_its_body_has_returned(store):
    kept = []
    await store.commit(kept.append)
    with pytest.raises(StoreError, match="over"):
        kept[0].execute("SELECT 1")


async def test_a_table_that_changes_under_a_prepared_statement(store):
    await store.commit(make_table)
    assert await store.commit(lambda tx: tx.execute("SELECT * FROM effects").fetchall()) == []
    await store.commit(lambda tx: tx.execute("ALTER TABLE effects ADD COLUMN m integer"))
    await store.commit(lambda tx: tx.execute("INSERT INTO effects VALUES (1, 2)"))
    for _ in range(12):
        found = await store.commit(lambda tx: tx.execute("SELECT * FROM effects").fetchall())
        assert found == [(1, 2)]


async def test_a_body_that_conflicts_for_ever_is_given_up(store):
    class Never(Exception):
        sqlstate = "40001"

    await store.commit(make_table)
    ran = []

    def body(tx):
        ran.append(1)
        insert(1)(tx)
        tx.execute(
            "DO $$ BEGIN RAISE EXCEPTION 'always' USING ERRCODE = 'serialization_failure'; END $$"
        )

    journal = await store.open("s")
    with pytest.raises(Locked, match="others write the same"):
        await journal.commit(body, lambda _: [result("c", "x")])
    assert 2 < len(ran) < 50
    assert await store.consult(effects) == []
    assert numbers(await store.read("s")) == []
    await journal.close()


async def test_own_statements_may_touch_own_tables(store):
    await (await store.open("s")).close()
    with pytest.raises(StoreError, match="may not write to the journal's own table"):
        await store.commit(lambda tx: tx.execute("UPDATE windlass_meta SET value = '1'"))
    await store.commit(lambda tx: tx.keep("UPDATE windlass_meta SET value = '1'"))
    with pytest.raises(StoreError, match="may not begin, commit"):
        await store.commit(lambda tx: tx.keep("COMMIT"))


async def test_a_consulted_body_only_reads(store):
    await store.commit(make_table)
    with pytest.raises(Exception, match="read-only"):
        await store.consult(insert(1))
    assert await store.consult(effects) == []


@pytest.mark.parametrize("error", [OSError("mine"), TimeoutError("mine"), StopIteration("mine")])
async def test_what_a_body_raises_is_not_taken_for_a_lost_connection(store, error):
    ran = []

    def body(tx):
        ran.append(1)
        tx.execute("SELECT 1")
        raise error

    journal = await store.open("s")
    for commit in (lambda: store.commit(body), lambda: journal.commit(body, lambda _: [])):
        with pytest.raises((type(error), RuntimeError), match="mine"):
            await commit()
    assert len(ran) == 2
    await journal.close()
