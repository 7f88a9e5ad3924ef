"""Sessions in Postgres: durable, shared by the processes of many machines.

The tables are in `schema`, the reads in `queries`, the writes in `writer`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, Unpack

from windlass import seams
from windlass.events import JournalEntry, ToolResulted
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject
from windlass.store import codec as written
from windlass.store.base import Head, InboxItem, InboxKind, Row, SessionInfo, find_result
from windlass.store.model_calls import (
    ModelCall,
    ReserveAnswer,
    ReservedCall,
    SpendingLimit,
    Which,
    check_filters,
)
from windlass.store.postgres import queries as reading
from windlass.store.postgres import schema
from windlass.store.postgres import sessions as changes
from windlass.store.postgres.address import Address
from windlass.store.postgres.commit import look, look_once, once
from windlass.store.postgres.connection import Connection
from windlass.store.postgres.driver_lock import DriverConnection
from windlass.store.postgres.writer import Writer
from windlass.store.threaded.jobs import Call, Line
from windlass.store.threaded.store import (
    BUSY_SECONDS,
    Opening,
    ServedStore,
    to_the_end,
    without_opening,
)

T = TypeVar("T")
_SEARCH_PATH = "SELECT pg_catalog.current_setting('search_path')"
_HAS_TABLE = (
    "SELECT EXISTS (SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE c.relname = $1 AND n.nspname = current_schema())"
)
log = logging.getLogger("windlass.store")


class PostgresStore(ServedStore):
    """Sessions in a Postgres database: `PostgresStore("postgresql://ann:secret@db/agents")`.

    Tables are made when missing. Several event loops and threads may share a store; a process of
    its own opens its own. While the server cannot be reached, operations wait up to `busy_timeout`
    seconds, and what was not acknowledged is tried again.
    """

    def __init__(self, url: str, *, busy_timeout: float = BUSY_SECONDS) -> None:
        self.address, self.busy_timeout = Address(url), busy_timeout
        if self.address.warning is not None:
            log.warning(self.address.warning)
        self._writer = Writer(self.address, busy_timeout)
        super().__init__(self.address, self._writer)
        self._writer.token = self.token
        self.clock = self._writer.clock
        self._driving: DriverConnection | None = None
        self._asked_to_drive = False

    def read_clock(self) -> float:
        """Return the time in epoch seconds, by the server once it was asked."""
        return self.clock.now()

    async def _become_writer(self, opening: Opening) -> None:
        changes.check_id(opening.line.session_id)
        await self._ask(lambda writer: writer.open(opening))

    def _undoing(self, opening: Opening) -> Callable[[Any], Any]:
        return lambda writer: writer.undo(opening)

    async def give_up(self, line: Line) -> None:
        """Record that nobody writes to the session any more."""
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(Call(lambda writer: writer.give_up(line), finished, None))
        await finished

    async def read(self, session_id: str) -> list[JournalEntry]:
        """Return the stored entries of the session."""
        return written.decode_rows(await self.rows(session_id), session_id)

    async def rows(self, session_id: str) -> list[Row]:
        """Return the session's rows."""
        return (await self._look(lambda db: reading.rows(db, session_id)))[0]

    async def verify(self, session_id: str, *, anchor: Head | None = None) -> int:
        """Check the chain against the head."""
        rows, found = await self._look(lambda db: reading.rows(db, session_id))
        head = Head(found.stands[0], found.stands[2])
        return written.verify(rows, session_id, head, anchor).rows

    async def head(self, session_id: str) -> Head:
        """Return the end of the journal."""
        return await self._submit(
            lambda writer: look_once(writer.pool, lambda db: reading.head(db, session_id))
        )

    async def result_of(self, session_id: str, call_id: str) -> ToolResulted | None:
        """Return the recorded result of a call."""

        async def search(db: Connection) -> ToolResulted | None:
            async for row in reading.backwards(db, session_id):
                found = find_result(written.decode(row.payload, session_id, row.seq), call_id)
                if found is not None:
                    return found
            return None

        return await self._look(search)

    async def info(self, session_id: str) -> SessionInfo:
        """Describe the session."""
        return await self._look(lambda db: reading.info(db, session_id))

    async def sessions(self) -> list[SessionInfo]:
        """List all sessions, the latest first."""
        return await self._look(reading.infos)

    async def post(self, session_id: str, kind: InboxKind, payload: object = None) -> str:
        """Post an item to the session's inbox, from any process."""
        item_id, data = seams.new_id("mail"), written.encode_value(payload, "a posted item")
        item = (item_id, kind, data, self.read_clock())
        seams.point("inbox.before_post")
        await self._ask(lambda writer: writer.post(session_id, item))
        seams.point("inbox.after_post")
        return item_id

    async def inbox(self, session_id: str) -> list[InboxItem]:
        """List the items that were posted and not taken."""
        return await self._look(lambda db: reading.inbox(db, session_id))

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
        await self._change(
            lambda db, writer: changes.fork(
                db, session_id, new_id, copied, branch_at, metadata, writer.numbers
            )
        )

    async def delete(self, session_id: str) -> bool:
        """Delete the session, its mail and the values only it used; False if there was none."""
        self._check_free(session_id)
        return bool(
            await self._change(lambda db, _writer: changes.remove(db, "id = $1", session_id, set()))
        )

    async def prune(self, older_than: float) -> list[str]:
        """Delete sessions not changed since; those being written here stay."""
        held, gone = set(self._held), list[str]()
        while True:
            some = await self._change(
                lambda db, _writer: changes.remove(db, "updated_at < $1", older_than, held)
            )
            gone += some
            if len(some) < changes.AT_ONCE:
                return gone

    async def commit(self, body: Callable[[Any], T]) -> T:
        """Run the body in a transaction of its own, outside of any session."""
        context = contextvars.copy_context()
        left = threading.Event()
        finished = self._submit(lambda writer: writer.run_free(body, context, left.is_set))
        return await to_the_end(finished, left.set)

    async def consult(self, body: Callable[[Any], T]) -> T:
        """Run the body on a snapshot."""
        context = contextvars.copy_context()
        return await self._ask(lambda writer: writer.consult(body, context))

    async def calls(self, **which: Unpack[Which]) -> list[ModelCall]:
        """List the stored model calls that match."""
        check_filters(which)
        return await self._look(lambda db: reading.calls(db, which))

    async def spent(self, since: float, tenant: str | None = None) -> tuple[int, float]:
        """Sum the tokens and dollars of the calls from this time on."""
        return await self._look(lambda db: reading.sum_spending(db, since, tenant=tenant))

    async def record_calls(
        self, calls: Sequence[ModelCall], replaces: Sequence[ReservedCall] = ()
    ) -> None:
        """Record calls that no journal holds, in place of what was reserved for them."""
        if not calls and not replaces:
            return
        written.encode_value(calls, "a model call")

        async def record(db: Connection, writer: Writer) -> None:
            await changes.release(db, replaces)
            await changes.record(db, calls, writer.numbers)

        await self._change(record)

    async def reserve_call(
        self, call: ModelCall, limit: SpendingLimit | None, replaces: ReservedCall | None = None
    ) -> ReserveAnswer:
        """Record a call before it is made, if the limit leaves room for it."""
        written.encode_value(call, "a model call")

        async def reserve(writer: Writer) -> ReserveAnswer:
            return await once(
                writer.pool,
                lambda db, _trial: changes.reserve(db, call, limit, replaces, writer.numbers),
                "BEGIN ISOLATION LEVEL READ COMMITTED",
            )

        return await self._submit(reserve)

    async def release_calls(self, session_id: str) -> None:
        """Remove what is reserved for the calls of a session."""
        await self._change(lambda db, _writer: changes.release_session(db, session_id))

    async def find_search_path(self) -> str:
        """Return the search path of this store's connections; its tables exist then."""

        async def find(writer: Writer) -> str:
            return await look(writer.pool, lambda db: db.fetchval(_SEARCH_PATH))

        return await self._ask(find)

    async def install_tables(self, table: str, text: str) -> None:
        """Run statements that create tables beside those of the store, unless `table` is there."""

        async def install(db: Connection, _trial: object) -> None:
            await db.execute("SELECT pg_advisory_xact_lock($1)", schema.LOCK)
            if not await db.fetchval(_HAS_TABLE, table):
                await db.execute(text)

        await self._ask(lambda writer: once(writer.pool, install))

    async def try_driver_lock(self) -> bool:
        """Become the only process that drives sessions here; False while another one is."""

        async def acquire(writer: Writer) -> bool:
            if self._driving is None:
                self._driving = DriverConnection(writer.address, writer.patience, writer.schema.use)
            return await self._driving.try_acquire()

        self._asked_to_drive = True
        return await self._ask(acquire)

    async def release_driver_lock(self) -> None:
        """Let another process drive sessions; an attempt that is under way is waited for."""
        if not self._asked_to_drive:
            return
        self._asked_to_drive = False

        async def release(_writer: Writer) -> None:
            driving, self._driving = self._driving, None
            if driving is not None:
                await driving.release()

        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(Call(release, finished, None))
        await finished

    async def _end_readers(self) -> None:
        await self.release_driver_lock()

    # ----------------------------------------------------------------------- the thread

    def _submit(self, work: Callable[[Writer], Awaitable[T]]) -> asyncio.Future[T]:
        self.check_usable()
        finished: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.put(Call(work, finished, None))
        return finished

    async def _ask(self, work: Callable[[Writer], Awaitable[T]]) -> T:
        return await self._submit(work)

    async def _look(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await self._submit(lambda writer: look(writer.pool, work))

    async def _change(self, work: Callable[[Connection, Writer], Awaitable[T]]) -> T:
        return await self._submit(
            lambda writer: once(writer.pool, lambda db, _trial: work(db, writer))
        )
