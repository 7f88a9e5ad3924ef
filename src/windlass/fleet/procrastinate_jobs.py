"""Jobs of Procrastinate as a worker takes and ends them: many by one statement of the store's own.

What a job is about is read with it, so that a drive begins without a question. While all slots are
taken and more jobs wait, those that end are gathered for a moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from windlass import seams
from windlass.errors import StoreError
from windlass.fleet.engine import SeenWish
from windlass.store.postgres.store import PostgresStore
from windlass.store.transaction import one_statement
from windlass.store.wishes import TABLE, Transaction, Wish, to_wish

TASK: Final = "windlass_drive"
POLL_SECONDS: Final = 2.0  # how soon a job is found that nobody was told of
GATHER_SECONDS: Final = 0.02  # that a slot stays free at most, so that several are filled at once
_GATHERED: Final = 4  # a quarter of the slots is filled at once
_OWN: Final = "/* windlass */"
_WISH: Final = ", ".join([f"w.{name}" for name in Wish.__struct_fields__])
# A session has one job that waits, by its queueing lock, and one under way, by its lock. The jobs
# that end are deleted first: the next job of their session can be taken by the same statement.
_EXCHANGE: Final = (
    "WITH ended AS (DELETE FROM procrastinate_jobs WHERE id = ANY(?1::bigint[])"
    " AND worker_id = ?2::bigint AND status = 'doing' RETURNING id),"
    " found AS (SELECT j.id FROM procrastinate_jobs j WHERE (SELECT count(*) FROM ended) >= 0"
    f" AND j.status = 'todo' AND j.task_name = '{TASK}' AND j.queue_name = ANY(?3::text[])"
    " AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())"
    " AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs d WHERE d.lock = j.lock"
    " AND d.status = 'doing' AND d.id <> ALL(?1::bigint[]))"
    " ORDER BY j.priority DESC, j.id LIMIT ?4::bigint FOR UPDATE OF j SKIP LOCKED),"
    " taken AS (UPDATE procrastinate_jobs j SET status = 'doing', worker_id = ?2::bigint"
    " FROM found WHERE j.id = found.id RETURNING j.id, j.lock, j.priority)"
    f" SELECT t.id, t.lock, s.entries, {_WISH} FROM taken t LEFT JOIN {TABLE} w ON w.session = t.lock"
    f" LEFT JOIN windlass_sessions s ON s.id = t.lock ORDER BY t.priority DESC, t.id {_OWN}"
)

log = logging.getLogger("windlass.fleet")


class TakenJob(NamedTuple):
    """A job that this worker has taken, and what its session wants."""

    number: int
    session: str
    seen: SeenWish


class JobTaker:
    """The jobs of one worker, registered at the queue by its number."""

    def __init__(
        self,
        store: PostgresStore,
        worker: int,
        queues: Sequence[str],
        slots: int,
        begin: Callable[[TakenJob], asyncio.Task[None]],
        *,
        poll: float,
    ) -> None:
        self._store, self._worker = store, worker
        self._queues, self._slots, self._begin = list(queues), slots, begin
        self._poll = poll
        self._under_way: set[int] = set()
        self._ended: list[int] = []
        self._changed = asyncio.Event()
        self._has_more = True  # jobs may wait
        self._is_full = False  # the last statement has filled all slots
        self._stopping = False

    def tell(self) -> None:
        """Hear that a job was put in."""
        self._has_more = True
        self._changed.set()

    def stop(self) -> None:
        """Take no more jobs; `run` returns when those under way have ended."""
        self._stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Take jobs while there is room, and end those whose drives have ended."""
        while self._under_way or self._ended or not self._stopping:
            room = 0 if self._stopping else self._slots - len(self._under_way)
            if not self._ended and not (room and self._has_more):
                await self._wait(self._poll)
            elif self._is_full and room < self._slots // _GATHERED and not self._stopping:
                await self._gather()
            else:
                await self._exchange(room)

    async def end_all(self) -> None:
        """End all jobs, whether their drives have ended or not."""
        self._stopping = True
        self._ended += self._under_way
        self._under_way.clear()
        if self._ended:
            await self._exchange(0)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            self._has_more = True  # nobody may have been told
        self._changed.clear()

    async def _gather(self) -> None:
        """Wait for a moment until several jobs have ended."""
        least = self._slots // _GATHERED
        until = seams.monotonic() + GATHER_SECONDS
        while (left := until - seams.monotonic()) > 0 and not self._stopping:
            if self._slots - len(self._under_way) >= least:
                break
            await self._wait(left)
        self._is_full = False

    async def _exchange(self, room: int) -> None:
        """End jobs, and take as many as there is room for."""
        ended, self._ended = self._ended, []
        self._has_more = False
        try:
            found = await exchange_jobs(self._store, self._worker, self._queues, ended, room)
        except BaseException:
            self._ended += ended
            raise
        if len(found) == room or self._stopping:
            self._has_more = True
        self._is_full = room > 0 and len(found) == room
        for job in found:
            self._under_way.add(job.number)
            task = self._begin(job)
            task.add_done_callback(lambda _task, number=job.number: self._note_end(number))

    def _note_end(self, number: int) -> None:
        if number in self._under_way:
            self._under_way.discard(number)
            self._ended.append(number)
            self._changed.set()


async def exchange_jobs(
    store: PostgresStore, worker: int, queues: Sequence[str], ended: Sequence[int], room: int
) -> list[TakenJob]:
    """Delete jobs that have ended, and take those that wait, the most urgent first."""
    asked = False

    def exchange(tx: Transaction) -> list[TakenJob]:
        nonlocal asked
        if asked:  # what it took is known to nobody: under another number it is taken again
            raise StoreError("the server did not say which jobs were taken")
        asked = True
        rows = tx.keep(_EXCHANGE, (list(ended), worker, list(queues), room)).fetchall()
        return [_to_job(row) for row in rows]

    return await store.commit(one_statement(exchange))


def _to_job(row: Sequence[object]) -> TakenJob:
    number, session, entries, *wish = row
    assert isinstance(number, int)
    seen = SeenWish(
        None if wish[0] is None else to_wish(wish), entries if isinstance(entries, int) else 0
    )
    return TakenJob(number, str(session), seen)
