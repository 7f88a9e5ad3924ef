"""Calls that a model with native tools wrote as text: accepted once, or not at all.

Reading them is a model wrapper's work (`models/wrappers/native_tools.py`), and without this policy they
run like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from windlass.events import IterationStart, NativeToolRejected, Replied
from windlass.loop.facts import Facts, Take
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import KeepGoing, Outcome
from windlass.models.history import is_text_call
from windlass.options.checks import one_of
from windlass.options.group import Option, OptionGroup
from windlass.options.prompts import Words, text_of, words_of
from windlass.policies.build import BuildContext, Policies
from windlass.policies.facts import tally

REJECTED = "native_tool_fallback_rejected"
WORDS = (
    "Your last reply held tool calls written as text. They were not run. Call tools through the "
    "provider's own tool calls."
)


class NativeToolOptions(OptionGroup, frozen=True, kw_only=True):
    """Tool calls that a model writes as text."""

    native_tool_fallback: Annotated[
        Literal["allow", "allow_once", "reject"], Option(one_of("allow", "allow_once", "reject"))
    ] = "allow"
    """Whether calls written as text run, run once, or are refused."""


def build(ctx: BuildContext) -> Policies:
    """Build the policy, where written calls are not simply run."""
    fallback = NativeToolOptions.read(ctx.values).native_tool_fallback
    if fallback == "allow" or ctx.mode != "native":
        return ()
    return (NativeFallback(fallback, words_of(ctx.prompts, "agent.native_tool_fallback", WORDS)),)


class Fallbacks(Facts):
    """The number of replies with written calls, and whether the last were refused."""

    replies = 0
    refused = False  # in the last turn

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {
            Replied: self._reply,
            NativeToolRejected: self._refusal,
            IterationStart: self._turn,
        }

    def _reply(self, entry: Replied) -> None:
        own = entry.purpose is None  # drift of a judge does not count
        self.replies += own and any(map(is_text_call, entry.message.tool_calls))

    def _refusal(self, entry: NativeToolRejected) -> None:
        self.refused = True

    def _turn(self, entry: IterationStart) -> None:
        self.refused = False


class NativeFallback(Policy[None]):
    """A policy that refuses written calls, after the first reply with some or at once."""

    def __init__(self, mode: Literal["allow_once", "reject"], words: Words = WORDS) -> None:
        self.mode, self.words = mode, words

    async def after_reply(self, run: Run, turn: Turn) -> KeepGoing | None:
        count = sum(map(is_text_call, turn.calls))
        if not count:
            return None
        so_far = run.facts(Fallbacks)
        if self.mode == "allow_once" and so_far.replies <= 1:
            return None
        if not so_far.refused:
            run.note(NativeToolRejected(count))
        if "native_tool_fallback" not in tally(run).heard:
            run.say(await text_of(self.words), "native_tool_fallback")
        return KeepGoing(REJECTED)

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        """Report refused calls as the reason where no turn was left to do better."""
        if (outcome.status, outcome.stop_reason) != ("budget_exhausted", "max_iterations"):
            return outcome
        if not run.facts(Fallbacks).refused:
            return outcome
        return msgspec.structs.replace(outcome, status="failed", stop_reason=REJECTED)
