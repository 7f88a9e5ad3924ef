"""Before a run counts as done: your function or your checks, a judge of completion, the done judge.

One policy and one order. The first veto ends the asking, is told to the model, and the run goes on;
caps end it. What a gate said is on record, and after a crash nobody is asked the same again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from windlass import seams
from windlass.events import CheckRan, JudgeDecision
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Outcome, Stop
from windlass.models.base import Model
from windlass.policies.evidence import FALLBACK, Check, Proposal, evidence, problem_of
from windlass.policies.judge import consult, words
from windlass.policies.state import Groups, LoopState, limit_of, state_of
from windlass.policies.tally import tally

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
SYSTEM = (
    "You decide whether the assistant has done what the user asked for. Trust what tools returned, "
    "not what the assistant claims. Say done only if nothing that was asked for is missing; "
    "otherwise say continue and name the one next step."
)


class Cadence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the done judge is due: every `every`-th turn after the first few, always or on a stall."""

    every: int = 1
    when: Literal["always", "stalled"] | Callable[[LoopState], Any] = "always"
    max_invocations: int | None = None
    min_iterations_before_first: int = 0


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """A model that judges ends, ready to be asked."""

    model: Model | None = None  # the run's own
    system: str = SYSTEM
    fallback: str = FALLBACK
    cap: int | None = None  # calls after which the run ends
    cadence: Cadence = Cadence()


class Verified(msgspec.Struct, frozen=True):
    """Vetoes so far, calls and vetoes of each judge, and whether the checks have passed."""

    attempts: int = 0
    judged: int = 0
    judge_vetoes: int = 0
    done_judged: int = 0
    done_vetoes: int = 0
    passed: bool = False


