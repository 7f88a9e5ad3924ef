"""One request over HTTP: who sent it, and whether the client is still there."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from mcp.server import ServerRequestContext
from starlette.requests import Request

from windlass.access.caller import Caller
from windlass.json_types import JsonObject

KEY: Final = "windlass.mcp"  # of the exchange in an ASGI scope


class Exchange:
    """A request: its caller, its session, and what to do when the client leaves."""

    def __init__(self, caller: Caller | None = None, session_key: str = "") -> None:
        self.caller, self.session_key = caller, session_key
        self.has_left = False
        self._watchers: list[Callable[[], None]] = []

    @staticmethod
    def of(ctx: ServerRequestContext[JsonObject]) -> Exchange:
        """Return the exchange of a request; on stdio there is no such thing as a request's own."""
        request: object = ctx.request
        if isinstance(request, Request):
            found: object = request.scope.get(KEY)
            if isinstance(found, Exchange):
                return found
        return Exchange()

    def leave(self) -> None:
        """Note that the client has closed the connection."""
        self.has_left = True
        for watcher in self._watchers:
            watcher()

    @contextmanager
    def watch(self, watcher: Callable[[], None]) -> Generator[None]:
        """Call this function if the client leaves meanwhile."""
        self._watchers.append(watcher)
        if self.has_left:
            watcher()
        try:
            yield
        finally:
            self._watchers.remove(watcher)
