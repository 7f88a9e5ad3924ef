"""Interface of a store: one journal with one writer, and one inbox, per session.

`memory.py`, `sqlite/store.py` and `postgres/store.py` implement it; `windlass.testing.store_kit` says
what every implementation must do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, Unpack

import msgspec

from windlass.errors import StoreError
from windlass.events import JournalEntry, ToolResulted
from windlass.json_types import JsonObject, is_object
from windlass.store.holder import Holder
from windlass.store.model_calls import (
    ModelCall,
    ReserveAnswer,
    ReservedCall,
    SpendingLimit,
    Which,
)

T = TypeVar("T")

InboxKind: TypeAlias = Literal[
    "steer",  # a message, now: before the next model call
    "follow_up",  # a message for when the run would have stopped
    "remind",  # {"text": …, "ttl": …, "propagate": …} for the end of the next requests
    "cancel",
    "suspend",
    # what wakes a parked run: a message, nothing, or {"message": …, "initiator": "triggered", …}
    "resume",
    "decision",  # {call_id: {"action": "allow" | "deny", "ask": …, "by": …, "reason": …}}
    "result",  # {call_id: value} for a call that the host runs
    "event",  # {"number": …, "event": {…}} for a daemon, when it is idle
    "memory",  # {policy: …, …}: an edit of what that policy remembers of the session
]


class InboxItem(msgspec.Struct, frozen=True):
    """An item posted to a session by anyone but its writer."""

    id: str
    kind: InboxKind
    payload: Any = None
    posted_at: float = 0.0

    @property
    def fields(self) -> JsonObject:
        """The payload as an object, where it is one."""
        payload: object = self.payload
        return payload if is_object(payload) else {}


class SessionInfo(msgspec.Struct, frozen=True):
    """A session in a list; `child_ids` are its direct forks."""

    id: str
    created_at: float
    updated_at: float
    entries: int
    parent_id: str | None = None
    root_id: str | None = None
    branch_at: int | None = None
    child_ids: tuple[str, ...] = ()
    status: str | None = None  # of its last run; None while one is under way or was killed
    title: str | None = None  # the first user message, cut
    metadata: JsonObject = {}
    holder: Holder | None = None  # its writer, or the last one if that was killed
    alive: bool = False  # the holder is there

    @property
    def state(self) -> str:
        """`alive`, `parked`, `dead` (a run was killed), `new`, or the status of its last run."""
        if self.alive:
            return "alive"
        if self.status is None:
            return "dead" if self.entries > 1 else "new"
        return "parked" if self.status == "suspended" else self.status


class Row(msgspec.Struct, frozen=True):
    """One append as it is stored: several entries, chained to the row before by `hash`."""

    seq: int  # of the row, from 0
    first: int  # number of its first entry in the session
    at: float
    payload: bytes  # JSON array of entries
    hash: bytes


class Head(msgspec.Struct, frozen=True):
    """The end of a journal. Kept elsewhere, it shows that an older backup was restored.

    ```python
    head = await store.head("s1")
    await store.verify("s1", anchor=head)       # Corrupt, if the journal no longer holds it
    ```
    """

    rows: int
    hash: bytes


class Journal(Protocol):
    """A session's journal, held by its only writer.

    `append` adds an entry in order. `flush` puts what was appended into one row and passes it on; a
    row is stored completely or not at all. `durable` waits until all rows are on disk, and raises
    what went wrong (`StaleWriter`, `Full`, `Locked`).
    """

    session_id: str
    entries: list[JournalEntry]  # the whole session, oldest first; never edit it
    immediate: bool  # durable() never waits
    on_mail: Callable[[], None] | None  # called on the writer's event loop when mail has arrived
    stays_held: bool  # the end of a run does not give the session up: its threads are at work
    lost_seconds: float  # the most that the writer before, who died, lived after its last row

    @property
    def mail(self) -> Sequence[InboxItem]:
        """What was posted and not yet taken; the writer's own view of the inbox."""
        ...

    def append(self, entry: JournalEntry, /) -> None: ...

    def flush(self) -> None: ...

    async def durable(self) -> None: ...

    async def commit(
        self, body: Callable[[Any], T], record: Callable[[T], Sequence[JournalEntry]]
    ) -> T:
        """Run `body(tx)` and append `record(value)` in one transaction: both happen, or neither.

        The body is short and synchronous, changes nothing but `tx` (a DB-API connection to the
        store's own database), and may run again. `record` runs in the same place, so it only
        computes. Entries that were appended and not flushed go into the same row; they are stored
        even if the body raises. If body or record raises, nothing else changes, and the exception
        is raised here. A second result for the same call is refused with `StoreError`.

        If it is cancelled before the body began, nothing happened. If it is cancelled later, the
        commit is waited for (at most a second), and its record is in `entries` when
        `CancelledError` is raised.
        """
        ...

    def take(self, item: InboxItem) -> None:
        """Remove the item from the inbox with the next flush, completely or not at all."""
        ...

    async def close(self) -> None:
        """Flush, wait, and release the session for the next writer."""
        ...