class Verification(Policy[Verified]):
    """Ask the gates in their order whenever an end is proposed."""

    memory = Verified

    def __init__(
        self,
        check: Check | None = None,
        checks: tuple[Check, ...] = (),
        judge: Judge | None = None,
        done: Judge | None = None,
        max_attempts: int = 20,
        required: Groups = (),
    ) -> None:
        self.check, self.checks, self.judge, self.done = check, checks, judge, done
        self.max_attempts, self.required = max_attempts, required

    # ----------------------------------------------------------------- moments

    async def after_reply(self, run: Run, turn: Turn) -> Stop | None:
        """A stall may call the done judge before the repeated call runs."""
        done = self.done
        if done is None or done.cadence.when != "stalled" or not tally(run).warnings:
            return None
        if (known := tally(run).decisions.get("done_judge:stalled")) is None:
            if not await self._due(run, done.cadence, stalled=True):
                return None
            known = await self._asked(run, done, "done_judge", "stalled")
        return Stop("done", "stalled_done_judge") if known.verdict == "done" else None

    async def before_finish(self, run: Run, turn: Turn, finish: Finish) -> KeepGoing | Stop | None:
        if run.recall(self).attempts >= self.max_attempts:
            return Stop("verify_exhausted", finish.reason)
        if self.check is not None or self.checks:
            if (await self._checked(run, turn, finish)).verdict != "done":
                return self._veto(run, "verify_completion", FALLBACK)
        if self.judge is not None:
            verdict = await self._judged(run, self.judge)
            if verdict is not None:
                return verdict
        if self.done is not None:
            return await self._done(run, turn, finish, self.done)
        return None

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        memory: Verified = run.recall(self)
        fields = dict(outcome.fields)
        if self.judge is not None:
            fields["completion_judge"] = _summary(
                memory.judged, memory.judge_vetoes, self.judge.cap, outcome, "completion_judge"
            )
        if self.done is not None:
            fields["done_judge"] = _summary(
                memory.done_judged, memory.done_vetoes, self.done.cap, outcome, "done_judge"
            )
        status = outcome.status
        if self.checks:
            entries = run.journal.entries[run.first_entry :]
            ran = [entry for entry in entries if type(entry) is CheckRan]
            fields["checks"] = [msgspec.to_builtins(entry) for entry in ran]
            if status == "done" and not memory.passed:
                status = "unverified"
        return msgspec.structs.replace(outcome, status=status, fields=fields)

    # ----------------------------------------------------------------- gates

    async def _checked(self, run: Run, turn: Turn, finish: Finish) -> JudgeDecision:
        """Your function's word, or what the checks found."""
        known = tally(run).decisions.get("verify_completion")
        if known is not None:
            return known
        counted = tally(run)
        proposal = Proposal(
            run.session_id, run.iteration, finish.reason, turn.text, tuple(run.messages),
            list(counted.successful), list(counted.rejected),
        )  # fmt: skip
        started = seams.monotonic()
        problem = None if self.check is None else await problem_of(self.check, proposal)
        if self.checks and problem is None:
            problem = await evidence(run, self.checks, proposal)
            memory: Verified = run.recall(self)
            run.remember(self, msgspec.structs.replace(memory, passed=problem is None))
        took = (seams.monotonic() - started) * 1000
        decision = JudgeDecision(
            run.session_id, run.iteration, "verify_completion",
            "done" if problem is None else "continue", problem, None, took,
        )  # fmt: skip
        run.note(decision)
        return decision

    async def _judged(self, run: Run, judge: Judge) -> KeepGoing | Stop | None:
        decision = tally(run).decisions.get("verify_completion_judge")
        if decision is None:
            if judge.cap is not None and run.recall(self).judged >= judge.cap:
                return Stop("verify_capped", "completion_judge_cap_reached")
            decision = await self._asked(run, judge, "verify_completion_judge")
        if decision.verdict == "done":
            return None
        return self._veto(run, "verify_completion_judge", judge.fallback)

    async def _done(
        self, run: Run, turn: Turn, finish: Finish, done: Judge
    ) -> KeepGoing | Stop | None:
        natural = finish.reason == "natural" and not turn.calls
        if not natural and finish.reason != "sentinel":
            return None
        decision = tally(run).decisions.get("done_judge")
        if decision is None:
            if not await self._due(run, done.cadence):
                gated = self.check is not None or self.checks or self.judge is not None
                return None if gated else KeepGoing("done judge not due")
            if done.cap is not None and run.recall(self).done_judged >= done.cap:
                return Stop("verify_capped", "done_judge_cap_reached")
            decision = await self._asked(run, done, "done_judge")
        return None if decision.verdict == "done" else self._veto(run, "done_judge", done.fallback)

    async def _due(self, run: Run, cadence: Cadence, *, stalled: bool = False) -> bool:
        asked = run.recall(self).done_judged
        if cadence.max_invocations is not None and asked >= cadence.max_invocations:
            return False
        turn = run.iteration
        if turn <= cadence.min_iterations_before_first or turn % cadence.every:
            return False
        if not callable(cadence.when):
            return cadence.when == ("stalled" if stalled else "always")
        answer = cadence.when(state_of(run, limit_of(run), self.required))
        return bool(await answer if inspect.isawaitable(answer) else answer)

    async def _asked(
        self, run: Run, judge: Judge, gate: str, trigger: str | None = None
    ) -> JudgeDecision:
        answer, took = await consult(run, judge.system, VERDICT, gate, judge.model)
        verdict = "done" if answer.get("verdict") == "done" else "continue"
        decision = JudgeDecision(
            run.session_id, run.iteration, gate, verdict,
            words(answer, "reasoning"), words(answer, "next_step"), took, trigger,
        )  # fmt: skip
        run.note(decision)
        memory: Verified = run.recall(self)
        veto = int(verdict == "continue")
        if gate == "done_judge":
            memory = msgspec.structs.replace(
                memory,
                done_judged=memory.done_judged + 1,
                done_vetoes=memory.done_vetoes + veto,
            )
        else:
            memory = msgspec.structs.replace(
                memory, judged=memory.judged + 1, judge_vetoes=memory.judge_vetoes + veto
            )
        run.remember(self, memory)
        return decision

    def _veto(self, run: Run, gate: str, fallback: str) -> KeepGoing:
        """The end is refused: the model hears why."""
        decision = tally(run).decisions[gate]
        run.say(decision.next_step or decision.reasoning or fallback, gate)
        memory: Verified = run.recall(self)
        run.remember(self, msgspec.structs.replace(memory, attempts=memory.attempts + 1))
        return KeepGoing(gate)


def _summary(
    calls: int, vetoes: int, cap: int | None, outcome: Outcome, judge: str
) -> dict[str, Any]:
    reached = outcome.stop_reason == f"{judge}_cap_reached"
    return {
        "invocations": calls,
        "vetoes": vetoes,
        "max_invocations": cap,
        "cap_reached": reached,
    }
