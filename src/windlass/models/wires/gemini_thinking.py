"""How a Gemini model is asked to think: by a budget, by a level, or not at all, as the catalog says."""

from __future__ import annotations

from typing import Any, Final

from windlass.models.catalog import ModelInfo
from windlass.models.wires.values import as_dict

_LEVELS: Final = ("minimal", "low", "medium", "high")
_TOKENS: Final = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24_576}
_NATIVE: Final = frozenset({"thinkingBudget", "thinkingLevel", "includeThoughts"})
_DYNAMIC: Final = -1  # the model decides how much


def thinking_config(
    asked: bool | dict[str, Any] | None, info: ModelInfo | None
) -> dict[str, Any] | None:
    """The `thinkingConfig` for what was asked; None where there is nothing to say.

    `thinking_config({"effort": "low"}, row)` -> `{"includeThoughts": True, "thinkingLevel": "LOW"}`
    """
    options = as_dict(asked)
    if asked is None or _NATIVE & options.keys():
        return options or None
    if info is not None and not info.reasoning:
        return None  # asked of a model that cannot, it is refused
    mode = info.thinking if info is not None else ""
    if asked is False or options.get("mode") == "disabled":
        return _off(info)
    effort, budget = options.get("effort"), options.get("budget_tokens")
    config: dict[str, Any] = {"includeThoughts": True}
    if mode == "budget" or (not mode and isinstance(budget, int)):
        config["thinkingBudget"] = _budget(effort, budget, info)
    elif effort is not None or isinstance(budget, int):
        config["thinkingLevel"] = _level(str(effort or _effort(budget)), info)
    return config


def _off(info: ModelInfo | None) -> dict[str, Any]:
    """As little as the model can do."""
    if info is not None and info.thinking == "level":
        return {"thinkingLevel": _level("minimal", info)}
    if info is not None and not info.thinking_off:
        return {"thinkingBudget": info.thinking_budget[0]}
    return {"thinkingBudget": 0}


def _budget(effort: object, budget: object, info: ModelInfo | None) -> int:
    if not isinstance(budget, int):
        if effort is None:
            return _DYNAMIC
        budget = _TOKENS.get(str(effort), _TOKENS["high"])
    if info is None or budget < 0:
        return budget
    least, most = info.thinking_budget
    return max(least, min(budget, most))


def _effort(budget: object) -> str:
    tokens = budget if isinstance(budget, int) else _TOKENS["medium"]
    return next((name for name in _LEVELS if tokens <= _TOKENS[name]), "high")


def _level(effort: str, info: ModelInfo | None) -> str:
    """The level by its name, or the next one up that the model has."""
    known = info.thinking_levels if info is not None and info.thinking_levels else _LEVELS
    at = _LEVELS.index(effort) if effort in _LEVELS else len(_LEVELS)
    return next((name for name in known if _LEVELS.index(name) >= at), known[-1]).upper()
