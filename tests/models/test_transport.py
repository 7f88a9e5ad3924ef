"""The HTTP client against a server that misbehaves, and the clock that bounds a turn."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from windlass.errors import (
    BadReply,
    BadRequest,
    ConfigError,
    ConnectionFailed,
    ModelError,
    StreamBroken,
    Timeout,
)
from windlass.messages import Message
from windlass.models.base import Frame, Request, Response, Settings, silent
from windlass.models.registry.providers import resolve
from windlass.models.transport import http
from windlass.models.transport.base import Deadline, Timeouts, read_whole
from windlass.models.transport.http import AiohttpTransport
from windlass.models.wires import base as wires_base
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.openai.chat import OpenAIChat

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REPLY = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ),
        0,
    )
    return head, await reader.readexactly(length)


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@asynccontextmanager
async def serving(*handlers: Handler) -> AsyncIterator[str]:
    """Each connection is given to the next handler, the last one to all that follow."""
    count = 0
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        handler = handlers[min(count, len(handlers) - 1)]
        count += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def drops(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)


def replies(raw: bytes, seen: list[tuple[bytes, bytes]] | None = None, wait: float = 0) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            if seen is not None:
                seen.append(request)
            writer.write(raw)
            await writer.drain()
            if wait:
                await asyncio.sleep(wait)

    return handle


@pytest.fixture
async def client() -> AsyncIterator[AiohttpTransport]:
    made = AiohttpTransport()
    yield made
    await made.aclose()


async def test_a_body_in_pieces_arrives_as_one(client: AiohttpTransport) -> None:
    seen: list[tuple[bytes, bytes]] = []
    pieces = [b"%d," % n * 1000 for n in range(1000)]
    async with serving(replies(answer(b"{}"), seen)) as url:
        reply = await client.send("POST", url, {"x-a": "b"}, pieces)
        assert (reply.status, await read_whole(reply)) == (200, b"{}")
        reply.close()
    head, body = seen[0]
    assert body == b"".join(pieces) and b"x-a: b" in head.lower()
    assert b"content-type: application/json" in head.lower()


async def test_a_connection_is_used_again(client: AiohttpTransport) -> None:
    connections = 0

    async def counting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await replies(answer(REPLY))(reader, writer)

    async with serving(counting) as url:
        model = OpenAIChat("m", base_url=url, transport=client)
        for _ in range(3):
            await model.respond(Request([Message("user", "q")]), silent)
    assert connections == 1


async def test_a_connection_that_closes_before_a_byte_is_tried_once_more(
    client: AiohttpTransport,
) -> None:
    async with serving(drops, replies(answer(b"ok"))) as url:
        reply = await client.send("POST", url, {}, [b"{}"])
        assert await read_whole(reply) == b"ok"
        reply.close()


async def test_it_is_tried_once_only(client: AiohttpTransport) -> None:
    seen = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await drops(reader, writer)

    async with serving(count) as url:
        with pytest.raises(ConnectionFailed, match="closed the connection"):
            await client.send("POST", url, {}, [b"{}"])
    assert seen == 2


async def test_a_cut_reply_is_not_tried_again(client: AiohttpTransport) -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def cuts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(answer(b"x" * 100)[:-50])
        await writer.drain()

    async with serving(cuts) as url:
        reply = await client.send("POST", url, {}, [b"{}"])
        with pytest.raises(StreamBroken):
            await read_whole(reply)
        reply.close()
    assert len(seen) == 1


async def test_nobody_there(client: AiohttpTransport) -> None:
    server = await asyncio.start_server(drops, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}"):
        await client.send("POST", f"http://127.0.0.1:{port}", {})


@pytest.mark.parametrize("url", ["nonsense", "ftp://x/y", "http://", "http://[bad"])
async def test_no_address_at_all(client: AiohttpTransport, url: str) -> None:
    with pytest.raises((ConfigError, ConnectionFailed)):
        await client.send("POST", url, {})


async def test_headers_that_cannot_be_sent(client: AiohttpTransport) -> None:
    async with serving(drops) as url:
        with pytest.raises(ConfigError):
            await client.send("POST", url, {"x": "a\r\nevil: 1"})


async def test_what_is_not_http(client: AiohttpTransport) -> None:
    async with serving(replies(b"SSH-2.0-OpenSSH\r\n\r\n")) as url:
        with pytest.raises(ModelError):
            await client.send("POST", url, {}, [b"{}"])


async def test_redirects_are_not_followed() -> None:
    seen: list[tuple[bytes, bytes]] = []
    moved = answer(b"", "location: http://127.0.0.1:1/evil", status="307 Temporary Redirect")
    async with serving(replies(moved, seen)) as url:
        model = AnthropicMessages("m", api_key="k", base_url=url, transport=AiohttpTransport())
        with pytest.raises(BadRequest, match="evil"):
            await model.respond(Request([Message("user", "q")]), silent)
        await model.aclose()
    assert len(seen) == 1


@pytest.mark.parametrize(("packing", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_packed_replies(
    client: AiohttpTransport, packing: str, pack: Callable[[bytes], bytes]
) -> None:
    large = b"".join(b"%d " % n for n in range(500_000))
    async with serving(replies(answer(pack(large), f"content-encoding: {packing}"))) as url:
        reply = await client.send("GET", url, {})
        assert await read_whole(reply) == large
        reply.close()
    cut = pack(large)[:-20]
    async with serving(replies(answer(cut, f"content-encoding: {packing}"))) as url:
        reply = await client.send("GET", url, {})
        with pytest.raises(StreamBroken):
            await read_whole(reply)
        reply.close()


async def test_a_small_reply_cannot_become_a_huge_one(
    client: AiohttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_REPLY", 4 * 1024 * 1024)
    bomb = gzip.compress(b" " * (64 * 1024 * 1024))
    async with serving(replies(answer(bomb, "content-encoding: gzip"))) as url:
        reply = await client.send("GET", url, {})
        sizes: list[int] = []
        with pytest.raises(BadReply, match="larger"):
            while piece := await reply.read():
                sizes.append(len(piece))
        reply.close()
    assert max(sizes) <= 1024 * 1024


@pytest.mark.parametrize(
    ("packing", "body"),
    [("br", b"x"), ("gzip", b"this is not gzip at all")],
    ids=["unknown", "broken"],
)
async def test_what_cannot_be_unpacked(client: AiohttpTransport, packing: str, body: bytes) -> None:
    async with serving(replies(answer(body, f"content-encoding: {packing}"))) as url:
        with pytest.raises(BadReply):
            reply = await client.send("GET", url, {})
            try:
                await read_whole(reply)
            finally:
                reply.close()


# --------------------------------------------------------------------------- time


def stream_head() -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def claude(url: str, client: AiohttpTransport, **timeouts: float) -> AnthropicMessages:
    return AnthropicMessages(
        "claude-novel", api_key="k", base_url=url, transport=client, timeouts=Timeouts(**timeouts)
    )


async def ask(model: AnthropicMessages, **settings: object) -> Response:
    frame = Frame(settings=Settings(**settings))  # pyright: ignore[reportArgumentType]
    return await model.respond(Request([Message("user", "q")], frame), silent)


async def test_pings_are_no_progress(client: AiohttpTransport) -> None:
    async def pings(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(stream_head())
        while True:
            writer.write(b'event: ping\ndata: {"type": "ping"}\n\n: comment\n\n')
            await writer.drain()
            await asyncio.sleep(0.002)

    async with serving(pings) as url:
        with pytest.raises(Timeout, match="silent for 0.03 s") as caught:
            await ask(claude(url, client, idle=0.03))
    assert (caught.value.provider, caught.value.model) == ("anthropic", "claude-novel")


async def test_progress_keeps_a_long_stream_alive_until_the_turn_is_over(
    client: AiohttpTransport,
) -> None:
    async def talks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(stream_head())
        while True:
            writer.write(b'data: {"type": "content_block_start", "index": 0}\n\n')
            await writer.drain()
            await asyncio.sleep(0.001)

    async with serving(talks) as url:
        with pytest.raises(Timeout, match="not finished after 0.5 s"):
            await ask(claude(url, client, idle=0.25), timeout=0.5)


async def test_a_plain_reply_is_bounded_by_the_turn_alone(client: AiohttpTransport) -> None:
    late = replies(answer(b"x"))

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.01)
        await late(reader, writer)

    async with serving(slow) as url:
        with pytest.raises(BadReply):  # it came, after more than the idle time
            await ask(claude(url, client, idle=0.002), stream=False)
    async with serving(replies(b"", wait=1)) as url:
        with pytest.raises(Timeout, match="not finished"):
            await ask(claude(url, client), stream=False, timeout=0.02)


async def test_a_cancellation_from_outside_passes() -> None:
    async def wait() -> None:
        with Deadline(total=60):
            await asyncio.sleep(60)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_that_passed_leaves_no_cancellation_behind() -> None:
    with pytest.raises(Timeout):
        with Deadline(total=0.001):
            await asyncio.sleep(1)
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
    await asyncio.sleep(0)


async def test_the_first_sign_may_take_longer() -> None:
    with Deadline(total=1, idle=0.001, first=1) as deadline:
        await asyncio.sleep(0.005)
        deadline.progress()
        with pytest.raises(Timeout, match="silent for 0.001 s"):
            with deadline:  # the same clock goes on
                await asyncio.sleep(1)


async def test_an_answer_is_kept_when_the_connection_breaks_after_its_end(
    client: AiohttpTransport,
) -> None:
    done = b'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n"

    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(head + done)
        await writer.drain()

    async with serving(breaks) as url:
        model = OpenAIChat("m", base_url=url, transport=client)
        response = await model.respond(Request([Message("user", "q")]), silent)
    assert response.message.text == "hi"


async def test_error_answers_are_read_and_typed(client: AiohttpTransport) -> None:
    body = json.dumps({"error": {"message": "no such model"}}).encode()
    async with serving(replies(answer(body, "x-request-id: r1", status="404 Not Found"))) as url:
        with pytest.raises(BadRequest, match="no such model") as caught:
            await ask(claude(url, client))
    assert caught.value.request_id == "r1" and caught.value.http_status == 404


# --------------------------------------------------------------------------- loops


def test_connections_close_with_their_event_loop() -> None:
    made = AiohttpTransport()

    async def use() -> http._Pool:
        async with serving(replies(answer(b"ok"))) as url:
            reply = await made.send("GET", url, {})
            await read_whole(reply)
            reply.close()
        (pool,) = made._pools.values()
        return pool

    first = asyncio.run(use())
    assert first.session.closed  # nobody called aclose: the loop's own end did
    second = asyncio.run(use())
    assert second is not first and second.session.closed


async def test_the_shared_transport_opens_again_after_closing() -> None:
    async with serving(replies(answer(b"ok"))) as url:
        for _ in range(2):
            reply = await wires_base.shared_transport().send("GET", url, {})
            assert await read_whole(reply) == b"ok"
            reply.close()
            await wires_base.aclose()


async def test_a_server_of_ones_own_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    question = Request([Message("user", "hi")])
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    for provider, variable, hint in (
        ("local", None, "; start the server, or say in LOCAL_LLM_BASE_URL where it is"),
        ("local", "LOCAL_LLM_BASE_URL", "; is the server running?"),
        ("openai", "OPENAI_BASE_URL", "connection refused"),
    ):
        environ = {variable: "http://127.0.0.1:9"} if variable else {}
        model: Any = resolve("m", provider, environ=environ)
        model.url = "http://127.0.0.1:9/v1/chat/completions"  # nobody listens there
        with pytest.raises(ConnectionFailed) as caught:
            await model.respond(question, silent)
        said = str(caught.value)
        assert said.startswith("cannot reach 127.0.0.1:9: connection refused")
        assert said.endswith(hint) and caught.value.code == "unreachable"
