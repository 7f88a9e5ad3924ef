"""Sessions in memory: for scripts, tests and runs that need not be kept.

An append is a list's append. Nothing is encoded or hashed until someone asks for the rows.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, Unpack
from weakref import ref

import msgspec

from windlass import seams
from windlass.errors import Locked, NoSuchSession, StaleWriter, StoreError, nearest
from windlass.events import (
    FORMAT,
    JournalEntry,
    SessionOpened,
    ToolResulted,
)
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject
from windlass.store import codec as written
from windlass.store import seals
from windlass.store.answers import CHECKED, check_for
from windlass.store.base import (
    Head,
    InboxItem,
    InboxKind,
    Row,
    SessionInfo,
    find_result,
    second_result_error,
)
from windlass.store.memory_archive import Archive, ArchivedSession
from windlass.store.memory_info import build_held_error, build_info, read_opening, read_tenant
from windlass.store.model_calls import (
    RESERVED,
    ModelCall,
    ReserveAnswer,
    ReservedCall,
    Slip,
    SpendingLimit,
    Which,
    among,
    calls_of,
    slips_in,
    slips_of,
)

if TYPE_CHECKING:
    from windlass.store.memory_database import MemoryDatabase

T = TypeVar("T")
MOST_CALLS = 10_000  # on the books that no journal here holds: the latest stay


class MemoryJournal(msgspec.Struct, eq=False, weakref=True):
    """A session in memory, and its writer's hold on it."""

    session_id: str
    entries: list[JournalEntry]
    append: Callable[[JournalEntry], None]  # the list's own method
    mail: tuple[InboxItem, ...]
    since: float  # its writer holds it
    caller: str | None  # for whom it is held
    _store: MemoryStore
    _bounds: list[float]  # of each row, its end and when it was closed
    _loop: asyncio.AbstractEventLoop
    on_mail: Callable[[], None] | None = None
    immediate: bool = True
    stays_held: bool = False
    lost_seconds: float = 0.0
    _taking: tuple[InboxItem, ...] = ()
    _coming: tuple[InboxItem, ...] = ()  # from another thread, and not yet in the mail
    _held: bool = True
    _replaced: bool = False  # another writer has taken the session over

    def flush(self) -> None:
        """Close the current row."""
        if self._replaced:
            raise self._closed_error()
        end, bounds = len(self.entries), self._bounds
        if end != bounds[-2]:
            bounds += (end, seams.now())
            if self._taking:
                self._taking = ()

    async def durable(self) -> None:
        """Return at once: memory is as durable as it gets."""
        if not self._held:
            raise self._closed_error()

    async def commit(
        self, body: Callable[[Any], T], record: Callable[[T], Sequence[JournalEntry]]
    ) -> T:
        """Run the body in a transaction of the store's own in-memory database."""
        if not self._held:
            raise self._closed_error()
        try:
            value, entries = self._store.transact(body, record, self._refuse_duplicates)
            self.entries += entries
            return value
        finally:
            self.flush()
            self._store.tell()

    def _refuse_duplicates(self, entries: Sequence[JournalEntry]) -> None:
        calls = [entry.call_id for entry in entries if type(entry) is ToolResulted]
        taken = [call_id for call_id in calls if find_result(self.entries, call_id)]
        if taken:
            raise second_result_error(taken, self.session_id)

    def take(self, item: InboxItem) -> None:
        """Take the item out of the inbox with the next flush."""
        self.mail = tuple([one for one in self.mail if one is not item])
        self._taking += (item,)

    async def close(self) -> None:
        """Flush and give the session up."""
        if not self._replaced:
            if len(self.entries) != self._bounds[-2]:
                self.flush()
            self._held = False

    def release(self) -> None:
        """Let the next writer in."""
        self._held = False

    def _closed_error(self) -> StoreError:
        if self._replaced:
            return StaleWriter(
                f"session {self.session_id!r} was taken over by another writer; nothing was "
                "written here: open it again to go on from where it stands"
            )
        return _closed_by_writer(self.session_id)

    def deliver(self, item: InboxItem) -> None:
        """Put an item into the mail, on the writer's own event loop."""
        self.mail += (item,)
        if self._coming:
            self._coming = tuple([one for one in self._coming if one is not item])
        if self._held and self.on_mail is not None:
            self.on_mail()

    def post(self, item: InboxItem) -> None:
        """Post an item from any thread."""
        if not self._held or self._loop is _running_loop():
            self.deliver(item)
            return
        self._coming += (item,)
        try:
            self._loop.call_soon_threadsafe(self.deliver, item)
        except RuntimeError:  # its loop is closed: there is nothing to call
            self.deliver(item)

    @property
    def held(self) -> bool:
        """True until it is closed."""
        return self._held

    @property
    def size(self) -> int:
        """How many entries are in closed rows."""
        return int(self._bounds[-2])

    @property
    def touched(self) -> float:
        """When the last row was closed."""
        return self._bounds[-1]

    def row_ends(self) -> list[tuple[int, float]]:
        """Return the end of each row, and when it was closed."""
        return [
            (int(end), at) for end, at in zip(self._bounds[::2], self._bounds[1::2], strict=True)
        ]

    def slips(self) -> list[Slip]:
        """Return the model calls in closed rows."""
        return slips_in(self.entries, self._bounds)

    def waiting(self) -> list[InboxItem]:
        """Return everything in the inbox, also items that the open row takes."""
        coming = [item for item in self._coming if item not in self.mail]
        return [*self._taking, *self.mail, *coming]

    def reopen(self, since: float, caller: str | None) -> MemoryJournal:
        """Give the session to a new writer; the old journal can change nothing any more."""
        lost = max(0.0, seams.now() - self.touched) if self._held else 0.0
        if self._held:
            self._held, self._replaced = False, True
        entries, bounds = self.entries[: self.size], self._bounds.copy()
        mail = tuple(self.waiting())
        journal = self._store.new_journal(self.session_id, entries, bounds, mail, since, caller)
        journal.lost_seconds = lost
        return journal


