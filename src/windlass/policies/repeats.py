"""What a run does again and again, read from its journal: calls in a row, calls at all, whole turns.

Not a policy. A call is the same when its name and its arguments are; a result that differs from the
last one means that something moves, so polling is no repetition.
"""

from __future__ import annotations

from hashlib import blake2b
from weakref import WeakKeyDictionary

import msgspec

from windlass.events import (
    IterationEnd,
    JournalEntry,
    LoopDetected,
    Replied,
    StallWarning,
    ToolResulted,
)
from windlass.loop.run import Run, digest_of
from windlass.messages import Message, ToolCall
from windlass.tools.text import to_text

_NOT_RUN = frozenset({"denied", "not_run", "unknown_tool", "invalid"})
_KEPT = 64  # turns whose signatures are kept: no window is longer


def signature(call: ToolCall) -> str:
    """A fingerprint of what is called with what."""
    return digest_of((call.name, call.arguments))


class Repeats:
    """How often each call came in a row and at all, and what the last turns looked like."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.calls: dict[str, str] = {}  # call id -> signature, of the turn under way
        self.names: dict[str, str] = {}
        self.last: str | None = None  # the signature the streak is made of
        self.streak = self.repeated = 0
        self.seen: str | None = None  # what the streak's last call returned
        self.streaks: dict[str, int] = {}  # call id -> its place in the streak, of this turn
        self.counts: dict[str, tuple[int, str]] = {}  # signature -> times with one result, which
        self.count_of: dict[str, int] = {}  # call id -> the same, of this turn
        self.turns: list[str] = []
        self.texts: list[str] = []
        self.warned = self.detected = False  # in this turn
        self.armed = True  # the last warning of a loop was followed by a turn without one
        self._before: tuple[str | None, int, int, str | None] = (None, 0, 0, None)

    def read(self, entry: JournalEntry, exempt: frozenset[str]) -> None:
        """Take one entry into account."""
        match entry:
            case Replied(purpose=None):
                self._reply(entry.message, exempt)
            case ToolResulted():
                self._result(entry)
            case StallWarning():
                self.warned = True
            case LoopDetected():
                self.detected = True
            case IterationEnd():
                if entry.verdict == "dropped":  # as if it had never been said
                    self.last, self.streak, self.repeated, self.seen = self._before
                    del self.turns[-1:], self.texts[-1:]
            case _:
                pass

    def _reply(self, message: Message, exempt: frozenset[str]) -> None:
        if self.turns:
            self.armed = not self.detected
        self.warned = self.detected = False
        self._before = (self.last, self.streak, self.repeated, self.seen)
        self.calls, self.streaks, self.count_of = {}, {}, {}
        for call in message.tool_calls:
            mark = self.calls[call.id] = signature(call)
            if call.name in exempt:
                self.last, self.streak = None, 0
                continue
            if mark == self.last:
                self.streak += 1
                self.repeated += 1
            else:
                self.last, self.streak, self.seen = mark, 1, None
            self.streaks[call.id] = self.streak
        self.turns = [*self.turns[-_KEPT:], ",".join(sorted(self.calls.values()))]
        self.texts = [*self.texts[-_KEPT:], " ".join(message.text.split())]

    def _result(self, entry: ToolResulted) -> None:
        mark = self.calls.get(entry.call_id)
        if mark is None or entry.outcome in _NOT_RUN:
            return
        result = _digest(to_text(msgspec.to_builtins(entry.result.content)))
        times, before = self.counts.get(mark, (0, ""))
        times = times + 1 if result == before else 1
        self.counts[mark] = (times, result)
        self.count_of[entry.call_id] = times
        if mark == self.last:
            if self.seen is not None and self.seen != result:
                self.streak = 1
            self.seen = result


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_found: WeakKeyDictionary[Run, Repeats] = WeakKeyDictionary()


def repeats(run: Run, exempt: frozenset[str] = frozenset()) -> Repeats:
    """What repeats itself in the run; only what is new in the journal is read."""
    found = _found.get(run)
    if found is None:
        found = _found[run] = Repeats(run.first_entry)
    entries = run.journal.entries
    for index in range(found.place, len(entries)):
        found.read(entries[index], exempt)
    found.place = len(entries)
    return found
