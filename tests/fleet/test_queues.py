"""Engines with a queue in the store's Postgres keep the promises of an engine."""

from __future__ import annotations

import asyncio

import pytest

from windlass import seams
from windlass.errors import ConfigError, StoreError
from windlass.fleet.engines import ENGINES, build_engine, check_engine
from windlass.fleet.pgqueuer import PgQueuerFleet
from windlass.fleet.procrastinate import ProcrastinateFleet, shorten
from windlass.fleet.procrastinate_jobs import TASK, exchange_jobs
from windlass.fleet.sweep import claim_sweep, plan_sweep
from windlass.store.body_sessions import create_session
from windlass.store.memory import MemoryStore
from windlass.store.postgres.store import PostgresStore
from windlass.store.wishes import begin_drive, raise_wish, read_wish
from windlass.testing.fleet_kit import QUEUE, Drives, FleetKit
from windlass.testing.postgres import MISSING, find_binaries, shared_server

LEASE = 1.5
needs_postgres = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


@needs_postgres
class TestProcrastinate(FleetKit):
    def store(self, folder):
        return PostgresStore(shared_server().schema())

    def engine(self, store):
        return ProcrastinateFleet(store, None, LEASE)


@needs_postgres
class TestPgQueuer(FleetKit):
    def store(self, folder):
        return PostgresStore(shared_server().schema())

    def engine(self, store):
        return PgQueuerFleet(store, None, LEASE)


@pytest.fixture(params=["procrastinate", "pgqueuer"])
async def queue(request):
    """An engine over a store of its own."""
    if find_binaries() is None:
        pytest.skip(MISSING)
    store = PostgresStore(shared_server().schema())
    yield build_engine(request.param, store, None, LEASE)
    await store.aclose()


async def serve_until(engine, drives, count):
    task = asyncio.create_task(engine.serve(drives.drive, queues=[QUEUE], slots=5))
    try:
        await drives.wait_for(count)
    finally:
        await engine.stop(30.0)
        await task


async def submit(store, session, **options):
    def body(tx):
        create_session(tx, session)
        raise_wish(tx, session, agent=QUEUE, queue=QUEUE, due=1.0, **options)

    await store.commit(body)


async def test_wake_up_is_part_of_the_transaction_that_raises_the_wish(queue):
    await queue.prepare()

    def body(tx, broken):
        create_session(tx, "s")
        raise_wish(tx, "s", agent=QUEUE, due=1.0)
        assert queue.wake_within(tx, "s", queue=QUEUE)
        if broken:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await queue.store.commit(lambda tx: body(tx, True))
    assert await count_jobs(queue) == 0
    await queue.store.commit(lambda tx: body(tx, False))
    assert await count_jobs(queue) == 1
    await queue.wake("s", queue=QUEUE)  # one waits already
    assert await count_jobs(queue) == 1


async def count_jobs(queue):
    table = "procrastinate_jobs" if queue.name == "procrastinate" else "fleet_pgqueuer"
    rows = await queue.store.consult(lambda tx: tx.keep(f"SELECT count(*) FROM {table}").fetchone())
    return rows[0]


async def test_queue_is_empty_when_everything_has_been_driven(queue):
    drives = Drives(queue.store)
    for n in range(5):
        await submit(queue.store, f"s{n}")
        await queue.wake(f"s{n}", queue=QUEUE)
    await serve_until(queue, drives, 5)
    assert sorted(drives.order) == [f"s{n}" for n in range(5)]
    assert await count_jobs(queue) == 0


async def test_session_of_a_worker_that_was_lost_is_driven_again(queue):
    """The wish says who drives; a worker that is not on record, or silent, is lost."""
    await submit(queue.store, "s")

    def begin(tx):
        begin_drive(tx, read_wish(tx, "s"), "host/1/lost", 1)

    await queue.store.commit(begin)
    drives = Drives(queue.store)
    await serve_until(queue, drives, 1)
    assert drives.order == ["s"]


async def test_queue_whose_connections_are_cut_is_started_again(queue):
    drives = Drives(queue.store)
    task = asyncio.create_task(queue.serve(drives.drive, queues=[QUEUE], slots=5))
    await submit(queue.store, "before")
    await drives.wait_for(1)
    await queue.store.consult(
        lambda tx: tx.keep(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'windlass fleet'"
        ).fetchall()
    )
    await submit(queue.store, "after")
    await drives.wait_for(2)
    await queue.stop(30.0)
    await task
    assert drives.order == ["before", "after"]


