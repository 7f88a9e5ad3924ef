"""The journal of a session that a thread writes: rows are closed here and queued.

What becomes of them comes back through `on_settled`, `on_committed` and `on_delivered`, on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from windlass import seams
from windlass.errors import StoreError
from windlass.events import JournalEntry, ToolResulted
from windlass.store import codec as written
from windlass.store.base import InboxItem
from windlass.store.model_calls import ReservedCall
from windlass.store.threaded.jobs import (
    Again,
    Append,
    Commit,
    Jobs,
    Line,
)
from windlass.store.threaded.outbox import Outboxes

T = TypeVar("T")

log = logging.getLogger("windlass.store")


class Keeper(Protocol):
    """The store that a journal hands its rows to."""

    outboxes: Outboxes

    def put(self, job: Jobs) -> None:
        """Queue a job for the thread."""
        ...

    def check_usable(self) -> None:
        """Raise the error of a store that was closed, or opened before a fork."""
        ...

    def holds(self, journal: HandedJournal) -> bool:
        """Check whether the journal is the session's writer here."""
        ...

    def release(self, journal: HandedJournal) -> None:
        """Let the next writer in."""
        ...

    async def give_up(self, line: Line) -> None:
        """Record that nobody writes to the session any more."""
        ...


class HandedJournal:
    """A session in a database, held by its writer."""

    immediate: bool = False
    # `append` is the list's own method. (Spelt as literals, slots make pyright bind it to self.)
    __slots__ = tuple(
        "_commits _failed _flushed _handed _holding _line _loop _outbox _replacing _stalled "
        "_store _taking _waiting append entries lost_seconds mail on_mail session_id stays_held touched".split()
    )

    def __init__(self, store: Keeper, session_id: str) -> None:
        self.session_id = session_id
        self.on_mail: Callable[[], None] | None = None
        self._store, self._loop = store, asyncio.get_running_loop()
        self._line = Line(self, session_id, self._loop)
        self._outbox = store.outboxes.of(self._loop)
        self._taking: list[InboxItem] = []
        self._replacing: tuple[ReservedCall, ...] = ()
        self._commits: list[Commit] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._handed = 0  # rows given to the writer
        self._failed: StoreError | None = None  # for good
        self._stalled = False  # for now: the rows are kept and tried again
        self._holding = True  # this writer stands with the session as its holder
        self.stays_held = False
        self.lost_seconds = 0.0
        self.touched = seams.now()  # when the last row was closed
        self.mail = []
        self.begin([], [])

    def begin(self, entries: list[JournalEntry], mail: list[InboxItem]) -> None:
        """Start from what is on disk; mail may have come while it was read."""
        self.entries, self.mail = entries, mail + self.mail
        self._line.results = {e.call_id for e in entries if type(e) is ToolResulted}
        self.append: Callable[[JournalEntry], None] = entries.append
        self._flushed = len(entries)

    @property
    def line(self) -> Line:
        """The writer's side of the journal."""
        return self._line

    def flush(self) -> None:
        """Close the row and queue it for the writer; raise if an entry cannot be encoded."""
        if len(self.entries) != self._flushed and self._failed is None:
            row = self._close_row()
            self._store.check_usable()
            self._outbox.hold(row)

    def _close_row(self) -> Append:
        entries, start = self.entries, self._flushed
        fresh = entries[start:]
        try:
            payload = written.encode(fresh, self.session_id)
        except StoreError:
            del entries[start:]
            self.mail[:0] = self._taking
            self._taking.clear()
            raise
        self._flushed = start + len(fresh)
        self._handed += 1
        takes: Sequence[str] = ()
        if self._taking and fresh:
            takes = [item.id for item in self._taking]
            self._taking.clear()
        notes = written.notes_of(fresh)
        if notes.status_changed:
            self._holding = notes.status is None or self.stays_held
        self.touched = at = seams.now()
        holder = self._line.holder if self._holding else None
        replaces: Sequence[ReservedCall] = ()
        if self._replacing and fresh:
            replaces, self._replacing = self._replacing, ()
        return Append(self._line, payload, len(fresh), at, notes, takes, holder, replaces)

    async def durable(self) -> None:
        """Wait until every queued row is on disk."""
        if self._failed is not None:
            raise _again(self._failed)
        line = self._line
        line.awaited = self._handed  # first: the writer counts first and then checks for waiters
        if line.done >= self._handed:
            return
        if self._stalled:
            self._stalled = False
            self._store.put(Again(line))
        self._outbox.hurry()
        finished: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((self._handed, finished))
        await finished

    async def commit(
        self, body: Callable[[Any], T], record: Callable[[T], Sequence[JournalEntry]]
    ) -> T:
        """Run the body on the writer thread, in one transaction with its record."""
        if self._failed is not None:
            raise _again(self._failed)
        pending = self._close_row()
        finished: asyncio.Future[T] = self._loop.create_future()
        job = Commit(pending, body, record, finished, len(self.entries))
        self._commits.append(job)
        self._outbox.send(job)  # what came first goes first
        try:
            return await asyncio.shield(finished)
        except asyncio.CancelledError:
            if job.try_claim():
                finished.cancel()
            else:
                job.unwanted = True
                await until(finished)
            raise

    def take(self, item: InboxItem) -> None:
        """Take the item out of the inbox with the next flush."""
        self.mail.remove(item)
        self._taking.append(item)

    def replace_reserved(self, store: object, places: Sequence[ReservedCall]) -> bool:
        """Take calls off the books with the next flush; False if those are of another store."""
        if store is not self._store:
            return False
        self._replacing += tuple(places)
        return True

    async def close(self) -> None:
        """Flush, wait, and release the session. A full disk leaves it open, to be closed later."""
        if self._store.holds(self):
            self.flush()
            try:
                await self.durable()
                await self.leave()
            finally:
                if self._failed is not None or self._line.done >= self._handed:
                    self._store.release(self)

    async def leave(self) -> None:
        """Record that nobody writes to the session, so that others need not check the process."""
        if self._holding and self._failed is None:
            self._holding = False
            try:
                await self._store.give_up(self._line)
            except StoreError as error:  # they will see that the process has ended
                log.warning("session %s: its holder stays on record: %s", self.session_id, error)

    # ----------------------------------------------------------------------- from the writer

    def on_settled(self, done: int, error: StoreError | None, final: bool) -> None:
        """Learn how many rows are on disk, or why not."""
        if error is None:
            self._stalled = False
        elif final:
            self._failed = error
        else:
            self._stalled = True
        waiting, self._waiting = self._waiting, []
        for needed, finished in waiting:
            if finished.done():
                continue
            if error is not None:
                finished.set_exception(_again(error))
            elif needed <= done:
                finished.set_result(None)
            else:
                self._waiting.append((needed, finished))

    def on_committed(self, job: Commit) -> None:
        """Insert the record of an ended commit at its place on disk."""
        recorded, at = job.entries, job.index
        place = self._commits.index(job)
        del self._commits[place]
        if recorded:
            self.entries[at:at] = recorded
            self._flushed += len(recorded)
            for later in self._commits[place:]:
                later.index += len(recorded)
        if job.finished.done():
            return
        if job.error is None:
            job.finished.set_result(job.value)
        elif isinstance(job.error, StopIteration):  # a future refuses to hold one
            job.finished.set_exception(RuntimeError(f"the body raised {job.error!r}"))
        else:
            job.finished.set_exception(job.error)

    def on_delivered(self, items: list[InboxItem]) -> None:
        """Take new mail."""
        self.mail += items
        if self.on_mail is not None:
            self.on_mail()


async def until(finished: asyncio.Future[Any]) -> None:
    """Wait for the future, however often this task is cancelled meanwhile."""
    while not finished.done():
        try:
            await asyncio.wait([finished])
        except asyncio.CancelledError:
            continue
    if not finished.cancelled():
        finished.exception()  # seen


def _again(error: StoreError) -> StoreError:
    """Copy an error, to be raised again with a traceback of its own."""
    copy = type(error)(*error.args)
    copy.__cause__, copy.unwritten = error, error.unwritten
    return copy
