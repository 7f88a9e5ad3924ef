"""Ways of keeping a view: nothing at all, a sliding window, and ours with its default options."""

from __future__ import annotations

from typing import Any, NamedTuple

import windlass as w
from windlass.loop.run import Run
from windlass.messages import Message, Text

WINDOWS = (20, 100)  # turns
EVERYTHING = 10**9  # bytes of a result: whoever leaves nothing out cuts no result either


class Way(NamedTuple):
    """A name, and the options that an agent gets for it."""

    name: str
    options: dict[str, Any]


class Window(w.Policy[None]):
    """The first message and the last `turns` turns, with a notice of what is missing between."""

    def __init__(self, turns: int) -> None:
        self.most = 2 * turns

    async def before_model(self, run: Run, request: w.Request) -> w.Request:
        first, rest = request.messages[0], request.messages[1:]
        at = len(rest) - self.most
        if at <= 0:
            return request
        while rest[at].role == "tool":
            at -= 1  # a result may not lose its call
        notice = Message("user", (Text(f"[{at // 2} earlier turns were left out]"),))
        return w.Request([first, notice, *rest[at:]], request.frame, request.tail)


def ways() -> list[Way]:
    """Each of them, ours last."""
    whole = {"compaction": False, "tool_result_max_bytes": EVERYTHING}
    windows = [
        Way(f"a window of {turns} turns", {**whole, "policies": [Window(turns)]})
        for turns in WINDOWS
    ]
    return [Way("nothing is left out", whole), *windows, ours()]


def ours() -> Way:
    """What an agent does that is told nothing about context."""
    return Way("Windlass, default options", {})
