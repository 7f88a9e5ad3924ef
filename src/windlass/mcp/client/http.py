"""A server over streamable HTTP, as a transport of the SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from windlass.mcp.client.servers import McpServer
from windlass.mcp.client.stdio import MOST_BYTES

_CONNECT_SECONDS, _READ_SECONDS = 30.0, 300.0
_HEAD: Final = "content-length"


@asynccontextmanager
async def open_http(
    server: McpServer, auth: httpx2.Auth | None = None
) -> AsyncGenerator[TransportStreams]:
    """Exchange messages with the server of an address."""
    limits = httpx2.Timeout(_CONNECT_SECONDS, read=_READ_SECONDS)
    async with (
        httpx2.AsyncClient(headers=dict(server.headers), timeout=limits, auth=auth) as client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=MOST_BYTES
        ) as streams,
    ):
        yield streams
