"""Time limits of tool calls."""

from __future__ import annotations

import asyncio
from typing import Any


class Deadline:
    """Cancels a task that is not done in time; `missed` says that it did."""

    __slots__ = ("_timer", "missed", "seconds", "task")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], seconds: float
    ) -> None:
        self.task, self.seconds, self.missed = task, seconds, False
        self._timer: asyncio.TimerHandle | None = loop.call_later(seconds, self._miss)

    def cancel(self) -> None:
        """End the limit: the call is over, in time or not."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _miss(self) -> None:
        self.missed = True
        self.task.cancel()


class CallTimer(Deadline):
    """The deadlines of a run's own task, one after another, on one timer.

    Most calls are over long before their limit, so the timer is not moved for each: it looks at the
    time when it rings, and rings again later if a newer call is still within its limit.
    """

    __slots__ = ("_loop", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        self.task, self.seconds, self.missed = task, 0.0, False
        self._loop, self._until = loop, 0.0
        self._timer = None

    def begin(self, seconds: float) -> None:
        """Begin the limit of a call that starts."""
        self.seconds, self.missed = seconds, False
        self._until = until = self._loop.time() + seconds
        timer = self._timer
        if timer is None or timer.when() > until:
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(until, self._ring)

    def cancel(self) -> None:
        self._until = 0.0

    def stop(self) -> None:
        """Stop the timer: the run is over."""
        super().cancel()

    def _ring(self) -> None:
        self._timer = None
        if not self._until:
            return
        if self._loop.time() >= self._until:
            self._miss()
        else:
            self._timer = self._loop.call_at(self._until, self._ring)
