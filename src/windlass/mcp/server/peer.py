"""The client at the other end of a call: what it can do, and what a tool may ask it.

`mcp_peer()` in an async tool is the client that the call came from, or None outside of a call of a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final, Literal, Protocol, TypeAlias

import mcp_types as types

from windlass.errors import WindlassError
from windlass.json_types import JsonObject

Ability: TypeAlias = Literal["elicitation", "sampling", "roots"]
Ask: TypeAlias = types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest
Answer: TypeAlias = (
    types.ElicitResult
    | types.CreateMessageResult
    | types.CreateMessageResultWithTools
    | types.ListRootsResult
)
Level: TypeAlias = types.LoggingLevel
LEVELS: Final[tuple[Level, ...]] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
_ABILITIES: Final[dict[str, Ability]] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
_peer: ContextVar[McpPeer | None] = ContextVar("windlass_mcp_peer", default=None)


class PeerCannot(WindlassError):
    """A client that cannot be asked this, or has not answered in time."""

    ability: Ability | None = None


class Channel(Protocol):
    """The way to the client of one call, in the manner of its era."""

    @property
    def capabilities(self) -> types.ClientCapabilities | None:
        """What the client has declared."""
        ...

    async def ask(self, asks: Mapping[str, Ask], *, by_server: bool) -> Mapping[str, Answer]:
        """Ask the client, and return its answers by the same names."""
        ...

    def log(self, level: Level, data: object) -> None:
        """Send a log message, if the client wants this level."""
        ...

    def miss(self, ability: Ability) -> None:
        """Note that the call needs what the client does not offer."""
        ...


class McpPeer:
    """The client that a call came from: `peer = mcp_peer()`.

    ```python
    @w.tool
    async def greet() -> str:
        peer = mcp_peer()
        if peer is None or not peer.can("elicitation"):
            return "Hello, whoever you are."
        name = await peer.elicit("What is your name?", {"name": {"type": "string"}})
        return f"Hello, {name['name']}." if name else "Hello."
    ```
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def can(self, ability: Ability) -> bool:
        """Return whether the client has declared `elicitation`, `sampling` or `roots`."""
        declared = self._channel.capabilities
        return declared is not None and getattr(declared, ability) is not None

    def require(self, ability: Ability) -> None:
        """Raise `PeerCannot` unless the client has declared this; it is told what is missing."""
        if not self.can(ability):
            self._channel.miss(ability)
            error = PeerCannot(f"the client does not offer {ability}")
            error.ability = ability
            raise error

    async def ask(
        self, asks: Mapping[str, Ask], *, by_server: bool = False
    ) -> Mapping[str, Answer]:
        """Send several requests of the protocol at once; the answers have the same names."""
        for one in asks.values():
            self.require(_ABILITIES[one.method])
        return await self._channel.ask(asks, by_server=by_server)

    async def elicit(self, message: str, schema: JsonObject) -> JsonObject | None:
        """Ask the person at the client to fill in a form; None if they do not want to.

        `schema` is a JSON Schema of an object, or its properties: `{"name": {"type": "string"}}`.
        """
        answer = (await self.ask({"form": build_form(message, schema)}))["form"]
        if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
            return None
        return dict(answer.content or {})

    async def sample(self, prompt: str, *, max_tokens: int = 1000) -> str:
        """Let the client's own model answer a prompt."""
        message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
        params = types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
        answer = (await self.ask({"sample": types.CreateMessageRequest(params=params)}))["sample"]
        if not isinstance(answer, types.CreateMessageResult):
            raise PeerCannot("the client did not answer with a message")
        return answer.content.text if isinstance(answer.content, types.TextContent) else ""

    async def roots(self) -> list[str]:
        """Return the addresses of the folders that the client works in."""
        answer = (await self.ask({"roots": types.ListRootsRequest()}))["roots"]
        if not isinstance(answer, types.ListRootsResult):
            raise PeerCannot("the client did not answer with its roots")
        return [str(root.uri) for root in answer.roots]

    def log(self, level: Level, data: object) -> None:
        """Send a log message to the client: `peer.log("info", "half of it is done")`."""
        self._channel.log(level, data)


def build_form(message: str, schema: JsonObject) -> types.ElicitRequest:
    """Build the request for a form."""
    if schema.get("type") != "object":
        schema = {"type": "object", "properties": schema, "required": list(schema)}
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.ElicitRequest(params=params)


def mcp_peer() -> McpPeer | None:
    """Return the client that the running call came from, or None."""
    return _peer.get()


def set_peer(peer: McpPeer) -> None:
    """Make this client the one of the calls that the current task runs."""
    _peer.set(peer)
