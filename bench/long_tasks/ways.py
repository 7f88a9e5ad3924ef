"""Ways of keeping a view: nothing at all, a sliding window, and ours with its default options."""

from __future__ import annotations

from typing import Any, NamedTuple

WINDOWS = (20, 100)  # turns
EVERYTHING = 10**9  # bytes of a result: whoever leaves nothing out cuts no result either


class Way(NamedTuple):
    """A name, and the options that an agent gets for it."""

    name: str
    options: dict[str, Any]


def ways() -> list[Way]:
    """Each of them, ours last."""
    whole = {"tool_result_max_bytes": EVERYTHING, "tool_surface_narrowing": False}
    windows = [
        Way(f"a window of {turns} turns", {**whole, "context_strategy": _window(turns)})
        for turns in WINDOWS
    ]
    return [Way("nothing is left out", {**whole, "compaction": False}), *windows, ours()]


def _window(turns: int) -> dict[str, Any]:
    return {"type": "sliding-window", "max_turns": turns}


def ours() -> Way:
    """What an agent does that is told nothing about context."""
    return Way("Windlass, default options", {})
