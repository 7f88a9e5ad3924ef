"""Thinking settings for OpenAI-compatible servers, one function for each notation.

Which model wants which way is a row of the capabilities; a server's own way serves the models that
no row knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from windlass.json_types import JsonObject
from windlass.models.registry.capabilities import Capabilities, Lowering
from windlass.models.wires.json_values import as_dict
from windlass.models.wires.no_think import thinks_not

Asked: TypeAlias = bool | JsonObject
Write: TypeAlias = Callable[[Asked, Capabilities], JsonObject]
_BUDGETS: Final = ((2048, "low"), (8192, "medium"))  # tokens, and the effort they stand for


def lower_thinking(asked: Asked | None, caps: Capabilities, usual: Lowering) -> JsonObject:
    """Build the Chat Completions fields for thinking; `usual` is the server's own way."""
    if asked is None or (caps.known and not caps.thinking):
        return {}
    write = _WAYS.get(caps.lowering if caps.known else caps.lowering or usual)
    return write(asked, caps) if write is not None else {}


def over_responses(written: JsonObject, asked: Asked | None) -> JsonObject:
    """Rewrite the thinking fields for the Responses wire, with a summary if requested.

    A summary is not asked for unasked: OpenAI refuses one to organisations it has not verified.
    """
    reasoning = dict(as_dict(written.get("reasoning")))
    if (effort := written.get("reasoning_effort")) is not None:
        reasoning["effort"] = effort
    if reasoning and (summary := as_dict(asked).get("summary")) is not None:
        reasoning["summary"] = summary
    others = {k: v for k, v in written.items() if k not in ("reasoning", "reasoning_effort")}
    return {**others, "reasoning": reasoning} if reasoning else others


def _level(asked: Asked) -> str:
    options = as_dict(asked)
    if effort := options.get("effort"):
        return str(effort)
    budget = options.get("budget_tokens")
    if not isinstance(budget, int):
        return "medium"
    return next((level for most, level in _BUDGETS if budget <= most), "high")


def _effort(asked: Asked, caps: Capabilities) -> JsonObject:
    if thinks_not(asked):
        # no value means "off" for every model: the lowest that it takes comes nearest
        return {"reasoning_effort": caps.efforts[0]} if caps.efforts else {}
    return {"reasoning_effort": _level(asked)}


def _think(asked: Asked, caps: Capabilities) -> JsonObject:
    return {"reasoning_effort": "none" if thinks_not(asked) else _level(asked)}


def _openrouter(asked: Asked, caps: Capabilities) -> JsonObject:
    options = as_dict(asked)
    if thinks_not(asked):
        return {"reasoning": {"enabled": False}}
    if effort := options.get("effort"):
        return {"reasoning": {"effort": effort}}
    if budget := options.get("budget_tokens"):
        return {"reasoning": {"max_tokens": budget}}
    return {"reasoning": {"enabled": True}}


def _lower_to_switch(asked: Asked, caps: Capabilities) -> JsonObject:
    return {"reasoning": {"enabled": not thinks_not(asked)}}


def _type(asked: Asked, caps: Capabilities) -> JsonObject:
    if "type" in (own := as_dict(asked)):
        return {"thinking": own}
    return {"thinking": {"type": "disabled" if thinks_not(asked) else "enabled"}}


def _template(asked: Asked, caps: Capabilities) -> JsonObject:
    return {"chat_template_kwargs": {"enable_thinking": not thinks_not(asked)}}


def _prompt_mode(asked: Asked, caps: Capabilities) -> JsonObject:
    return {"prompt_mode": None if thinks_not(asked) else "reasoning"}


def _in_words(asked: Asked, caps: Capabilities) -> JsonObject:
    return {}  # see no_think.py


_WAYS: Final[dict[Lowering, Write]] = {
    "effort": _effort,
    "think": _think,
    "openrouter": _openrouter,
    "enabled": _lower_to_switch,
    "type": _type,
    "template": _template,
    "prompt_mode": _prompt_mode,
    "no_think": _in_words,
}