class Store(Protocol):
    """A store of sessions."""

    async def open(
        self,
        session_id: str,
        *,
        create: bool = True,
        parent_id: str | None = None,
        metadata: JsonObject | None = None,
        take_over: bool = False,
        caller: str | None = None,
    ) -> Journal:
        """Become the writer of a session, in the name of `caller`, and return its journal.

        Raises `SessionHeld` while another writer is alive, in any process; with `take_over` that
        writer becomes stale. The writer of a dead process is replaced. An unknown session with
        `create=False` raises `NoSuchSession`.
        """
        ...

    def read_clock(self) -> float:
        """Return the time in epoch seconds by which several processes plan together.

        It is the time of the server, if there is one and it was asked, else of this machine.
        """
        ...

    async def read(self, session_id: str) -> list[JournalEntry]: ...

    async def rows(self, session_id: str) -> list[Row]: ...

    async def verify(self, session_id: str, *, anchor: Head | None = None) -> int:
        """Check the hash chain; return the number of rows, or raise `Corrupt`.

        With an `anchor` (an earlier `head`), check also that the journal still contains it.
        """
        ...

    async def head(self, session_id: str) -> Head: ...

    async def result_of(self, session_id: str, call_id: str) -> ToolResulted | None:
        """Return the recorded result of a call, which settles a commit of unknown outcome."""
        ...

    async def info(self, session_id: str) -> SessionInfo: ...

    async def sessions(self) -> list[SessionInfo]:
        """List all sessions, latest first."""
        ...

    async def post(self, session_id: str, kind: InboxKind, payload: object = None) -> str:
        """Post an item to the inbox of a session; return its id when it is stored.

        A decision about a question that was already answered raises `AlreadyAnswered`: of several
        at the same time, exactly one is stored.
        """
        ...

    async def inbox(self, session_id: str) -> list[InboxItem]: ...

    async def fork(
        self,
        session_id: str,
        new_id: str,
        entries: Sequence[JournalEntry],
        branch_at: int | None,
        metadata: JsonObject | None = None,
    ) -> None:
        """Create a session with these entries, whose parent is this session.

        The parent's own `SessionOpened` is left out; the fork has its own. It has the parent's
        metadata; `metadata` overrides them.
        """
        ...

    async def delete(self, session_id: str) -> bool: ...

    async def prune(self, older_than: float) -> list[str]:
        """Delete sessions not changed since this time (epoch seconds); return their ids."""
        ...

    async def commit(self, body: Callable[[Any], T]) -> T:
        """Run `body(tx)` in a transaction of its own, outside of any session.

        The rules are those of `Journal.commit`. If it is cancelled after it began, it is waited
        for.
        """
        ...

    async def consult(self, body: Callable[[Any], T]) -> T:
        """Run `body(tx)`, which only reads, on a snapshot beside the writer."""
        ...

    async def calls(self, **which: Unpack[Which]) -> list[ModelCall]:
        """List the cost records that match, oldest first: `await store.calls(tenant="acme")`.

        Filters: tenant, caller, request, conversation, session, run, provider, model, since, until.
        Records of a run are written with its journal, and stay when the session is deleted.
        """
        ...

    async def spent(self, since: float, tenant: str | None = None) -> tuple[int, float]:
        """Return the tokens and dollars of the calls since this time (epoch seconds).

        With `tenant`, of its calls alone; `""` are calls without a tenant. What is reserved for
        calls under way is not included.
        """
        ...

    async def record_calls(
        self, calls: Sequence[ModelCall], replaces: Sequence[ReservedCall] = ()
    ) -> None:
        """Record calls that no journal holds, in place of what was reserved for them."""
        ...

    async def reserve_call(
        self, call: ModelCall, limit: SpendingLimit | None, replaces: ReservedCall | None = None
    ) -> ReserveAnswer:
        """Record a call before it is made, if the limit leaves room for it.

        This is one transaction: if several processes want the last of the budget, one gets it. The
        call counts with its estimate until it is replaced.
        """
        ...

    async def release_calls(self, session_id: str) -> None:
        """Remove what is reserved for the calls of a session whose journal has their outcome."""
        ...

    async def aclose(self) -> None: ...


def second_result_error(taken: Sequence[str], session_id: str) -> StoreError:
    """Build the error for calls that already have a recorded result."""
    names = ", ".join(repr(name) for name in taken)
    return StoreError(
        f"session {session_id!r}: call {names} already has a recorded result; "
        "read it with result_of instead of running the call again"
    )


def find_result(entries: Sequence[JournalEntry], call_id: str) -> ToolResulted | None:
    """Return the result of the call, searched from the end; None if there is none."""
    for entry in reversed(entries):
        if type(entry) is ToolResulted and entry.call_id == call_id:
            return entry
    return None
