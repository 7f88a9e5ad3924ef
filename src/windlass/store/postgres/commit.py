"""Transactions that happen once: the outcome of an unanswered commit is looked up.

The number of a transaction is no proof: after a crash the server hands out again the numbers of
those it has lost. So a transaction leaves something to be found: its journal row, or a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from windlass import seams
from windlass.errors import StoreError
from windlass.store.outage import waits_on
from windlass.store.postgres.connection import (
    Connection,
    Pool,
    code_of,
    conflicting,
    is_unfinished,
    passing,
)

T = TypeVar("T")
TOKENS = 64  # that are left before they are removed together
CONFLICTS = 20  # that a transaction is run again after
FIRST_PAUSE, LONGEST_PAUSE, CONFLICT_PAUSE = 0.005, 0.25, 0.02
OUTAGE_PAUSE = 1.0  # for those that wait for a server however long it is away


class CallerLeft(StoreError):
    """The caller has left, and nothing of its transaction is stored."""


class Trial:
    """A transaction in progress; `xid` is its number at the server once it commits."""

    __slots__ = ("begun", "happened", "token", "xid")

    def __init__(self) -> None:
        self.xid: str | None = None
        self.token: str | None = None
        self.begun = ""  # the server's answer to its beginning
        # Looks whether it was committed; the work sets it, or else a token is left.
        self.happened: Callable[[Connection], Awaitable[bool]] | None = None


class Patience:
    """A limit on retries, and the delays between them."""

    __slots__ = ("_conflicts", "_loop", "_pause", "_until", "_waits")

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + seconds
        self._pause, self._conflicts = FIRST_PAUSE, 0
        self._waits = waits_on.get()

    async def after(self, error: Exception) -> None:
        """Wait a moment and return, or raise the error if a retry cannot help or is too late."""
        if not passing(error):
            raise error
        conflict = conflicting(error)
        self._conflicts += conflict
        late = self._loop.time() + self._pause > self._until
        if self._conflicts > CONFLICTS or late and (conflict or not self._is_waiting()):
            raise error
        await asyncio.sleep(self._pause * (0.5 + seams.rng.random()))
        longest = OUTAGE_PAUSE if late else CONFLICT_PAUSE if conflict else LONGEST_PAUSE
        self._pause = min(2 * self._pause, longest)

    def _is_waiting(self) -> bool:
        return self._waits is not None and self._waits()


async def once(
    pool: Pool,
    work: Callable[[Connection, Trial], Awaitable[T]],
    begin: str = "BEGIN",
    abandoned: Callable[[], bool] | None = None,
) -> T:
    """Run the work in a transaction exactly once, however often the connection is lost.

    It is not tried again for somebody who has left, unless it may have happened.
    """
    patience = Patience(pool.patience)
    value: Any = None
    last: Trial | None = None  # with a commit that was requested
    unsure = False  # a commit was requested that was not answered
    while True:
        if last is None and abandoned is not None and abandoned():
            raise CallerLeft("the caller was cancelled before anything was stored")
        try:
            async with pool.take() as connection:
                unsure = unsure or last is not None
                if last is not None and await _was_committed(connection, last):
                    await wait_for_standby(pool, connection)
                    return value
                last, trial = None, Trial()
                trial.begun = await connection.execute(begin)
                try:
                    value = await work(connection, trial)
                    if trial.happened is None:
                        await _leave_token(connection, trial)
                    last = trial
                    await commit(connection)
                except BaseException as error:
                    await roll_back(connection, error)
                    raise
                if unsure:  # it may have found all as it wants it, and written nothing
                    await wait_for_standby(pool, connection)
            if trial.token is not None:
                await _tidy(pool, trial.token)
            return value
        except Exception as error:
            await patience.after(error)


async def never(_connection: Connection) -> bool:
    """Return False: a transaction that is safe to repeat is run again if its end is not known."""
    return False


async def look(pool: Pool, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Read several things in one snapshot."""

    async def read(connection: Connection) -> T:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            value = await work(connection)
            await connection.execute("COMMIT")
            return value
        except BaseException as error:
            await roll_back(connection, error)
            raise

    return await look_once(pool, read)


async def look_once(pool: Pool, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Read by one statement, which needs no transaction."""
    patience = Patience(pool.patience)
    while True:
        try:
            async with pool.take() as connection:
                return await work(connection)
        except Exception as error:
            await patience.after(error)


async def commit(connection: Connection) -> None:
    """Commit the transaction; every one of several statements ends here."""
    seams.point("journal.before_commit")
    if await connection.execute("COMMIT") != "COMMIT":
        raise StoreError("the server has rolled the transaction back; let its errors out of a body")
    seams.point("journal.after_commit")


async def roll_back(connection: Connection, error: BaseException) -> None:
    """Roll the transaction back, if the connection still works."""
    if is_unfinished(error) or connection.is_closed() or not connection.is_in_transaction():
        return
    try:
        await connection.execute("ROLLBACK")
    except Exception:
        connection.terminate()


async def wait_for_standby(pool: Pool, connection: Connection) -> None:
    """Wait until a synchronous standby has what the server has committed so far.

    A server shows what it has committed although the wait for its standby was cut off, by its own
    restart too. It waits again for whatever is written later. A primary that was replaced waits for
    ever, so what it says about others is not believed either.
    """
    token = seams.new_id("tx")
    await connection.execute("INSERT INTO windlass_tokens VALUES ($1, $2)", token, seams.now())
    pool.answered.append(token)


async def _was_committed(connection: Connection, trial: Trial) -> bool:
    """Check whether a transaction was committed; raise if the server is still working on it."""
    if trial.xid is None or trial.happened is None:
        return False  # it has changed nothing
    try:
        status = await connection.fetchval("SELECT pg_xact_status($1::text::xid8)", trial.xid)
    except Exception as error:
        if code_of(error) != "22023":  # a number the server has not come to: it has lost it
            raise
        status = "lost"
    if status == "in progress":
        raise TimeoutError("the server is still at work on a transaction whose connection was lost")
    return await trial.happened(connection)


async def _leave_token(connection: Connection, trial: Trial) -> None:
    """Insert a token to find the transaction by, unless it has changed nothing."""
    token = seams.new_id("tx")
    trial.xid = await connection.fetchval(
        "INSERT INTO windlass_tokens SELECT $1, $2"
        " WHERE pg_current_xact_id_if_assigned() IS NOT NULL RETURNING pg_current_xact_id()::text",
        token,
        seams.now(),
    )

    async def has_token(connection: Connection) -> bool:
        found = await connection.fetchval("SELECT 1 FROM windlass_tokens WHERE token = $1", token)
        return found is not None

    if trial.xid is not None:
        trial.happened, trial.token = has_token, token


async def _tidy(pool: Pool, token: str) -> None:
    """Remove tokens that are no longer needed, once enough have gathered."""
    pool.answered.append(token)
    if len(pool.answered) < TOKENS:
        return
    old, pool.answered = pool.answered, []
    try:
        async with pool.take() as connection:
            await connection.execute(
                "DELETE FROM windlass_tokens WHERE token = ANY($1::text[])", old
            )
    except Exception as error:  # `prune` finds them
        if not passing(error):
            raise
