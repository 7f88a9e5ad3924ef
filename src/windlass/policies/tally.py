"""What a run's turns have come to, read from its journal: tools that worked, gates, warnings.

Not a policy: policies read here what happened in a turn, and so learn of each other without knowing
each other. Nothing is kept but a place in the journal, so it is the same after a crash.
"""

from __future__ import annotations

from collections import Counter
from weakref import WeakKeyDictionary

from windlass.events import (
    FeedbackInjected,
    FinishProposed,
    IterationEnd,
    IterationStart,
    JournalEntry,
    JudgeDecision,
    NativeToolFallback,
    Replied,
    StallWarning,
    StepJudgeDecision,
    ToolResulted,
)
from windlass.loop.run import Run


class Tally:
    """Of the run: `successful` and `rejected` tools. All else is of its last turn."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.successful: dict[str, None] = {}
        self.rejected: dict[str, None] = {}
        self.told: Counter[str] = Counter()  # feedback so far, by its kind
        self._turn()

    def _turn(self) -> None:
        self.worked: list[str] = []
        self.failed: list[str] = []
        self.news = False  # a tool worked that had never worked before
        self.proposed: str | None = None
        self.decisions: dict[str, JudgeDecision] = {}
        self.feedback: str | None = None
        self.warnings: list[StallWarning] = []
        self.step: StepJudgeDecision | None = None
        self.fallback = False
        self.asides: list[Replied] = []  # replies to policies that asked
        self.dropped = False
        self.ended = False

    @property
    def verdict(self) -> JudgeDecision | None:
        """The last that a gate said of this turn."""
        return next(reversed(self.decisions.values()), None)

    @property
    def vetoed(self) -> bool:
        """A gate refused the end."""
        said = self.decisions.values()
        return any(each.verdict == "continue" and each.trigger is None for each in said)

    def read(self, entry: JournalEntry) -> None:
        """Take one entry into account."""
        match entry:
            case IterationStart():
                self._turn()
            case ToolResulted():
                self._result(entry)
            case Replied() if entry.purpose is not None:
                self.asides.append(entry)
            case FinishProposed():
                self.proposed = entry.reason
            case JudgeDecision():
                key = entry.gate if entry.trigger is None else f"{entry.gate}:{entry.trigger}"
                self.decisions[key] = entry
            case FeedbackInjected():
                self.feedback = entry.text
                self.told[entry.feedback] += 1
            case StepJudgeDecision():
                self.step = entry
            case StallWarning():
                self.warnings.append(entry)
            case NativeToolFallback():
                self.fallback = True
            case IterationEnd():
                self.ended, self.dropped = True, entry.verdict == "dropped"
            case _:
                pass

    def _result(self, entry: ToolResulted) -> None:
        if entry.outcome == "ok" and not entry.result.is_error:
            self.news = self.news or entry.tool not in self.successful
            self.successful[entry.tool] = None
            self.worked.append(entry.tool)
        else:
            self.rejected[entry.tool] = None
            self.failed.append(entry.tool)


_tallies: WeakKeyDictionary[Run, Tally] = WeakKeyDictionary()


def tally(run: Run) -> Tally:
    """How the run stands; only what was journaled since the last look is read."""
    found = _tallies.get(run)
    if found is None:
        found = _tallies[run] = Tally(run.first_entry)
    entries = run.journal.entries
    if found.place < len(entries):
        for index in range(found.place, len(entries)):
            found.read(entries[index])
        found.place = len(entries)
    return found


def missing(required: tuple[tuple[str, ...], ...], run: Run) -> list[str]:
    """The required tools that have not worked yet; of a group any one is enough."""
    worked = tally(run).successful
    return [" or ".join(group) for group in required if not any(name in worked for name in group)]
