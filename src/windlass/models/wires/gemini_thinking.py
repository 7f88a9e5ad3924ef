"""How a Gemini model is asked to think: by a budget, by a level, or not at all, as its row says."""

from __future__ import annotations

from typing import Any, Final

from windlass.models.capabilities import Capabilities
from windlass.models.wires.no_think import thinks_not
from windlass.models.wires.values import as_dict

_LEVELS: Final = ("minimal", "low", "medium", "high")
_TOKENS: Final = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24_576}
_NATIVE: Final = frozenset({"thinkingBudget", "thinkingLevel", "includeThoughts"})
_DYNAMIC: Final = -1  # the model decides how much


def thinking_config(
    asked: bool | dict[str, Any] | None, caps: Capabilities
) -> dict[str, Any] | None:
    """The `thinkingConfig` for what was asked; None where there is nothing to say.

    `thinking_config({"effort": "low"}, row)` -> `{"includeThoughts": True, "thinkingLevel": "LOW"}`
    """
    options = as_dict(asked)
    if asked is None or _NATIVE & options.keys():
        return options or None
    if caps.known and not caps.thinking:
        return None  # asked of a model that cannot, it is refused
    by_level = caps.lowering != "gemini_budget"
    if thinks_not(asked):
        return {"thinkingLevel": _level("minimal", caps)} if by_level else _off(caps)
    effort, budget = options.get("effort"), options.get("budget_tokens")
    config: dict[str, Any] = {"includeThoughts": True}
    if not by_level:
        config["thinkingBudget"] = _budget(effort, budget, caps)
    elif effort is not None or isinstance(budget, int):
        config["thinkingLevel"] = _level(str(effort or _effort(budget)), caps)
    return config


def _off(caps: Capabilities) -> dict[str, Any]:
    """As little as the model can do."""
    return {"thinkingBudget": caps.thinking_budget[0] if caps.always_thinks else 0}


def _budget(effort: object, budget: object, caps: Capabilities) -> int:
    if not isinstance(budget, int):
        if effort is None:
            return _DYNAMIC
        budget = _TOKENS.get(str(effort), _TOKENS["high"])
    if budget < 0:
        return budget
    least, most = caps.thinking_budget
    return max(least, min(budget, most))


def _effort(budget: object) -> str:
    tokens = budget if isinstance(budget, int) else _TOKENS["medium"]
    return next((name for name in _LEVELS if tokens <= _TOKENS[name]), "high")


def _level(effort: str, caps: Capabilities) -> str:
    """The level by its name, or the next one up that the model has."""
    known = [name for name in _LEVELS if name in caps.efforts] or list(_LEVELS)
    at = _LEVELS.index(effort) if effort in _LEVELS else len(_LEVELS)
    return next((name for name in known if _LEVELS.index(name) >= at), known[-1]).upper()
