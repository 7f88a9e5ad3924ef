"""The MCP server over HTTP, attacked: other sites, other callers, floods, and clients that leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

import windlass as w
from tests.mcp_server.asgi import (
    LEGACY,
    MODERN,
    Wire,
    build_scope,
    call_legacy,
    call_modern,
    modern,
    open_session,
    send,
)
from windlass.mcp.server import McpService

KEYS = {"Bearer ann": w.Caller("ann"), "Bearer bob": w.Caller("bob")}
ANN = {"authorization": "Bearer ann"}
BOB = {"authorization": "Bearer bob"}


def who(headers: Mapping[str, str]) -> w.Caller | None:
    return KEYS.get(headers.get("authorization", ""))


class Tools:
    """One tool that answers, and one that waits until it is stopped."""

    def __init__(self) -> None:
        self.started, self.stopped = asyncio.Event(), asyncio.Event()
        self.count, self.all_started = 0, asyncio.Event()  # three of them

    @property
    def listed(self) -> list[w.Tool]:
        @w.tool
        async def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        @w.tool
        async def wait() -> str:
            """Wait for ever."""
            self.count += 1
            self.started.set()
            if self.count == 3:
                self.all_started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return "never"

        return [add, wait]


@asynccontextmanager
async def served(tools: Tools | None = None, **options: Any) -> AsyncIterator[Any]:
    access = {
        key: options.pop(key)
        for key in ("hosts", "origins", "max_body_bytes", "body_timeout")
        if key in options
    }
    scope = w.Runtime(store="memory:", tools=(tools or Tools()).listed, environ={})
    app = McpService(scope, identify=who, **options).app(**access)
    try:
        yield app
    finally:
        await app.aclose()


async def add(app: Any, **headers: str) -> Any:
    return await call_modern(app, "add", {"a": 1, "b": 2}, **{**ANN, **headers})


async def test_mcp_http_answers_in_both_eras() -> None:
    """The control case of all that is refused below."""
    async with served() as app:
        assert (await add(app)).last["result"]["content"][0]["text"] == "3"
        session = await open_session(app, **ANN)
        reply = await call_legacy(app, session, "add", {"a": 1, "b": 2}, **ANN)
        assert reply.last["result"]["content"][0]["text"] == "3"


@pytest.mark.parametrize(
    "origin",
    (
        "https://evil.example",
        "http://localhost.evil.example:8765",
        "http://localhost:9999",
        "null",
        "http://localhost:8765@evil.example",
        "",
    ),
)
async def test_mcp_http_refuses_pages_of_other_sites(origin: str) -> None:
    """A browser says where a page is from; only this server's own and those allowed are answered."""
    async with served(origins=("https://app.example",)) as app:
        assert (await add(app, origin="http://localhost:8765")).status == 200
        assert (await add(app, origin="https://app.example")).status == 200
        refused = await add(app, origin=origin)
        assert refused.status == 403 and refused.last["error"] == "origin_not_allowed"
        assert refused.last["id"].startswith("error_")


@pytest.mark.parametrize(
    "host",
    (
        "evil.example:8765",
        "localhost.evil.example",
        "127.0.0.1.nip.io:8765",
        "169.254.169.254",
        "localhost:8765:1",
        "localhost:8765, evil.example",
        "user@localhost",
        "",
    ),
)
async def test_mcp_http_refuses_names_that_are_not_its_own(host: str) -> None:
    """DNS rebinding: a page's own name points to this machine, and stays in the header."""
    async with served(hosts=("MCP.example.com",)) as app:
        for good in ("127.0.0.1:8765", "[::1]:8765", "LOCALHOST", "mcp.example.com"):
            assert (await add(app, host=good)).status == 200
        assert (await add(app, host=host)).status == 421


async def test_mcp_http_knows_its_callers() -> None:
    """Nobody is not answered, the host itself is no caller, and a failing function is no yes."""
    async with served() as app:
        nobody = await call_modern(app, "add", {"a": 1, "b": 2}, authorization="Bearer eve")
        assert nobody.status == 401 and nobody.headers["www-authenticate"] == "Bearer"
        twice = [(b"authorization", b"Bearer ann"), (b"authorization", b"Bearer bob")]
        wire, scope = Wire(b"{}"), build_scope("POST", {})
        await app({**scope, "headers": [*scope["headers"], *twice]}, wire.receive, wire.send)
        assert wire.reply.status == 400

    def local(_headers: Mapping[str, str]) -> w.Caller:
        return w.Caller.local()

    def broken(_headers: Mapping[str, str]) -> w.Caller:
        raise RuntimeError("/srv/keys.db")

    for identify in (local, broken):
        app = McpService(w.Runtime(tools=[]), identify=identify).app()
        refused = await call_modern(app, "add", {})
        assert refused.status == 500 and "/srv" not in str(refused.last)


