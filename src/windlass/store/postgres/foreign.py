"""Bodies on a connection of the caller's own, in the transaction that is open there."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TypeGuard, TypeVar

from windlass.errors import ConfigError, safe_repr
from windlass.store.base import Store
from windlass.store.postgres.bodies import BodyRaised, BodyResources, run_body
from windlass.store.postgres.connection import Connection
from windlass.store.postgres.store import PostgresStore
from windlass.store.wishes import Transaction

T = TypeVar("T")


async def run_on_connection(
    store: Store, connection: object, body: Callable[[Transaction], T]
) -> T:
    """Run a body in the transaction of an asyncpg connection; it counts when that commits.

    The connection's search path is that of the store meanwhile.
    """
    if not isinstance(store, PostgresStore):
        raise ConfigError(f"connection= needs a store in Postgres, and this one is {store!r}")
    own = _check_connection(connection)
    path = await store.find_search_path()
    before: str = await own.fetchval("SELECT pg_catalog.current_setting('search_path')")
    await _set_path(own, path)
    if await own.fetchval("SELECT pg_catalog.to_regclass('windlass_wishes')") is None:
        await _set_path(own, before)
        raise ConfigError(
            "connection= is on another database than the store: its tables are not there"
        )
    try:
        resources = BodyResources({}, store.clock)
        value = await run_body(own, resources, body, contextvars.copy_context(), limited=False)
    except BodyRaised as raised:
        if raised.error.__class__.__module__.startswith("windlass"):
            await _set_path(own, before)  # our own refusal: the transaction is sound
        raise raised.error from None
    await _set_path(own, before)
    return value


def _check_connection(connection: object) -> Connection:
    if not _is_connection(connection):
        raise ConfigError(f"connection is one of asyncpg, not {safe_repr(connection)}")
    if not connection.is_in_transaction():
        raise ConfigError(
            "connection has no open transaction; write: async with connection.transaction()"
        )
    return connection


def _is_connection(value: object) -> TypeGuard[Connection]:
    names = ("execute", "fetchval", "is_in_transaction", "prepare")
    return all(callable(getattr(value, name, None)) for name in names)


async def _set_path(connection: Connection, path: str) -> None:
    await connection.execute("SELECT pg_catalog.set_config('search_path', $1, true)", path)
