"""The server over HTTP: an ASGI app that checks host, origin, identity and size before the SDK reads a request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from windlass.access.caller import Caller
from windlass.json_types import JsonObject
from windlass.mcp.server.exchange import KEY, Exchange
from windlass.mcp.server.handlers import MOST_SESSIONS
from windlass.server.identify import Identify, Receive, Scope, Send, identify_caller
from windlass.server.refusal import RequestRefused, describe_failure, refuse

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
_SESSION_HEADER: Final = "mcp-session-id"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests are answered at all."""

    hosts: tuple[str, ...] = ()
    """Names of this server beside those of the loopback: `mcp.example.com`."""
    origins: tuple[str, ...] = ()
    """Origins of pages in browsers that may ask: `https://app.example.com`."""
    path: str = "/mcp"
    max_body_bytes: int = 4 << 20
    body_timeout: float = 30.0

    def check(self, headers: Mapping[str, str], scope: Scope) -> None:
        """Refuse a request for another path, host or origin."""
        # An app that is mounted in another is told the whole path, and where it is mounted.
        if scope["path"].removeprefix(scope.get("root_path") or "") != self.path:
            raise RequestRefused(404, "not_found", "there is nothing at this path")
        found = _HOST.fullmatch(headers.get("host", ""))
        name = "" if found is None else found[1].lower()
        # A page of another site can make its name point here; the name stays in the header.
        if name not in LOOPBACK and name not in self.hosts:
            raise RequestRefused(421, "host_not_allowed", "requests for this host are not answered")
        origin = headers.get("origin")
        own = (f"http://{headers['host']}", f"https://{headers['host']}")
        if origin is not None and origin not in self.origins and origin not in own:
            raise RequestRefused(
                403, "origin_not_allowed", "requests of this origin are not answered"
            )


class HttpApp:
    """The ASGI app of a server."""

    def __init__(self, server: Server[JsonObject], identify: Identify, access: Access) -> None:
        self.server, self.identify, self.access = server, identify, access
        self._running: _Running | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; start and stop with the server around it."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        try:
            headers = _headers(scope["headers"])
            self.access.check(headers, scope)
            caller = await identify_caller(self.identify, headers)
            body = await self._body(scope, headers, receive)
        except Exception as error:
            await _refuse(send, error)
            return
        exchange = Exchange(caller, headers.get(_SESSION_HEADER, ""))
        scope = {**scope, KEY: exchange, "user": _user(caller)}
        manager = await self._manager()
        await manager.handle_request(scope, _replay(body, receive, exchange), send)

    async def _body(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> bytes:
        if scope["method"] != "POST":
            return b""
        most = self.access.max_body_bytes
        declared = headers.get("content-length", "")
        if (
            declared.isascii()
            and declared.isdigit()
            and (len(declared) > 18 or int(declared) > most)
        ):
            raise RequestRefused(413, "too_large", f"a request has at most {most} bytes")
        try:
            async with asyncio.timeout(self.access.body_timeout):
                return await _read(receive, most)
        except TimeoutError:
            text = "the request took too long to arrive"
            raise RequestRefused(408, "request_timeout", text) from None

    async def _manager(self) -> StreamableHTTPSessionManager:
        """Return the SDK's manager, started now if no server around has said so."""
        if self._running is None:
            self._running = _Running(self.server, self.access.max_body_bytes)
        return await self._running.wait_started()

    async def aclose(self) -> None:
        """End all sessions."""
        running, self._running = self._running, None
        if running is not None:
            await running.stop()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.startup":
                await self._manager()
            else:
                await self.aclose()
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return


class _Running:
    """The SDK's session manager in a task of its own, which enters and leaves its scopes."""

    def __init__(self, server: Server[JsonObject], max_body_bytes: int) -> None:
        self._manager = StreamableHTTPSessionManager(
            server, max_request_body_size=max_body_bytes, max_sessions=MOST_SESSIONS
        )
        self._started, self._stopping = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self._manager.run():
            self._started.set()
            await self._stopping.wait()

    async def wait_started(self) -> StreamableHTTPSessionManager:
        await self._started.wait()
        return self._manager

    async def stop(self) -> None:
        self._stopping.set()
        await self._task


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by lower-case names; refuse one of ours that comes twice."""
    found: dict[str, str] = {}
    for name, value in pairs:
        key = name.decode("latin-1").lower()
        if key in found and key in ("host", "origin", "authorization", _SESSION_HEADER):
            raise refuse(f"the header {key} comes twice")
        found[key] = value.decode("latin-1")
    return found


def _user(caller: Caller) -> AuthenticatedUser:
    """Return the caller as the SDK knows one: a session belongs to who opened it."""
    return AuthenticatedUser(AccessToken(token="", client_id=str(caller), scopes=[]))


async def _read(receive: Receive, most: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise refuse("the request broke off")
        body += message.get("body", b"")
        if len(body) > most:
            raise RequestRefused(413, "too_large", f"a request has at most {most} bytes")
        if not message.get("more_body"):
            return bytes(body)


def _replay(body: bytes, receive: Receive, exchange: Exchange) -> Receive:
    """Return a `receive` that gives the body once, and notes when the client leaves."""
    given = False

    async def replay() -> dict[str, object]:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        message = await receive()
        if message["type"] == "http.disconnect":
            exchange.leave()
        return dict(message)

    return replay


async def _refuse(send: Send, error: Exception) -> None:
    status, document = describe_failure(error)
    body = msgspec.json.encode(document)
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        head.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


App = Callable[[Scope, Receive, Send], Awaitable[None]]
