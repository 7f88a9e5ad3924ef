"""Jobs of the writer thread: rows to append, bodies to run, and other changes."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from windlass.errors import StoreError
from windlass.events import JournalEntry
from windlass.store import codec as written
from windlass.store.base import InboxItem
from windlass.store.model_calls import ReservedCall
from windlass.store.outage import waits_on

# rows, entries, the last row's hash and key, the number of the run that its calls belong to
Place: TypeAlias = tuple[int, int, bytes, int, int]
NOWHERE: Place = (0, 0, b"", 0, 0)


class Line:
    """The writer's side of a journal: its position, and what waits to be written."""

    __slots__ = (
        "asks",
        "awaited",
        "backlog",
        "bodies",
        "done",
        "epoch",
        "fresh",
        "holder",
        "loop",
        "mail_seen",
        "next",
        "owner",
        "results",
        "session_id",
        "sid",
        "stands",
        "waits",
    )

    def __init__(self, owner: Owner, session_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self.owner, self.session_id, self.loop = owner, session_id, loop
        self.sid = self.epoch = self.mail_seen = 0
        self.done = 0  # rows that are on disk
        self.awaited = 0  # rows that a task waits for: set before `done` is read
        self.stands: Place = NOWHERE  # on disk
        self.next: Place = NOWHERE  # once the group under way is on disk
        self.results: set[str] = set()  # calls that have their result on disk
        self.fresh: set[str] = set()  # and those that have it in the group under way
        self.backlog: deque[Append | Commit] = deque()
        self.bodies = False  # there is a commit in the backlog
        self.asks: tuple[int, str, str] = (0, "", "")  # a run by number, and its model
        self.holder = ""  # its writer, as it is stored with the session
        self.waits = waits_on.get()  # whether its rows wait for a server that is away


class Owner(Protocol):
    """The journal on its event loop; the writer calls it through that loop, never directly."""

    def on_settled(self, done: int, error: StoreError | None, final: bool) -> None: ...

    def on_committed(self, job: Commit) -> None: ...

    def on_delivered(self, items: list[InboxItem]) -> None: ...


class Append:
    """A row to be written."""

    __slots__ = ("at", "count", "holder", "line", "notes", "payload", "replaces", "takes")

    def __init__(
        self,
        line: Line,
        payload: bytes,
        count: int,
        at: float,
        notes: written.Notes,
        takes: Sequence[str],
        holder: str | None = None,
        replaces: Sequence[ReservedCall] = (),
    ) -> None:
        self.line, self.payload, self.count, self.at = line, payload, count, at
        self.notes, self.takes = notes, takes
        self.holder = holder  # of the session from now on, where the status changes
        self.replaces = replaces  # what was reserved for calls whose outcome it holds


class Commit:
    """A body to be run, and the row that goes with it."""

    __slots__ = (
        "body",
        "claim",
        "context",
        "entries",
        "error",
        "finished",
        "fresh",
        "index",
        "ours",
        "pending",
        "place",
        "record",
        "unwanted",
        "value",
    )

    def __init__(
        self,
        pending: Append,
        body: Callable[[Any], Any],
        record: Callable[[Any], Sequence[JournalEntry]],
        finished: asyncio.Future[Any],
        index: int,
    ) -> None:
        self.pending, self.body, self.record = pending, body, record
        self.finished, self.index = finished, index
        self.context = contextvars.copy_context()
        self.claim = [None]  # the one who pops it decides: the writer runs it, or the caller leaves
        self.ours = False  # the writer popped it
        self.unwanted = False  # the caller has left since
        self.value: Any = None
        self.entries: Sequence[JournalEntry] = ()
        self.error: BaseException | None = None
        self.place: Place | None = None  # where the session stands with it
        self.fresh: set[str] = set()  # the calls whose results it holds

    @property
    def line(self) -> Line:
        """The session of the commit."""
        return self.pending.line

    def try_claim(self) -> bool:
        """Claim the commit; True for the first caller only."""
        try:
            self.claim.pop()
        except IndexError:
            return False
        return True

    def is_abandoned(self) -> bool:
        """Check whether the caller has left, so that the writer need not begin or repeat."""
        return self.unwanted or not (self.ours or self.claim)


class Call:
    """Anything else that writes: `work(connection)` in the group's transaction."""

    __slots__ = ("after", "context", "error", "finished", "loop", "value", "waits", "work")

    def __init__(
        self,
        work: Callable[[Any], Any],
        finished: asyncio.Future[Any],
        after: Callable[[Any], None] | None,
        *,
        body: bool = False,
    ) -> None:
        self.work, self.finished, self.after = work, finished, after
        # a user's body runs under the guard and in the context that it came from
        self.context = contextvars.copy_context() if body else None
        self.loop = finished.get_loop()
        self.waits = waits_on.get()  # whether it waits for a server that is away
        self.value: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Set the result for the caller; runs on the caller's event loop."""
        if self.finished.done():
            return
        if self.error is not None:
            self.finished.set_exception(self.error)
        else:
            self.finished.set_result(self.value)


class Again:
    """A request to retry a backlog."""

    __slots__ = ("line",)

    def __init__(self, line: Line) -> None:
        self.line = line


class Forget:
    """A notice that the session was released and gets no more mail."""

    __slots__ = ("line",)

    def __init__(self, line: Line) -> None:
        self.line = line


Job: TypeAlias = Append | Commit | Call | Again | Forget | None  # None: stop
Jobs: TypeAlias = Job | list[Append | Commit]
