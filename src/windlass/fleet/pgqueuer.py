"""The engine on PgQueuer: jobs in the store's own Postgres, many at a time.

What it does not do by itself, and this engine relies on or avoids:
- It has no lock for a session, only one job with its key: a wake-up during a run is dropped. The driver
  looks at the wish again when a run ends, and a sweep finds what is left.
- A worker that was replaced may end the job of another: a sweep finds wishes without a job.
- A handler that is cancelled deletes its job: drives are shielded.
- It waits for its handlers when it fails: they are let go when its connection is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, cast

from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.core.qm import QueueManager
from pgqueuer.db import AsyncpgDriver
from pgqueuer.domain.settings import DBSettings
from pgqueuer.models import Job as QueuedJob
from pgqueuer.queries import Queries

from windlass.fleet.engine import Held
from windlass.fleet.jobs import Job, JobFleet, read_held
from windlass.store.postgres.connection import Connection, connect
from windlass.store.postgres.schema_check import pin
from windlass.store.wishes import Transaction

POLL_SECONDS: Final = 2.0  # how soon a job of a lost worker is found
_SETTINGS: Final = DBSettings(prefix="fleet_")
_QUEUE: Final = _SETTINGS.queue_table
_ENQUEUE: Final = QueryQueueBuilder(_SETTINGS).build_enqueue_query("skip")


class PgQueuerFleet(JobFleet):
    """Wake-ups as jobs of PgQueuer: `Runtime(store="postgresql://…", fleet="pgqueuer")`."""

    name = "pgqueuer"
    has_job = (
        f"EXISTS (SELECT 1 FROM {_QUEUE} j WHERE j.dedupe_key = w.session"
        " AND j.status IN ('queued', 'picked'))"
    )
    _is_ready = False

    async def prepare(self) -> None:
        """Create PgQueuer's tables in the schema of the store, if they are not there."""
        if not self._is_ready:
            text = QueryBuilderEnvironment(_SETTINGS).build_install_query(create_schema=False)
            await self.store.install_tables(_QUEUE, text)
            self._is_ready = True

    def put_jobs(self, tx: Transaction, jobs: Sequence[Job]) -> None:
        """Put jobs into the queue, but for sessions that have one already."""
        sessions = [job.session for job in jobs]
        tx.keep(
            _ENQUEUE,
            (
                [job.priority for job in jobs],
                [job.queue for job in jobs],
                [session.encode() for session in sessions],
                [timedelta(0)] * len(jobs),
                sessions,
                ["null"] * len(jobs),
            ),
        )

    async def held(self) -> list[Held]:
        """List the sessions that have a job under way."""
        await self.prepare()
        picked = f"SELECT dedupe_key FROM {_QUEUE} WHERE status = 'picked'"
        return await self.store.consult(lambda tx: read_held(tx, picked))

    async def serve_queue(self, queues: Sequence[str], slots: int) -> None:
        """Take jobs until told to stop, or the connection is lost."""
        connection = await self._connect()
        try:
            await self._take_jobs(connection, queues, slots)
        finally:
            connection.terminate()

    async def _take_jobs(self, connection: Connection, queues: Sequence[str], slots: int) -> None:
        manager = QueueManager(
            Queries(
                AsyncpgDriver(cast(Any, connection)),
                QueryBuilderEnvironment(_SETTINGS),
                QueryQueueBuilder(_SETTINGS),
                QuerySchedulerBuilder(_SETTINGS),
            ),
            _SETTINGS.channel,
        )
        places = asyncio.Semaphore(slots)  # it takes at least two at once

        async def deliver(job: QueuedJob) -> None:
            async with places:
                await self.deliver((job.payload or b"").decode())

        for queue in queues:
            manager.entrypoint(queue, on_failure="delete")(deliver)
        poll = timedelta(seconds=min(POLL_SECONDS, self.lease / 3))
        connection.add_termination_listener(lambda *_: self.let_go())
        running = asyncio.create_task(
            manager.run(
                dequeue_timeout=poll,
                batch_size=max(1, min(10, slots // 2)),
                max_concurrent_tasks=max(2, slots),
                heartbeat_timeout=timedelta(seconds=self.lease),
            )
        )
        stopped = asyncio.create_task(self.wait_stopped())
        try:
            await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            manager.shutdown.set()
            await running
        finally:
            stopped.cancel()
            running.cancel()
            await asyncio.wait({stopped, running})

    async def _connect(self) -> Connection:
        path = await self.store.find_search_path()
        settings = {"application_name": "windlass fleet"}
        connection = await connect(self.store.address, self.store.busy_timeout, settings)
        try:
            await pin(connection, path)
        except BaseException:
            connection.terminate()
            raise
        return connection