async def test_mcp_http_binds_a_session_to_who_opened_it() -> None:
    """A forged id, and the id of somebody else's session, are the same: not there."""
    async with served() as app:
        session = await open_session(app, **ANN)
        for forged, key in ((session, BOB), ("0" * 32, ANN), ("../../x", ANN), ("ä" * 10, ANN)):
            reply = await call_legacy(app, forged, "add", {"a": 1, "b": 2}, **key)
            assert reply.status in (400, 404), (forged, reply)
            ended = await send(app, None, method="DELETE", mcp_session_id=forged, **key)
            assert ended.status in (400, 404)
        alive = await call_legacy(app, session, "add", {"a": 1, "b": 2}, **ANN)
        assert alive.status == 200


async def test_mcp_http_limits_the_body() -> None:
    """A body that is too large is refused before it is read whole; one that never ends, in time."""
    async with served(max_body_bytes=2_000, body_timeout=0.05) as app:
        large = await add(app)
        assert large.status == 200
        padded = modern(
            "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2, "c": "x" * 3_000}}
        )
        assert (await send(app, padded, **ANN, mcp_protocol_version=MODERN)).status == 413
        declared = await add(app, content_length="9" * 30)
        assert declared.status == 413

        wire = Wire(b"")
        wire._pieces[0]["more_body"] = True  # pyright: ignore[reportPrivateUsage]
        await app(build_scope("POST", ANN), wire.receive, wire.send)
        assert wire.reply.status == 408


@pytest.mark.parametrize(
    "raw",
    (
        b"",
        b"[]",
        b"{",
        b"null",
        b"\xff\xfe",
        b'{"jsonrpc": "2.0", "id": 1}',
        b"["
        + b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"},' * 500
        + b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": '
        + b"[" * 5_000
        + b"]" * 5_000
        + b"}",
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}}',
    ),
)
async def test_mcp_http_refuses_bodies_that_are_no_request(raw: bytes) -> None:
    """Floods in one body, half a body and wrong kinds are refused; the server goes on."""
    async with served() as app:
        session = await open_session(app, **ANN)
        for headers in (
            {"mcp_protocol_version": MODERN},
            {"mcp_protocol_version": LEGACY, "mcp_session_id": session},
        ):
            reply = await send(app, None, raw=raw, **ANN, **headers)
            assert 400 <= reply.status < 500 or "error" in reply.last, reply
        assert (await add(app)).status == 200


async def test_mcp_http_limits_the_calls_of_one_caller() -> None:
    """More calls at a time than allowed are refused; other callers, and later calls, are not."""
    tools = Tools()
    async with served(tools, max_calls=3) as app:
        flooding = [asyncio.create_task(call_modern(app, "wait", {}, **ANN)) for _ in range(3)]
        await tools.all_started.wait()
        refused = await add(app)
        assert refused.last["result"]["isError"] and "too_many_calls" in str(refused.last)
        assert (await add(app, **BOB)).last["result"]["content"][0]["text"] == "3"
        for task in flooding:
            task.cancel()
        await asyncio.gather(*flooding, return_exceptions=True)
        assert (await add(app)).last["result"]["content"][0]["text"] == "3"


@pytest.mark.parametrize("era", (LEGACY, MODERN))
async def test_mcp_http_client_that_leaves_cancels_its_call(era: str) -> None:
    """The connection closes in the middle of a call: the tool is cancelled, and the slot is free."""
    tools = Tools()
    async with served(tools, max_calls=1) as app:

        async def leave(wire: Wire) -> None:
            await tools.started.wait()
            wire.leave()
            await tools.stopped.wait()

        if era == MODERN:
            asking = call_modern(app, "wait", {}, during=leave, **ANN)
        else:
            session = await open_session(app, **ANN)
            asking = call_legacy(app, session, "wait", {}, during=leave, **ANN)
        try:
            await asyncio.wait_for(asking, 10)
        except IndexError:
            pass  # nothing was sent to who is not there
        assert tools.stopped.is_set()
        assert (await add(app)).last["result"]["content"][0]["text"] == "3"


async def test_mcp_http_stops_with_its_server() -> None:
    """The lifespan of an ASGI server starts and ends the app; a call under way is cancelled."""
    tools = Tools()
    scope = w.Runtime(store="memory:", tools=tools.listed, environ={})
    app = McpService(scope, identify=who).app()
    events = asyncio.Queue[Any]()
    done = asyncio.Queue[Any]()
    living = asyncio.create_task(app({"type": "lifespan"}, events.get, done.put))
    events.put_nowait({"type": "lifespan.startup"})
    assert (await done.get())["type"] == "lifespan.startup.complete"
    asking = asyncio.create_task(call_modern(app, "wait", {}, **ANN))
    await tools.started.wait()
    events.put_nowait({"type": "lifespan.shutdown"})
    assert (await done.get())["type"] == "lifespan.shutdown.complete"
    await asyncio.gather(living, asking, return_exceptions=True)
    assert tools.stopped.is_set()


async def test_mcp_http_answers_only_its_path() -> None:
    """Another path is not there; GET without a session is refused."""
    async with served() as app:
        assert (await send(app, {}, path="/", **ANN)).status == 404
        assert (await send(app, {}, path="/mcp/../x", **ANN)).status == 404
        assert (await send(app, None, method="GET", **ANN)).status in (400, 405, 406)
