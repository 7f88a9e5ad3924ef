"""What a projection is told, and which keys mean something to which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

POLICIES: Final = (
    "clean_tool_repair",
    "squash_failed_calls",
    "summary_prefix",
    "reachability_gc",
    "custom",
)


class TranscriptProjection(msgspec.Struct, frozen=True, kw_only=True):
    """What the model is shown of the transcript: `TranscriptProjection(policy="reachability_gc")`.

    A key that a policy has no use for is refused.
    """

    policy: str
    keep_last: int | None = None  # messages at the end that stay as they are
    min_tokens: int | None = None  # that must leave the view for it to be changed
    min_chars: int | None = None  # reachability_gc: of a result that may go
    window_turns: int | None = None  # reachability_gc: how often it looks, without a scratchpad
    roots: tuple[str, ...] | None = None  # reachability_gc: texts that results are reached from too
    summary: str | None = None  # summary_prefix: the notes, in your words
    project: Callable[..., Any] | None = None  # custom: (messages, context) -> list


#: The keys of each policy with their defaults.
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "clean_tool_repair": {"min_tokens": 0},
    "squash_failed_calls": {"keep_last": 4, "min_tokens": 0},
    "summary_prefix": {"keep_last": 10, "min_tokens": 2_000, "summary": None},
    "reachability_gc": {
        "keep_last": 8,
        "min_tokens": 500,
        "min_chars": 500,
        "window_turns": 5,
        "roots": (),
    },
    "custom": {"project": None},
}


def filled(given: TranscriptProjection) -> TranscriptProjection:
    """With the defaults of its policy."""
    usual = DEFAULTS[given.policy]
    missing = {key: value for key, value in usual.items() if getattr(given, key) is None}
    return msgspec.structs.replace(given, **missing)
