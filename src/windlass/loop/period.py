"""A budget of a UTC day, a month, or of all time: what the books of a store say was spent in it.

The store is asked before a call, at most once in `STALE_SECONDS`; in between a process knows only
what it spent itself. What others have in flight is not on the books yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from windlass import seams

STALE_SECONDS = 1.0


class Spending(Protocol):
    """What was spent so far: a ledger."""

    tokens: int
    usd: float


class Period:
    """The time that a budget counts, and how to read what was spent in it."""

    __slots__ = ("_per", "_read", "_read_at", "_until", "since")

    def __init__(self, per: str, read: Callable[[float], Awaitable[tuple[int, float]]]) -> None:
        self._per, self._read = per, read
        self._read_at: float | None = None
        self.since, self._until = bounds(per, seams.now())

    def turn_over(self, ledger: Spending) -> None:
        """Begin anew once the period is over."""
        now = seams.now()
        if now >= self._until:
            self.since, self._until = bounds(self._per, now)
            self._read_at = None
            ledger.tokens, ledger.usd = 0, 0.0

    async def refresh(self, ledger: Spending) -> None:
        """Enter what the store has on its books, unless that was done a moment ago."""
        self.turn_over(ledger)
        now = seams.monotonic()
        if self._read_at is not None and now - self._read_at < STALE_SECONDS:
            return
        tokens, usd = await self._read(self.since)
        self._read_at = now
        # what this process spent last may not be stored yet
        ledger.tokens, ledger.usd = max(ledger.tokens, tokens), max(ledger.usd, usd)


def bounds(per: str, now: float) -> tuple[float, float]:
    """When the period began that this time is in, and when it ends."""
    if per == "ever":
        return 0.0, float("inf")
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "day":
        return day.timestamp(), (day + timedelta(days=1)).timestamp()
    first = day.replace(day=1)
    return first.timestamp(), (first + timedelta(days=31)).replace(day=1).timestamp()
