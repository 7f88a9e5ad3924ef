"""Where the servers that speak Chat Completions differ: reasoning, ids, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec

from windlass.errors import ConfigError
from windlass.models.catalog import ModelInfo
from windlass.models.endpoints import ENDPOINTS, Endpoint, Wire
from windlass.models.wires.values import as_dict, safe_name

Thinking = bool | dict[str, Any]
_SHAPES: Final = ("openai_chat", "openai_responses")
_REASONING: Final = ("o1", "o3", "o4", "gpt-5", "gpt-6")


def _effort(asked: Thinking) -> str:
    options = as_dict(asked)
    if effort := options.get("effort"):
        return str(effort)
    budget = options.get("budget_tokens")
    if not isinstance(budget, int):
        return "medium"
    return "low" if budget <= 2048 else "medium" if budget <= 8192 else "high"


def _off(asked: Thinking) -> bool:
    return asked is False or as_dict(asked).get("mode") == "disabled"


def _by_effort(asked: Thinking, reasons: bool | None) -> dict[str, Any]:
    if reasons is False or _off(asked):
        return {}  # there is no word for "off" that every model takes
    return {"reasoning_effort": _effort(asked)}


def _openrouter(asked: Thinking, reasons: bool | None) -> dict[str, Any]:
    options = as_dict(asked)
    if _off(asked):
        return {"reasoning": {"enabled": False}}
    if effort := options.get("effort"):
        return {"reasoning": {"effort": effort}}
    if budget := options.get("budget_tokens"):
        return {"reasoning": {"max_tokens": budget}}
    return {"reasoning": {"enabled": True}}


def _together(asked: Thinking, reasons: bool | None) -> dict[str, Any]:
    return {"reasoning": {"enabled": not _off(asked)}}


def _deepseek(asked: Thinking, reasons: bool | None) -> dict[str, Any]:
    return {"thinking": {"type": "disabled" if _off(asked) else "enabled"}}


def _ollama(asked: Thinking, reasons: bool | None) -> dict[str, Any]:
    return {"reasoning_effort": "none" if _off(asked) else _effort(asked)}


def _template(asked: Thinking, reasons: bool | None) -> dict[str, Any]:
    return {"chat_template_kwargs": {"enable_thinking": not _off(asked)}}


def openai_shaped(provider: str, base_url: str | None, wire: Wire) -> Endpoint:
    """The endpoint of a provider that speaks like OpenAI; any server is one, by its address."""
    known = ENDPOINTS.get(provider)
    if known is not None and known.dialect == "ollama":
        return msgspec.structs.replace(known, wire="openai_chat")  # its /v1, for who wants it
    if known is not None and known.wire in _SHAPES:
        return known
    if base_url is None:
        raise ConfigError(f"provider {provider!r} is not known; pass base_url= for it")
    return Endpoint(provider, wire, base_url, (f"{provider.upper()}_API_KEY",))


class Dialect(msgspec.Struct, frozen=True):
    """One server's way of speaking."""

    reasoning: Callable[[Thinking, bool | None], dict[str, Any]] = _by_effort
    strict_reasoning: bool = False  # models that reason refuse sampling and `max_tokens`
    encrypts: bool = False  # over Responses, reasoning comes back encrypted when asked for
    usage_on_request: bool = True  # a stream counts tokens only when asked to
    top_k: bool = True
    seed: str = "seed"
    required: str = "required"
    ids: Literal["any", "40", "9"] = "any"
    echoes: tuple[str, ...] = ("reasoning_details", "reasoning_content")

    def reasons(self, info: ModelInfo | None, name: str) -> bool:
        """Whether the model reasons, by the catalog or else by what its maker's names begin with."""
        return info.reasoning if info is not None else name.startswith(_REASONING)

    def call_id(self, id: str) -> str:
        """The id as this server takes it; the same for a call and its result."""
        if self.ids == "9":
            if len(id) == 9 and id.isascii() and id.isalnum():
                return id
            return sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
        return safe_name(id, 40) if self.ids == "40" else id or "call"

    def echo(self, opaque: dict[str, Any], text: str, calls: bool) -> dict[str, Any]:
        """What of the model's reasoning goes back to it.

        `reasoning_details` always; plain reasoning only beside tool calls, where the models that
        think between calls need it and the others do not mind.
        """
        if "reasoning_details" in opaque and "reasoning_details" in self.echoes:
            return {"reasoning_details": opaque["reasoning_details"]}
        field = opaque.get("field")
        return {field: text} if calls and field in self.echoes else {}


DIALECTS: Final[dict[str, Dialect]] = {
    "plain": Dialect(),
    "openai": Dialect(strict_reasoning=True, encrypts=True, top_k=False, ids="40"),
    "openrouter": Dialect(
        reasoning=_openrouter, encrypts=True, echoes=("reasoning_details", "reasoning")
    ),
    "together": Dialect(reasoning=_together),
    "groq": Dialect(top_k=False, echoes=()),  # refuses fields it does not know
    "deepseek": Dialect(reasoning=_deepseek, top_k=False),
    "mistral": Dialect(
        reasoning=lambda _asked, _reasons: {},
        usage_on_request=False,
        top_k=False,
        seed="random_seed",
        required="any",
        ids="9",
        echoes=(),
    ),
    "ollama": Dialect(reasoning=_ollama, echoes=("reasoning",)),
    "local": Dialect(reasoning=_template),
}
