"""A judge of single steps, asked about each reply before its calls run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from windlass.errors import ModelError, error_text
from windlass.events import StepJudgeDecision
from windlass.loop.facts import Facts, Take
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import KeepGoing
from windlass.models.base import Model
from windlass.options.checks import boolean, number, one_of, optional, text
from windlass.options.group import Option, OptionGroup, OptionStruct, struct
from windlass.options.prompts import Words, choose_prompt
from windlass.policies.build import BuildContext, Policies
from windlass.policies.facts import tally
from windlass.policies.judges.judge import consult, words
from windlass.policies.model_check import check_model

VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["pass", "revise"]},
        "reasoning": {"type": "string"},
        "critique": {"type": "string", "description": "What to do differently, to the assistant."},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["verdict", "reasoning", "critique", "confidence"],
    "additionalProperties": False,
}
SYSTEM = (
    "You look at the assistant's last step before any of its tool calls run. Let it pass if it is a "
    "sensible step towards what the user asked for and does no harm; otherwise ask for a revision "
    "and say what to do differently."
)
_PASSES = frozenset({"pass", "passed", "ok", "approve", "approved", "accept", "accepted", "yes"})


class StepJudge(OptionStruct, frozen=True, kw_only=True):
    """A judge of every reply: `StepJudge(on_veto="retain", max_attempts=2)`."""

    provider: Annotated[str | None, Option(optional(text))] = None
    """The provider of its model."""
    model: Annotated[str | Model | None, Option(check_model)] = None
    """Its model; None: the model of the run."""
    system: Annotated[str, Option(text)] = SYSTEM
    """Its system prompt."""
    on_veto: Annotated[Literal["replace", "retain"], Option(one_of("replace", "retain"))] = (
        "replace"
    )
    """Whether a vetoed reply is removed from the view, or stays with its calls not run."""
    max_attempts: Annotated[int, Option(number(1, whole=True))] = 3
    """Vetoes in a row after which the judge is not asked."""
    skip_when_empty: Annotated[bool, Option(boolean)] = True
    """Whether empty replies are not judged."""
    skip_when_stalled: Annotated[bool, Option(boolean)] = True
    """Whether replies are not judged after a stall was seen."""
    skip_when_iterations_remaining: Annotated[int, Option(number(0, whole=True))] = 1
    """Turns left, with the current one, at which replies are not judged."""


class StepJudgeOptions(OptionGroup, frozen=True, kw_only=True):
    """A judge of single steps."""

    step_judge: Annotated[
        StepJudge | None,
        Option(struct(StepJudge), accepts="bool | dict[str, Any] | StepJudge | None"),
    ] = None
    """A model that is asked about each reply before its calls run."""


def build(ctx: BuildContext) -> Policies:
    """Build the policy of the judge."""
    step = StepJudgeOptions.read(ctx.values).step_judge
    if step is None:
        return ()
    other = step.provider is not None or step.model is not None
    model = ctx.resolve_model(step.provider, step.model) if other else None
    prompt = "agent.step_judge_system"
    system = choose_prompt(ctx.prompts, prompt, step.system, "step_judge.system", SYSTEM)
    return (StepJudging(step, model, system),)


class Vetoes(Facts):
    """Vetoes in a row; only a pass ends the row."""

    count = 0

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {StepJudgeDecision: self._read_decision}

    def _read_decision(self, entry: StepJudgeDecision) -> None:
        if entry.verdict is not None:
            self.count = self.count + 1 if entry.verdict == "revise" else 0


class StepJudging(Policy[None]):
    """A policy that asks about every reply; a vetoed one is dropped, or its calls not run."""

    def __init__(
        self, judge: StepJudge, model: Model | None = None, system: Words | None = None
    ) -> None:
        self.judge, self.model, self.system = judge, model, system or judge.system
        self.models = () if model is None else (model,)

    async def after_reply(self, run: Run, turn: Turn) -> KeepGoing | None:
        decision = tally(run).step  # on record, if the process ended right after it
        if decision is None:
            if (reason := self._skip(run, turn)) is not None:
                skipped = StepJudgeDecision(
                    run.session_id, run.iteration, skipped=True, reason=reason
                )
                run.record(skipped)
                return None
            decision = await self._decision(run)
            run.note(decision)
        if decision.verdict != "revise":
            return None
        if "step_judge" not in tally(run).heard:
            run.say(decision.critique or decision.reasoning or "Try another step.", "step_judge")
        return KeepGoing("step_judge", drop=self.judge.on_veto == "replace")

    async def _decision(self, run: Run) -> StepJudgeDecision:
        session, number = run.session_id, run.iteration
        try:
            answer, took = await consult(run, self.system, VERDICT, "step_judge", self.model)
        except ModelError as error:  # an advisory judge must not end the run
            return StepJudgeDecision(session, number, error=error_text(error))
        passed = str(answer.get("verdict", "")).strip().lower() in _PASSES
        return StepJudgeDecision(
            session,
            number,
            "pass" if passed else "revise",
            words(answer, "reasoning"),
            words(answer, "critique"),
            _number(answer.get("confidence")),
            judge_duration_ms=took,
        )

    def _skip(self, run: Run, turn: Turn) -> str | None:
        judge = self.judge
        if run.facts(Vetoes).count >= judge.max_attempts:
            return "max_attempts_reached"
        limit = run.ledger.limits.iterations
        if limit is not None:
            # the turn under way counts as remaining: with one left, no other could replace it
            if limit - (run.ledger.iterations - 1) <= judge.skip_when_iterations_remaining:
                return "low_iteration_budget"
        if judge.skip_when_empty and not turn.calls and not turn.text.strip():
            return "empty_response"
        if judge.skip_when_stalled and tally(run).warnings:
            return "stall_already_detected"
        return None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if -1e9 < value < 1e9 else None
