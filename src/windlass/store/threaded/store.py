"""The base of stores with a writer thread: held sessions, users, forks.

How rows get where they are kept is the affair of `sqlite` and `postgres`.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from windlass import seams
from windlass.errors import Locked, SessionHeld, StoreError
from windlass.events import JournalEntry, SessionOpened
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject
from windlass.store import codec as written
from windlass.store import holder as holders
from windlass.store.base import InboxItem
from windlass.store.holder import Holder
from windlass.store.threaded.jobs import (
    Call,
    Forget,
    Jobs,
    Line,
)
from windlass.store.threaded.journal import HandedJournal, until
from windlass.store.threaded.outbox import Outboxes
from windlass.store.wishes import Claim, ClaimRefused

T = TypeVar("T")
BUSY_SECONDS = 30.0
EXIT_SECONDS = 5.0


class Thread(Protocol):
    """The thread that writes for a store."""

    stopped: bool
    put: Callable[[Jobs], None]

    def stop(self, ended: Callable[[], None] | None = None) -> bool:
        """Write what is queued and end, calling `ended` last; False if it never began."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        ...


class Opening:
    """A request to become a session's writer, by its first row or next epoch."""

    def __init__(
        self,
        line: Line,
        create: bool,
        parent_id: str | None,
        metadata: JsonObject | None,
        take_over: bool,
        claim: Claim | None,
    ) -> None:
        self.line, self.create, self.take_over = line, create, take_over
        self.claim = claim
        self.parent_id, self.metadata = parent_id, metadata
        self.entries: list[JournalEntry] | None = None  # None: they are to be read
        self.mail: list[InboxItem] = []
        self.ended: asyncio.Event | None = None  # on a loop of the thread's
        self.at = seams.now()
        self.lost_seconds = 0.0  # that the writer before lived after its last row, at most
        written.encode_value((line.session_id, metadata), "the session's metadata")

    def claim_error(self) -> ClaimRefused:
        """Return the error of a session whose claim has changed no row."""
        return ClaimRefused(
            f"session {self.line.session_id!r} wants something else now, or another worker drives it"
        )

    def refuse_if_held(self, stored: str | None, last_active: float, silent: float | None) -> None:
        """Raise `SessionHeld` while the writer that is on record is alive."""
        holder = holders.decode(stored)
        self.lost_seconds = holders.lost_seconds(self.at - last_active, silent)
        if self.take_over or holder is None or stored == self.line.holder:
            return
        if is_alive(holder, self.line.session_id, silent):
            raise holders.session_held_error(self.line.session_id, holder, last_active)


