"""How a Claude model is asked to think, over whichever wire: by the row of facts about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from windlass.messages import Block, Message, Text
from windlass.models.base import Settings
from windlass.models.capabilities import Capabilities
from windlass.models.view import View

OFF: Final[dict[str, Any]] = {"type": "disabled"}
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
_LEAST: Final = 1024  # tokens: a smaller budget is refused
# tokens for a level, where a model knows budgets only
_BUDGETS: Final = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
_LEVELS: Final = tuple(_BUDGETS)


class Thinks(msgspec.Struct, frozen=True):
    """What a request says of thinking: the provider's own object, and how hard to try."""

    thinking: dict[str, Any] | None = None
    effort: str | None = None

    @property
    def on(self) -> bool:
        """Whether the model is asked to think."""
        return self.thinking is not None and self.thinking.get("type") != "disabled"

    @property
    def budgeted(self) -> bool:
        """Whether it is asked to think on a budget, which excludes more than other ways do."""
        return self.thinking is not None and self.thinking.get("type") == "enabled"


def is_forced(settings: Settings) -> bool:
    """Whether the model must call a tool."""
    return settings.tool_choice not in (None, "auto", "none")


def claude_thinking(
    caps: Capabilities, settings: Settings, limit: int, *, forced: bool = False
) -> Thinks:
    """How this model is told what `settings.thinking` asks for, in a reply of at most `limit` tokens.

    A call that may not be declined (`forced`) and thinking on a budget exclude each other: the call
    is then asked for without thinking, since it is what the answer must be.
    """
    asked = settings.thinking
    options = asked if isinstance(asked, dict) else {}
    if "type" in options:
        thinks = Thinks(options)
    elif asked is None or (caps.known and not caps.thinking):
        return Thinks()
    elif asked is False or options.get("mode") == "disabled" or options.get("effort") == "none":
        return Thinks(None if caps.always_thinks else OFF)
    else:
        thinks = _lowered(caps, options, settings, limit)
    if forced and thinks.budgeted:
        return Thinks(OFF, thinks.effort)
    return thinks


def _lowered(caps: Capabilities, options: dict[str, Any], settings: Settings, limit: int) -> Thinks:
    modes = caps.thinking_modes or ("enabled",)  # a model that nobody knows: the oldest way
    asked, budget = options.get("effort"), options.get("budget_tokens")
    effort = nearest_level(asked, caps.efforts)
    on_budget = budget is not None or options.get("mode") == "enabled"
    if "adaptive" in modes and not (on_budget and "enabled" in modes):
        return Thinks({"type": "adaptive"}, effort)
    if "enabled" not in modes:
        return Thinks(None, effort)
    if settings.max_tokens is not None:
        limit = settings.max_tokens
        if limit <= _LEAST:
            return Thinks(OFF, effort)  # a reply this short has no room for a thought
    if budget is None:
        budget = _BUDGETS.get(asked or "", min(8192, limit // 2))
        budget = min(budget, max(limit // 2, _LEAST), caps.thinking_budget[1] or budget)
    elif settings.max_tokens is not None:
        budget = min(budget, limit - 1)  # the reply holds the thoughts and the answer
    return Thinks({"type": "enabled", "budget_tokens": max(budget, _LEAST)}, effort)


def opener(messages: Sequence[Message]) -> Message | None:
    """The reply that began the turn at the end of these messages, if it called tools.

    Calls and their results are one turn, however many there are; whoever else speaks ends it.
    """
    items = messages.strand.items if isinstance(messages, View) else messages
    found: Message | None = None
    for at in range(len(messages) - 1, -1, -1):  # a turn may be as long as the run
        message = items[at]
        if message.role == "assistant":
            found = message
        elif message.role != "tool" and any(map(_speaks, message.content)):
            break
    return found if found is not None and found.tool_calls else None


def _speaks(block: Block) -> bool:
    return type(block) is not Text or bool(block.text.strip())  # blank words are not sent


def nearest_level(asked: object, levels: tuple[str, ...]) -> str | None:
    """The level that the model has and that is nearest to the one asked for, the lower of two."""
    if asked in levels:
        return str(asked)
    known = [level for level in levels if level in _LEVELS]
    if asked not in _LEVELS or not known:
        return None
    place = _LEVELS.index(str(asked))
    return min(known, key=lambda level: (abs(_LEVELS.index(level) - place), _LEVELS.index(level)))


def claude_betas(caps: Capabilities, settings: Settings, *, on: bool) -> list[str]:
    """The beta features of a request: those asked for, and thinking between calls.

    The latter is asked for with thinking (`on`) or by itself, and only of models that want to be
    asked: by their row, or because nobody knows them. Others do it unasked, or cannot.
    """
    names = list(settings.beta or ())
    feature = caps.interleaved_beta or ("" if caps.known else INTERLEAVED)
    between = settings.interleaved_thinking
    if feature and (between or (between is None and on and caps.known)):
        names.append(feature)
    return list(dict.fromkeys(names))
