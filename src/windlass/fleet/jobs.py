"""Jobs of an engine with a queue in the store's own Postgres: what all such engines have in common."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass import seams
from windlass.errors import ConfigError
from windlass.fleet.engine import Drive, Held, SeenWish, Sweep
from windlass.fleet.sweep import FORGOTTEN, SWEEP_SECONDS, Sweeper
from windlass.store.base import Store
from windlass.store.postgres.store import PostgresStore
from windlass.store.transaction import on_snapshot
from windlass.store.wishes import TABLE, Transaction

MOST_AT_ONCE = 500  # wake-ups in one transaction of a sweep
PAUSE_SECONDS = 0.1  # before the first restart of a queue that failed; doubled, up to
LONGEST_PAUSE = 10.0
_OWN = "/* windlass */"

log = logging.getLogger("windlass.fleet")


class Job(NamedTuple):
    """A wake-up in a queue."""

    session: str
    queue: str
    priority: int


class JobFleet:
    """An engine that keeps jobs in tables of the store's database.

    A job carries a wake-up and nothing else: whoever gets it reads the wish of the session. A class
    for one kind of queue defines `prepare`, `put_jobs`, `has_job`, `held` and `serve_queue`.
    """

    name = "jobs"
    exclusive = False
    #: A condition for wishes `w` that have a job which waits or runs.
    has_job = "FALSE"

    def __init__(self, store: Store, sweep: Sweep | None = None, lease: float = 30.0) -> None:
        if not isinstance(store, PostgresStore):
            raise ConfigError(
                f"fleet={self.name!r} needs a store in Postgres, and this one is {store!r}"
            )
        self.store: PostgresStore = store
        self.lease = lease
        self._fire = sweep
        self._drive: Drive | None = None
        self._drives: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._let_go = asyncio.Event()

    async def prepare(self) -> None:
        """Create the tables of the queue, once for a database."""
        raise NotImplementedError

    def put_jobs(self, tx: Transaction, jobs: Sequence[Job]) -> None:
        """Put jobs into the queue, but for sessions that have one which waits."""
        raise NotImplementedError

    async def serve_queue(self, queues: Sequence[str], slots: int) -> None:
        """Take jobs and `deliver` them until `wait_stopped` returns; return or raise if the queue fails."""
        raise NotImplementedError

    async def sweep_jobs(self) -> None:
        """Mend jobs whose worker was lost, where the queue does not do so by itself."""

    # ----------------------------------------------------------------------- the engine

    async def wake(
        self, session: str, *, queue: str, priority: int = 0, at: float | None = None
    ) -> None:
        """Put a job for a session into the queue; a later one is found by a sweep when it is due."""
        if at is not None and at > self.store.read_clock():
            return
        await self.prepare()
        await self.store.commit(
            on_snapshot(lambda tx: self.wake_within(tx, session, queue=queue, priority=priority))
        )

    def wake_within(self, tx: Transaction, session: str, *, queue: str, priority: int = 0) -> bool:
        """Put a job for a session into a transaction, unless one waits already."""
        self.put_jobs(tx, [Job(session, queue, priority)])
        return True

    async def serve(self, drive: Drive, *, queues: Sequence[str], slots: int) -> None:
        """Drive sessions of these queues until `stop`; a queue that fails is started again."""
        self._stopping.clear()
        self._drive = drive
        await self.prepare()
        seconds = min(SWEEP_SECONDS, self.lease / 3)
        sweeping = asyncio.create_task(Sweeper(self.store, self._sweep, seconds).run())
        pause = PAUSE_SECONDS
        try:
            while not self._stopping.is_set():
                self._let_go.clear()
                began = seams.monotonic()
                try:
                    await self.serve_queue(queues, slots)
                except Exception:
                    log.warning("the queue of the fleet failed and is started again", exc_info=True)
                if seams.monotonic() - began > LONGEST_PAUSE:
                    pause = PAUSE_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._stopping.wait()
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            sweeping.cancel()
            await asyncio.wait({sweeping})

    async def stop(self, grace: float) -> None:
        """Take no new jobs, and wait for what is driven here; then end the jobs of the rest."""
        self._stopping.set()
        if self._drives:
            await asyncio.wait(list(self._drives.values()), timeout=grace)
        self.let_go()

    async def held(self) -> list[Held]:
        """List the sessions that have a job under way."""
        raise NotImplementedError

    # ----------------------------------------------------------------------- for queues

    async def wait_stopped(self) -> None:
        """Wait until `stop` is called."""
        await self._stopping.wait()

    async def wait_let_go(self) -> None:
        """Wait until jobs have to end whose drives go on."""
        await self._let_go.wait()

    def let_go(self) -> None:
        """End the jobs under way, while their drives go on."""
        self._let_go.set()

    def begin_drive(self, session: str, seen: SeenWish | None = None) -> asyncio.Task[None]:
        """Drive in a task of its own: a job that is cancelled must not end its session."""
        task = self._drives.get(session)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._drive_once(session, seen))
            self._drives[session] = task
        return task

    async def deliver(self, session: str) -> None:
        """Drive the session of a job, and return when its job may end."""
        task = self.begin_drive(session)
        leaving = asyncio.get_running_loop().create_task(self.wait_let_go())
        try:
            await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()

    async def _drive_once(self, session: str, seen: SeenWish | None) -> None:
        assert self._drive is not None
        try:
            await self._drive(session, seen)
        except Exception:  # the wish is still there: a sweep finds it
            log.exception("session %s could not be driven", session)
        finally:
            del self._drives[session]

    async def _sweep(self) -> float | None:
        again = (
            None if self._fire is None else await self._fire(self.store, self.store.read_clock())
        )
        await self.sweep_jobs()
        while (
            await self.store.commit(on_snapshot(lambda tx: self._wake_forgotten(tx)))
            == MOST_AT_ONCE
        ):
            pass
        return again

    def _wake_forgotten(self, tx: Transaction) -> int:
        """Wake sessions that are due, that nobody drives, and that have no job."""
        now = tx.read_clock()
        rows = tx.keep(
            f"SELECT w.session, w.queue, w.priority {FORGOTTEN} AND NOT ({self.has_job})"
            f" ORDER BY w.priority DESC, w.due, w.raised_at LIMIT {MOST_AT_ONCE} {_OWN}",
            (now, now),
        ).fetchall()
        if rows:
            self.put_jobs(tx, [msgspec.convert(row, Job) for row in rows])
        return len(rows)


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended.

    Once is not enough: a listener loses it when its own time limit is over in that moment.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.05)


def read_held(tx: Transaction, jobs: str) -> list[Held]:
    """List sessions by a statement that selects them from the table of jobs."""
    rows = tx.keep(
        f"SELECT w.session, w.worker, w.since FROM {TABLE} w WHERE w.session IN ({jobs})"
        f" ORDER BY w.since {_OWN}"
    ).fetchall()
    return [Held(str(session), *_check_driver(worker, since)) for session, worker, since in rows]


def _check_driver(worker: object, since: object) -> tuple[str | None, float | None]:
    return (
        worker if isinstance(worker, str) else None,
        since if isinstance(since, float) else None,
    )