@needs_postgres
async def test_stalled_job_is_renewed_and_its_first_worker_cannot_end_the_new_one():
    store = PostgresStore(shared_server().schema())
    engine = ProcrastinateFleet(store, None, LEASE)
    await engine.prepare()
    await submit(store, "s")
    await engine.wake("s", queue=QUEUE)

    def take(tx):  # as a worker of Procrastinate does that is then lost
        worker = tx.keep("SELECT worker_id FROM procrastinate_register_worker_v1()").fetchone()[0]
        job = tx.keep("SELECT id FROM procrastinate_fetch_job_v2(NULL, ?::bigint)", (worker,))
        tx.keep(
            "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'"
            " WHERE id = ?::bigint",
            (worker,),
        )
        return job.fetchone()[0]

    lost = await store.commit(take)
    await engine.sweep_jobs()

    def read(tx):
        return tx.keep("SELECT id, status::text, task_name FROM procrastinate_jobs").fetchall()

    ((number, status, task),) = await store.consult(read)
    assert number != lost and (status, task) == ("todo", TASK)
    with pytest.raises(Exception, match="not found|doing"):
        await store.commit(
            lambda tx: tx.keep("SELECT procrastinate_finish_job_v1(?, 'succeeded', true)", (lost,))
        )
    await engine.sweep_jobs()
    assert await store.consult(read) == [(number, status, task)]
    await store.aclose()


async def register(store):
    def body(tx):
        return tx.keep("SELECT worker_id FROM procrastinate_register_worker_v1()").fetchone()[0]

    return await store.commit(body)


@needs_postgres
async def test_statement_that_ends_a_job_takes_the_next_one_of_its_session_and_reads_its_wish():
    store = PostgresStore(shared_server().schema())
    engine = ProcrastinateFleet(store, None, LEASE)
    await engine.prepare()
    for name, priority in (("s", 0), ("urgent", 5)):
        await submit(store, name, priority=priority)
        await engine.wake(name, queue=QUEUE, priority=priority)
    worker = await register(store)
    urgent, first = await exchange_jobs(store, worker, [QUEUE], [], 5)
    assert (urgent.session, first.session) == ("urgent", "s")
    assert (first.seen.wish.number, first.seen.entries) == (1, 1)
    await store.commit(lambda tx: raise_wish(tx, "s", due=1.0))
    await engine.wake("s", queue=QUEUE)
    assert await exchange_jobs(store, worker, [QUEUE], [], 5) == []  # its session is under way
    assert await exchange_jobs(store, worker, ["other"], [urgent.number], 5) == []
    (second,) = await exchange_jobs(store, worker, [QUEUE], [first.number], 5)
    assert (second.session, second.seen.wish.number) == ("s", 2)
    assert await exchange_jobs(store, worker + 1, [QUEUE], [second.number], 5) == []
    assert await count_jobs(engine) == 1  # the job of another worker is not ended
    await store.aclose()


class Unanswered:
    """A store whose server does not answer the first time."""

    def __init__(self, store):
        self._store = store

    async def commit(self, body):
        await self._store.commit(body)
        return await self._store.commit(body)


@needs_postgres
async def test_jobs_that_were_taken_without_an_answer_are_renewed():
    store = PostgresStore(shared_server().schema())
    engine = ProcrastinateFleet(store, None, LEASE)
    await engine.prepare()
    await submit(store, "s")
    await engine.wake("s", queue=QUEUE)
    worker = await register(store)
    with pytest.raises(StoreError, match="did not say"):
        await exchange_jobs(Unanswered(store), worker, [QUEUE], [], 5)
    assert await exchange_jobs(store, worker, [QUEUE], [], 5) == []
    await store.commit(
        lambda tx: tx.keep("SELECT procrastinate_unregister_worker_v1(?::bigint)", (worker,))
    )
    await engine.sweep_jobs()
    (again,) = await exchange_jobs(store, await register(store), [QUEUE], [], 5)
    assert again.session == "s"
    await store.aclose()


async def test_more_jobs_than_slots_are_all_driven(queue):
    drives = Drives(queue.store)
    for n in range(40):
        await submit(queue.store, f"s{n}")
        await queue.wake(f"s{n}", queue=QUEUE)
    task = asyncio.create_task(queue.serve(drives.drive, queues=[QUEUE], slots=8))
    await drives.wait_for(40)
    await queue.stop(30.0)
    await task
    assert sorted(drives.order) == sorted(f"s{n}" for n in range(40))
    assert drives.most_at_once <= 8
    assert await count_jobs(queue) == 0


async def test_one_worker_of_a_fleet_sweeps_at_a_time():
    store = MemoryStore()
    assert await store.commit(lambda tx: claim_sweep(tx, 5.0)) is None
    left = await store.commit(lambda tx: claim_sweep(tx, 5.0))
    assert left is not None and 0 < left <= 5.0
    await store.commit(lambda tx: plan_sweep(tx, seams.now() - 1))
    assert await store.commit(lambda tx: claim_sweep(tx, 5.0)) is None


def test_long_names_of_queues_fit_into_a_channel_and_stay_apart():
    assert shorten("refunds@1") == "refunds@1"
    long = [shorten("ä" * 60 + end) for end in ("1", "2")]
    assert long[0] != long[1] and all(len(name.encode()) <= 39 for name in long)


def test_engines_are_found_by_name_and_refuse_what_they_cannot_serve():
    assert {check_engine(name) for name in ENGINES} == {"local", "procrastinate", "pgqueuer"}
    with pytest.raises(ConfigError, match="did you mean 'procrastinate'"):
        check_engine("procastinate")
    with pytest.raises(ConfigError, match="needs a store in Postgres"):
        build_engine("procrastinate", MemoryStore(), None, 30.0)
