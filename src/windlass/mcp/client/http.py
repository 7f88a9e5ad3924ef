"""A server over streamable HTTP, as a transport of the SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from windlass.mcp.client.message import MOST_BYTES, LimitedStream
from windlass.mcp.client.servers import McpServer

_CONNECT_SECONDS, _READ_SECONDS = 30.0, 300.0
_EVENTS: Final = "text/event-stream"
#: A body that arrives compressed may be any size when it is read.
_PLAIN: Final = {"accept-encoding": "identity"}


@asynccontextmanager
async def open_http(
    server: McpServer,
    auth: httpx2.Auth | None = None,
    hear: Callable[[int], None] = lambda _status: None,
) -> AsyncGenerator[TransportStreams]:
    """Exchange messages with the server of an address; `hear` is told the status of each answer."""

    async def look(response: httpx2.Response) -> None:
        hear(response.status_code)
        await limit_body(response)

    limits = httpx2.Timeout(_CONNECT_SECONDS, read=_READ_SECONDS)
    async with (
        httpx2.AsyncClient(
            headers={**_PLAIN, **server.headers},
            timeout=limits,
            auth=auth,
            event_hooks={"response": [look]},
        ) as client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=MOST_BYTES
        ) as (read, write),
    ):
        yield LimitedStream(read), write


def describe_status(server: McpServer, status: int | None) -> str:
    """Say what the last HTTP answer was, which the SDK does not tell; nothing for a good one."""
    if status is None or status < 400:
        return ""
    if status in (401, 403) and server.auth is None:
        return (
            f' (HTTP {status}: it must know who asks; give the entry `auth: "oauth"`, or the '
            "`headers` that it expects)"
        )
    return f" (HTTP {status})"


async def limit_body(response: httpx2.Response) -> None:
    """Limit the size of an answer that is one body; the SDK limits the events of a stream."""
    headers = response.headers
    if headers.get("content-type", "").startswith(_EVENTS):
        return
    stream = response.stream
    if isinstance(stream, httpx2.AsyncByteStream):
        is_plain = headers.get("content-encoding", "identity").strip().lower() == "identity"
        response.stream = _LimitedBody(stream, MOST_BYTES if is_plain else None)


class _LimitedBody(httpx2.AsyncByteStream):
    """The body of an answer, up to a limit; None: it is compressed, and not read at all."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int | None) -> None:
        self._inner, self._most = inner, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._most is None:
            raise httpx2.StreamError("its answer is compressed, which was not asked for")
        left = self._most
        async for part in self._inner:
            left -= len(part)
            if left < 0:
                raise httpx2.StreamError(f"its answer is larger than {self._most >> 20} MB")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
