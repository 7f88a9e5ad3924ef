"""A sliding window: the task, a notice of what is gone, and the last turns.

It remembers nothing: how many turns are gone stands in the notice that the view holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import msgspec

from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import Message, Text
from windlass.models.base import Request
from windlass.policies.rounds import round_at, staying, unanswered_start, under_way

WINDOW: Final = "window"  # why the view changes, and the kind of the notice
_NOTICE: Final = "[Earlier conversation history truncated — {} turn(s) removed]"
_TOLD = re.compile(r"— (\d+) turn\(s\) removed\]$")


class Slide(NamedTuple):
    """Messages `start` to `stop`, and what replaces them."""

    start: int
    stop: int
    messages: list[Message]


class SlidingWindow(Policy[None]):
    """A policy that shows the task and the last `turns` turns, two messages each."""

    brief: ClassVar[bool] = True

    def __init__(self, turns: int) -> None:
        self.most = 2 * turns

    @property
    def name(self) -> str:
        return "sliding_window"

    async def before_model(self, run: Run, request: Request) -> Request:
        """Remove what is too old, from the second turn on."""
        items = run.messages
        if len(items) <= self.most or not under_way(run):
            return request
        slide = plan_slide(items, self.most)
        if slide is None:
            return request
        run.reshape((slide.start, slide.stop), slide.messages, WINDOW)
        return msgspec.structs.replace(request, messages=run.messages)


def plan_slide(messages: Sequence[Message], most: int) -> Slide | None:
    """Choose what is removed so that `most` messages are left, or None.

    A round at the edge is kept whole, and what the model has not answered yet is kept anyhow.
    """
    stay = staying(messages, but=WINDOW)
    moving = [
        at for at, message in enumerate(messages) if at not in stay and message.kind != WINDOW
    ]
    if len(moving) <= most:
        return None
    stop = round_at(messages, min(moving[-most], unanswered_start(messages)))
    gone = [at for at in moving if at < stop]
    if not gone:
        return None
    start = next(at for at in range(stop) if at not in stay)
    kept = [messages[at] for at in range(start, stop) if at in stay]
    turns = sum(messages[at].role == "assistant" for at in gone)
    turns += sum(_removed_count(message) for message in messages[:stop] if message.kind == WINDOW)
    notice = [Message("user", (Text(_NOTICE.format(turns)),), WINDOW)] if turns else []
    return Slide(start, stop, [*kept, *notice])


def _removed_count(notice: Message) -> int:
    found = _TOLD.search(notice.text)
    return int(found[1]) if found is not None else 0
