"""What a projection is told, and which keys mean something to which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from windlass.messages import Message
from windlass.policies.compaction.cut import weigh

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


def with_defaults(given: TranscriptProjection) -> TranscriptProjection:
    """With the defaults of its policy."""
    usual = DEFAULTS[given.policy]
    missing = {key: value for key, value in usual.items() if getattr(given, key) is None}
    return msgspec.structs.replace(given, **missing)


# A change of the view that a projection proposes, and which of them are worth making. Pure.


#: How many times what leaves the view may have to be sent anew for it. A change breaks whatever a
#: provider has cached behind it, so a little is taken out only near the end.
WORTH: Final = 8
_TRIES: Final = 32  # beginnings that are looked at


class Edit(NamedTuple):
    """`messages` stand in place of `start` to `stop`."""

    start: int
    stop: int
    messages: tuple[Message, ...]
    saved: int  # characters
    since: int = 0  # the length of the view from which on it could be made


def edit(
    view: Sequence[Message], start: int, stop: int, new: Sequence[Message], since: int = 0
) -> Edit | None:
    """The change; None: it would leave no less to send."""
    saved = weigh(view[start:stop]) - weigh(new)
    return Edit(start, stop, tuple(new), saved, since) if saved > 0 else None


def choose_edits(
    view: Sequence[Message], edits: Sequence[Edit], fresh: int, least: int
) -> Sequence[Edit]:
    """The edits worth making: all of them, or the last ones, behind which little is sent anew.

    From `fresh` on everything is sent for the first time anyway. `least`: tokens that must leave.
    """
    for first in range(max(0, len(edits) - _TRIES), len(edits)):
        part = edits[first:]
        saved = sum([one.saved for one in part])
        if saved // 4 < least:
            return ()
        anew = weigh(view[part[0].start : fresh]) - saved
        if saved * WORTH >= anew:
            return part
    return ()
