"""The servers of one Runtime: each is started once, shared by the runs, and ended with it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import msgspec

from windlass.errors import ConfigError, McpError
from windlass.mcp.client.process import Process, end_all, launch
from windlass.mcp.client.servers import McpServer

if TYPE_CHECKING:
    from windlass.mcp.client.auth import SignIn
    from windlass.mcp.client.connection import Connection

log = logging.getLogger("windlass.mcp")

_CONNECTION: Final = "windlass.mcp.client.connection"
_SDK: Final = ("mcp", "mcp_types", "httpx2")


class Unavailable(msgspec.Struct, frozen=True):
    """A server that did not start, where a run may go on without it."""

    server: str
    problem: str


class Connected(msgspec.Struct, frozen=True):
    """The servers of a run, in order, and those that did not start."""

    connections: tuple[Connection, ...] = ()
    missing: tuple[Unavailable, ...] = ()

    @property
    def state(self) -> tuple[tuple[str, int], ...]:
        """What tells one state of all lists from another."""
        return tuple([(one.server.name, one.listing.number) for one in self.connections])


class McpPool:
    """The connections of a Runtime, by event loop, entry and workspace."""

    def __init__(
        self,
        environ: Mapping[str, str],
        clean: Callable[[str], str],
        learn: Callable[[McpServer], None] | None = None,
    ) -> None:
        self._environ, self._clean, self._learn = environ, clean, learn
        self._open: dict[tuple[object, ...], Connection] = {}
        self._early: dict[tuple[object, ...], asyncio.Task[Process]] = {}
        self._users: dict[int, int] = {}
        self.sign_in: SignIn | None = None
        """What sends a person to sign in; None: a server that asks for it is refused."""

    async def connect(self, servers: Sequence[McpServer], folder: str) -> Connected:
        """Start the servers side by side, or use those that run; raise for one that is required."""
        await self.prepare(servers, folder)
        return await self.start(self.find(servers, folder))

    async def prepare(self, servers: Sequence[McpServer], folder: str) -> None:
        """Load the SDK where it is not loaded yet, while the processes of new servers start.

        To load it takes as long as a small server takes to start.
        """
        if _CONNECTION in sys.modules or not all([find_spec(name) for name in _SDK]):
            return
        mine: list[tuple[object, ...]] = []
        waited: list[asyncio.Task[Process]] = []
        for server in servers:
            key = _key(server, folder)
            if server.url is None and key not in self._open:
                if key not in self._early:
                    work = launch(server, self._environ, folder, self._learn)
                    self._early[key] = asyncio.ensure_future(work)
                    mine.append(key)
                waited.append(self._early[key])
        try:
            if waited:
                await asyncio.wait(waited)
            await asyncio.to_thread(import_module, _CONNECTION)
        except BaseException:
            await end_all([self._early.pop(key) for key in mine if key in self._early])
            raise

    def find(self, servers: Sequence[McpServer], folder: str) -> list[Connection]:
        """Return the connections of these servers in a folder; new ones are not started yet."""
        return [self._connection(server, folder) for server in servers]

    async def start(self, connections: Sequence[Connection]) -> Connected:
        """Start servers side by side, or use those that run; raise for one that is required."""
        if not connections:
            return Connected()
        starts = [asyncio.ensure_future(one.refresh()) for one in connections]
        try:
            await asyncio.wait(starts)
        except BaseException:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            raise
        found: list[Connection] = []
        missing: list[Unavailable] = []
        for one, start in zip(connections, starts, strict=True):
            error = start.exception()
            if error is None:
                found.append(one)
            elif one.server.required or not isinstance(error, McpError):
                raise error
            else:
                log.warning("%s", error)
                missing.append(Unavailable(one.server.name, error.problem))
        return Connected(tuple(found), tuple(missing))

    def _connection(self, server: McpServer, folder: str) -> Connection:
        key = _key(server, folder)
        found = self._open.get(key)
        if found is None or found.closed:
            try:
                module = import_module(_CONNECTION)
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] not in _SDK:
                    raise
                raise ConfigError(
                    "MCP servers need the SDK: pip install 'windlass[mcp]'"
                ) from error
            early = self._early.pop(key, None)
            found = self._open[key] = module.Connection(
                server, self._environ, folder, self._clean, self.sign_in, self._learn, early
            )
        assert found is not None
        return found

    def hold(self, connections: Iterable[Connection]) -> None:
        """Count a run that uses these."""
        for one in connections:
            self._users[id(one)] = self._users.get(id(one), 0) + 1

    def release(self, connections: Iterable[Connection]) -> list[Connection]:
        """Count a run that has ended; return the connections that nobody uses any more."""
        idle: list[Connection] = []
        for one in connections:
            left = self._users.get(id(one), 1) - 1
            if left > 0:
                self._users[id(one)] = left
            else:
                self._users.pop(id(one), None)
                idle.append(one)
        return idle

    async def close(self, connections: Iterable[Connection]) -> None:
        """End these servers, side by side, and forget them."""
        chosen = list(connections)
        self._open = {key: one for key, one in self._open.items() if one not in chosen}
        await asyncio.gather(*[one.close() for one in chosen])

    async def aclose(self) -> None:
        """End all servers of this event loop; those of others end with their loops."""
        here = id(asyncio.get_running_loop())
        mine = [one for key, one in self._open.items() if key[0] == here]
        others = [one for key, one in self._open.items() if key[0] != here]
        early, self._open, self._early = self._early, {}, {}
        for one in others:
            one.kill()
        await end_all([one for key, one in early.items() if key[0] == here])
        await self.close(mine)


def _key(server: McpServer, folder: str) -> tuple[object, ...]:
    """Return what tells one connection from another: the event loop, the entry, the workspace."""
    entry = msgspec.json.encode(server, order="deterministic")
    return id(asyncio.get_running_loop()), entry, folder
