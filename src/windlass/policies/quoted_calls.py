"""Feedback to a model that wrote a call amid other text: it was not run, and why.

Which blocks are calls is decided where a reply is read (`models/wrappers/text_calls.py`). What only
quotes a call is the model's answer, and is left alone.
"""

from __future__ import annotations

from typing import ClassVar, Final

from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import KeepGoing
from windlass.models.wrappers.base import OPEN
from windlass.models.wrappers.text_calls import find_intended_in_slices
from windlass.options.prompts import Words, text_of, words_of
from windlass.policies.build import BuildContext, Policies
from windlass.policies.facts import tally

KIND: Final = "quoted_tool_call"
WORDS: Final = (
    "Your last reply held a <tool_call> that does not stand by itself, so it was taken as text and nothing was "
    "run. To call a tool, send the call by itself: not within a sentence, a code fence, a quote or backticks, and "
    "with nothing between several calls. If it was only an example, give your answer again without it."
)
MOST: Final = 2  # reminders in a run; after that the text is the answer


class QuotedCalls(Policy[None]):
    """A policy that tells a model that a probable call was taken as text."""

    brief: ClassVar[bool] = True
    skips_calls: ClassVar[bool] = True
    looks_for_text: ClassVar[str | None] = OPEN

    def __init__(self, words: Words = WORDS) -> None:
        self.words = words

    async def after_reply(self, run: Run, turn: Turn) -> KeepGoing | None:
        if turn.calls or OPEN not in turn.message.text:
            return None
        counted = tally(run)
        reminded = KIND in counted.heard
        if not reminded and (counted.told[KIND] >= MOST or run.ledger.out_of_turns() is not None):
            return None
        if not await find_intended_in_slices(turn.text, run.tools):
            return None
        if not reminded:
            run.say(await text_of(self.words), KIND)
        return KeepGoing(KIND)


FEEDBACK: Final = QuotedCalls()  # agents share it, and so what is collected from their policies


def build(ctx: BuildContext) -> Policies:
    """Build the policy, where calls are read out of text."""
    if ctx.prompts is None:
        return (FEEDBACK,)
    words = words_of(ctx.prompts, "agent.quoted_tool_call", WORDS)
    return (FEEDBACK if words is WORDS else QuotedCalls(words),)
