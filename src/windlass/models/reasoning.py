"""How much a model is asked to think, from its capabilities and the user's options.

The options `thinking` and `reasoning_effort` are taken as they are. Else a policy decides:
`off` and the levels are lowered to what the model has, `auto` chooses a level by task and scale.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from windlass.json_types import JsonObject
from windlass.models.registry.capabilities import Capabilities, Lowering

Policy: TypeAlias = Literal["auto", "off", "minimal", "low", "medium", "high", "xhigh"]
Scale: TypeAlias = Literal["small", "medium", "large"]
Task: TypeAlias = Literal["chat", "agent", "code", "verify", "summarize"]
Thinking: TypeAlias = bool | JsonObject | None

LEVELS: Final = ("minimal", "low", "medium", "high", "xhigh")
_ORDER: Final = ("none", *LEVELS, "max")

#: The level that `auto` chooses, before the model's family is considered.
AUTO: Final[dict[Task, dict[Scale, str]]] = {
    "chat": {"small": "minimal", "medium": "low", "large": "medium"},
    "agent": {"small": "low", "medium": "medium", "large": "high"},
    "code": {"small": "low", "medium": "medium", "large": "high"},
    "verify": {"small": "low", "medium": "medium", "large": "high"},
    "summarize": {"small": "off", "medium": "minimal", "large": "low"},
}
#: Tokens of thinking for a level, where a model takes a number.
TOKENS: Final = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768}
_WORTH: Final = 512  # tokens; fewer are not worth to begin with
_REPLY: Final = 16_384  # default tokens of a reply

# Models that think only on request: `auto` requests it for large problems only.
_WHEN_ASKED: Final[frozenset[Lowering]] = frozenset({"claude", "nova", "type"})
# chat templates that do better on small things without being made to think
_LOCAL: Final[frozenset[Lowering]] = frozenset({"template", "think", "no_think"})


class Wish(msgspec.Struct, frozen=True):
    """The requested thinking: `Wish(policy="auto", scale="large", task="code")`."""

    thinking: bool | JsonObject | None = None
    effort: str | None = None
    policy: Policy = "auto"
    scale: Scale = "medium"
    task: Task = "chat"
    max_tokens: int | None = None  # of the reply, which some count thinking into


def choose(caps: Capabilities, wish: Wish) -> Thinking:
    """Choose the value of `Settings.thinking`; None sends nothing about it.

    ```python
    choose(capabilities_of("openai", "gpt-5"), Wish(policy="off"))
    # {'mode': 'effort', 'effort': 'minimal'}
    ```
    """
    if wish.thinking is not None:
        return _merge_effort(wish.thinking, wish.effort)
    if wish.effort is not None:
        if caps.known and not caps.thinking:
            return None
        return _by_effort(caps, wish.effort)
    if not caps.thinking or not caps.lowering:
        return None  # it does not think, or has no known way to request it
    if wish.policy == "off":
        return _off(caps)
    if wish.policy == "auto":
        return _auto(caps, wish)
    return _level(caps, wish.policy, wish.max_tokens)


def _merge_effort(thinking: bool | JsonObject, effort: str | None) -> Thinking:
    if isinstance(thinking, dict) and thinking.get("budget_tokens") == 0:
        return {"mode": "disabled"}  # to a wire, no tokens would read as no number given
    if effort is None:
        return thinking
    if thinking is True:
        return {"mode": "effort", "effort": effort}
    return {**thinking, "effort": effort} if isinstance(thinking, dict) else thinking


def _by_effort(caps: Capabilities, effort: str) -> Thinking:
    if effort == "none":
        return _off(caps) if caps.lowering else {"mode": "effort", "effort": effort}
    if caps.efforts:
        effort = _nearest(caps, effort)
    return {"mode": "effort", "effort": effort}


def _off(caps: Capabilities) -> Thinking:
    """Return the setting for no thinking, or for the least that the model can do."""
    if "none" in caps.efforts:
        return {"mode": "effort", "effort": "none"}
    modes = caps.thinking_modes
    if not caps.always_thinks and (not modes or "disabled" in modes):
        return {"mode": "disabled"}
    if caps.efforts:
        return {"mode": "effort", "effort": _nearest(caps, "minimal")}
    if caps.lowering == "gemini_budget":
        return {"mode": "enabled", "budget_tokens": caps.thinking_budget[0]}
    return None


def _auto(caps: Capabilities, wish: Wish) -> Thinking:
    level, large = AUTO[wish.task][wish.scale], wish.scale == "large"
    hard = level in ("medium", "high")
    if caps.lowering in _WHEN_ASKED:
        if not large or not hard or caps.always_thinks:
            return None
        if "adaptive" in caps.thinking_modes:
            return {"mode": "adaptive"}
        return _level(caps, level, wish.max_tokens)
    if caps.lowering == "openrouter" and not caps.always_thinks and not large:
        return None  # behind the router may be a model that thinks only when asked to
    if not caps.efforts:
        if caps.lowering in _LOCAL:
            return {"mode": "enabled"} if large and hard else _off(caps)
        if caps.lowering == "enabled":
            return {"mode": "enabled"} if hard else _off(caps)
    return _off(caps) if level == "off" else _level(caps, level, wish.max_tokens)


def _level(caps: Capabilities, level: str, max_tokens: int | None = None) -> Thinking:
    """Return a thinking level as the model takes it: by name, in tokens, or switched on."""
    if caps.efforts:
        return {"mode": "effort", "effort": _nearest(caps, level)}
    if caps.lowering == "gemini_budget":
        least, most = caps.thinking_budget
        room = most if max_tokens is None else max_tokens // 2  # it is counted into the reply
        if room < _WORTH:
            return _off(caps)
        return {"mode": "enabled", "budget_tokens": max(least, min(TOKENS[level], most, room))}
    if caps.lowering == "claude" and "enabled" in caps.thinking_modes:
        return _within(caps, TOKENS[level], max_tokens or _REPLY)
    if "adaptive" in caps.thinking_modes:
        return {"mode": "adaptive"}
    if caps.lowering == "openrouter":
        return {"mode": "effort", "effort": level}
    return {"mode": "enabled"}


def _within(caps: Capabilities, tokens: int, reply: int) -> Thinking:
    """Return a token budget that leaves room for the answer, as both share the reply."""
    least, most = max(1024, caps.thinking_budget[0]), caps.thinking_budget[1]
    tokens = max(least, min(tokens, most, reply * 3 // 4))
    return {"mode": "enabled", "budget_tokens": tokens} if tokens < reply else None


def _nearest(caps: Capabilities, level: str) -> str:
    """Return the level, or the next higher one of the model; `max` only if named."""
    if level in caps.efforts:
        return level
    named = [effort for effort in caps.efforts if effort not in ("none", "max")]
    at = _ORDER.index(level)
    above = (effort for effort in named if _ORDER.index(effort) >= at)
    return next(above, named[-1] if named else caps.efforts[-1])
