"""Repetition in a run: calls in a row, calls in total, whole turns.

Not a policy. A call is the same when its name and its arguments are; a result that differs from the
last one means that something moves, so polling is no repetition.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from windlass.events import (
    IterationEnd,
    IterationStart,
    LoopDetected,
    Replied,
    ToolResulted,
)
from windlass.loop.facts import Facts, Take
from windlass.loop.plan import digest_of
from windlass.loop.run import Run
from windlass.messages import ToolCall
from windlass.policies.facts import NOT_RUN
from windlass.tools.render import to_text


def signature(call: ToolCall) -> str:
    """Compute a digest of the call's name and arguments."""
    return digest_of((call.name, call.arguments))


class Row(msgspec.Struct, frozen=True, gc=False):
    """The number of equal marks in a row, with empty ones left out."""

    mark: str = ""
    times: int = 0

    def then(self, mark: str) -> Row:
        """Return the row after one more mark."""
        return self if not mark else Row(mark, self.times + 1 if mark == self.mark else 1)


class Streak(msgspec.Struct, frozen=True, gc=False):
    """The same call in a row."""

    mark: str | None = None
    times: int = 0
    seen: str | None = None  # what its last call returned
    repeated: int = 0  # repeats in all streaks so far


class Repeats(Facts):
    """Counts of each call in a row and in total, and marks of the last turns."""

    def __init__(self, exempt: frozenset[str]) -> None:
        self.exempt = exempt
        self.calls: dict[str, str] = {}  # call id -> signature, of the turn under way
        self.streak: Streak = Streak()
        self.streaks: dict[str, int] = {}  # call id -> its place in the streak, of this turn
        self.counts: dict[str, tuple[int, str]] = {}  # signature -> times with one result, which
        self.most = 0  # no call has come more often than this with one result
        self.count_of: dict[str, int] = {}  # call id -> the same, of this turn
        self.turns: Row = Row()
        self.texts: Row = Row()
        self.detected: LoopDetected | None = None  # in this turn
        self.armed = True  # the last warning of a loop was followed by a turn without one
        self._before: tuple[Streak, Row, Row, LoopDetected | None] = (
            self.streak,
            self.turns,
            self.texts,
            None,
        )

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {
            IterationStart: self._turn,
            Replied: self._reply,
            ToolResulted: self._result,
            LoopDetected: self._read_loop,
            IterationEnd: self._turn_over,
        }

    def _turn(self, entry: IterationStart) -> None:
        self._before = (self.streak, self.turns, self.texts, self.detected)
        self.armed = self.detected is None
        self.detected = None
        self.calls, self.streaks, self.count_of = {}, {}, {}

    def _read_loop(self, entry: LoopDetected) -> None:
        self.detected = entry

    def _turn_over(self, entry: IterationEnd) -> None:
        if entry.verdict == "dropped":  # dropped, so not counted
            self.streak, self.turns, self.texts, self.detected = self._before

    def _reply(self, entry: Replied) -> None:
        if entry.purpose is not None:
            return
        message = entry.message
        for call in message.tool_calls:
            mark = self.calls[call.id] = signature(call)
            streak = self.streak
            if call.name in self.exempt:
                self.streak = Streak(repeated=streak.repeated)
                continue
            if mark == streak.mark:
                streak = Streak(mark, streak.times + 1, streak.seen, streak.repeated + 1)
            else:
                streak = Streak(mark, 1, None, streak.repeated)
            self.streak = streak
            self.streaks[call.id] = streak.times
        marks = self.calls.values()
        self.turns = self.turns.then(",".join(sorted(marks) if len(marks) > 1 else marks))
        if text := message.text:
            self.texts = self.texts.then(" ".join(text.split()))

    def _result(self, entry: ToolResulted) -> None:
        mark = self.calls.get(entry.call_id)
        if mark is None or entry.outcome in NOT_RUN:
            return
        content = entry.result.content
        result = _digest(
            content if isinstance(content, str) else to_text(msgspec.to_builtins(content))
        )
        times, before = self.counts.get(mark, (0, ""))
        times = times + 1 if result == before else 1
        self.counts[mark] = (times, result)
        self.most = max(self.most, times)
        self.count_of[entry.call_id] = times
        streak = self.streak
        if mark == streak.mark:
            moved = streak.seen is not None and streak.seen != result
            self.streak = msgspec.structs.replace(
                streak, times=1 if moved else streak.times, seen=result
            )


def _digest(text: str) -> str:
    if len(text) <= 32:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def repeats(run: Run, exempt: frozenset[str] = frozenset()) -> Repeats:
    """Return the repetitions in the run."""
    return run.facts(Repeats, exempt)
