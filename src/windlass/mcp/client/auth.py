"""OAuth for servers over HTTP: the SDK's flow, tokens in a file, and a person who signs in.

PKCE, discovery of metadata, client id documents, registration, step-up and the check of the issuer are
the SDK's. Ours is where tokens are kept and who opens the browser.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from windlass.errors import McpError
from windlass.files import check_private, read_regular, write_private
from windlass.json_types import JsonObject, is_object
from windlass.mcp.client.servers import McpServer, OAuth

M = TypeVar("M", bound=BaseModel)
#: Sends a person to an address and returns the address that the browser was sent back to.
SignIn: TypeAlias = Callable[[str], Awaitable[str]]
PORT: Final = 33418
_PAGE: Final = b"You are signed in. You may close this page.\n"


def find_folder(environ: Mapping[str, str]) -> Path:
    """Find the folder of the tokens of this user."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".local", "state"
    )
    return Path(base) / "windlass" / "mcp"


class TokenFile(TokenStorage):
    """The tokens of one server, in a file that only its user can read."""

    def __init__(
        self, folder: Path, server: McpServer, client: OAuthClientInformationFull | None
    ) -> None:
        known = hashlib.sha256((server.url or "").encode()).hexdigest()[:32]
        self.path, self._client = folder / f"{known}.json", client

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        return self._read("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        self._write("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return how this client is known: as configured, else as it was registered."""
        return self._client or self._read("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration."""
        if self._client is None:
            self._write("client", client_info.model_dump(mode="json", exclude_none=True))

    def _read(self, key: str, kind: type[M]) -> M | None:
        value = self._load().get(key)
        try:
            return None if value is None else kind.model_validate(value)
        except ValidationError:
            return None

    def _load(self) -> JsonObject:
        try:
            check_private(self.path, linked_folders=True)
            data: object = json.loads(read_regular(self.path))
        except (OSError, ValueError):
            return {}
        return data if is_object(data) else {}

    def _write(self, key: str, value: JsonObject) -> None:
        data = {**self._load(), key: value}
        write_private(self.path, json.dumps(data).encode(), linked_folders=True)


def build_auth(
    server: McpServer, environ: Mapping[str, str], sign_in: SignIn | None
) -> OAuthClientProvider | None:
    """Build the OAuth client of a server whose entry asks for it."""
    if server.auth is None:
        return None
    given = {} if isinstance(server.auth, str) else dict(server.auth)
    options = msgspec.convert(given, OAuth)
    redirect = AnyUrl(f"http://127.0.0.1:{options.redirect_port or PORT}/callback")
    client = None
    if options.client_id is not None:
        method = "none" if options.client_secret is None else "client_secret_basic"
        client = OAuthClientInformationFull(
            client_id=options.client_id,
            client_secret=options.client_secret,
            redirect_uris=[redirect],
            token_endpoint_auth_method=method,
        )
    visit = _Visit(server, sign_in)
    return OAuthClientProvider(
        server_url=server.url or "",
        client_metadata=OAuthClientMetadata(
            client_name=options.client_name,
            redirect_uris=[redirect],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            scope=options.scope,
        ),
        storage=TokenFile(find_folder(environ), server, client),
        redirect_handler=visit.go,
        callback_handler=visit.come_back,
        client_metadata_url=options.client_metadata_url,
    )


class _Visit:
    """The way of a person to the authorization server and back."""

    def __init__(self, server: McpServer, sign_in: SignIn | None) -> None:
        self._server, self._sign_in, self._address = server, sign_in, ""

    async def go(self, address: str) -> None:
        """Send the person there, and wait until the browser is back."""
        if self._sign_in is None:
            raise McpError(
                self._server.name,
                f"it wants you to sign in: `windlass mcp doctor --server {self._server.name}` does that",
            )
        self._address = await self._sign_in(address)

    async def come_back(self) -> AuthorizationCodeResult:
        """Read the answer out of the address that the browser was sent back to."""
        query = parse_qs(urlsplit(self._address).query)
        found = {name: query[name][0] for name in ("code", "state", "iss") if query.get(name)}
        if "code" not in found:
            why = (query.get("error_description") or query.get("error") or ["no code came back"])[0]
            raise McpError(self._server.name, f"nobody signed in: {why}")
        return AuthorizationCodeResult(**found)


async def sign_in_by_browser(address: str, show: Callable[[str], None], port: int = PORT) -> str:
    """Show an address to a person, and wait on loopback until their browser is sent back."""
    back: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, asyncio.IncompleteReadError):
            words = (await reader.readuntil(b"\r\n")).decode(errors="replace").split()
            found = len(words) > 1 and words[1].startswith("/callback?")
            head = b"HTTP/1.1 200 OK" if found else b"HTTP/1.1 404 Not Found"
            page = _PAGE if found else b"not here\n"
            writer.write(head + b"\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" + page)
            await writer.drain()
            if found and not back.done():
                back.set_result(words[1])
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    async with server:
        show(address)
        async with asyncio.timeout(300):
            return await back
