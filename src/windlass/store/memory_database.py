"""The in-memory SQLite database in which the bodies of a `MemoryStore` run."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar
from weakref import finalize

from windlass.events import JournalEntry
from windlass.store.transaction import Guard, Tx

T = TypeVar("T")


class MemoryDatabase:
    """One connection, used by one thread at a time."""

    def __init__(self) -> None:
        self._transaction = threading.Lock()
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
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
            connection.execute("BEGIN /* windlass */")
            try:
                value = self._guard.run(body)
                entries = record(value)
                check(entries)
            except BaseException:
                if connection.in_transaction:  # an interrupted write has rolled it back itself
                    connection.execute("ROLLBACK /* windlass */")
                raise
            connection.execute("COMMIT /* windlass */")
            return value, entries

    def close(self) -> None:
        """Close the connection, which drops the tables."""
        self._connection.close()
