"""Connections to a Postgres server, and its errors. No message holds the password."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

from windlass.errors import Corrupt, Full, Locked, StoreError
from windlass.json_types import JsonObject
from windlass.store.postgres.address import Address

CONNECT_SECONDS = 10.0  # for all hosts of an address together
ANSWER_SECONDS = 30.0  # at least, before a silent server counts as gone
FIRST_SECONDS = 5.0
LONGEST_WAIT = 86_400.0  # seconds for a lock, however patient the store is
OLDEST = 13  # the first that reports the status of any transaction

log = logging.getLogger("windlass.store")


class Statement(Protocol):
    """A prepared statement."""

    async def fetch(self, *args: Any) -> list[Any]: ...

    async def executemany(self, args: Iterable[Any]) -> None: ...

    def get_statusmsg(self) -> str: ...


class Connection(Protocol):
    """The part of the driver's connection that is used here."""

    async def execute(self, query: str, *args: Any) -> str: ...

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...

    async def fetchrow(self, query: str, *args: Any) -> Any: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...

    async def prepare(self, query: str) -> Statement: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    async def close(self, *, timeout: float | None = None) -> None: ...

    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...

    def terminate(self) -> None: ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...


async def connect(address: Address, patience: float, settings: dict[str, str]) -> Connection:
    """Open a connection with synchronous commits and a lock timeout of `patience`."""
    # One plan for all: a statement is planned once on a connection and its rows are few. Where an
    # index can be used it is: a scan of a whole table makes a serializable body depend on all of it.
    given = {**address.settings, "jit": "off", "enable_seqscan": "off", **settings}
    given.setdefault("application_name", "windlass")
    lock_timeout = str(max(1, int(min(patience, LONGEST_WAIT) * 1000)))
    given.setdefault("lock_timeout", lock_timeout)
    opened = await _log_in(address, patience, given)
    try:
        # Qualified: the schemas of the path have not been looked at yet.
        version, waits, lock_wait = await opened.fetchrow(
            "SELECT pg_catalog.current_setting('server_version_num')::int,"
            " pg_catalog.current_setting('synchronous_commit'),"
            " pg_catalog.current_setting('lock_timeout')"
        )
        if version < OLDEST * 10_000:
            raise StoreError(
                f"{address}: Postgres {version // 10_000} is too old; use {OLDEST} or newer"
            )
        if waits == "off":  # an acknowledged row would be lost with the server's memory
            await opened.execute("SET synchronous_commit = on")
        if lock_wait == "0":  # for ever
            await opened.execute(f"SET lock_timeout = {lock_timeout}")
    except BaseException:
        opened.terminate()
        raise
    return opened


async def _log_in(address: Address, patience: float, settings: dict[str, str]) -> Connection:
    """Try the hosts one after the other: one that does not answer leaves time for those behind it."""
    loop = asyncio.get_running_loop()
    until, failures = loop.time() + CONNECT_SECONDS, list[Exception]()
    places = address.list_host_arguments()
    for number, place in enumerate(places):
        seconds = max(0.0, until - loop.time()) / (len(places) - number)
        try:
            return await _log_in_at(address, {**place, "timeout": seconds}, patience, settings)
        except Exception as error:
            if not (isinstance(error, StoreError) or away(error) or refuses_writes(error)):
                raise
            failures.append(error)
    to_mend = [error for error in failures if isinstance(error, StoreError)]
    silent = [error for error in failures if away(error)]
    raise (to_mend or silent or failures)[-1]


async def _log_in_at(
    address: Address, place: JsonObject, patience: float, settings: dict[str, str]
) -> Connection:
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]  # the extra `postgres`

    from windlass.store.postgres.login import GuardedConnection, LoginLoop

    login = LoginLoop(asyncio.get_running_loop(), allow_clear_text=address.is_always_encrypted)
    try:
        return cast(
            Connection,
            await asyncpg.connect(  # pyright: ignore[reportUnknownMemberType]
                **place,
                loop=cast(asyncio.AbstractEventLoop, login),
                connection_class=GuardedConnection,
                command_timeout=max(patience, ANSWER_SECONDS),
                max_cached_statement_lifetime=0,
                server_settings=settings,
            ),
        )
    except Exception as error:
        if login.refused_clear_text:
            raise StoreError(
                f"{address}: the server asks for the password in clear text over a connection that is "
                "not encrypted; it was not sent. Use scram-sha-256 in the server's pg_hba.conf, or TLS "
                "(?sslmode=verify-full)"
            ) from error
        if isinstance(error, ssl.SSLCertVerificationError):
            raise StoreError(
                f"{address}: the server's certificate was not accepted ({error.verify_message}); name the "
                "authority that signed it (?sslrootcert=/path/ca.pem) or another host"
            ) from error
        if isinstance(error, ConnectionError) and "rejected SSL" in str(error):
            raise StoreError(
                f"{address}: the server offers no TLS, which this address requires; switch it on there "
                "(ssl = on), or use a tunnel to localhost"
            ) from error
        raise