class ServedStore:
    """A store that several event loops and threads share; each process opens its own."""

    def __init__(self, place: object, thread: Thread) -> None:
        self._place, self._thread = place, thread
        self._held: dict[str, HandedJournal] = {}
        self.token = seams.new_id("store")
        self.outboxes = Outboxes(self.put)
        self._closed = self._forked = False
        self._users, self._counting = 1, threading.Lock()
        _living.add(self)
        atexit.register(self._exit)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._place}>"

    async def open(
        self,
        session_id: str,
        *,
        create: bool = True,
        parent_id: str | None = None,
        metadata: JsonObject | None = None,
        take_over: bool = False,
        caller: str | None = None,
        claim: Claim | None = None,
    ) -> HandedJournal:
        """Become the session's writer; a writer elsewhere is stale from now on.

        A `claim` is stored with it, or nothing is, and `ClaimRefused` raised.
        """
        self.check_usable()
        if create:
            check_identifier(session_id, "session_id")
        journal = HandedJournal(self, session_id)
        holder = holders.new_holder(self.token, caller, self.read_clock())
        journal.line.holder = holders.encode(holder)
        other = self._held.setdefault(session_id, journal)
        if other is not journal:
            if not take_over:
                raise _held_by(other)
            self._held[session_id] = journal
        opening: Opening | None = None
        try:
            opening = Opening(journal.line, create, parent_id, metadata, take_over, claim)
            seams.point("session.before_open")
            await self._become_writer(opening)
            seams.point("session.after_open")
            journal.begin(opening.entries or [], opening.mail)
            journal.lost_seconds = opening.lost_seconds
        except BaseException as error:
            self.release(journal)
            if opening is not None and not isinstance(error, StoreError):
                self._abandon(opening)
            if other is not journal:  # which was not taken over after all
                self._held.setdefault(session_id, other)
            raise
        return journal

    def read_clock(self) -> float:
        """Return the time in epoch seconds, by the server if there is one."""
        return seams.now()

    async def _become_writer(self, opening: Opening) -> None:
        """Record the new writer, and read what the session holds."""
        raise NotImplementedError

    def _abandon(self, opening: Opening) -> None:
        """Undo an opening whose caller has left."""
        if not self._closed and not self._forked:
            finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._thread.put(Call(self._undoing(opening), finished, None))
            finished.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _undoing(self, opening: Opening) -> Callable[[Any], Any]:
        """Build the work that clears the session's holder."""
        raise NotImplementedError

    def share(self) -> bool:
        """Count one more user, who will call `aclose` too; False once closed or forked."""
        with self._counting:
            if self._closed or self._forked:
                return False
            self._users += 1
            return True

    async def aclose(self) -> None:
        """Write what is queued and end all threads. Open journals take no more rows."""
        with self._counting:
            self._users -= 1
            if self._users > 0 or self._closed:
                return
            self._closed = True
        atexit.unregister(self._exit)
        if self._forked:
            return
        self.outboxes.send()
        for journal in list(self._held.values()):
            await journal.leave()
        await self._end_readers()
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(ended.set)

        if self._thread.stop(tell):
            await ended.wait()
            self._thread.join()
        self._held.clear()

    async def _end_readers(self) -> None:
        """Close the readers beside the thread."""

    # ----------------------------------------------------------------------- for its journals

    def put(self, job: Jobs) -> None:
        """Queue a job for the thread."""
        if self._forked:
            self.check_usable()
        self._thread.put(job)

    def check_usable(self) -> None:
        """Raise the error of a store that was closed, or opened before a fork."""
        if self._forked:
            raise StoreError(
                f"{self._place}: this store was opened before os.fork(); "
                f"a child opens its own {type(self).__name__}"
            )
        if self._closed:
            raise StoreError(f"{self._place}: this store was closed; open a new one")

    async def give_up(self, line: Line) -> None:
        """Record that nobody writes to the session, if it is still this writer's."""
        raise NotImplementedError

    def is_writing(self, session_id: str, holder: Holder) -> bool:
        """Check whether the holder is the session's writer in this store."""
        journal = self._held.get(session_id)
        if journal is None or self._closed or self._forked:
            return False
        return holders.decode(journal.line.holder) == holder

    def holds(self, journal: HandedJournal) -> bool:
        """Check whether the journal is the session's writer here."""
        return self._held.get(journal.session_id) is journal

    def release(self, journal: HandedJournal) -> None:
        """Let the next writer in."""
        if self.holds(journal):
            del self._held[journal.session_id]
            if not self._thread.stopped and not self._forked:
                self._thread.put(Forget(journal.line))

    # ----------------------------------------------------------------------- for its own kind

    def _check_free(self, session_id: str) -> None:
        """Refuse to delete a session that is being written."""
        if session_id in self._held:
            raise Locked(f"session {session_id!r} is being written; close it first")

    def _exit(self) -> None:
        """Write what is queued when the interpreter ends, without hanging."""
        if not self._forked:
            self.outboxes.send()
            self._thread.stop()
            self._thread.join(EXIT_SECONDS)

    def after_fork(self) -> list[object]:
        """Refuse all use in a forked child, and drop the connections unclosed."""
        self._forked = True
        return [self._thread]


async def to_the_end(finished: asyncio.Future[T], leave: Callable[[], None] | None = None) -> T:
    """Return the result of a queued body; a cancelled caller still waits for its end."""
    try:
        return await asyncio.shield(finished)
    except asyncio.CancelledError:
        if leave is not None:
            leave()
        await until(finished)
        raise


def without_opening(entries: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Drop the opening entry: a fork has its own."""
    return [entry for entry in entries if type(entry) is not SessionOpened]


def is_alive(holder: Holder, session_id: str, silent: float | None) -> bool:
    """Check whether the holder still writes to the session.

    `silent` is the seconds since its last heartbeat.
    """
    if holders.is_own_process(holder):
        stores = [store for store in _living if store.token == holder.store]
        return any(store.is_writing(session_id, holder) for store in stores)
    return holders.lives(holder, silent)


def _held_by(journal: HandedJournal) -> SessionHeld:
    holder = holders.decode(journal.line.holder)
    assert holder is not None
    return holders.session_held_error(journal.session_id, holder, journal.touched)


_living: weakref.WeakSet[ServedStore] = weakref.WeakSet()
_given_up: list[object] = []


def _in_child() -> None:
    for store in list(_living):
        _given_up.extend(store.after_fork())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
