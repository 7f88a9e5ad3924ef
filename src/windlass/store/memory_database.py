"""The in-memory SQLite database in which the bodies of a `MemoryStore` run."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar
from weakref import finalize

from windlass.errors import NoSuchSession
from windlass.events import FORMAT, JournalEntry, SessionOpened
from windlass.json_types import JsonObject
from windlass.store.allotments import TABLES as ALLOTMENTS
from windlass.store.base import InboxItem
from windlass.store.transaction import Guard, Tx
from windlass.store.trigger_rows import DISARM, list_condition_ids
from windlass.store.wishes import TABLES, WAKE, WAKING

T = TypeVar("T")


class MemorySessions(Protocol):
    """The sessions of a store in memory, as a committed body changes them."""

    def has_session(self, session_id: str) -> bool:
        """Check whether there is such a session."""
        ...

    def add_session(self, entries: list[JournalEntry]) -> None:
        """Add a session that nobody holds."""
        ...

    def deliver(self, session_id: str, item: InboxItem) -> None:
        """Post an item to a session that exists."""
        ...

    def find_opening(self, session_id: str) -> SessionOpened | None:
        """Return the first entry of a session, or None."""
        ...

    def find_root(self, parent_id: str) -> str:
        """Return the session at the top of the one that another is a child of."""
        ...


class MemoryEffects:
    """What a body does to sessions; they are no tables here, so it happens at the commit."""

    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions = sessions
        self._created: dict[str, SessionOpened] = {}
        self._posted: list[tuple[str, InboxItem]] = []

    def create(
        self, session_id: str, metadata: JsonObject | None = None, parent_id: str | None = None
    ) -> bool:
        """Create an empty session at the commit; False if it exists."""
        if session_id in self._created or self._sessions.has_session(session_id):
            return False
        root = None if parent_id is None else self._sessions.find_root(parent_id)
        opened = SessionOpened(session_id, FORMAT, parent_id, root, None, metadata)
        self._created[session_id] = opened
        return True

    def post(self, session_id: str, item: InboxItem) -> None:
        """Post an item at the commit."""
        if session_id not in self._created and not self._sessions.has_session(session_id):
            raise NoSuchSession(f"no session {session_id!r}")
        self._posted.append((session_id, item))

    def list_waiting(self, session_id: str) -> list[str]:
        """List the session, and those that wait for a call which it works for."""
        return _list_waiting(self._sessions, session_id)

    def apply(self) -> None:
        """Do it all, after the commit."""
        for opened in self._created.values():
            self._sessions.add_session([opened])
        for session_id, item in self._posted:
            self._sessions.deliver(session_id, item)


class MemoryTx(Tx):
    """The transaction of a body over sessions in memory."""

    __slots__ = ("effects",)

    def __init__(
        self, connection: sqlite3.Connection, guard: Guard, effects: MemoryEffects
    ) -> None:
        super().__init__(connection, guard)
        self.effects = effects


class MemoryDatabase:
    """One connection, used by one thread at a time."""

    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions = sessions
        self._transaction = threading.Lock()
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        self._connection.executescript(TABLES + ALLOTMENTS)
        self._guard = Guard(self._connection)
        finalize(self, self._connection.close)  # one that is only dropped is warned about

    def transact(
        self,
        body: Callable[[Tx], T],
        record: Callable[[T], Sequence[JournalEntry]],
        check: Callable[[Sequence[JournalEntry]], object],
    ) -> tuple[T, Sequence[JournalEntry]]:
        """Run the body; keep its effect only if its record can be made and passes `check`."""
        connection = self._connection
        with self._transaction:
            effects = MemoryEffects(self._sessions)
            own = MemoryTx(connection, self._guard, effects)
            connection.execute("BEGIN /* windlass */")
            try:
                value = self._guard.run(lambda _tx: body(own))
                entries = record(value)
                check(entries)
            except BaseException:
                if connection.in_transaction:  # an interrupted write has rolled it back itself
                    connection.execute("ROLLBACK /* windlass */")
                raise
            connection.execute("COMMIT /* windlass */")
            effects.apply()
            return value, entries

    def wake(self, session_id: str, item: InboxItem) -> None:
        """Raise the wish of a session that an item wakes, and of those that wait for it."""
        if item.kind in WAKING:
            with self._transaction:
                for one in _list_waiting(self._sessions, session_id):
                    self._connection.execute(WAKE, (item.posted_at, item.posted_at, one))

    def remove_wish(self, session_id: str) -> None:
        """Remove the wish and the conditions of a session that is deleted."""
        with self._transaction:
            self._connection.execute(
                "DELETE FROM windlass_wishes WHERE session = ? /* windlass */", (session_id,)
            )
            self._connection.execute(f"{DISARM} /* windlass */", list_condition_ids([session_id]))

    def close(self) -> None:
        """Close the connection, which drops the tables."""
        self._connection.close()


def _list_waiting(sessions: MemorySessions, session_id: str) -> list[str]:
    """List a session, and those above it, as `windlass.store.wishes.WAKE_TREE` does."""
    found = [session_id]
    while (opened := sessions.find_opening(found[-1])) is not None:
        above = opened.parent_id
        if above is None or opened.branch_at is not None or not found[-1].startswith(f"{above}."):
            break
        found.append(above)
    return found
