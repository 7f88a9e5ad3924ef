"""Dialects of the servers that offer Chat Completions: plain data, one row for each.

What differs from model to model is a row of the capabilities, not one of these.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.models.registry.capabilities import Lowering, Wire
from windlass.models.registry.config import Endpoint
from windlass.models.registry.scope import ENDPOINTS

_SHAPES: Final = ("openai_chat", "openai_responses")


def openai_shaped(provider: str, base_url: str | None, wire: Wire) -> Endpoint:
    """Return the endpoint of an OpenAI-compatible provider; any `base_url` makes one."""
    known = ENDPOINTS.get(provider)
    if known is not None and known.dialect == "ollama":
        return msgspec.structs.replace(known, wire="openai_chat")  # its /v1, on request
    if known is not None and known.wire in _SHAPES:
        return known
    if base_url is None:
        raise ConfigError(f"provider {provider!r} is not known; pass base_url= for it")
    return Endpoint(provider, wire, base_url, (f"{provider.upper()}_API_KEY",))


class Dialect(msgspec.Struct, frozen=True):
    """How one server differs from OpenAI's Chat Completions."""

    lowering: Lowering = "effort"  # how it asks a model to think that no row knows
    encrypts: bool = False  # over Responses, reasoning comes back encrypted when asked for
    fewest: int = 1  # tokens of a reply that it can be held to over Responses
    usage_on_request: bool = True  # a stream counts tokens only when asked to
    top_k: bool = True
    seed: str = "seed"
    required: str = "required"
    echoes: tuple[str, ...] = ("reasoning_details", "reasoning_content")
    caches: bool = False  # takes cache points, and passes them on
    searches: Literal["", "forwarded", "responses"] = "forwarded"  # where its tool search is
    counts: bool = False  # counts the tokens of a Responses request
    alternates: bool = False  # needs an assistant message between a result and a user message
    prefix: bool = False  # goes on with an assistant's message only where it is marked

    def echo(self, opaque: JsonObject, text: str, plain: bool) -> JsonObject:
        """Return the fields that send the model's earlier reasoning back to it.

        `reasoning_details` always; plain reasoning only beside tool calls, where the models that
        think between calls need it and the others do not mind.
        """
        if "reasoning_details" in opaque and "reasoning_details" in self.echoes:
            return {"reasoning_details": opaque["reasoning_details"]}
        field = opaque.get("field")
        if field not in self.echoes:
            return {}
        if field == "content":  # a part of the content, before its text
            return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}
        return {field: text} if plain else {}


_OPENAI: Final = Dialect(encrypts=True, fewest=16, top_k=False, searches="responses")
DIALECTS: Final[dict[str, Dialect]] = {
    "plain": Dialect(),
    "openai": msgspec.structs.replace(_OPENAI, counts=True),
    "azure": _OPENAI,
    "openrouter": Dialect(
        lowering="openrouter",
        encrypts=True,
        echoes=("reasoning_details", "reasoning"),
        caches=True,
    ),
    "together": Dialect(lowering="enabled"),
    "groq": Dialect(top_k=False, echoes=()),  # refuses fields it does not know
    "deepseek": Dialect(lowering="type", top_k=False),
    "mistral": Dialect(
        lowering="",
        usage_on_request=False,
        top_k=False,
        seed="random_seed",
        required="any",
        echoes=("content",),
        alternates=True,
        prefix=True,
    ),
    "ollama": Dialect(lowering="think", echoes=("reasoning",)),
    "local": Dialect(lowering="template"),
}
