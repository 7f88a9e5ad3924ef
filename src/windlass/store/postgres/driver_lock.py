"""An advisory lock on a connection of its own: held until it is released, or the connection ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from windlass.store.postgres.address import Address
from windlass.store.postgres.connection import Connection, connect
from windlass.store.postgres.schema import LOCK

_KEY = f"{LOCK + 3} + hashtext(current_schema()::text)"  # each schema has its own sessions


class DriverConnection:
    """The connection that holds the lock. Belongs to the store's own event loop."""

    def __init__(
        self, address: Address, patience: float, ready: Callable[[Connection], Awaitable[None]]
    ) -> None:
        self._address, self._patience, self._ready = address, patience, ready
        self._connection: Connection | None = None
        self._holds = False
        self._busy = asyncio.Lock()  # a release waits for an attempt that is under way
        self._is_released = False

    async def try_acquire(self) -> bool:
        """Take the lock without waiting; False while another connection has it."""
        async with self._busy:
            return not self._is_released and await self._try_acquire()

    async def _try_acquire(self) -> bool:
        connection = self._connection
        if connection is not None and connection.is_closed():
            connection = self._connection = None
            self._holds = False
        if connection is None:
            connection = await self._connect()
            self._connection = connection
        if self._holds:
            await connection.fetchval("SELECT 1")  # it may be gone without a word
            return True
        self._holds = bool(await connection.fetchval(f"SELECT pg_try_advisory_lock({_KEY})"))
        return self._holds

    async def _connect(self) -> Connection:
        connection = await connect(self._address, self._patience, {})
        try:
            await self._ready(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def release(self) -> None:
        """Give the lock up with its connection, for good."""
        self._is_released = True
        async with self._busy:
            connection, self._connection, self._holds = self._connection, None, False
            if connection is not None:
                connection.terminate()
