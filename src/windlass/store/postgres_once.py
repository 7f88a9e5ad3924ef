"""One transaction, once: what became of a commit that nobody answered is asked of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from windlass import seams
from windlass.errors import StoreError
from windlass.store.postgres_link import Connection, Pool, conflicting, passing, unfinished

T = TypeVar("T")
CONFLICTS = 20  # that a transaction is run again after
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.25


class Trial:
    """A transaction under way; `xid` is its number at the server, once it has one."""

    __slots__ = ("begun", "xid")

    def __init__(self) -> None:
        self.xid: str | None = None
        self.begun = ""  # what the server said to its beginning


class Patience:
    """Tries until so many seconds have passed: `async for _ in …` would hide what went wrong."""

    __slots__ = ("_conflicts", "_loop", "_pause", "_until")

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + seconds
        self._pause, self._conflicts = FIRST_PAUSE, 0

    async def after(self, error: Exception) -> None:
        """Wait a moment and return, or raise the error: it will not pass, or it is too late."""
        if not passing(error):
            raise error
        self._conflicts += conflicting(error)
        if self._conflicts > CONFLICTS or self._loop.time() + self._pause > self._until:
            raise error
        await asyncio.sleep(self._pause * (0.5 + seams.rng.random()))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)


async def once(
    pool: Pool,
    work: Callable[[Connection, Trial], Awaitable[T]],
    begin: str = "BEGIN",
) -> T:
    """Do the work in a transaction that happens once, however often the connection is lost."""
    patience = Patience(pool.patience)
    value: Any = None
    last: str | None = None  # the transaction whose commit was asked for
    while True:
        try:
            async with pool.take() as connection:
                if last is not None and await _committed(connection, last):
                    return value
                last, trial = None, Trial()
                trial.begun = await connection.execute(begin)
                try:
                    value = await work(connection, trial)
                    if trial.xid is None:
                        trial.xid = await connection.fetchval(
                            "SELECT pg_current_xact_id_if_assigned()::text"
                        )
                    last = trial.xid
                    await commit(connection)
                    return value
                except BaseException as error:
                    await roll_back(connection, error)
                    raise
        except Exception as error:
            await patience.after(error)


async def look(pool: Pool, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Read several things as of one moment."""
    patience = Patience(pool.patience)
    while True:
        try:
            async with pool.take() as connection:
                await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                try:
                    value = await work(connection)
                    await connection.execute("COMMIT")
                    return value
                except BaseException as error:
                    await roll_back(connection, error)
                    raise
        except Exception as error:
            await patience.after(error)


async def commit(connection: Connection) -> None:
    """The only way a transaction of several statements ends well."""
    seams.point("journal.before_commit")
    if await connection.execute("COMMIT") != "COMMIT":
        raise StoreError("the server has rolled the transaction back; let its errors out of a body")
    seams.point("journal.after_commit")


async def roll_back(connection: Connection, error: BaseException) -> None:
    """Undo what the error has passed through, if the connection can still be spoken to."""
    if unfinished(error) or connection.is_closed() or not connection.is_in_transaction():
        return
    try:
        await connection.execute("ROLLBACK")
    except Exception:
        connection.terminate()


async def _committed(connection: Connection, xid: str) -> bool:
    """Has this transaction been committed? One that is still at work is waited for."""
    try:
        status = await connection.fetchval("SELECT pg_xact_status($1::text::xid8)", xid)
    except Exception as error:
        if getattr(error, "sqlstate", "") == "22023":  # in the future: a server that never saw it
            return False
        raise
    if status == "in progress":
        raise TimeoutError("the server is still at work on a transaction whose connection was lost")
    return status == "committed"
