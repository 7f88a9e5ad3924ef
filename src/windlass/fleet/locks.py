"""Locks that say which process drives the sessions of a store: of the kernel, or of Postgres.

They go with the process that holds them: there is no lease, no clock, and never a second driver.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol, runtime_checkable

from windlass.errors import StoreError
from windlass.store.base import Store
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore

if os.name == "posix":
    import fcntl


class DriverLock(Protocol):
    """The right to drive."""

    async def try_acquire(self) -> bool:
        """Become the driver; False while another process is. True again if it is this one."""
        ...

    async def release(self) -> None:
        """Let another process drive."""
        ...


class NoLock:
    """The lock of sessions that only this process has."""

    async def try_acquire(self) -> bool:
        """Return True: nobody else can be there."""
        return True

    async def release(self) -> None:
        """Do nothing."""


class FileLock:
    """A lock of the kernel on a file beside the database."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}.fleet")
        self._file: int | None = None

    async def try_acquire(self) -> bool:
        """Lock the file without waiting."""
        if self._file is not None:
            return True
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise StoreError(
                f"{self.path}: {error.strerror}; the fleet keeps its lock there"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return True

    async def release(self) -> None:
        """Unlock the file; it stays where it is."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


@runtime_checkable
class ServerStore(Protocol):
    """A store whose server has such a lock."""

    async def try_driver_lock(self) -> bool:
        """Become the only process that drives sessions here; False while another one is."""
        ...

    async def release_driver_lock(self) -> None:
        """Let another process drive sessions."""
        ...


class ServerLock:
    """A lock of the store's server, on a connection of its own."""

    def __init__(self, store: ServerStore) -> None:
        self._store = store

    async def try_acquire(self) -> bool:
        """Take the lock without waiting."""
        return await self._store.try_driver_lock()

    async def release(self) -> None:
        """Give the lock up."""
        await self._store.release_driver_lock()


def lock_for(store: Store) -> DriverLock:
    """Return the lock of a store."""
    if isinstance(store, MemoryStore):
        return NoLock()
    if isinstance(store, SqliteStore):
        if os.name != "posix":
            raise StoreError("the local engine needs flock, which this system does not have")
        return FileLock(store.path)
    if isinstance(store, ServerStore):
        return ServerLock(store)
    return NoLock()
