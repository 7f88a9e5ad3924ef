"""A budget of a UTC day, a month, or of all time: what the books of a store say was spent in it.

A call is reserved on the books before it is made, in one transaction with the look at the limit: of
several processes that want the last room one gets it. What a process reserved and did not replace
by the outcome of the call, because it died, stays on the books as spent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar, runtime_checkable

from windlass import seams
from windlass.errors import StoreError
from windlass.store.base import Journal, Store
from windlass.store.model_calls import ModelCall, ReserveAnswer, ReservedCall, SpendingLimit

T = TypeVar("T")
STALE_SECONDS = 1.0  # how often the books are read for what others spent

log = logging.getLogger("windlass")


class Spending(Protocol):
    """The spending so far: a ledger."""

    tokens: int
    usd: float


@runtime_checkable
class ReplacesReserved(Protocol):
    """A journal whose rows can replace what was reserved on the books of its store."""

    def replace_reserved(self, store: object, places: Sequence[ReservedCall]) -> bool:
        """Take calls off the books with the next flush; False if those are of another store."""
        ...


class Period:
    """The time that a budget counts, and the books on which calls are reserved in it."""

    __slots__ = ("_find_store", "_per", "_read_at", "_until", "open", "settled", "since")

    def __init__(self, per: str, find_store: Callable[[], Store]) -> None:
        self._per, self._find_store = per, find_store
        self._read_at: float | None = None
        self.open = 0  # calls of this process that hold something on the books
        self.settled = 0  # that have held something
        self.since, self._until = bounds(per, seams.now())

    def turn_over(self, ledger: Spending) -> None:
        """Begin a new period once the last is over."""
        now = seams.now()
        if now >= self._until:
            self.since, self._until = bounds(self._per, now)
            self._read_at = None
            ledger.tokens, ledger.usd = 0, 0.0

    async def refresh(self, ledger: Spending) -> None:
        """Read the spending in the store, unless that was done a moment ago."""
        self.turn_over(ledger)
        now = seams.monotonic()
        if self._read_at is not None and now - self._read_at < STALE_SECONDS:
            return
        tokens, usd = await self._find_store().spent(self.since)
        self._read_at = now
        # what this process spent last may not be stored yet
        ledger.tokens, ledger.usd = max(ledger.tokens, tokens), max(ledger.usd, usd)

    async def reserve(
        self,
        call: ModelCall,
        allowed: tuple[int | None, float | None],
        replaces: ReservedCall | None,
    ) -> ReserveAnswer:
        """Reserve a call on the books, if that many tokens and dollars leave room for it."""
        store = self._find_store()
        limit = SpendingLimit(since=self.since, tokens=allowed[0], usd=allowed[1])
        storing = asyncio.ensure_future(store.reserve_call(call, limit, replaces))
        try:
            return await asyncio.shield(storing)
        except asyncio.CancelledError:
            answer = await _wait_for(storing)
            if answer.place is not None:  # nobody will replace it
                await _wait_for(asyncio.ensure_future(self.record((), (answer.place,))))
            raise

    async def shrink(self, call: ModelCall, place: ReservedCall) -> ReservedCall | None:
        """Hold no more for a call than what it has cost already; where that is on the books."""
        store = self._find_store()
        if not call.input_tokens and not call.cost_usd:
            await store.record_calls((), (place,))
            return None
        return (await store.reserve_call(call, None, place)).place

    def replace_with_row(self, journal: Journal, places: Sequence[ReservedCall]) -> bool:
        """Take what was reserved off the books with the next row of a journal in the same store.

        So a process that dies leaves the estimate or the outcome, and never both.
        """
        return isinstance(journal, ReplacesReserved) and journal.replace_reserved(
            self._find_store(), places
        )

    async def record(self, calls: Sequence[ModelCall], places: Sequence[ReservedCall]) -> None:
        """Put what came of calls on the books, in place of what was reserved; a failure is logged."""
        try:
            await self._find_store().record_calls(calls, places)
        except StoreError as error:
            log.error("what is held for a model call stays on the books: %s", error)


async def _wait_for(task: asyncio.Future[T]) -> T:
    """Wait for the end of what has begun, however often somebody cancels meanwhile."""
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
    return task.result()


def bounds(per: str, now: float) -> tuple[float, float]:
    """Return when the period of this time began, and when it ends."""
    if per == "ever":
        return 0.0, float("inf")
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "day":
        return day.timestamp(), (day + timedelta(days=1)).timestamp()
    first = day.replace(day=1)
    return first.timestamp(), (first + timedelta(days=31)).replace(day=1).timestamp()
