"""Edits of the view that a projection proposes, and which are worth making. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from windlass.messages import Message
from windlass.models.estimates import weigh_messages

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
    """Build an edit; None if it would save nothing."""
    saved = weigh_messages(view[start:stop]) - weigh_messages(new)
    return Edit(start, stop, tuple(new), saved, since) if saved > 0 else None


def choose_edits(
    view: Sequence[Message], edits: Sequence[Edit], fresh: int, least: int
) -> Sequence[Edit]:
    """Choose the edits worth making: all, or the last ones, after which little is resent.

    From `fresh` on everything is sent for the first time anyway. `least`: tokens that must leave.
    """
    for first in range(max(0, len(edits) - _TRIES), len(edits)):
        part = edits[first:]
        saved = sum([one.saved for one in part])
        if saved // 4 < least:
            return ()
        anew = weigh_messages(view[part[0].start : fresh]) - saved
        if saved * WORTH >= anew:
            return part
    return ()
