"""The handle of a daemon, and how a daemon is found by its name in any process."""

from __future__ import annotations

import asyncio
from typing import TypeAlias, cast

import msgspec

from windlass.access.caller import Caller
from windlass.engine.active_runs import DETACHED, under_way
from windlass.engine.ownership import SessionScope
from windlass.engine.results import LoopResult
from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.events import JournalEntry
from windlass.json_types import JsonObject
from windlass.loop.run import Run
from windlass.store.base import Store
from windlass.store.open import Address

PREFIX = "daemon-"


class RunningDaemon(msgspec.Struct, frozen=True, eq=False):
    """A daemon that runs in this process."""

    run: Run
    task: asyncio.Task[LoopResult]

    def park(self) -> None:
        """Let go of the run where it is: it can be resumed."""
        found = [one for one in list(under_way) if one.run is self.run]
        for one in found:
            one.park()
        if not found:  # its task has not begun
            self.run.interrupt(DETACHED)


class DaemonHandle:
    """A handle of a daemon: `await w.daemon_trigger(handle, {"kind": "file_changed"})`.

    In another process the name of the daemon is as good, as long as the store is the same.
    """

    name: str
    session_id: str
    persist_path: str | None
    """The file of its snapshots, if there is one."""

    def __init__(
        self, name: str, session_id: str, persist_path: str | None, scope: SessionScope
    ) -> None:
        self.name, self.session_id, self.persist_path = name, session_id, persist_path
        self._scope = scope
        self._running: RunningDaemon | None = None

    def __repr__(self) -> str:
        return f"<DaemonHandle {self.name!r}: session {self.session_id!r}>"

    @property
    def scope(self) -> SessionScope:
        """Where the session of the daemon is, and in whose name it runs."""
        return self._scope

    @property
    def running(self) -> RunningDaemon | None:
        """The run of the daemon, if it is under way in this process."""
        one = self._running
        return None if one is None or one.task.done() else one

    def set_running(self, running: RunningDaemon) -> None:
        """Keep the run that was started for this handle."""
        self._running = running

    async def result(self) -> LoopResult:
        """Wait until the daemon ends or is stopped, and return the result of its run."""
        if self._running is None:
            raise ConfigError(f"daemon {self.name!r} was not started by this handle")
        return await asyncio.shield(self._running.task)

    def to_dict(self) -> JsonObject:
        """Return what another process needs to find the daemon."""
        return {
            "name": self.name,
            "session_id": self.session_id,
            "persist_path": self.persist_path,
        }


#: A handle, or the name or session of a daemon.
DaemonRef: TypeAlias = DaemonHandle | str


class FoundDaemon(msgspec.Struct, frozen=True):
    """A daemon that was looked up: its session in the store."""

    name: str
    session_id: str
    scope: SessionScope
    key: str
    running: RunningDaemon | None = None

    @property
    def home(self) -> Store:
        """The store of its session."""
        return self.scope.home

    async def read(self) -> list[JournalEntry]:
        """Read its journal."""
        return await self.home.read(self.key)


async def find_daemon(
    daemon: DaemonRef, store: Address | None = None, caller: Caller | None = None
) -> FoundDaemon:
    """Find a daemon by its handle, its name or its session, or raise `NoSuchSession`."""
    if isinstance(daemon, DaemonHandle):
        scope = daemon.scope
        key = await scope.find(daemon.session_id, "mail")
        return FoundDaemon(daemon.name, daemon.session_id, scope, key, daemon.running)
    name = daemon
    if not isinstance(cast("object", name), str) or not name.strip():
        raise ConfigError(f"a daemon is its handle or its name, not {safe_repr(daemon)}")
    scope = SessionScope.current(store, caller)
    for session_id in (f"{PREFIX}{name}", name):
        try:
            key = await scope.find(session_id, "mail")
            await scope.home.info(key)
        except NoSuchSession:
            continue
        return FoundDaemon(name.removeprefix(PREFIX), session_id, scope, key)
    raise NoSuchSession(f"there is no daemon {name!r} in this store")
