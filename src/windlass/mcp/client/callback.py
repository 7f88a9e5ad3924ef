"""The address on loopback that a browser is sent back to after a person has signed in.

A request without the `state` of the sign-in under way is refused and changes nothing: any page that
is open in the browser can send one. The page that the person sees holds nothing of the request.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import html
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs, urlsplit

from windlass.errors import ConfigError

SECONDS: Final = 300.0  # for a person to sign in
_REQUEST_SECONDS: Final = 10.0
#: The code stays out of the address bar and of the history.
_SCRIPT: Final = "history.replaceState(null, '', '/')"
_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;margin:0;min-height:100vh;display:grid;"
    "place-items:center;background:Canvas;color:CanvasText}"
    "main{max-width:28rem;padding:2rem;margin:1rem;border:1px solid #8886;border-radius:12px}"
    "h1{font-size:1.25rem;margin:0 0 .75rem}p{margin:.5rem 0}small{opacity:.7}"
)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_HEADERS: Final = (
    "Content-Type: text/html; charset=utf-8\r\n"
    "Cache-Control: no-store\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'none'; img-src data:; base-uri 'none'; "
    "frame-ancestors 'none'; "
    f"style-src 'sha256-{_digest(_STYLE)}'; script-src 'sha256-{_digest(_SCRIPT)}'\r\n"
    "Connection: close\r\n"
)


def build_page(title: str, *lines: str) -> bytes:
    """Build a page with a title and some lines of text."""
    text = "".join([f"<p>{html.escape(line)}</p>" for line in lines])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{html.escape(title)} · Windlass</title><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body><main><h1>{html.escape(title)}</h1>{text}"
        f"<p><small>Windlass</small></p></main><script>{_SCRIPT}</script></body></html>\n"
    ).encode()


_GRANTED: Final = build_page(
    "Windlass may sign in",
    "The authorization server said yes. Windlass is finishing the sign-in.",
    "Close this page and return to the terminal: it shows whether the server can be used.",
)
_REFUSED: Final = build_page(
    "You are not signed in",
    "The authorization server said no, or you declined.",
    "Close this page and return to the terminal: it shows the reason. "
    "Run the same command to try again.",
)
_UNKNOWN: Final = build_page(
    "This page belongs to no sign-in",
    "It is an old address, or one that Windlass did not ask for. Nothing was changed.",
    "Open the address that the terminal shows.",
)


class _Callback:
    """The requests of browsers until the right one has come."""

    def __init__(self, path: str, state: str) -> None:
        self._path, self._state = path, state
        self._open: set[asyncio.StreamWriter] = set()
        self.address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        self._open.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                # read whole: a connection that is closed before is an error page in the browser
                async with asyncio.timeout(_REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                status, page, address = self._answer(head.decode(errors="replace"))
                writer.write(f"HTTP/1.1 {status}\r\n{_HEADERS}".encode())
                writer.write(f"Content-Length: {len(page)}\r\n\r\n".encode() + page)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
                if address is not None and not self.address.done():
                    self.address.set_result(address)
        finally:
            self._open.discard(writer)
            writer.close()

    def _answer(self, head: str) -> tuple[str, bytes, str | None]:
        words = head.split(" ", 2)
        address = words[1] if len(words) > 2 and words[0] == "GET" else ""
        parts = urlsplit(address) if address.startswith("/") else urlsplit("")
        if parts.path != self._path:
            return "404 Not Found", _UNKNOWN, None
        query = parse_qs(parts.query)
        state = query.get("state", [""])[0]
        if not hmac.compare_digest(state.encode(), self._state.encode()):
            return "400 Bad Request", _UNKNOWN, None
        return "200 OK", _GRANTED if query.get("code") else _REFUSED, address

    def drop(self) -> None:
        """Close connections on which no request came: browsers open some in advance."""
        for writer in self._open:
            writer.transport.abort()


async def sign_in_by_browser(address: str, show: Callable[[str], None]) -> str:
    """Show an address to a person, and wait on loopback until their browser is sent back.

    The port and the state are those that the address asks the authorization server for. Returns the
    address that the browser was sent to: `/callback?code=…&state=…`.
    """
    asked = parse_qs(urlsplit(address).query)
    redirect = urlsplit(asked["redirect_uri"][0])
    callback = _Callback(redirect.path, asked["state"][0])
    try:
        server = await asyncio.start_server(callback.serve, redirect.hostname, redirect.port)
    except OSError as error:
        raise ConfigError(
            f"port {redirect.port}, to which the browser is sent back, cannot be used "
            f"({error.strerror}): end the program that has it, or set "
            "`redirect_port` of the server's `auth`"
        ) from error
    try:
        show(address)
        async with asyncio.timeout(SECONDS):
            return await callback.address
    except TimeoutError:
        raise ConfigError(f"nobody signed in within {SECONDS:.0f} seconds") from None
    finally:
        server.close()
        callback.drop()
