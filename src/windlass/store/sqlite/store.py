"""Sessions in a SQLite file: durable, shared by threads and processes, one writer thread per store.

The tables are in `schema`, the reads in `queries`, the writes in `writer`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, Unpack

from windlass import seams
from windlass.events import JournalEntry, ToolResulted
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject
from windlass.store import codec as written
from windlass.store.answers import CHECKED, check_for
from windlass.store.base import Head, InboxItem, InboxKind, Row, SessionInfo, find_result
from windlass.store.model_calls import (
    ModelCall,
    ReserveAnswer,
    ReservedCall,
    SpendingLimit,
    Which,
    check_filters,
)
from windlass.store.sqlite import (
    model_calls,
    schema,
)
from windlass.store.sqlite import (
    queries as sqlite_queries,
)
from windlass.store.sqlite import (
    sessions as changes,
)
from windlass.store.sqlite.writer import Writer
from windlass.store.threaded.jobs import Call, Line
from windlass.store.threaded.store import (
    BUSY_SECONDS,
    Opening,
    ServedStore,
    to_the_end,
    without_opening,
)
from windlass.store.transaction import Tx, Unguarded
from windlass.store.wishes import WAKE_TREE, WAKING

T = TypeVar("T")


class SqliteStore(ServedStore):
    """Sessions in the file at `path`, made when missing: `store = SqliteStore("agents.db")`.

    Several event loops and threads may share a store; a process of its own opens its own. While
    another process holds the database, operations wait up to `busy_timeout` seconds.

    A database with tables of others and none of Windlass is refused, and not changed:
    `SqliteStore("shop.db", add_tables=True)` keeps sessions beside your own tables. With
    `read_only=True` nothing is ever written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = BUSY_SECONDS,
        add_tables: bool = False,
        read_only: bool = False,
    ) -> None:
        self.path, self.busy_timeout, self.read_only = Path(path), busy_timeout, read_only
        self._writer = Writer(self.path, busy_timeout)
        self._writer.add_tables, self._writer.read_only = add_tables, read_only
        super().__init__(self.path, self._writer)
        self._writer.token = self.token
        self._reader: sqlite3.Connection | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._ready = False
        self._running: model_calls.RunningSum | None = None  # of the calls that are recorded

    def require_id(self, identify: Callable[[Path], str]) -> None:
        """Open the file only if it has the id that `identify(path)` returns; a new one gets it."""
        self._writer.identify = identify

    def allow_adding_tables(self) -> None:
        """Allow the tables to be added to a database that holds others."""
        self._writer.add_tables = True

    async def _become_writer(self, opening: Opening) -> None:
        line = opening.line

        def register(_value: object) -> None:
            self._writer.lines[line.sid] = line

        await self._write(lambda db: changes.become_writer(db, opening), register)
        if opening.entries is None:
            opening.entries = await self._read(lambda db: _entries(db, line.session_id))

    def _undoing(self, opening: Opening) -> Callable[[Any], Any]:
        return lambda db: changes.give_up(db, opening.line)

    async def give_up(self, line: Line) -> None:
        """Record that nobody writes to the session any more."""
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(Call(lambda db: changes.give_up(db, line), finished, None))
        await finished

    async def read(self, session_id: str) -> list[JournalEntry]:
        """Return the stored entries of the session."""
        return await self._read(
            lambda db: written.decode_rows(
                sqlite_queries.snapshot(db, lambda db: sqlite_queries.rows(db, session_id)),
                session_id,
            )
        )

    async def rows(self, session_id: str) -> list[Row]:
        """Return the session's rows."""
        return await self._read(
            lambda db: sqlite_queries.snapshot(db, lambda db: sqlite_queries.rows(db, session_id))
        )

    async def verify(self, session_id: str, *, anchor: Head | None = None) -> int:
        """Check the chain against the head."""

        def check(db: sqlite3.Connection) -> int:
            rows, head = sqlite_queries.snapshot(
                db,
                lambda db: (
                    sqlite_queries.rows(db, session_id),
                    sqlite_queries.head(db, session_id),
                ),
            )
            return written.verify(rows, session_id, head, anchor).rows

        return await self._read(check)

    async def head(self, session_id: str) -> Head:
        """Return the end of the journal."""
        return await self._read(lambda db: sqlite_queries.head(db, session_id))

    async def result_of(self, session_id: str, call_id: str) -> ToolResulted | None:
        """Return the recorded result of a call."""

        def look(db: sqlite3.Connection) -> ToolResulted | None:
            for row in sqlite_queries.backwards(db, session_id):
                found = find_result(written.decode(row.payload, session_id, row.seq), call_id)
                if found is not None:
                    return found
            return None

        return await self._read(lambda db: sqlite_queries.snapshot(db, look))

    async def info(self, session_id: str) -> SessionInfo:
        """Describe the session."""
        return await self._read(
            lambda db: sqlite_queries.snapshot(db, lambda db: sqlite_queries.info(db, session_id))
        )

    async def sessions(self) -> list[SessionInfo]:
        """List all sessions, the latest first."""
        return await self._read(lambda db: sqlite_queries.snapshot(db, sqlite_queries.infos))

    async def post(self, session_id: str, kind: InboxKind, payload: object = None) -> str:
        """Post an item to the session's inbox, from any process."""
        item_id, data = seams.new_id("mail"), written.encode_value(payload, "a posted item")
        at = seams.now()

        def work(db: sqlite3.Connection) -> str:
            sid = sqlite_queries.find(db, session_id)[0]
            if kind in CHECKED:
                _check_post(db, session_id, kind, payload)
            db.execute(
                "INSERT INTO windlass_inbox (sid, id, kind, payload, at) VALUES (?, ?, ?, ?, ?)",
                (sid, item_id, kind, data, at),
            )
            if kind in WAKING:
                db.execute(WAKE_TREE, (at, at, session_id))
            return item_id

        seams.point("inbox.before_post")
        await self._write(work, self._writer.mail_was_posted)
        seams.point("inbox.after_post")
        return item_id

    async def inbox(self, session_id: str) -> list[InboxItem]:
        """List the items that were posted and not taken."""
        return await self._read(
            lambda db: sqlite_queries.snapshot(db, lambda db: sqlite_queries.inbox(db, session_id))
        )

    async def fork(
        self,
        session_id: str,
        new_id: str,
        entries: Sequence[JournalEntry],
        branch_at: int | None,
        metadata: JsonObject | None = None,
    ) -> None:
        """Create a session with these entries and its parent's lineage."""
        check_identifier(new_id, "session_id")
        copied = without_opening(entries)
        await self._write(
            lambda db: changes.fork(db, session_id, new_id, copied, branch_at, metadata)
        )

    async def delete(self, session_id: str) -> bool:
        """Delete the session, its mail and the values only it used; False if there was none."""
        self._check_free(session_id)
        return await self._write(
            lambda db: bool(changes.remove(db, "id = ?", (session_id,), set()))
        )

    async def prune(self, older_than: float) -> list[str]:
        """Delete sessions not changed since; those being written here stay."""
        held = set(self._held)
        return await self._write(
            lambda db: changes.remove(db, "updated_at < ?", (older_than,), held)
        )

    async def commit(self, body: Callable[[Any], T]) -> T:
        """Run the body on the writer thread, in a transaction of its own."""
        self.check_usable()
        finished: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.put(Call(body, finished, self._writer.mail_was_posted, body=True))
        return await to_the_end(finished)

    async def consult(self, body: Callable[[Any], T]) -> T:
        """Run the body on a snapshot."""
        return await self._read(
            lambda db: sqlite_queries.snapshot(db, lambda db: body(Tx(db, Unguarded(db))))
        )

    async def calls(self, **which: Unpack[Which]) -> list[ModelCall]:
        """List the stored model calls that match."""
        check_filters(which)
        return await self._read(lambda db: model_calls.calls(db, which))

    async def spent(self, since: float, tenant: str | None = None) -> tuple[int, float]:
        """Sum the tokens and dollars of the calls from this time on."""
        return await self._read(lambda db: model_calls.sum_spending(db, since, tenant))

    async def record_calls(
        self, calls: Sequence[ModelCall], replaces: Sequence[ReservedCall] = ()
    ) -> None:
        """Record calls that no journal holds, in place of what was reserved for them."""
        if not calls and not replaces:
            return
        written.encode_value(calls, "a model call")

        def record(db: sqlite3.Connection) -> None:
            model_calls.release(db, replaces)
            model_calls.record(db, calls)

        await self._write(record)

    async def reserve_call(
        self, call: ModelCall, limit: SpendingLimit | None, replaces: ReservedCall | None = None
    ) -> ReserveAnswer:
        """Record a call before it is made, if the limit leaves room for it."""
        written.encode_value(call, "a model call")
        since = 0.0 if limit is None else limit.since
        known = self._running
        if known is None or known.since != since:
            known = model_calls.RunningSum(since)
        answer, further = await self._write(
            lambda db: model_calls.reserve(db, call, limit, replaces, known)
        )
        if limit is not None:  # what it has read is committed
            self._running = further
        return answer

    async def release_calls(self, session_id: str) -> None:
        """Remove what is reserved for the calls of a session."""
        await self._write(lambda db: model_calls.release_session(db, session_id))

    async def _end_readers(self) -> None:
        if self._readers is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._readers, self._close_reader)
            self._readers.shutdown(wait=True)

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
        if not self._ready and not self.read_only:
            await self._write(_nothing)
            self.check_usable()  # a reader that begins after the end would not be ended
        if self._readers is None:
            self._readers = ThreadPoolExecutor(1, thread_name_prefix="windlass-store-reader")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._look, look)

    def _look(self, look: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._reader is None:
                self._reader = self._connect_reader()
            return look(self._reader)
        except sqlite3.Error as error:
            raise schema.meaning(error, self.path) from error

    def _connect_reader(self) -> sqlite3.Connection:
        def connect() -> sqlite3.Connection | None:
            return schema.connect_reader(
                self.path,
                self.busy_timeout,
                beside_writer=not self.read_only,
                identify=self._writer.identify,
            )

        connection = connect()
        if connection is None:  # Windlass's, of an older version: upgrade it, once
            schema.connect(self.path, self.busy_timeout, identify=self._writer.identify).close()
            connection = connect()
        assert connection is not None
        return connection

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def after_fork(self) -> list[object]:
        """Refuse all use in a forked child, and drop the connections unclosed."""
        return [self._writer.connection, self._reader, *super().after_fork()]


def _nothing(_db: sqlite3.Connection) -> None:
    """Do nothing: the writer connects and creates the tables."""


def _check_post(db: sqlite3.Connection, session_id: str, kind: InboxKind, payload: object) -> None:
    """Refuse a second answer, or an event for a full queue; no other writer can interfere."""
    check = check_for(kind, payload, sqlite_queries.inbox(db, session_id))
    if check is None:
        return
    for row in sqlite_queries.backwards(db, session_id):
        if check.read(written.decode(row.payload, session_id, row.seq)):
            return
    check.finish()


def _entries(db: sqlite3.Connection, session_id: str) -> list[JournalEntry]:
    rows, head, count = sqlite_queries.snapshot(
        db,
        lambda db: (
            sqlite_queries.rows(db, session_id),
            sqlite_queries.head(db, session_id),
            sqlite_queries.find(db, session_id)[3],
        ),
    )
    return written.restore_entries(rows, session_id, head, count)
