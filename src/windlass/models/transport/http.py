"""The HTTP client: aiohttp behind the interface of `base.py`.

A pool of connections belongs to an event loop and closes with it. Redirects are not followed, since
they would carry the key to wherever they point.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from windlass.errors import (
    BadReply,
    ConfigError,
    ConnectionFailed,
    StreamBroken,
    Timeout,
)
from windlass.models.registry.scope import current_environ
from windlass.models.transport import base as transport_base
from windlass.models.transport.base import MAX_REPLY, HttpReply

_WRITE: Final = 256 * 1024  # small pieces are sent together: a system call for each is expensive
_INFLATE: Final = 1024 * 1024  # decompressed at a time
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})


class Pieces(aiohttp.payload.Payload):
    """A body in pieces: its length is known, and it is never joined as a whole."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        super().__init__(pieces, content_type="application/json")
        self._size = sum(map(len, pieces))
        self._autoclose = True

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for part in _parts(self._value):
            await writer.write(part)

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        await self.write(writer)


def _parts(pieces: Sequence[bytes]) -> Iterator[bytes]:
    batch: list[bytes] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if size >= _WRITE:
            yield b"".join(batch)
            batch.clear()
            size = 0
    if batch:
        yield b"".join(batch)


class AiohttpTransport:
    """A pool of connections for each event loop that uses it."""

    def __init__(self) -> None:
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Sequence[bytes] = (),
        *,
        connect: float = 10.0,
    ) -> HttpReply:
        """Send the request and wait for the headers of the reply.

        A connection that closes before one byte came is tried once more: a kept-alive connection
        may be closed by the server at the very moment it is used again.
        """
        if transport_base.forbid is not None:
            raise type(transport_base.forbid)(
                *transport_base.forbid.args
            )  # a fresh one: it keeps its way here
        pool = await self._pool()
        try:
            return await pool.send(method, url, headers, body, connect)
        except _NothingCame:
            pass
        try:
            return await pool.send(method, url, headers, body, connect)
        except _NothingCame as error:
            raise ConnectionFailed(
                f"{_where(url)} closed the connection before it answered"
            ) from error.__cause__

    async def aclose(self) -> None:
        """Close the pool of the running event loop; the next request opens another."""
        pool = self._pools.get(asyncio.get_running_loop())
        if pool is not None:
            await pool.keeper.aclose()

    async def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None or pool.session.closed:
            self._pools[loop] = pool = _Pool()
            # A started async generator is finished when its loop is shut down, which is the one
            # moment at which a pool can still be closed if it was not before.
            pool.keeper = self._keep(loop, pool.session)
            await anext(pool.keeper)
        return pool

    async def _keep(
        self, loop: asyncio.AbstractEventLoop, session: aiohttp.ClientSession
    ) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._pools.pop(loop, None)
            await session.close()


class _NothingCame(Exception):
    """The connection ended before a byte of the answer."""


class _Pool:
    keeper: AsyncGenerator[None]

    def __init__(self) -> None:
        self.session = aiohttp.ClientSession(
            # a run never waits for another run's connection
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            raise_for_status=False,
        )
        self.proxies = getproxies()

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Sequence[bytes],
        connect: float,
    ) -> HttpReply:
        try:
            response = await self.session.request(
                method,
                url,
                data=Pieces(body) if body else None,
                headers={"accept-encoding": "gzip, deflate", **headers},
                allow_redirects=False,
                proxy=self._proxy(url),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect),
            )
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise ConfigError(f"{url!r} is not a web address; check base_url") from error
        except aiohttp.ServerDisconnectedError as error:
            raise _NothingCame from error
        except (aiohttp.ServerTimeoutError, TimeoutError) as error:
            raise Timeout(f"no connection to {_where(url)} within {connect:g} s") from error
        except aiohttp.ClientConnectorError as error:
            message = f"cannot reach {_where(url)}: {_why(error.os_error)}"
            raise ConnectionFailed(message, code=transport_base.UNREACHABLE) from error
        except (aiohttp.ClientOSError, ConnectionError, ssl.SSLError) as error:
            raise _NothingCame from error
        except aiohttp.ClientError as error:
            raise BadReply(f"{_where(url)} does not answer in HTTP: {error}") from error
        except ValueError as error:
            raise ConfigError(f"the request to {_where(url)} cannot be sent: {error}") from error
        return _Reply(response)

    def _proxy(self, url: str) -> str | None:
        given = current_environ.get()
        proxies = self.proxies if given is None else _proxies(given)
        if not proxies:
            return None
        parts = urlsplit(url)
        host = parts.hostname or ""
        if host in _LOCAL or (
            proxy_bypass(host) if given is None else _bypasses_proxy(host, proxies)
        ):
            return None
        return proxies.get(parts.scheme) or proxies.get("all")


def _bypasses_proxy(host: str, proxies: Mapping[str, str]) -> bool:
    """Check whether the host is listed in `no_proxy`."""
    names = [name.strip().lstrip(".").lower() for name in proxies.get("no", "").split(",")]
    return any(name in ("*", host) or host.endswith(f".{name}") for name in names if name)


def _proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the proxies that these variables set, as `getproxies` does for the process."""
    named = [(name.lower(), name, value) for name, value in environ.items() if value]
    ends = [(low, name, value) for low, name, value in named if low.endswith("_proxy")]
    ends.sort(key=lambda one: one[0] == one[1])  # a lower-case name wins
    return {low.removesuffix("_proxy"): value for low, _name, value in ends}


class _Reply:
    __slots__ = ("_content", "_inflate", "_response", "_seen", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        self._seen = 0
        self.status = response.status
        self.headers: Mapping[str, str] = {k.lower(): v for k, v in response.headers.items()}
        self._inflate = _inflater(self.headers.get("content-encoding", ""))

    async def read(self) -> bytes:
        try:
            piece = await (
                self._content.readany() if self._inflate is None else self._read_inflated()
            )
        except aiohttp.ClientPayloadError as error:
            raise StreamBroken("the reply was cut off") from error
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            raise StreamBroken(f"the connection broke inside the reply: {error}") from error
        self._seen += len(piece)
        if self._seen > MAX_REPLY:
            raise BadReply(f"the reply is larger than {MAX_REPLY:,} bytes")
        return piece

    async def _read_inflated(self) -> bytes:
        inflate = self._inflate
        assert inflate is not None
        while not inflate.done:
            piece = inflate.rest or await self._content.readany()
            if not piece:
                raise StreamBroken("the packed reply was cut off")
            if out := inflate(piece):
                return out
        return b""

    def close(self) -> None:
        if self._content.at_eof():
            self._response.release()
        else:
            self._response.close()


class _Inflater:
    """A decompressor in bounded steps, so that a small reply cannot expand at once."""

    __slots__ = ("_zlib", "rest")

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: gzip or zlib, as its header says
        self.rest = b""

    @property
    def done(self) -> bool:
        return self._zlib.eof

    def __call__(self, piece: bytes) -> bytes:
        try:
            out = self._zlib.decompress(piece, _INFLATE)
        except zlib.error as error:
            raise BadReply(f"the reply cannot be unpacked: {error}") from error
        self.rest = self._zlib.unconsumed_tail
        return out


def _inflater(encoding: str) -> _Inflater | None:
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return _Inflater()
        case other:
            raise BadReply(f"the reply is packed as {other!r}, which nobody asked for")


def _why(error: OSError) -> str:
    """Return the reason of a network error in words: `connection refused`."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno).lower()


def _where(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or url
