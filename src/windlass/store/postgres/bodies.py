"""Bodies on Postgres: synchronous functions over an asynchronous connection.

The body runs in a greenlet. Where it waits for the server, the greenlet is left and the event loop
goes on with other sessions; the answer is where it is taken up again.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, cast

from windlass import seams
from windlass.errors import Locked, StoreError
from windlass.json_types import is_mapping
from windlass.store import transaction as limits
from windlass.store.postgres.connection import (
    Connection,
    Statement,
    away,
    code_of,
    passing,
    refuses_writes,
)
from windlass.store.postgres.server_clock import ServerClock
from windlass.store.postgres.sql import read
from windlass.store.transaction import BodyTooSlow

T = TypeVar("T")
_PREPARED = 256  # statements that a connection keeps

log = logging.getLogger("windlass.store")


class BodyRaised(Exception):
    """An exception that the body itself raised, not the connection."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


class Rows:
    """The result of a statement: `fetchone`, `fetchall`, iteration, `rowcount`."""

    __slots__ = ("_at", "_rows", "rowcount")

    def __init__(self, rows: list[tuple[Any, ...]], rowcount: int) -> None:
        self._rows, self.rowcount, self._at = rows, rowcount, 0

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None."""
        return next(self, None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Return the next rows."""
        some = self._rows[self._at : self._at + size]
        self._at += len(some)
        return some

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all remaining rows."""
        return self.fetchmany(len(self._rows))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self._at >= len(self._rows):
            raise StopIteration
        self._at += 1
        return self._rows[self._at - 1]

    @property
    def lastrowid(self) -> int:
        """None: Postgres has no row ids."""
        raise StoreError("Postgres has no lastrowid; write INSERT … RETURNING id, and fetchone()")


class BodyResources(NamedTuple):
    """What bodies on a connection use: the statements that it has prepared, and the time."""

    prepared: dict[str, Statement]
    clock: ServerClock


class Cursor(Rows):
    """A cursor with its own result."""

    __slots__ = ("_tx",)

    def __init__(self, tx: Tx) -> None:
        super().__init__([], -1)
        self._tx = tx

    def execute(self, sql: str, parameters: object = ()) -> Cursor:
        """Run one statement."""
        return self._now(self._tx.execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any]) -> Cursor:
        """Run one statement for each row of parameters."""
        return self._now(self._tx.executemany(sql, parameters))

    def _now(self, done: Rows) -> Cursor:
        self._rows, self.rowcount, self._at = done.fetchall(), done.rowcount, 0
        return self


class Tx:
    """The transaction of a body: `tx.execute("UPDATE orders SET … WHERE id = ?", (7,))`."""

    __slots__ = ("_clock", "_connection", "_deadline", "_over", "_prepared", "broken", "is_own")
    dialect: Literal["sqlite", "postgres"] = "postgres"  # the dialect of its SQL

    def __init__(self, connection: Connection, resources: BodyResources, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline
        self._prepared, self._clock = resources.prepared, resources.clock
        self._over = False
        self.broken: Exception | None = None  # the error that has ended the transaction
        self.is_own = False  # only statements of Windlass itself: its user cannot make it shorter

    def execute(self, sql: str, parameters: object = ()) -> Rows:
        """Run one statement."""
        self.is_own = False
        return self._do(sql, parameters, own=False)

    def executemany(self, sql: str, parameters: Iterable[Any]) -> Rows:
        """Run one statement for each row of parameters."""
        self.check()
        given = list(parameters)
        if not given:
            return Rows([], 0)
        text, names = self._check_statement(sql, isinstance(given[0], Mapping), own=False)
        self._answer(self._many(text, [_values(row, names) for row in given]))
        return Rows([], -1)

    def keep(self, sql: str, parameters: object = ()) -> Rows:
        """Run a statement of Windlass's own, on tables that `execute` may only read."""
        self.is_own = True
        return self._do(sql, parameters, own=True)

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        self.check()
        return Cursor(self)

    def read_clock(self) -> float:
        """Return the time in epoch seconds, by the server."""
        return self._clock.now()

    def __getattr__(self, name: str) -> Any:
        raise StoreError(
            f"a body may not use tx.{name}: it has execute, executemany and cursor; "
            "the store commits when the body returns and rolls back when it raises"
        )

    def check(self) -> None:
        """Raise once the body's time is up, or its transaction is gone."""
        if self._over:
            raise StoreError("the body has returned and its transaction is over; use tx within it")
        if seams.monotonic() > self._deadline:
            raise too_slow()
        if self.broken is not None:
            raise StoreError(
                "an error has rolled the body's transaction back; let it out"
            ) from self.broken

    def end(self) -> None:
        """Refuse all further use."""
        self._over = True

    # ----------------------------------------------------------------------- the server

    def _do(self, sql: str, parameters: object, own: bool) -> Rows:
        self.check()
        text, names = self._check_statement(sql, isinstance(parameters, Mapping), own)
        rows, status = self._answer(self._one(text, _values(parameters, names)))
        return Rows([tuple(row) for row in rows], _count(status))

    def _check_statement(self, sql: str, named: bool, own: bool) -> tuple[str, tuple[str, ...]]:
        found = read(sql, named)
        if found.refused is not None and (found.refused_to_all or not own):
            raise StoreError(f"a body may not {found.refused}")
        return found.text, found.names

    async def _one(self, text: str, values: Sequence[Any]) -> tuple[list[Any], str]:
        statement = await self._statement(text)
        return await statement.fetch(*values), statement.get_statusmsg()

    async def _many(self, text: str, rows: list[Sequence[Any]]) -> None:
        await (await self._statement(text)).executemany(rows)

    async def _statement(self, text: str) -> Statement:
        statement = self._prepared.get(text)
        if statement is None:
            if len(self._prepared) >= _PREPARED:
                self._prepared.clear()
            statement = self._prepared[text] = await self._connection.prepare(text)
        return statement

    def _answer(self, asked: Awaitable[T]) -> T:
        try:
            return _wait(asked)
        except Exception as error:
            if code_of(error) or away(error):  # the server has refused; it never saw a bad value
                self.broken = error
            if code_of(error) == "57014":
                self.broken = too_slow()
                raise self.broken from error
            if code_of(error) == "55P03":
                self.broken = Locked(
                    "another connection holds what a body needs; let it finish and try again"
                )
                raise self.broken from error
            raise


