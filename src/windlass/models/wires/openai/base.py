"""Base of OpenAI's two wires: endpoint, Azure's URLs, and requests beside the chat."""

from __future__ import annotations

import re
from typing import ClassVar, Final, Unpack
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from windlass.errors import ConfigError
from windlass.models.registry.config import Endpoint
from windlass.models.registry.scope import environ
from windlass.models.wires.base import Access, HttpModel
from windlass.models.wires.json_values import join_url
from windlass.models.wires.openai.dialects import DIALECTS, Dialect, openai_shaped

_WHOLE: Final = ("/chat/completions", "/responses")
_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d")


class OpenAIShaped(HttpModel):
    """A model behind a server of OpenAI's shape.

    `api_version` is Azure's: with a date, as `"2024-10-21"`, a deployment has an address of its own;
    without, it is named in the request, as elsewhere.
    """

    home = "openai"
    path: ClassVar[str]  # behind the base address

    def __init__(
        self, name: str, *, api_version: str | None = None, **access: Unpack[Access]
    ) -> None:
        self.api_version = api_version
        super().__init__(name, **access)

    @classmethod
    def _endpoint(cls, provider: str, base_url: str | None) -> Endpoint:
        return openai_shaped(provider, base_url, cls.wire)

    @property
    def dialect(self) -> Dialect:
        """How the server differs from the others."""
        return DIALECTS.get(self.endpoint.dialect) or DIALECTS["plain"]

    @property
    def on_azure(self) -> bool:
        """Whether the model is a deployment of one's own at Azure."""
        return self.endpoint.dialect == "azure"

    def check(self) -> None:
        """Raise `ConfigError` where the key is missing, or Azure's address."""
        if not self.on_azure:
            if self.api_version is not None:
                raise ConfigError(f"api_version= is Azure's; {self.provider} has none")
            return super().check()
        if not self.base_url:
            raise ConfigError(
                "azure needs an endpoint: set AZURE_OPENAI_ENDPOINT or pass base_url="
            )
        if self._api_key() is None and not {"authorization", "api-key"} & self.headers.keys():
            raise ConfigError(f"azure needs an API key: {self.endpoint.key_hint}")
        return None

    def _auth(self, key: str) -> dict[str, str]:
        return {"api-key": key} if self.on_azure else {"authorization": f"Bearer {key}"}

    def _url(self, base: str) -> str:
        return self._at(self.path, base)

    def _at(self, path: str, base: str | None = None) -> str:
        """Build the URL of `path` at this server."""
        base = self.base_url if base is None else base
        if not self.on_azure:
            parts = urlsplit(base)
            own = parts.path.rstrip("/")
            whole = next((end for end in _WHOLE if end != path and own.endswith(end)), None)
            if whole is not None:  # an address given whole, of the other wire perhaps
                own = own.removesuffix(whole) or "/"
                base = urlunsplit((parts.scheme, parts.netloc, own, parts.query, ""))
            return join_url(base, path, when=lambda own: own or "/v1")
        known = self.endpoint.also_env.get("api_version", ())
        found = next(filter(None, map(environ().get, known)), None)
        return azure_address(base, path, self.name, self.api_version or found)


def azure_address(base: str, path: str, deployment: str, version: str | None) -> str:
    """Build Azure's URL of a deployment, in the undated form or for a dated version.

    `azure_address("https://me.openai.azure.com", "/responses", "gpt", None)`
    """
    parts = urlsplit(base)
    query = dict(parse_qsl(parts.query))
    version = version or query.get("api-version")
    own = parts.path.rstrip("/").removesuffix(path)
    dated = version is not None and _DATED.match(version) is not None
    if "/deployments/" not in own and not own.endswith("/openai/v1"):
        own = own.removesuffix("/openai") + "/openai"
        if not dated:
            own += "/v1"
        elif not path.startswith("/responses"):  # which names the deployment in the request
            own += f"/deployments/{quote(deployment, safe='')}"
    if version is not None and version != "v1":
        query["api-version"] = version
    return urlunsplit((parts.scheme, parts.netloc, own + path, urlencode(query), ""))