_FEW = 50  # sessions that a wrong id is compared with


class MemoryStore:
    """Sessions that end with the process: `store = MemoryStore()`."""

    def __init__(self) -> None:
        self._sessions: dict[str, MemoryJournal] = {}
        self._passing: dict[str, ref[MemoryJournal]] = {}
        self._sweep_at = 256
        self._calls: deque[ModelCall] = deque(maxlen=MOST_CALLS)
        self._reserved: dict[int, ModelCall] = {}  # calls under way
        self._numbers = count()
        self._archive = Archive()
        self._answering = threading.Lock()
        self._loading = threading.Lock()
        self._database: MemoryDatabase | None = None
        self.listeners: list[Callable[[], None]] = []  # told when a body was committed

    def read_clock(self) -> float:
        """Return the time in epoch seconds."""
        return seams.now()

    async def open(
        self,
        session_id: str,
        *,
        create: bool = True,
        parent_id: str | None = None,
        metadata: JsonObject | None = None,
        take_over: bool = False,
        caller: str | None = None,
    ) -> MemoryJournal:
        """Become the session's writer."""
        held, now = self._sessions.get(session_id), seams.now()
        if held is None and session_id in self._passing:
            held = self._passing[session_id]()
        if held is None:
            if not create:
                raise self._unknown(session_id)
            check_identifier(session_id, "session_id")
            root = None if parent_id is None else self.find_root(parent_id)
            opened = SessionOpened(session_id, FORMAT, parent_id, root, None, metadata)
            journal = self.new_journal(session_id, [opened], [1, now], (), now, caller)
        elif held.held and not take_over:
            raise build_held_error(held)
        else:
            journal = held.reopen(now, caller)
            if session_id not in self._sessions:  # it was let go, and is here again with its calls
                self._archive.remove(session_id)
        self._sessions[session_id] = journal
        return journal

    def new_journal(
        self,
        session_id: str,
        entries: list[JournalEntry],
        bounds: list[float],
        mail: tuple[InboxItem, ...],
        since: float,
        caller: str | None,
    ) -> MemoryJournal:
        """Return a journal of these entries for a writer in the running event loop."""
        loop = asyncio.get_running_loop()
        return MemoryJournal(
            session_id, entries, entries.append, mail, since, caller, self, bounds, loop
        )

    def let_go(self, session_id: str) -> None:
        """Keep an unnamed session only as long as something references its result."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self._passing[session_id] = ref(session)
        self._archive.add(session_id, session.touched, session.entries)
        if len(self._passing) > self._sweep_at:  # at intervals: a callback for each is expensive
            self._passing = {name: kept for name, kept in self._passing.items() if kept()}
            self._sweep_at = 2 * len(self._passing) + 256

    def archived_sessions(self) -> list[ArchivedSession]:
        """Return what is kept of unnamed sessions."""
        return list(self._archive)

    def _find(self, session_id: str) -> MemoryJournal | None:
        found = self._sessions.get(session_id)
        if found is None and (passing := self._passing.get(session_id)) is not None:
            found = passing()
        return found

    def transact(
        self,
        body: Callable[[Any], T],
        record: Callable[[T], Sequence[JournalEntry]],
        check: Callable[[Sequence[JournalEntry]], object],
    ) -> tuple[T, Sequence[JournalEntry]]:
        """Run the body; keep its effect only if its record can be made and passes `check`."""
        with self._loading:
            if self._database is None:
                # Most stores in memory run no body: SQLite is loaded with the first.
                from windlass.store.memory_database import MemoryDatabase

                self._database = MemoryDatabase(self)
        return self._database.transact(body, record, check)

    async def commit(self, body: Callable[[Any], T]) -> T:
        """Run the body in a transaction of the store's own in-memory database."""
        value = self.transact(body, _nothing, _nothing)[0]
        self.tell()
        return value

    def tell(self) -> None:
        """Tell those who look for work that a body was committed."""
        for listener in self.listeners:
            listener()

    async def consult(self, body: Callable[[Any], T]) -> T:
        """Run the body; reads hold nothing up in memory."""
        return self.transact(body, _nothing, _nothing)[0]

    async def read(self, session_id: str) -> list[JournalEntry]:
        """Return the entries of every closed row."""
        session = self._get_session(session_id)
        return session.entries[: session.size]

    async def rows(self, session_id: str) -> list[Row]:
        """Build the rows as a disk would hold them."""
        session = self._get_session(session_id)
        hash_ = written.genesis(session_id)
        rows: list[Row] = []
        first = 0
        for seq, (end, at) in enumerate(session.row_ends()):
            payload = written.encode(session.entries[first:end], session_id)
            hash_ = written.link(hash_, seq, at, written.digest(payload))
            rows.append(Row(seq, first, at, payload, hash_))
            first = end
        return rows

    async def verify(self, session_id: str, *, anchor: Head | None = None) -> int:
        """Encode the rows and check them; entries that cannot be encoded show here."""
        rows = await self.rows(session_id)
        return written.verify(rows, session_id, anchor=anchor).rows

    async def head(self, session_id: str) -> Head:
        """Return the end of the journal."""
        rows = await self.rows(session_id)
        return Head(len(rows), rows[-1].hash)

    async def result_of(self, session_id: str, call_id: str) -> ToolResulted | None:
        """Return the recorded result of a call."""
        return find_result(await self.read(session_id), call_id)

    async def info(self, session_id: str) -> SessionInfo:
        """Describe the session."""
        session = self._get_session(session_id)
        children = [
            child.session_id
            for child in self._sessions.values()
            if read_opening(child).parent_id == session_id
        ]
        return build_info(session, tuple(children))

    async def sessions(self) -> list[SessionInfo]:
        """List all sessions, the latest first."""
        children: dict[str, list[str]] = {}
        for session in self._sessions.values():
            parent = read_opening(session).parent_id
            if parent is not None:
                children.setdefault(parent, []).append(session.session_id)
        infos = [
            build_info(session, tuple(children.get(session.session_id, ())))
            for session in self._sessions.values()
        ]
        return sorted(infos, key=lambda info: info.updated_at, reverse=True)

    async def post(self, session_id: str, kind: InboxKind, payload: object = None) -> str:
        """Post an item to the session's inbox."""
        session = self._get_session(session_id)
        written.encode_value(payload, "a posted item")
        seams.point("inbox.before_post")
        item = InboxItem(seams.new_id("mail"), kind, payload, seams.now())
        if kind in CHECKED:
            self._post_checked(session, item)
        else:
            session.post(item)
        if self._database is not None:
            self._database.wake(session_id, item)
            self.tell()
        seams.point("inbox.after_post")
        return item.id

    def _post_checked(self, session: MemoryJournal, item: InboxItem) -> None:
        """Post an item that a check lets pass; several threads may try at once."""
        with self._answering:
            check = check_for(item.kind, item.payload, session.waiting())
            if check is not None and not check.read(session.entries):
                check.finish()
            session.post(item)

    async def inbox(self, session_id: str) -> list[InboxItem]:
        """List the items that were posted and not taken."""
        return self._get_session(session_id).waiting()

    async def fork(
        self,
        session_id: str,
        new_id: str,
        entries: Sequence[JournalEntry],
        branch_at: int | None,
        metadata: JsonObject | None = None,
    ) -> None:
        """Create a session with these entries and its parent's lineage."""
        kept = read_opening(self._get_session(session_id)).metadata
        check_identifier(new_id, "session_id")
        if self._find(new_id) is not None:
            raise StoreError(f"session {new_id!r} exists already; fork under another id")
        opened = SessionOpened(
            new_id,
            FORMAT,
            session_id,
            self.find_root(session_id),
            branch_at,
            {**(kept or {}), **(metadata or {})} or None,
        )
        copied = [opened, *(entry for entry in entries if type(entry) is not SessionOpened)]
        self.add_session(copied)

    def has_session(self, session_id: str) -> bool:
        """Check whether there is such a session."""
        return self._find(session_id) is not None

    def find_opening(self, session_id: str) -> SessionOpened | None:
        """Return the first entry of a session, or None."""
        found = self._find(session_id)
        return None if found is None else read_opening(found)

    def add_session(self, entries: list[JournalEntry]) -> None:
        """Add a session that nobody holds; the first entry opens it."""
        opened = entries[0]
        assert isinstance(opened, SessionOpened)
        bounds = [len(entries), seams.now()]
        journal = self.new_journal(opened.session_id, entries, bounds, (), 0.0, None)
        journal.release()
        self._sessions[opened.session_id] = journal

    def deliver(self, session_id: str, item: InboxItem) -> None:
        """Post an item to a session that exists."""
        self._get_session(session_id).post(item)

    async def delete(self, session_id: str) -> bool:
        """Delete the session; False when there was none."""
        session = self._find(session_id)
        if session is None:
            return False
        if session.held:
            raise Locked(f"session {session_id!r} is being written; close it first")
        await self._bury(session_id)
        if self._sessions.pop(session_id, None) is not None:
            self._calls.extend(calls_of(session.slips(), session_id))
        self._passing.pop(session_id, None)
        return True

    async def prune(self, older_than: float) -> list[str]:
        """Delete sessions not changed since; those being written stay."""
        old = [
            session.session_id
            for session in self._sessions.values()
            if not session.held and session.touched < older_than
        ]
        for session_id in old:
            await self._bury(session_id)
            self._calls.extend(calls_of(self._sessions.pop(session_id).slips(), session_id))
        return old

    async def _bury(self, session_id: str) -> None:
        """Record the deletion, if the store has seals."""
        if self._database is None:
            return
        self._database.remove_wish(session_id)
        sealed = await self.consult(seals.there)
        if sealed and session_id in self._sessions:
            head = await self.head(session_id)
            tenant = read_tenant(self._sessions[session_id])
            grave = (session_id, head.rows, head.hash.hex(), tenant, seams.now())
            await self.commit(lambda tx: seals.bury_one(tx, grave))

    async def calls(self, **which: Unpack[Which]) -> list[ModelCall]:
        """List the recorded model calls, from journals and from what is kept of dropped ones."""
        slips = [(name, session.slips()) for name, session in self._sessions.items()]
        for gone in self._archive:
            slips.append((gone.session_id, slips_of(gone.calls, gone.ended_at)))
        found = [call for name, kept in slips for call in calls_of(kept, name)]
        return among([*self._calls, *self._reserved.values(), *found], which)

    async def spent(self, since: float, tenant: str | None = None) -> tuple[int, float]:
        """Sum the tokens and dollars of the calls from this time on."""
        calls = [c for c in await self.calls(since=since) if c.outcome != RESERVED]
        if tenant is not None:
            calls = [call for call in calls if (call.tenant or "") == tenant]
        tokens = sum(call.input_tokens + call.output_tokens for call in calls)
        return tokens, sum(call.cost_usd for call in calls)

    async def record_calls(
        self, calls: Sequence[ModelCall], replaces: Sequence[ReservedCall] = ()
    ) -> None:
        """Record calls that no journal holds, in place of what was reserved for them."""
        written.encode_value(calls, "a model call")
        for place in replaces:
            self._reserved.pop(place.number, None)
        self._calls += calls

    async def reserve_call(
        self, call: ModelCall, limit: SpendingLimit | None, replaces: ReservedCall | None = None
    ) -> ReserveAnswer:
        """Record a call before it is made, if the limit leaves room for it."""
        written.encode_value(call, "a model call")
        tokens, usd = (0, 0.0) if limit is None else await self.spent(limit.since)
        for held in self._reserved.values():
            if limit is not None and held.at >= limit.since:
                tokens, usd = tokens + held.input_tokens + held.output_tokens, usd + held.cost_usd
        own = None if replaces is None else self._reserved.get(replaces.number)
        if own is not None and limit is not None and own.at >= limit.since:
            tokens, usd = tokens - own.input_tokens - own.output_tokens, usd - own.cost_usd
        if limit is not None and not limit.allows(tokens, usd, call):
            return ReserveAnswer(None, tokens, usd)
        if replaces is not None:
            self._reserved.pop(replaces.number, None)
        place = ReservedCall(next(self._numbers), call.at)
        self._reserved[place.number] = call
        return ReserveAnswer(place, tokens, usd)

    async def release_calls(self, session_id: str) -> None:
        """Remove what is reserved for the calls of a session."""
        for number, call in list(self._reserved.items()):
            if call.session == session_id:
                del self._reserved[number]

    async def aclose(self) -> None:
        """Close the database of bodies, if there was one."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _get_session(self, session_id: str) -> MemoryJournal:
        session = self._find(session_id)
        if session is None:
            raise self._unknown(session_id)
        return session

    def _unknown(self, session_id: str) -> NoSuchSession:
        # A run under a new name asks for it first: comparing it with thousands would take long.
        known = self._sessions if len(self._sessions) <= _FEW else ()
        return NoSuchSession(f"no session {session_id!r}{nearest(session_id, known)}")

    def find_root(self, parent_id: str) -> str:
        """Return the session at the top of the one that another is a child of."""
        parent = self._find(parent_id)
        return parent_id if parent is None else read_opening(parent).root_id or parent_id


def _nothing(_: object) -> tuple[JournalEntry, ...]:
    """Record nothing, and check nothing."""
    return ()


def _closed_by_writer(session_id: str) -> StoreError:
    return StoreError(f"session {session_id!r} was closed by this writer; open it again")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
