"""Judges of finished work: who they are, when they are due, and their decisions.

Not a policy: `completion.py` asks them, in their order.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.events import CheckRan, JudgeDecision
from windlass.loop.facts import Facts, Take
from windlass.loop.run import Run
from windlass.models.base import Model
from windlass.options.prompts import Words
from windlass.policies.facts import Groups
from windlass.policies.judges.judge import consult, words
from windlass.policies.judges.options import FALLBACK, SYSTEM, Cadence
from windlass.policies.loop_state import limit_of, state_of

VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["done", "continue"]},
        "reasoning": {"type": "string", "description": "Why, in a sentence or two."},
        "next_step": {
            "type": "string",
            "description": "What is to be done next, if it is not done.",
        },
    },
    "required": ["verdict", "reasoning", "next_step"],
    "additionalProperties": False,
}


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """A configured model that judges ends."""

    gate: str  # verify_completion_judge, or done_judge
    model: Model | None = None  # the run's own
    system: Words = SYSTEM
    fallback: str = FALLBACK
    cap: int | None = None  # calls after which the run ends
    cadence: Cadence = Cadence()

    async def ask(self, run: Run, trigger: str | None = None) -> JudgeDecision:
        """Ask the judge, and record its decision."""
        answer, took = await consult(run, self.system, VERDICT, self.gate, self.model)
        verdict = "done" if said_done(answer.get("verdict")) else "continue"
        decision = JudgeDecision(
            run.session_id,
            run.iteration,
            self.gate,
            verdict,
            words(answer, "reasoning"),
            words(answer, "next_step"),
            took,
            trigger,
        )
        run.note(decision)
        return decision

    def capped(self, run: Run) -> bool:
        """Check whether the judge was asked as often as it may be."""
        return self.cap is not None and gates(run).asked[self.gate] >= self.cap

    async def due(self, run: Run, required: Groups, *, stalled: bool = False) -> bool:
        """Check whether the judge is due in this turn."""
        cadence, turn = self.cadence, run.iteration
        most = cadence.max_invocations
        if most is not None and gates(run).asked[self.gate] >= most:
            return False
        if turn <= cadence.min_iterations_before_first or turn % cadence.every:
            return False
        if not callable(cadence.when):
            return cadence.when == ("stalled" if stalled else "always")
        answer = cadence.when(state_of(run, limit_of(run), required))
        return bool(await answer if inspect.isawaitable(answer) else answer)

    def summary(self, run: Run, capped: bool) -> dict[str, Any]:
        """Summarise the judge's calls for the result."""
        seen = gates(run)
        return {
            "invocations": seen.asked[self.gate],
            "vetoes": seen.vetoes[self.gate],
            "max_invocations": self.cap,
            "cap_reached": capped,
        }


def said_done(verdict: object) -> bool:
    """Check whether a judge's verdict means done; anything else does not."""
    return isinstance(verdict, str) and verdict.strip().lower() == "done"


class Gates(Facts):
    """The decisions of the gates in the run."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.vetoes: Counter[str] = Counter()
        self.attempts = 0  # proposals that were refused
        self.passed = False  # the last time that the checks ran, all passed
        self.checks: list[CheckRan] = []

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {CheckRan: self.checks.append, JudgeDecision: self._decided}

    def _decided(self, entry: JudgeDecision) -> None:
        self.asked[entry.gate] += 1
        if entry.gate == "verify_completion":
            self.passed = entry.verdict == "done"
        if entry.verdict == "continue":
            self.vetoes[entry.gate] += 1
            self.attempts += entry.trigger is None


def gates(run: Run) -> Gates:
    """Return the decisions of the gates so far."""
    return run.facts(Gates)
