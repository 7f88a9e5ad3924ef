"""The engine on Procrastinate: jobs in the store's own Postgres, with a lock for each session.

What its manual does not say, and this engine relies on or avoids:
- `finish_job` and `retry_job` ask for no owner, so a worker that was replaced could end the job of
  another. A stalled job is therefore never retried: a new one is put in and the old one ended, in one
  transaction. The number of a job is the token of its claim.
- Its worker takes and ends each job by a statement and a transaction of its own, on connections that share
  a thread with the runs: for short runs that costs as much as the runs. So jobs are taken and ended by the
  store (`procrastinate_jobs`), and what is used of Procrastinate is its tables, its notices, and its record
  of workers.
- Cancelling a job would end its session on record: drives are shielded, and its aborts are not used.
- A delayed job with the session's lock would keep back a job for now: delays are left to the sweep.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import procrastinate
from procrastinate.jobs import Notification
from procrastinate.manager import JobManager
from procrastinate.schema import SchemaManager
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from windlass import seams
from windlass.errors import WindlassError, error_text
from windlass.fleet.engine import Held
from windlass.fleet.jobs import Job, JobFleet, cancel_all, read_held
from windlass.fleet.procrastinate_jobs import POLL_SECONDS, TASK, JobTaker
from windlass.fleet.procrastinate_login import connect_arguments
from windlass.store.transaction import on_snapshot
from windlass.store.wishes import Transaction

FORGET_SECONDS: Final = 3600.0  # after which the queue forgets a worker that was lost
_POOL: Final = 2  # connections beside those of the store
_LONGEST_QUEUE: Final = 39  # bytes of a name that fits into the name of a channel
_OWN: Final = "/* windlass */"
_DEFER: Final = (
    "SELECT procrastinate_defer_jobs_v1(array_agg(ROW(new.queue, new.task, new.priority, new.session,"
    " new.session, jsonb_build_object('session', new.session), NULL)::procrastinate_job_to_defer_v1))"
    " FROM unnest(?::text[], ?::int[], ?::text[]) AS given(queue, priority, session),"
    f" LATERAL (SELECT given.*, '{TASK}' AS task) AS new"
    " WHERE NOT EXISTS (SELECT 1 FROM procrastinate_jobs j"
    f" WHERE j.queueing_lock = new.session AND j.status = 'todo') {_OWN}"
)
_STALLED: Final = (
    "SELECT j.id, j.lock, j.queue_name, j.priority FROM procrastinate_jobs j"
    " LEFT JOIN procrastinate_workers w ON w.id = j.worker_id"
    f" WHERE j.status = 'doing' AND j.task_name = '{TASK}' AND (w.id IS NULL"
    f" OR w.last_heartbeat < now() - make_interval(secs => ?::float8)) LIMIT 500 {_OWN}"
)
_DOING: Final = (
    f"SELECT lock FROM procrastinate_jobs WHERE status = 'doing' AND task_name = '{TASK}'"
)

log = logging.getLogger("windlass.fleet")


class ProcrastinateFleet(JobFleet):
    """Wake-ups as jobs of Procrastinate: `Runtime(store="postgresql://…", fleet="procrastinate")`."""

    name = "procrastinate"
    has_job = (
        "EXISTS (SELECT 1 FROM procrastinate_jobs j WHERE j.lock = w.session"
        " AND j.status IN ('todo', 'doing'))"
    )
    _is_ready = False

    async def prepare(self) -> None:
        """Create Procrastinate's tables in the schema of the store, if they are not there."""
        if not self._is_ready:
            await self.store.install_tables("procrastinate_jobs", SchemaManager.get_schema())
            self._is_ready = True

    def put_jobs(self, tx: Transaction, jobs: Sequence[Job]) -> None:
        """Put jobs into the queue, but for sessions that have one which waits."""
        tx.keep(
            _DEFER,
            (
                [shorten(job.queue) for job in jobs],
                [job.priority for job in jobs],
                [job.session for job in jobs],
            ),
        )

    async def held(self) -> list[Held]:
        """List the sessions that have a job under way."""
        await self.prepare()
        return await self.store.consult(lambda tx: read_held(tx, _DOING))

    async def sweep_jobs(self) -> None:
        """Renew the jobs of workers that were lost."""
        stalled = await self.store.consult(lambda tx: tx.keep(_STALLED, (self.lease,)).fetchall())
        for row in stalled:
            try:
                await self.store.commit(on_snapshot(lambda tx, row=row: self._renew(tx, row)))
            except WindlassError as error:  # somebody else has renewed it
                log.info("job %s of a lost worker stays: %s", row[0], error_text(error))

    def _renew(self, tx: Transaction, row: Sequence[Any]) -> None:
        number, session, queue, priority = row
        tx.keep(f"SELECT procrastinate_finish_job_v1(?::bigint, 'failed', true) {_OWN}", (number,))
        self.wake_within(tx, session, queue=queue, priority=priority)

    async def serve_queue(self, queues: Sequence[str], slots: int) -> None:
        """Take jobs as a worker of the queue until it is told to stop, or the queue fails."""
        names = [shorten(queue) for queue in queues]
        app = await self._build_app()
        async with app.open_async():
            manager = app.job_manager
            await manager.prune_stalled_workers(max(self.lease, FORGET_SECONDS))
            worker = await manager.register_worker()
            jobs = JobTaker(
                self.store,
                worker,
                names,
                slots,
                lambda job: self.begin_drive(job.session, job.seen),
                poll=min(POLL_SECONDS, self.lease / 3),
            )

            async def hear(*, channel: str, notification: Notification) -> None:
                if notification["type"] == "job_inserted":
                    jobs.tell()

            try:
                await self._run_beside(
                    jobs,
                    manager.listen_for_jobs(on_notification=hear, queues=names),
                    self._beat(manager, worker),
                )
            finally:
                try:
                    await jobs.end_all()
                finally:
                    async with asyncio.timeout(self.lease):
                        await manager.unregister_worker(worker)

    async def _run_beside(self, jobs: JobTaker, *others: Coroutine[Any, Any, None]) -> None:
        """Take jobs until `stop`, while the others go on; an error of one of them ends it all."""
        loop = asyncio.get_running_loop()
        beside = {loop.create_task(one) for one in others}
        taking, stopped = loop.create_task(jobs.run()), loop.create_task(self.wait_stopped())
        leaving = loop.create_task(self.wait_let_go())
        try:
            await asyncio.wait({taking, stopped, *beside}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                jobs.stop()
                await asyncio.wait({taking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            for task in (taking, *beside):
                if task.done():
                    task.result()
        finally:
            await cancel_all({taking, stopped, leaving, *beside})

    async def _beat(self, manager: JobManager, worker: int) -> None:
        while True:
            await seams.sleep(self.lease / 3)
            async with asyncio.timeout(self.lease):  # a server may stand still
                await manager.update_heartbeat(worker)

    async def _build_app(self) -> procrastinate.App:
        path = await self.store.find_search_path()
        arguments = connect_arguments(self.store.address, path, self.lease)
        # Each use of a connection is one statement. One that is broken fails once, and the queue is
        # started again: it costs less than a question before each use.
        connector = procrastinate.PsycopgConnector(
            pool_factory=_build_pool,
            min_size=1,
            max_size=_POOL,
            timeout=self.lease,
            kwargs=arguments,
        )
        return procrastinate.App(connector=connector)


def _build_pool(*, check: object, **options: Any) -> AsyncConnectionPool:
    """Return a pool that lends connections as they are, without a transaction."""
    return AsyncConnectionPool(**options, configure=_set_autocommit)


async def _set_autocommit(connection: AsyncConnection) -> None:
    await connection.set_autocommit(True)


def shorten(queue: str) -> str:
    """Return the name of a queue as it fits into a channel of the server: 39 bytes."""
    encoded = queue.encode()
    if len(encoded) <= _LONGEST_QUEUE:
        return queue
    digest = hashlib.sha256(encoded).hexdigest()[:16]
    return encoded[: _LONGEST_QUEUE - 17].decode(errors="ignore") + "#" + digest
