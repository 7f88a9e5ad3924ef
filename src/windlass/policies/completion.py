"""When the work counts as done, and what happens when the model only talks.

Three modes. With native tools a reply without calls is the end. Where tools are written as text,
and where there are none, the model says so with a sentinel. Until then text-only turns are nudged,
and too many of them in a row mean that the run is stuck. Some tools may end the run by working, and
some must have worked before it counts as done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from windlass.events import LoopStuck
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Outcome, Stop, Verdict
from windlass.options.prompt_text import Words, text_of
from windlass.policies.facts import missing, tally

Mode = Literal["native", "text", "none"]
SENTINEL = "##DONE##"
_OPEN, _CLOSE = "<done>", "</done>"

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

CURT_NUDGES: dict[str, str] = {
    "native": "You have not finished. Call a tool to go on.",
    "text": "You have not finished. Go on with a <tool_call>.",
    "none": "You have not finished. Go on.",
}

ACT = "Words alone do not count here: call a tool."
_OR_SAY = " Or write {sentinel} if the task is done."

CONTRACTS: dict[str, str] = {
    "native": "When the whole task is done, say so and write {sentinel} in your reply.",
    "text": "When the whole task is done, write <done>{sentinel}</done> in your reply.",
    "none": "When the whole task is done, write {sentinel} in your reply.",
}


class TurnPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a turn should look like: `TurnPolicy(require_action_or_yield=True, max_prose_chars=400)`."""

    # words alone do not end a run that has tools and called none
    require_action_or_yield: bool = False
    allow_done_sentinel: bool = True  # nudges offer the sentinel as a way out
    max_prose_chars: int | None = None  # who writes more is told to be brief


class Completion(Policy[None]):
    """Finish naturally or on the sentinel; nudge; give up after `max_nudges` text-only turns."""

    def __init__(
        self,
        mode: Mode,
        *,
        loop_until_done: bool,
        sentinel: str | None,
        max_nudges: int = 8,
        nudge: Words | None = None,
        act: Words | None = None,
        stop_after: frozenset[str] = frozenset(),
        required: tuple[tuple[str, ...], ...] = (),
        shape: TurnPolicy | None = None,
    ) -> None:
        self.mode: Mode = mode
        self.loop_until_done, self.sentinel = loop_until_done, sentinel
        self.max_nudges = max_nudges
        self.stop_after, self.required = stop_after, required
        self.shape = shape = shape or TurnPolicy()
        offers = NUDGES if shape.allow_done_sentinel else CURT_NUDGES
        self.nudge = nudge or offers[mode].format(sentinel=sentinel or SENTINEL)
        yields = sentinel is not None and shape.allow_done_sentinel
        way_out = f"<done>{sentinel}</done>" if mode == "text" else sentinel
        self.act = act or nudge or (ACT + _OR_SAY.format(sentinel=way_out) if yields else ACT)

    async def after_turn(self, run: Run, turn: Turn) -> Verdict | None:
        if self.sentinel is not None and says_done(turn.text, self.sentinel, self.mode):
            return Finish("sentinel")
        if turn.calls:
            worked = self.stop_after and not self.stop_after.isdisjoint(tally(run).worked)
            return Finish("natural") if worked else None
        if self._must_act(run):
            return KeepGoing("no action")
        if self.loop_until_done and self.mode == "native" and self.sentinel is None:
            if turn.text.strip():
                return Finish("natural")
        if self.required and not missing(self.required, run):
            return Finish("required_tools_satisfied")
        return KeepGoing("not done") if self.loop_until_done else Finish("natural")

    async def before_turn(self, run: Run) -> Stop | None:
        turn, counted = run.turn, tally(run)
        if turn is None:
            return None
        talked = counted.talked
        must_act = talked > 0 and self._must_act(run)
        nudges = self.loop_until_done or must_act
        if nudges and talked > self.max_nudges:
            if not counted.stuck:
                run.note(LoopStuck(talked - 1))
            return Stop("stuck", "max_nudges")
        if nudges and talked and run.messages[-1].role == "assistant":
            # and nobody else has text_of since
            words = await text_of(self.act if must_act else self.nudge)
            run.say(words + self._too_long(turn), "nudge")
        elif turn.calls and "brief" not in counted.heard and (brief := self._too_long(turn)):
            run.say(brief.strip(), "brief")
        return None

    async def before_finish(self, run: Run, turn: Turn, finish: Finish) -> KeepGoing | None:
        lacking = missing(self.required, run) if self.required else None
        if not lacking:
            return None
        if "required_tools" not in tally(run).heard:
            run.say(
                f"These tools must have worked before you are done: {', '.join(lacking)}.",
                "required_tools",
            )
        return KeepGoing("required_tools")

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        lacking = missing(self.required, run) if self.required else None
        if not lacking or outcome.error is not None or outcome.status in _AS_IT_IS:
            return outcome
        fields = {**outcome.fields, "missing_required_tools": lacking}
        return msgspec.structs.replace(
            outcome, status="failed", stop_reason="missing_required_tools", fields=fields
        )

    def _must_act(self, run: Run) -> bool:
        """Is an action wanted, and has no tool been called yet?"""
        if not self.shape.require_action_or_yield or self.mode == "none":
            return False
        counted = tally(run)
        return not (counted.successful or counted.rejected)

    def _too_long(self, turn: Turn) -> str:
        most = self.shape.max_prose_chars
        if most is None or len(visible(turn.text, self.sentinel)) <= most:
            return ""
        return f" Keep what you write under {most} characters."


_AS_IT_IS = frozenset({"provider_error", "suspended", "cancelled", "cancelling"})


def says_done(text: str, sentinel: str, mode: Mode) -> bool:
    """Does the reply carry the sentinel? In text mode it stands in a done block."""
    if mode == "text":
        return any(sentinel in text[start:end] for start, end in _done_blocks(text))
    return sentinel in text


def visible(text: str, sentinel: str | None) -> str:
    """The reply without the sentinel, for people."""
    if sentinel is None or sentinel not in text:
        return text
    kept: list[str] = []
    place = 0
    for start, end in _done_blocks(text):
        if sentinel in text[start:end]:
            kept.append(text[place : start - len(_OPEN)])
            place = end + len(_CLOSE)
    kept.append(text[place:])
    return "".join(kept).replace(sentinel, "").strip()


def _done_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Where the content of each done block begins and ends, in one pass over the text."""
    place = 0
    while (opened := text.find(_OPEN, place)) >= 0:
        start = opened + len(_OPEN)
        end = text.find(_CLOSE, start)
        if end < 0:
            return
        yield start, end
        place = end + len(_CLOSE)
