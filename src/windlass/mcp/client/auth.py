"""OAuth for servers over HTTP: the SDK's flow, tokens in a file, and a person who signs in.

PKCE, discovery of metadata, client id documents, registration, step-up and the check of the issuer are
the SDK's. Ours is where tokens are kept and who opens the browser.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from mcp.client.auth import (
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
    TokenStorage,
)
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from windlass.errors import ConfigError, McpError
from windlass.files import check_private, read_regular, write_private
from windlass.json_types import JsonObject, is_object
from windlass.mcp.client.servers import McpServer, OAuth

M = TypeVar("M", bound=BaseModel)
#: Sends a person to an address and returns the address that the browser was sent back to.
SignIn: TypeAlias = Callable[[str], Awaitable[str]]
PORT: Final = 33418
_ERROR_CODE: Final = re.compile(r'"error"\s*:\s*"([a-z_]{1,64})"')


class _WithoutTraceback(logging.Filter):
    """Leaves out tracebacks of the SDK's sign-in: they hold codes, states and answers with tokens.

    What went wrong is in the error that is raised.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep what has no traceback."""
        return record.exc_info is None


logging.getLogger("mcp.client.auth.oauth2").addFilter(_WithoutTraceback())


def find_folder(environ: Mapping[str, str]) -> Path:
    """Find the folder of the tokens of this user."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".local", "state"
    )
    return Path(base) / "windlass" / "mcp"


class TokenFile(TokenStorage):
    """The tokens of one server, in a file that only its user can read.

    Beside them is when they expire and whose they are. The SDK forgets both with the process: it would
    never renew tokens of an earlier one, or ask the server of the tools to do it.
    """

    def __init__(
        self,
        folder: Path,
        server: McpServer,
        client: OAuthClientInformationFull | None,
        learn: Callable[[str], None] | None = None,
    ) -> None:
        known = hashlib.sha256((server.url or "").encode()).hexdigest()[:32]
        self.path, self._client, self._learn = folder / f"{known}.json", client, learn
        self.context: OAuthContext | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        tokens = self._read("tokens", OAuthToken)
        if tokens is not None:
            self._teach(tokens)
            self._restore()
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        self._teach(tokens)
        self._write("tokens", _dump(tokens))
        context = self.context
        if context is not None and context.oauth_metadata is not None:
            origin: JsonObject = {
                "expires_at": context.token_expiry_time,
                "metadata": _dump(context.oauth_metadata),
                "issuer": context.auth_server_url,
            }
            if context.protected_resource_metadata is not None:
                origin["resource"] = _dump(context.protected_resource_metadata)
            self._write("origin", origin)

    def _restore(self) -> None:
        """Tell the SDK when the stored tokens expire, and which server renews them."""
        context, origin = self.context, self._load().get("origin")
        if context is None or not is_object(origin):
            return
        expires, issuer = origin.get("expires_at"), origin.get("issuer")
        try:
            metadata = OAuthMetadata.model_validate(origin.get("metadata"))
            found = origin.get("resource")
            resource = ProtectedResourceMetadata.model_validate(found) if found else None
        except ValidationError:
            return
        context.oauth_metadata, context.protected_resource_metadata = metadata, resource
        context.auth_server_url = issuer if isinstance(issuer, str) else None
        if isinstance(expires, (int, float)):
            context.token_expiry_time = expires

    def _teach(self, tokens: OAuthToken) -> None:
        """Keep tokens out of what is written elsewhere."""
        for token in (tokens.access_token, tokens.refresh_token):
            if token and self._learn is not None:
                self._learn(token)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return how this client is known: as configured, else as it was registered."""
        return self._client or self._read("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration."""
        if self._client is None:
            self._write("client", _dump(client_info))

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


def _dump(model: BaseModel) -> JsonObject:
    return model.model_dump(mode="json", exclude_none=True)


def build_auth(
    server: McpServer,
    environ: Mapping[str, str],
    sign_in: SignIn | None,
    learn: Callable[[str], None] | None = None,
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
    storage = TokenFile(find_folder(environ), server, client, learn)
    provider = OAuthClientProvider(
        server_url=server.url or "",
        client_metadata=OAuthClientMetadata(
            client_name=options.client_name,
            redirect_uris=[redirect],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            scope=options.scope,
        ),
        storage=storage,
        redirect_handler=visit.go,
        callback_handler=visit.come_back,
        client_metadata_url=options.client_metadata_url,
    )
    storage.context = provider.context
    return provider


def describe_sign_in(error: OAuthFlowError) -> str:
    """Describe what went wrong without what was sent: it may be a code or a token."""
    text = str(error)
    words, _, rest = text.partition(":")
    if isinstance(error.__context__, ValidationError):
        wrong = error.__context__.errors(include_input=False, include_url=False)
        rest = "; ".join([f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong])
        return f"{words}: {rest}"
    found = _ERROR_CODE.search(rest)
    if isinstance(error, (OAuthTokenError, OAuthRegistrationError)):
        return words if found is None else f"{words}: {found[1]}"
    return words if "mismatch" in words else text


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
        try:
            self._address = await self._sign_in(address)
        except ConfigError as error:
            raise McpError(self._server.name, str(error)) from error

    async def come_back(self) -> AuthorizationCodeResult:
        """Read the answer out of the address that the browser was sent back to."""
        query = parse_qs(urlsplit(self._address).query)
        found = {name: query[name][0] for name in ("code", "state", "iss") if query.get(name)}
        if "code" not in found:
            why = (query.get("error_description") or query.get("error") or ["no code came back"])[0]
            raise McpError(self._server.name, f"nobody signed in: {why}")
        return AuthorizationCodeResult(**found)
