"""A final answer: when a limit ends a run that still calls tools, ask once more."""

from __future__ import annotations

from typing import Annotated

import msgspec

from windlass.errors import BudgetExceeded, ModelError
from windlass.loop.model_call import RunCall, call_model
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Outcome
from windlass.models.base import Frame, Request
from windlass.options.checks import boolean
from windlass.options.group import Option, OptionGroup
from windlass.options.prompts import Words, text_of, words_of
from windlass.policies.build import BuildContext, Policies
from windlass.policies.resumption import NAME as AWAIT_RESUMPTION

WORDS = (
    "You have reached the limit of this run and can call no more tools. Give your best final answer "
    "now from what you have found; say what is missing."
)


class ClosingAnswerOptions(OptionGroup, frozen=True, kw_only=True):
    """A closing answer when a limit ends the run."""

    closing_answer: Annotated[bool, Option(boolean)] = False
    """Whether the model is called once more for an answer, without tools."""


def build(ctx: BuildContext) -> Policies:
    """Build the policy that asks once more."""
    if not ClosingAnswerOptions.read(ctx.values).closing_answer:
        return ()
    return (ClosingAnswer(words_of(ctx.prompts, "agent.closing_answer", WORDS)),)


class ClosingAnswer(Policy[None]):
    """A policy that makes one last call without tools, from a twentieth of the budget."""

    share = 0.05

    def __init__(self, words: Words = WORDS) -> None:
        self.words = words

    async def start(self, run: Run) -> None:
        run.ledger.kept_back = self.share

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        turn = run.turn
        if outcome.status not in ("budget_exhausted", "stuck") or turn is None or not turn.calls:
            return outcome
        if outcome.stop_reason == "seconds":
            return outcome  # an answer takes time, and there is none left
        run.say(await text_of(self.words), "closing_answer")
        frame = run.frame
        # a tool without a handler is how a typed answer is given
        answers = tuple(
            [s for s in frame.tools if s.name not in run.tools and s.name != AWAIT_RESUMPTION]
        )
        choice = frame.settings.tool_choice if answers else None
        settings = msgspec.structs.replace(frame.settings, tool_choice=choice)
        request = Request(run.messages, Frame(frame.system, answers, settings))
        for shape in run.plan.moments.before_model:
            if shape.__self__.lasts:  # policies that hide something from the model hide it here too
                request = await shape(run, request) or request
        try:
            call = RunCall.of(run, request, closing=True)
            response = await call_model(call, run.model, request, "closing_answer")
        except (ModelError, BudgetExceeded):
            return outcome
        run.hear(response.message)
        return outcome