class Pool:
    """A pool of connections, opened when needed. Belongs to one event loop."""

    def __init__(
        self, address: Address, patience: float, size: int, settings: dict[str, str]
    ) -> None:
        self.address, self.settings = address, settings
        self._patience = patience
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(size)
        self.ready: Callable[[Connection], Awaitable[None]] | None = None  # for each new connection
        self.prepare: Callable[[Connection], Awaitable[None]] | None = None  # for each use of one
        self._reached = False
        self.answered: list[str] = []  # tokens of transactions whose end is known

    @property
    def patience(self) -> float:
        """How long to wait for the server; less while none has ever answered."""
        return self._patience if self._reached else min(self._patience, FIRST_SECONDS)

    @asynccontextmanager
    async def take(self) -> AsyncGenerator[Connection]:
        """Lend a connection; close it after an error, or if it is left in a transaction."""
        async with self._places:
            connection = await self._open()
            try:
                if self.prepare is not None:
                    await self.prepare(connection)
                yield connection
            except BaseException as error:
                gone = connection.is_closed()  # a driver asked about its transaction then has none
                if not gone and (is_unfinished(error) or connection.is_in_transaction()):
                    connection.terminate()
                raise
            finally:
                if not connection.is_closed():
                    self._idle.append(connection)

    async def _open(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        connection = await connect(self.address, self._patience, self.settings)
        try:
            if self.ready is not None:
                await self.ready(connection)
        except BaseException:
            connection.terminate()
            raise
        self._reached = True
        return connection

    async def close(self) -> None:
        """Close the idle connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            try:
                await connection.close(timeout=2.0)
            except Exception:  # it is gone, as intended
                connection.terminate()


# --------------------------------------------------------------------------- errors

READ_ONLY = "25006"
CONFLICTS = {"40001", "40P01"}  # serialization, deadlock: run it again
_AWAY = {"57P01", "57P02", "57P03", "53300", "25P03", "57P05"}  # stopping, starting, no place left
_MADE_TWICE = ("pg_type_typname_nsp_index", "pg_class_relname_nsp_index")
_MEANING: dict[str, tuple[type[StoreError], str]] = {
    "53100": (Full, "the server's disk is full; nothing was lost: make room and resume"),
    "55P03": (Locked, "another connection holds what is needed; let it finish and resume"),
    "53200": (Locked, "the server is out of memory; nothing was lost: resume later"),
    "28P01": (StoreError, "the server refuses the password; check the address"),
    "28000": (StoreError, "the server refuses this user; check the address and pg_hba.conf"),
    "3D000": (StoreError, "there is no such database; create it first (createdb)"),
    "42501": (
        StoreError,
        "permission denied; allow this user to create and write tables in its schema",
    ),
    "3F000": (StoreError, "there is no schema to keep tables in; create the one in search_path"),
    "42P01": (Corrupt, "tables of the store are gone; restore them from a backup"),
    "42703": (Corrupt, "tables of the store are not what they were; restore them from a backup"),
    "XX001": (Corrupt, "the server found damaged data; restore it from a backup"),
    "XX002": (Corrupt, "the server found a damaged index; restore it (REINDEX)"),
}


def code_of(error: BaseException) -> str:
    """Return the server's error code, or an empty text."""
    code: object = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else ""


def is_unfinished(error: BaseException) -> bool:
    """Check whether the connection may still be at work, is gone, or leads to the wrong server."""
    return isinstance(error, asyncio.CancelledError) or away(error) or refuses_writes(error)


def away(error: BaseException) -> bool:
    """Check whether the server cannot be reached; it may have done what was asked."""
    if isinstance(error, (OSError, TimeoutError, EOFError)):
        return True
    code = code_of(error)
    if code:
        return code in _AWAY or code.startswith("08")
    if not type(error).__module__.startswith("asyncpg"):
        return False
    # The second is what the driver raises when it is cut off between two of its own steps.
    return "connection" in str(error) or type(error).__name__ == "InternalClientError"


def refuses_writes(error: BaseException) -> bool:
    """Check whether the server, or each of the hosts, is a standby, which may be promoted soon."""
    name = type(error).__name__
    return name == "TargetServerAttributeNotMatched" or code_of(error) == READ_ONLY


def conflicting(error: BaseException) -> bool:
    """Check whether another transaction interfered, so that a retry may succeed."""
    code = code_of(error)
    if code in CONFLICTS:
        return True
    # `CREATE TABLE IF NOT EXISTS` looks first and makes then: two at once collide in the catalogue.
    if code == "23505":
        return getattr(error, "constraint_name", None) in _MADE_TWICE
    return code == "XX000" and "tuple concurrently" in str(error)


def passing(error: BaseException) -> bool:
    """Check whether a retry may succeed."""
    return away(error) or conflicting(error) or refuses_writes(error)


def meaning(error: BaseException, address: Address) -> StoreError:
    """Build the `StoreError` that explains an error of the server or the connection."""
    if isinstance(error, StoreError):
        return error
    if away(error):
        reason = str(error) or "no answer in time"
        return Locked(f"{address}: the server cannot be reached; start it and resume ({reason})")
    if refuses_writes(error):
        return Locked(
            f"{address}: the server takes no writes (a standby?); promote it or connect to the primary,"
            f" and resume ({error})"
        )
    if conflicting(error):
        return Locked(f"{address}: others write the same; try again ({error})")
    kind, advice = _MEANING.get(code_of(error), (StoreError, "see the cause"))
    return kind(f"{address}: {advice} ({error})")
