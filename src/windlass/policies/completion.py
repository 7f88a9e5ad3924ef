"""When the work counts as done, and what happens when the model only talks.

Three modes. With native tools a reply without calls is the end. Where tools are written as text,
and where there are none, the model says so with a sentinel. Until then text-only turns are nudged,
and too many of them in a row mean that the run is stuck.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from windlass.events import LoopStuck
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Stop, Verdict

Mode = Literal["native", "text", "none"]
SENTINEL = "##DONE##"
_DONE_BLOCK = re.compile(r"<done>(.*?)</done>", re.DOTALL)

NUDGES: dict[str, str] = {
    "native": (
        "You have not finished. Call a tool to go on, or give your final answer if the task is done."
    ),
    "text": (
        "You have not finished. Go on with a <tool_call>, or write <done>{sentinel}</done> if the "
        "task is done."
    ),
    "none": "You have not finished. Go on, or write {sentinel} if the task is done.",
}

CONTRACTS: dict[str, str] = {
    "native": "When the whole task is done, say so and write {sentinel} in your reply.",
    "text": "When the whole task is done, write <done>{sentinel}</done> in your reply.",
    "none": "When the whole task is done, write {sentinel} in your reply.",
}


class Talked(msgspec.Struct, frozen=True):
    """How many turns in a row had no tool call."""

    turns: int = 0


class Completion(Policy[Talked]):
    """Finish naturally or on the sentinel; nudge; give up after `max_nudges` text-only turns."""

    memory = Talked

    def __init__(
        self,
        mode: Mode,
        *,
        loop_until_done: bool,
        sentinel: str | None,
        max_nudges: int = 8,
        nudge: str | None = None,
    ) -> None:
        self.mode: Mode = mode
        self.loop_until_done, self.sentinel = loop_until_done, sentinel
        self.max_nudges = max_nudges
        self.nudge = nudge or NUDGES[mode].format(sentinel=sentinel or SENTINEL)

    async def after_turn(self, run: Run, turn: Turn) -> Verdict | None:
        talked: Talked = run.recall(self)
        turns = 0 if turn.calls else talked.turns + 1
        if turns != talked.turns:
            run.remember(self, Talked(turns))
        if self.sentinel is not None and says_done(turn.text, self.sentinel, self.mode):
            return Finish("sentinel")
        if turn.calls:
            return None
        if not self.loop_until_done:
            return Finish("natural")
        if self.mode == "native" and self.sentinel is None and turn.text.strip():
            return Finish("natural")
        return KeepGoing("not done")

    async def before_turn(self, run: Run) -> Stop | None:
        if not self.loop_until_done or run.turn is None:
            return None
        talked: Talked = run.recall(self)
        if talked.turns == 0:
            return None
        if talked.turns > self.max_nudges:
            run.note(LoopStuck(talked.turns - 1))
            return Stop("stuck", "max_nudges")
        if run.messages[-1].role == "assistant":  # nobody else has spoken since
            run.say(self.nudge, "nudge")
        return None


def says_done(text: str, sentinel: str, mode: Mode) -> bool:
    """Does the reply carry the sentinel? In text mode it stands in a done block."""
    if mode == "text":
        return any(sentinel in block for block in _DONE_BLOCK.findall(text))
    return sentinel in text


def visible(text: str, sentinel: str | None) -> str:
    """The reply without the sentinel, for people."""
    if sentinel is None or sentinel not in text:
        return text
    text = _DONE_BLOCK.sub(lambda m: "" if sentinel in m[1] else m[0], text)
    return text.replace(sentinel, "").strip()
