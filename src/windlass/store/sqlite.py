"""Sessions in a SQLite file: durable, shared by threads and processes, one writer thread per store.

What is on disk and how: `schema`, `reading`. How it gets there: `writer`.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, Unpack

from windlass import seams
from windlass.errors import Corrupt, Locked, StoreError
from windlass.events import JournalEntry, SessionOpened, ToolResulted
from windlass.store import books, changes, reading, schema
from windlass.store import journal as written
from windlass.store.base import Head, InboxItem, InboxKind, Row, SessionInfo
from windlass.store.body import Tx, Unguarded
from windlass.store.calls import ModelCall, Which, chosen
from windlass.store.handed import HandedJournal, until
from windlass.store.jobs import Call, Forget, Jobs, Line
from windlass.store.memory import result_in
from windlass.store.outbox import Outboxes
from windlass.store.writer import Writer

T = TypeVar("T")
BUSY_SECONDS = 30.0
EXIT_SECONDS = 5.0


class SqliteStore:
    """Sessions in the file at `path`, made when missing: `store = SqliteStore("agents.db")`.

    Several event loops and threads may share a store; a process of its own opens its own. While
    another process holds the database, operations wait up to `busy_timeout` seconds.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = BUSY_SECONDS) -> None:
        self.path, self.busy_timeout = Path(path), busy_timeout
        self._writer = Writer(self.path, busy_timeout)
        self._held: dict[str, HandedJournal] = {}
        self.outboxes = Outboxes(self.put)
        self._reader: sqlite3.Connection | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._ready = self._closed = self._forked = False
        self._users, self._counting = 1, threading.Lock()
        _living.add(self)
        atexit.register(self._exit)

    def __repr__(self) -> str:
        return f"<SqliteStore {self.path}>"

    async def open(
        self,
        session_id: str,
        *,
        create: bool = True,
        parent_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> HandedJournal:
        """Become the session's writer; a writer elsewhere is stale from now on."""
        self.check_usable()
        journal = HandedJournal(self, session_id)
        if self._held.setdefault(session_id, journal) is not journal:
            raise Locked(
                f"session {session_id!r} has a writer in this process already: a run is under way on it. "
                "Wait for its end, or use another session_id"
            )
        try:
            opening = changes.Opening(journal.line, create, parent_id, metadata)
            opening.check()
            seams.point("session.before_open")
            await self._write(opening.work, self._opened(journal.line))
            seams.point("session.after_open")
            entries = opening.entries
            if entries is None:
                entries = await self._read(lambda db: _entries(db, session_id))
            journal.begin(entries, opening.mail)
        except BaseException:
            self.release(journal)
            raise
        return journal

    async def read(self, session_id: str) -> list[JournalEntry]:
        """The session's entries, as far as they are on disk."""
        return await self._read(
            lambda db: written.decode_rows(
                reading.snapshot(db, lambda db: reading.rows(db, session_id)), session_id
            )
        )

    async def rows(self, session_id: str) -> list[Row]:
        """The session's rows."""
        return await self._read(
            lambda db: reading.snapshot(db, lambda db: reading.rows(db, session_id))
        )

    async def verify(self, session_id: str, *, anchor: Head | None = None) -> int:
        """Check the chain against the head."""

        def check(db: sqlite3.Connection) -> int:
            rows, head = reading.snapshot(
                db, lambda db: (reading.rows(db, session_id), reading.head(db, session_id))
            )
            return written.verify(rows, session_id, head, anchor).rows

        return await self._read(check)

    async def head(self, session_id: str) -> Head:
        """Where the journal ends."""
        return await self._read(lambda db: reading.head(db, session_id))

    async def result_of(self, session_id: str, call_id: str) -> ToolResulted | None:
        """The recorded result of a call."""

        def look(db: sqlite3.Connection) -> ToolResulted | None:
            for row in reading.backwards(db, session_id):
                found = result_in(written.decode(row.payload, session_id, row.seq), call_id)
                if found is not None:
                    return found
            return None

        return await self._read(lambda db: reading.snapshot(db, look))

    async def info(self, session_id: str) -> SessionInfo:
        """The session as a list shows it."""
        return await self._read(
            lambda db: reading.snapshot(db, lambda db: reading.info(db, session_id))
        )

    async def sessions(self) -> list[SessionInfo]:
        """All sessions, the latest first."""
        return await self._read(lambda db: reading.snapshot(db, reading.infos))

    async def post(self, session_id: str, kind: InboxKind, payload: Any = None) -> str:
        """Leave something in the session's inbox, from any process."""
        item_id, data = seams.new_id("mail"), written.encode_value(payload, "a posted item")
        at = seams.now()

        def work(db: sqlite3.Connection) -> str:
            sid = reading.find(db, session_id)[0]
            db.execute(
                "INSERT INTO windlass_inbox (sid, id, kind, payload, at) VALUES (?, ?, ?, ?, ?)",
                (sid, item_id, kind, data, at),
            )
            return item_id

        seams.point("inbox.before_post")
        await self._write(work, self._writer.mail_was_posted)
        seams.point("inbox.after_post")
        return item_id

    async def inbox(self, session_id: str) -> list[InboxItem]:
        """What was posted and not taken."""
        return await self._read(
            lambda db: reading.snapshot(db, lambda db: reading.inbox(db, session_id))
        )

    async def fork(
        self, session_id: str, new_id: str, entries: Sequence[JournalEntry], branch_at: int | None
    ) -> None:
        """A new session with these entries and its parent's lineage."""
        copied = [entry for entry in entries if type(entry) is not SessionOpened]
        await self._write(lambda db: changes.fork(db, session_id, new_id, copied, branch_at))

    async def delete(self, session_id: str) -> bool:
        """Remove the session, its mail and the values only it used; False when there was none."""
        if session_id in self._held:
            raise Locked(f"session {session_id!r} is being written; close it first")
        return await self._write(
            lambda db: bool(changes.remove(db, "id = ?", (session_id,), set()))
        )

    async def prune(self, older_than: float) -> list[str]:
        """Delete sessions not touched since; those being written here stay."""
        held = set(self._held)
        return await self._write(
            lambda db: changes.remove(db, "updated_at < ?", (older_than,), held)
        )

    async def commit(self, body: Callable[[Any], T]) -> T:
        """Run the body on the writer thread, in a transaction of its own."""
        self.check_usable()
        finished: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.put(Call(body, finished, None, body=True))
        try:
            return await asyncio.shield(finished)
        except asyncio.CancelledError:
            await until(finished)
            raise

    async def consult(self, body: Callable[[Any], T]) -> T:
        """Run the body on a snapshot."""
        return await self._read(
            lambda db: reading.snapshot(db, lambda db: body(Tx(db, Unguarded(db))))
        )

    async def calls(self, **which: Unpack[Which]) -> list[ModelCall]:
        """The books, as far as they are on disk."""
        chosen(which)
        return await self._read(lambda db: books.calls(db, which))

    async def record_calls(self, calls: Sequence[ModelCall]) -> None:
        """Put calls on the books that no journal holds."""
        if calls:
            written.encode_value(calls, "a model call")
            await self._write(lambda db: books.record(db, calls))

    def share(self) -> bool:
        """One more user, who will call `aclose` too; False once it is closed or left behind a fork."""
        with self._counting:
            if self._closed or self._forked:
                return False
            self._users += 1
            return True

    async def aclose(self) -> None:
        """Write what is queued and end the threads. Journals still open take no more rows."""
        with self._counting:
            self._users -= 1
            if self._users > 0 or self._closed:
                return
            self._closed = True
        atexit.unregister(self._exit)
        if self._forked:
            return
        self.outboxes.send()
        loop = asyncio.get_running_loop()
        if self._readers is not None:
            await loop.run_in_executor(self._readers, self._close_reader)
            self._readers.shutdown(wait=True)
        ended = asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(ended.set)

        if self._writer.stop(tell):
            await ended.wait()
            self._writer.join()
        self._held.clear()

    # ----------------------------------------------------------------------- for its journals

    def put(self, job: Jobs) -> None:
        """Hand something to the writer."""
        if self._forked:
            self.check_usable()
        self._writer.put(job)

    def check_usable(self) -> None:
        """Raise what a store says that was closed, or opened before a fork."""
        if self._forked:
            raise StoreError(
                f"{self.path}: this store was opened before os.fork(); "
                "a child opens its own SqliteStore"
            )
        if self._closed:
            raise StoreError(f"{self.path}: this store was closed; open a new one")

    def holds(self, journal: HandedJournal) -> bool:
        """True while the journal is the session's writer here."""
        return self._held.get(journal.session_id) is journal

    def release(self, journal: HandedJournal) -> None:
        """Let the next writer in."""
        if self.holds(journal):
            del self._held[journal.session_id]
            if not self._writer.stopped and not self._forked:
                self._writer.put(Forget(journal.line))

    # ----------------------------------------------------------------------- threads

    async def _write(
        self, work: Callable[[sqlite3.Connection], T], after: Callable[[T], None] | None = None
    ) -> T:
        self.check_usable()
        finished: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.put(Call(work, finished, after))
        value = await finished
        self._ready = True
        return value

    async def _read(self, look: Callable[[sqlite3.Connection], T]) -> T:
        self.check_usable()
        if not self._ready:
            await self._write(_nothing)
        if self._readers is None:
            self._readers = ThreadPoolExecutor(1, thread_name_prefix="windlass-store-reader")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._look, look)

    def _look(self, look: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._reader is None:
                self._reader = schema.connect_reader(self.path, self.busy_timeout)
            return look(self._reader)
        except sqlite3.Error as error:
            raise schema.meaning(error, self.path) from error

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _opened(self, line: Line) -> Callable[[object], None]:
        def register(_value: object) -> None:
            self._writer.lines[line.sid] = line

        return register

    def _exit(self) -> None:
        """The interpreter ends and nobody closed us: write what is queued, but do not hang."""
        if not self._forked:
            self.outboxes.send()
            self._writer.stop()
            self._writer.join(EXIT_SECONDS)

    def after_fork(self) -> list[object]:
        """In a forked child: refuse everything, and give up the connections unclosed."""
        self._forked = True
        return [self._writer.connection, self._reader, self._writer]


def _nothing(_db: sqlite3.Connection) -> None:
    """Makes the writer connect, and the tables with it."""


def _entries(db: sqlite3.Connection, session_id: str) -> list[JournalEntry]:
    """What a new writer starts from: history from disk is not trusted, so the chain is followed."""
    rows, head, count = reading.snapshot(
        db,
        lambda db: (
            reading.rows(db, session_id),
            reading.head(db, session_id),
            reading.find(db, session_id)[3],
        ),
    )
    written.verify(rows, session_id, head)
    entries = written.decode_rows(rows, session_id)
    if len(entries) != count:
        raise Corrupt(
            f"session {session_id!r} has {len(entries)} entries, and its list says {count}"
        )
    return entries


_living: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_given_up: list[object] = []


def _in_child() -> None:
    for store in list(_living):
        _given_up.extend(store.after_fork())


os.register_at_fork(after_in_child=_in_child)
