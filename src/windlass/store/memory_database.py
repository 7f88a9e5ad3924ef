"""The in-memory SQLite database in which the bodies of a `MemoryStore` run."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar
from weakref import finalize

from windlass.errors import NoSuchSession
from windlass.events import JournalEntry, SessionOpened
from windlass.store.base import InboxItem
from windlass.store.transaction import Guard, Tx
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


class MemoryEffects:
    """What a body does to sessions; they are no tables here, so it happens at the commit."""

    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions = sessions
        self._created: dict[str, SessionOpened] = {}
        self._posted: list[tuple[str, InboxItem]] = []

    def create(self, opened: SessionOpened) -> bool:
        """Create an empty session at the commit; False if it exists."""
        if opened.session_id in self._created or self._sessions.has_session(opened.session_id):
            return False
        self._created[opened.session_id] = opened
        return True

    def post(self, session_id: str, item: InboxItem) -> None:
        """Post an item at the commit."""
        if session_id not in self._created and not self._sessions.has_session(session_id):
            raise NoSuchSession(f"no session {session_id!r}")
        self._posted.append((session_id, item))

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
        self._connection.executescript(TABLES)
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
        """Raise the wish of a session that an item wakes."""
        if item.kind in WAKING:
            with self._transaction:
                self._connection.execute(WAKE, (item.posted_at, item.posted_at, session_id))

    def remove_wish(self, session_id: str) -> None:
        """Remove the wish of a session that is deleted."""
        with self._transaction:
            self._connection.execute(
                "DELETE FROM windlass_wishes WHERE session = ? /* windlass */", (session_id,)
            )

    def close(self) -> None:
        """Close the connection, which drops the tables."""
        self._connection.close()
