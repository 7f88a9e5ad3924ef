"""Requests to the ASGI app of an MCP server, without a server around it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

MODERN = "2026-07-28"
LEGACY = "2025-11-25"


class Reply(NamedTuple):
    """What a client got: the status, the headers, and the messages of the body."""

    status: int
    headers: dict[str, str]
    messages: list[Any]

    @property
    def last(self) -> Any:
        """The last message, which is the answer."""
        return self.messages[-1] if self.messages else None


class Wire:
    """One request under way; `leave` closes its connection."""

    def __init__(self, body: bytes) -> None:
        self._pieces = [{"type": "http.request", "body": body, "more_body": False}]
        self._left = asyncio.Event()
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        if self._pieces:
            return self._pieces.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def leave(self) -> None:
        self._left.set()

    @property
    def reply(self) -> Reply:
        head = self.sent[0]
        headers = {name.decode().lower(): value.decode() for name, value in head["headers"]}
        text = b"".join(one.get("body", b"") for one in self.sent[1:]).decode()
        if headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
            return Reply(head["status"], headers, [json.loads(line) for line in lines if line])
        messages = [json.loads(text)] if text.startswith(("{", "[")) else []
        return Reply(head["status"], headers, messages)


def build_scope(method: str, headers: dict[str, str], path: str = "/mcp") -> dict[str, Any]:
    given = {
        "host": "localhost:8765",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        **headers,
    }
    pairs = [(name.encode(), value.encode()) for name, value in given.items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "headers": pairs,
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8765),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }


async def send(
    app: Any,
    document: Any,
    *,
    raw: bytes | None = None,
    method: str = "POST",
    path: str = "/mcp",
    during: Callable[[Wire], Any] | None = None,
    **headers: str,
) -> Reply:
    """Send one request and return the reply; `during(wire)` runs beside it."""
    wire = Wire(json.dumps(document).encode() if raw is None else raw)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    answering = asyncio.ensure_future(
        app(build_scope(method, names, path), wire.receive, wire.send)
    )
    if during is not None:
        await during(wire)
    await answering
    return wire.reply


def modern(method: str, params: dict[str, Any] | None = None, **capabilities: Any) -> Any:
    """A request of 2026-07-28."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**(params or {}), "_meta": meta},
    }


async def call_modern(app: Any, name: str, arguments: Any, **more: Any) -> Reply:
    """Call a tool in the manner of 2026-07-28."""
    document = modern("tools/call", {"name": name, "arguments": arguments})
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": name}
    return await send(app, document, **{**headers, **more})


async def open_session(app: Any, **headers: str) -> str:
    """Shake hands in the manner of 2025-11-25, and return the id of the session."""
    hello = {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    document = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    reply = await send(app, document, **headers)
    assert reply.status == 200, reply
    session = reply.headers["mcp-session-id"]
    done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await send(app, done, mcp_session_id=session, mcp_protocol_version=LEGACY, **headers)
    return session


async def call_legacy(app: Any, session: str, name: str, arguments: Any, **more: Any) -> Reply:
    """Call a tool in a session of 2025-11-25."""
    params = {"name": name, "arguments": arguments}
    document = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
    headers = {"mcp_session_id": session, "mcp_protocol_version": LEGACY}
    return await send(app, document, **{**headers, **more})
