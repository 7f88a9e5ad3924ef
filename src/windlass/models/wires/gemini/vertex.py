"""Gemini on Vertex AI: the same body under a project's address, with an access token as the key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Final, TypeAlias, Unpack
from urllib.parse import urlsplit

from windlass.errors import ConfigError
from windlass.models.base import Settings
from windlass.models.registry.config import Endpoint
from windlass.models.registry.scope import ENDPOINTS, environ
from windlass.models.wires.base import Access
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.json_values import dumps, join_url, loads
from windlass.redaction.redactor import Secret

Token: TypeAlias = str | Secret | Callable[[], str | Awaitable[str]]
_COUNTED: Final = ("systemInstruction", "tools", "generationConfig", "contents")


class VertexGenerate(GeminiGenerate):
    """A Gemini model on Vertex: `w.models.vertex("gemini-2.5-pro", token=…, project="mine")`.

    A token lasts an hour; `token` may be a function, plain or async, that is asked before every
    request and should keep what it fetched. Project and location may stand in `base_url` instead.
    """

    wire = home = "vertex"
    has_call_ids = False
    sends_ids = False  # the endpoint refuses a request with ids in it

    def __init__(
        self,
        name: str,
        *,
        token: Token | None = None,
        project: str | None = None,
        location: str | None = None,
        **access: Unpack[Access],
    ) -> None:
        known = access.get("endpoint") or ENDPOINTS["vertex"]
        self.project = project or _env(known, "project")
        self.location = location or _env(known, "location") or "global"
        self._token = token if callable(token) else None
        if token is not None and not callable(token):
            access["api_key"] = token
        super().__init__(name, **access)

    def check(self) -> None:
        """Raise `ConfigError` when there is no project, or no token."""
        if "/projects/" not in self.url:
            raise ConfigError(
                "vertex needs a project: set GOOGLE_CLOUD_PROJECT or pass project= (or a base_url"
                " that names it)"
            )
        if self._token is None:
            super().check()

    def _url(self, base: str) -> str:
        place = f"/projects/{self.project}/locations/{self.location}" if self.project else ""
        if not urlsplit(base).netloc.startswith("aiplatform.") or self.location == "global":
            host = base
        else:
            host = base.replace("://aiplatform.", f"://{self.location}-aiplatform.", 1)

        def under(own: str) -> str:
            return own if "/projects/" in own else (own or "/v1beta1") + place

        return join_url(host, f"/publishers/google{self._resource}", when=under)

    def _auth(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def _count_body(self, body: list[bytes]) -> list[bytes]:
        # Vertex counts the fields of a request themselves, and refuses those that hold no tokens
        asked = loads(b"".join(body))
        return [dumps({key: asked[key] for key in _COUNTED if key in asked})]

    async def _address_request(
        self, settings: Settings, body: Sequence[bytes], at: str | None = None
    ) -> tuple[str, dict[str, str]]:
        if self._token is not None:
            fetched = self._token()
            self._key = Secret(await fetched if isawaitable(fetched) else fetched)
        return await super()._address_request(settings, body, at)


def _env(endpoint: Endpoint, word: str) -> str | None:
    names = endpoint.also_env.get(word, ())
    return next((value for name in names if (value := environ().get(name))), None)
