"""What the tests of bad input share: a tally of what was met, and a watchdog over time."""

from __future__ import annotations

import signal
import traceback
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any
from urllib.parse import quote

from windlass.errors import WindlassError
from windlass.messages import Message
from windlass.models.history import audit
from windlass.store.base import Store
from windlass.store.view import messages_of

CPU_SECONDS = 10.0  # of this process; it detects a hang and is no stopwatch: a collection of garbage takes a second
WALL_SECONDS = 30.0  # for what waits instead of working


class Tally:
    """Counts inputs by what became of them: `met.valid("done")`, `met.invalid("ConfigError")`."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.counts: Counter[str] = Counter()
        self.right = self.wrong = 0

    def valid(self, what: str) -> None:
        """Count a valid input that got an answer."""
        self.right += 1
        self.counts[what] += 1

    def invalid(self, what: str | BaseException) -> None:
        """Count an invalid input and its answer."""
        self.wrong += 1
        self.counts[what if isinstance(what, str) else type(what).__name__] += 1

    @property
    def total(self) -> int:
        """All inputs so far."""
        return self.right + self.wrong

    def report(self, at_least: int = 1) -> None:
        """Print the share of wrong inputs and the count of each answer; half at least are wrong."""
        share = self.wrong / max(1, self.total)
        met = ", ".join(f"{name} {count}" for name, count in self.counts.most_common())
        print(f"\n{self.title}: {self.total} inputs, {share:.0%} invalid: {met}")
        assert self.total >= at_least, f"{self.title}: only {self.total} inputs"
        assert share >= 0.5, f"{self.title}: only {share:.0%} of the inputs are invalid"
        assert self.right, f"{self.title}: nothing right among them shows that right things pass"


class Hang(BaseException):
    """Something took longer than it may."""


@contextmanager
def watchdog(what: object, cpu: float = CPU_SECONDS, wall: float = WALL_SECONDS) -> Generator[None]:
    """Fail with the place where it hangs, when the block takes too long.

    The limit is on CPU time, so that other work on the machine is not held against it.
    """
    tripped: list[str] = []

    def bark(_number: int, frame: FrameType | None) -> None:
        tripped.append("".join(traceback.format_stack(frame, limit=20)))
        raise Hang

    before = signal.signal(signal.SIGPROF, bark), signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_PROF, cpu)
    signal.setitimer(signal.ITIMER_REAL, wall)
    try:
        yield
    except Hang:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGPROF, before[0])
        signal.signal(signal.SIGALRM, before[1])
        if tripped:
            raise AssertionError(f"{what!r:.300} took too long:\n{tripped[0]}")


def id_of(name: str) -> str:
    """Build a session id for a case of this name."""
    return f"s-{quote(name, safe='', errors='replace')}-"


async def readable(store: Store, session_id: str) -> Sequence[Message]:
    """Check that the session can be read, verifies, and has a result for each call."""
    messages = messages_of(await store.read(session_id))
    await store.verify(session_id)
    await store.info(session_id)
    problems = audit([*messages, Message("user", "?")])
    assert not problems, f"I1: {problems}"
    return messages


def typed(error: BaseException) -> bool:
    """Check whether the error is one of Windlass's."""
    return isinstance(error, WindlassError)


def shown(value: Any) -> str:
    """Format any value for a failure's message, however hostile."""
    try:
        return f"{value!r:.300}"
    except BaseException as error:
        return f"<{type(value).__name__}: {type(error).__name__}>"
