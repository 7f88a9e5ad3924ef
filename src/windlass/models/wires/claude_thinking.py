"""How a Claude model is asked to think, over whichever wire: by the catalog's row for it."""

from __future__ import annotations

from typing import Any, Final

from windlass.models.base import Settings
from windlass.models.catalog import ModelInfo

OFF: Final[dict[str, Any]] = {"type": "disabled"}


def claude_thinking(
    info: ModelInfo | None, settings: Settings, max_tokens: int
) -> tuple[dict[str, Any] | None, str | None]:
    """What to say of thinking, and how hard to think."""
    asked = settings.thinking
    if asked is None:
        return None, None
    mode = info.thinking if info is not None else "budget"
    if asked is False:
        return (OFF if mode not in ("", "always") else None), None
    options = asked if isinstance(asked, dict) else {}
    if "type" in options:
        return options, None
    if options.get("mode") == "disabled":
        return (OFF if mode != "always" else None), None
    effort = options.get("effort")
    budget = options.get("budget_tokens")
    if not mode:
        return None, None
    if mode in ("adaptive", "always") or (mode == "both" and budget is None):
        return {"type": "adaptive"}, effort
    limit = settings.max_tokens or max_tokens
    return {
        "type": "enabled",
        "budget_tokens": budget or max(1024, min(8192, limit // 2)),
    }, None
