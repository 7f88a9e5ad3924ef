"""Facts of a run's turns: tools that worked, decisions of gates, reminders given.

Not a policy: policies read here what happened in a turn, and so learn of each other without knowing
each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from windlass.events import (
    FinishProposed,
    InboxTaken,
    IterationEnd,
    IterationStart,
    JudgeDecision,
    LoopStuck,
    NativeToolFallback,
    NativeToolRejected,
    Replied,
    Said,
    StallWarning,
    StepJudgeDecision,
    ToolResulted,
)
from windlass.loop.facts import Facts, Take
from windlass.loop.run import Run

Groups = tuple[tuple[str, ...], ...]
NOT_RUN = frozenset({"denied", "not_run", "unknown_tool", "invalid"})  # outcomes of calls held back


class Tally(Facts):
    """The first four are of the run, and all else is of its last turn."""

    def __init__(self) -> None:
        self.successful: dict[str, None] = {}
        self.rejected: dict[str, None] = {}
        self.told: Counter[str] = Counter()  # feedback to the model, by kind
        self.talked = 0  # turns in a row without a call
        self._turn()

    def _turn(self, _: IterationStart | None = None) -> None:
        self.worked: list[str] = []
        self.failed: list[str] = []
        self.called = False
        self.ran = 0  # calls that were not held back
        self.proposed: str | None = None
        self.decisions: dict[str, JudgeDecision] = {}
        self.heard: dict[str, str] = {}  # feedback to the model in this turn: kind -> text
        self.warnings: list[StallWarning] = []
        self.step: StepJudgeDecision | None = None
        self.fallback = self.stuck = self._own = False
        self.asides: dict[str, Replied] = {}  # replies to policies that asked, by purpose

    @property
    def verdict(self) -> JudgeDecision | None:
        """The last decision of a gate in this turn."""
        return next(reversed(self.decisions.values())) if self.decisions else None

    @property
    def veto(self) -> JudgeDecision | None:
        """The decision of the gate that refused the end."""
        if not self.decisions:
            return None
        decisions = self.decisions.values()
        return next(
            (it for it in decisions if it.verdict == "continue" and it.trigger is None), None
        )

    @property
    def revised(self) -> bool:
        """Whether the step judge wants another step in place of this one."""
        return self.step is not None and self.step.verdict == "revise"

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {
            IterationStart: self._turn,
            ToolResulted: self._result,
            Replied: self._reply,
            IterationEnd: self._turn_over,
            StepJudgeDecision: self._step_judged,
            Said: self._read_message,
            FinishProposed: self._proposal,
            JudgeDecision: self._read_judgement,
            StallWarning: self._read_warning,
            NativeToolFallback: self._read_fallback,
            NativeToolRejected: self._drift_refused,
            LoopStuck: self._was_stuck,
            InboxTaken: self._mail,
        }

    def _reply(self, entry: Replied) -> None:
        self._own = entry.purpose is None
        if entry.purpose is None:
            self.called = bool(entry.message.tool_calls)
        else:
            self.asides[entry.purpose] = entry

    def _turn_over(self, entry: IterationEnd) -> None:
        if not self.revised:
            self.talked = 0 if self.called else self.talked + 1

    def _step_judged(self, entry: StepJudgeDecision) -> None:
        self.step = entry

    def _read_message(self, entry: Said) -> None:
        if entry.message.kind is not None:
            self.heard[entry.message.kind] = entry.message.text
            self.told[entry.message.kind] += 1

    def _proposal(self, entry: FinishProposed) -> None:
        self.proposed = entry.reason

    def _read_judgement(self, entry: JudgeDecision) -> None:
        key = entry.gate if entry.trigger is None else f"{entry.gate}:{entry.trigger}"
        self.decisions[key] = entry

    def _read_warning(self, entry: StallWarning) -> None:
        self.warnings.append(entry)

    def _read_fallback(self, entry: NativeToolFallback) -> None:
        self.fallback = self._own  # drift of a judge does not count

    def _drift_refused(self, entry: NativeToolRejected) -> None:
        self.fallback = False

    def _was_stuck(self, entry: LoopStuck) -> None:
        self.stuck = True

    def _mail(self, entry: InboxTaken) -> None:
        if entry.item in ("steer", "follow_up", "resume"):
            self.talked = 0  # a person spoke: that is no talking to oneself

    def _result(self, entry: ToolResulted) -> None:
        self.ran += entry.outcome not in NOT_RUN
        if entry.outcome == "ok" and not entry.result.is_error:
            self.successful[entry.tool] = None
            self.worked.append(entry.tool)
        else:
            self.rejected[entry.tool] = None
            self.failed.append(entry.tool)


def tally(run: Run) -> Tally:
    """Return the facts of the run."""
    return run.facts(Tally)


def missing(required: Groups, run: Run) -> list[str]:
    """Return the required tools that have not worked yet; of a group any one is enough."""
    if not required:
        return []
    worked = tally(run).successful
    return [" or ".join(group) for group in required if not any(name in worked for name in group)]
