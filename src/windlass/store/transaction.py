"""Bodies: short synchronous functions that a store runs inside its own transaction.

A body sees a `Tx`, never the connection: it may read and write its own tables, and cannot end the
transaction, touch the journal, or hold the write lock for long.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from windlass import seams
from windlass.errors import StoreError

T = TypeVar("T")
SLOW_SECONDS = 0.050
LIMIT_SECONDS = 1.0
OWN_TABLES = "windlass_"
_LOOK_EVERY = 1000  # instructions of SQLite's machine between two looks at the clock

log = logging.getLogger("windlass.store")

_NEVER = {
    sqlite3.SQLITE_TRANSACTION: "begin, commit or roll back",
    sqlite3.SQLITE_SAVEPOINT: "set savepoints",
    sqlite3.SQLITE_ATTACH: "attach databases",
    sqlite3.SQLITE_DETACH: "detach databases",
}
# The journal's own tables may be read; whatever else names one of them, as its table or as the
# table it is about (a trigger, a view of that name), is refused.
_READS = {sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION}
_READ_PRAGMAS = {"table_info", "table_xinfo", "index_list", "index_info", "foreign_key_list"}


class BodyTooSlow(StoreError):
    """A body held the write lock too long and was rolled back. Do slow work before it."""


def on_snapshot(body: Callable[[Any], T]) -> Callable[[Any], T]:
    """Let a body of Windlass itself run beside others in Postgres: `store.commit(on_snapshot(body))`.

    A body is serializable without it, and one of many that begin at once must often be run again. With
    it, only the changes of a row that somebody else has changed meanwhile, and unique keys that somebody else
    has used, make it run again. So it decides by rows that it changes itself.
    """
    vars(body)["on_snapshot"] = True
    return body


def one_statement(body: Callable[[Any], T]) -> Callable[[Any], T]:
    """Let a body of one statement do without a transaction: `store.consult(one_statement(body))`.

    One of Windlass itself may also write so: `store.commit(one_statement(body))`. In Postgres it sees what was
    committed when it began, and is run again if the server does not answer, so it must be safe to repeat or refuse to be.
    """
    vars(body)["one_statement"] = True
    return body


def repeatable(body: Callable[[Any], T]) -> Callable[[Any], T]:
    """Let a body of Windlass itself run again in Postgres if it is not known whether it was committed.

    What it does twice is the same as once, so that nothing needs to be kept to find out.
    """
    vars(body)["repeatable"] = True
    return body


class Tx:
    """The transaction of a body: `tx.execute("UPDATE orders SET … WHERE id = ?", (7,))`."""

    __slots__ = ("_connection", "_guard")

    dialect: Literal["sqlite", "postgres"] = "sqlite"

    def __init__(self, connection: sqlite3.Connection, guard: Guard | Unguarded) -> None:
        self._connection, self._guard = connection, guard

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Run one statement."""
        self._guard.check()
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any]) -> sqlite3.Cursor:
        """Run one statement for each row of parameters."""
        self._guard.check()
        return self._connection.executemany(sql, parameters)

    def keep(self, sql: str, parameters: object = ()) -> sqlite3.Cursor:
        """Run a statement of Windlass's own, on tables that `execute` may only read."""
        return self._guard.execute_own(sql, parameters)

    def cursor(self) -> sqlite3.Cursor:
        """Return a new cursor."""
        self._guard.check()
        return self._connection.cursor()

    def read_clock(self) -> float:
        """Return the time in epoch seconds."""
        return seams.now()

    def __getattr__(self, name: str) -> Any:
        raise StoreError(
            f"a body may not use tx.{name}: it has execute, executemany and cursor; "
            "the store commits when the body returns and rolls back when it raises"
        )


class Guard:
    """A guard over one connection while a body runs on it."""

    __slots__ = ("active", "connection", "deadline", "refused")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.active = connection, False
        self.deadline = 0.0
        self.refused: str | None = None
        # Called only when a statement is prepared; those of Windlass are cached.
        connection.set_authorizer(self._may)

    def run(self, body: Callable[[Any], T], call: Callable[..., T] | None = None) -> T:
        """Run the body in the open transaction; `call(body, tx)` where a context is to be entered."""
        began = seams.monotonic()
        self.deadline, self.refused, self.active = began + LIMIT_SECONDS, None, True
        self.connection.set_progress_handler(self._late, _LOOK_EVERY)
        tx = Tx(self.connection, self)
        try:
            value = body(tx) if call is None else call(body, tx)
            self.check()
            return value
        except sqlite3.Error as error:
            if self.refused is not None:
                raise StoreError(f"a body may not {self.refused}") from error
            if self._late():
                raise self._too_slow() from error
            raise
        finally:
            self.active = False
            self.connection.set_progress_handler(None, 0)
            took = seams.monotonic() - began
            if took > SLOW_SECONDS:
                log.warning(
                    "a body held the write lock for %.0f ms (limit %.0f ms)",
                    took * 1000,
                    LIMIT_SECONDS * 1000,
                )

    def execute_own(self, sql: str, parameters: Any) -> sqlite3.Cursor:
        """Run a statement that only Windlass may issue."""
        connection = self.connection
        if seams.monotonic() > self.deadline or not connection.in_transaction:
            self.check()
        self.active = False
        try:
            return connection.execute(sql, parameters)
        finally:
            self.active = True

    def check(self) -> None:
        """Raise once the body's time is up, or its transaction is gone."""
        if seams.monotonic() > self.deadline:
            raise self._too_slow()
        if not self.connection.in_transaction:  # what came next would commit on its own
            raise StoreError("an error has rolled the body's transaction back; let it out")

    def _late(self) -> bool:
        return seams.monotonic() > self.deadline

    def _too_slow(self) -> BodyTooSlow:
        return BodyTooSlow(
            f"a body may hold the write lock for {LIMIT_SECONDS:g} s; this one was rolled back: "
            "do its slow work before the commit"
        )

    def _may(
        self, action: int, arg1: str | None, arg2: str | None, _db: str | None, _by: str | None
    ) -> int:
        if not self.active:
            return sqlite3.SQLITE_OK
        what = _NEVER.get(action)
        if what is None and action == sqlite3.SQLITE_PRAGMA and arg1 not in _READ_PRAGMAS:
            what = f"change settings (PRAGMA {arg1})"
        if what is None and action not in _READS:
            about = (arg1,) if action == sqlite3.SQLITE_UPDATE else (arg1, arg2)  # arg2: a column
            if (own := next(filter(_own, about), None)) is not None:
                what = f"write to the journal's own table {own!r}"
        if what is None:
            return sqlite3.SQLITE_OK
        self.refused = what
        return sqlite3.SQLITE_DENY


class Unguarded:
    """The guard of a read-only connection, which needs no limit."""

    __slots__ = ("connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute_own(self, sql: str, parameters: Any) -> sqlite3.Cursor:
        """Run the statement."""
        return self.connection.execute(sql, parameters)

    def check(self) -> None:
        """Do nothing: a read-only connection has no limit."""


def _own(name: str | None) -> bool:
    return name is not None and name.lower().startswith(OWN_TABLES)
