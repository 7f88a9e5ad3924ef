"""The login at a Postgres server: a password is never sent in clear text over a plain connection.

The driver answers whatever a server asks for. It is given an event loop on which every message of the
server passes `LoginGuard` until the login is over; after that nothing stands between the two.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from asyncpg.protocol import Protocol  # pyright: ignore[reportMissingTypeStubs]

_AUTHENTICATION: Final = ord("R")
_CLEAR_TEXT: Final = (3).to_bytes(4, "big")  # AuthenticationCleartextPassword
_READY: Final = ord("Z")  # ReadyForQuery: the login is over
_LONGEST: Final = 1 << 20  # bytes of a message before the login is over


class LoginLoop:
    """The running event loop as the driver sees it, which guards new connections.

    `allow_clear_text`: a password may be sent as it is, once the connection is encrypted.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, allow_clear_text: bool) -> None:
        self.loop, self.allow_clear_text = loop, allow_clear_text
        self.refused_clear_text = False
        self.seen = False  # has a guard seen the end of a login?
        # What the driver uses with each statement.
        self.time, self.call_later, self.create_future = (
            loop.time,
            loop.call_later,
            loop.create_future,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    async def create_connection(self, factory: Callable[[], Any], *place: Any, **options: Any):
        """Connect over TCP."""
        return await self._open(self.loop.create_connection, factory, *place, **options)

    async def create_unix_connection(self, factory: Callable[[], Any], *place: Any, **options: Any):
        """Connect to a socket."""
        return await self._open(self.loop.create_unix_connection, factory, *place, **options)

    async def start_tls(self, transport: Any, protocol: Any, context: ssl.SSLContext, **more: Any):
        """Encrypt a connection."""
        plain = transport.plain if isinstance(transport, GuardedTransport) else transport
        encrypted = await self.loop.start_tls(plain, protocol, context, **more)
        return None if encrypted is None else GuardedTransport(encrypted, self)

    async def _open(
        self,
        connect: Callable[..., Awaitable[tuple[Any, Any]]],
        factory: Callable[[], Any],
        *place: Any,
        **options: Any,
    ) -> tuple[Any, Any]:
        protocol = factory()
        if isinstance(protocol, Protocol):
            guard = LoginGuard(protocol, self)
            transport, _ = await connect(lambda: guard, *place, **options)
            return transport, cast(Any, protocol)
        transport, _ = await connect(lambda: protocol, *place, **options)
        return GuardedTransport(transport, self), protocol


class GuardedTransport:
    """A transport that puts a guard before the driver's protocol."""

    def __init__(self, plain: Any, login: LoginLoop) -> None:
        self.plain, self._login = plain, login
        # What the driver uses with each statement.
        self.write, self.writelines = plain.write, plain.writelines

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def set_protocol(self, protocol: Any) -> None:
        """Hand the connection over."""
        if isinstance(protocol, Protocol):
            guard = LoginGuard(protocol, self._login)
            guard.watch(self.plain)
            protocol = guard
        self.plain.set_protocol(protocol)


class LoginGuard(asyncio.Protocol):
    """A guard that reads the server's login messages and ends a login that asks for too much."""

    def __init__(self, protocol: Any, login: LoginLoop) -> None:
        self._protocol, self._login = protocol, login
        self._transport: Any = None
        self._unread = bytearray()

    def watch(self, transport: Any) -> None:
        """Guard this transport."""
        self._transport = transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the driver begin."""
        self.watch(transport)
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass whole messages on, until the server is ready for statements."""
        self._unread += data
        while len(self._unread) >= 5 and not self._transport.is_closing():
            size = 1 + int.from_bytes(self._unread[1:5], "big")
            if not 5 <= size <= _LONGEST:
                self._transport.abort()
            elif len(self._unread) < size:
                return
            elif self._unread[0] == _READY:
                self._finish()
                return
            else:
                message = bytes(self._unread[:size])
                del self._unread[:size]
                self._pass_on(message)

    def _pass_on(self, message: bytes) -> None:
        if message[0] == _AUTHENTICATION:
            if len(message) < 9:
                self._transport.abort()
                return
            if message[5:9] == _CLEAR_TEXT and not self._may_send_clear_text():
                self._login.refused_clear_text = True
                self._transport.abort()
                return
        self._protocol.data_received(message)

    def _may_send_clear_text(self) -> bool:
        encrypted = self._transport.get_extra_info("ssl_object") is not None
        return encrypted and self._login.allow_clear_text

    def _finish(self) -> None:
        self._login.seen = True
        self._transport.set_protocol(self._protocol)
        rest, self._unread = bytes(self._unread), bytearray()
        self._protocol.data_received(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the driver that the connection is lost."""
        self._protocol.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """Tell the driver that the server has closed its side."""
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        """Tell the driver to pause writing."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Tell the driver to resume writing."""
        self._protocol.resume_writing()


class GuardedConnection(asyncpg.Connection):
    """The driver's connection, on the real event loop again once the login is over."""

    __slots__ = ()

    def __init__(self, protocol: Any, transport: Any, loop: Any, *rest: Any) -> None:
        login = cast(LoginLoop, loop)
        if not login.seen:  # the driver has found a way around the guard
            transport.abort()
            raise RuntimeError("this version of asyncpg logs in unseen; use an older one")
        super().__init__(protocol, transport, login.loop, *rest)  # pyright: ignore[reportUnknownMemberType]