def too_slow() -> BodyTooSlow:
    """Build the error for a body that took too long."""
    return BodyTooSlow(
        f"a body may hold its locks for {limits.LIMIT_SECONDS:g} s; this one was rolled back: "
        "do its slow work before the commit"
    )


def _values(parameters: Any, names: tuple[str, ...]) -> Sequence[Any]:
    if is_mapping(parameters):
        given = parameters
        missing = [name for name in names if name not in given]
        if missing:
            raise StoreError(f"the statement names :{missing[0]}, and no value is given for it")
        return [given[name] for name in names]
    return tuple(parameters)


def _count(status: str) -> int:
    """Parse the number of changed rows from a status; -1 where the statement changes none."""
    word, _, rest = status.partition(" ")
    number = rest.rpartition(" ")[2]
    changes = word in ("INSERT", "UPDATE", "DELETE", "MERGE")
    return int(number) if changes and number.isdecimal() else -1


# --------------------------------------------------------------------------- the bridge


async def run_body(
    connection: Connection,
    resources: BodyResources,
    body: Callable[[Any], T],
    context: contextvars.Context,
    *,
    limited: bool = True,
    read_only: bool = False,
) -> T:
    """Run the body in the open transaction; `BodyRaised` holds what it raised of its own.

    In a transaction that is `read_only` a refused write is a fault of the body, and not of the server.
    """
    began = seams.monotonic()
    deadline = began + limits.LIMIT_SECONDS if limited else float("inf")
    prepared = resources.prepared
    tx = Tx(connection, resources, deadline)
    try:
        value = await _in_greenlet(lambda: context.run(body, tx))
        tx.check()
        return value
    except (BodyRaised, StoreError) as error:
        broken = tx.broken
        if broken is not None and _is_outdated(broken):
            prepared.clear()
            raise OutdatedStatement from broken
        if broken is not None and passing(broken) and not (read_only and refuses_writes(broken)):
            raise broken from None  # whatever the body made of it
        if (
            broken is not None
            and code_of(broken) == "23505"
            and getattr(body, "on_snapshot", False)
        ):
            raise KeyTaken from broken
        raise error if isinstance(error, BodyRaised) else BodyRaised(error) from error
    finally:
        tx.end()
        took = seams.monotonic() - began
        if limited and took > limits.SLOW_SECONDS and not tx.is_own:
            log.warning(
                "a body held its locks for %.0f ms (limit %.0f ms)",
                took * 1000,
                limits.LIMIT_SECONDS * 1000,
            )


class OutdatedStatement(Exception):
    """A table has changed under a prepared statement, which must be prepared again."""

    sqlstate = "40001"


class KeyTaken(Exception):
    """Somebody else has used a key since the snapshot of the body, which finds it in the next one."""

    sqlstate = "40001"


def _is_outdated(error: Exception) -> bool:
    return type(error).__name__ in ("InvalidCachedStatementError", "OutdatedSchemaCacheError")


async def _in_greenlet(run: Callable[[], T]) -> T:
    from greenlet import greenlet  # the extra `postgres`

    ended: list[T] = []
    raised: list[BaseException] = []

    def play() -> None:
        try:
            ended.append(run())
        except BaseException as error:
            raised.append(error)

    other = greenlet(play)
    asked = other.switch()
    while not other.dead:
        try:
            answer = await asked
        except asyncio.CancelledError as error:
            asked = other.throw(error)
        except Exception as error:
            asked = other.throw(error)
        else:
            asked = other.switch(answer)
    if raised:
        if isinstance(raised[0], asyncio.CancelledError):
            raise raised[0]
        raise BodyRaised(raised[0])
    return ended[0]


def _wait(asked: Awaitable[T]) -> T:
    """Leave the greenlet until the event loop has the answer."""
    from greenlet import getcurrent

    parent = getcurrent().parent
    if parent is None:
        cast(Any, asked).close()
        raise StoreError("tx is used outside of its body; do all that needs it inside")
    return parent.switch(asked)
