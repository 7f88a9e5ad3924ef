"""Calls that a model with native tools wrote as text: taken once, or not at all.

Reading them is a model wrapper's work (`models/wrappers/native.py`), and without this policy they
run like any other.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.events import NativeToolRejected
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import KeepGoing, Stop
from windlass.models.wrappers.native import written

_WORDS = (
    "Your last reply held tool calls written as text. They were not run. Call tools through the "
    "provider's own tool calls."
)


class Accepted(msgspec.Struct, frozen=True):
    """How many replies with written calls were let through."""

    replies: int = 0


class NativeFallback(Policy[Accepted]):
    """Refuse written calls, after the first reply that has some or at once."""

    memory = Accepted

    def __init__(self, mode: Literal["allow_once", "reject"]) -> None:
        self.mode = mode

    async def after_reply(self, run: Run, turn: Turn) -> KeepGoing | Stop | None:
        count = sum(map(written, turn.calls))
        if not count:
            return None
        accepted: Accepted = run.recall(self)
        if self.mode == "allow_once" and not accepted.replies:
            run.remember(self, Accepted(1))
            return None
        run.note(NativeToolRejected(count))
        limit = run.ledger.limits.iterations
        if limit is not None and run.iteration >= limit:
            return Stop("failed", "native_tool_fallback_rejected")
        run.say(_WORDS, "native_tool_fallback")
        return KeepGoing("native_tool_fallback_rejected")
