"""Sweeps of a fleet whose engine has a queue of its own: triggers, and wishes that nobody carries.

A wake-up may be lost, and a worker may die. So one worker of the fleet, whichever comes first, looks
at the store now and then: it fires what is due, and wakes sessions that want to run and have no job.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from windlass import seams
from windlass.errors import error_text
from windlass.fleet.workers import TABLE as WORKERS
from windlass.store.base import Store
from windlass.store.transaction import on_snapshot
from windlass.store.wishes import TABLE as WISHES
from windlass.store.wishes import Transaction, next_due

TABLE: Final = "windlass_sweeps"
NAME: Final = "fleet"
SWEEP_SECONDS: Final = 2.0  # the longest time between two sweeps of a fleet
_OWN: Final = "/* windlass */"
#: Wishes that are due and that no living worker drives: the rest of a statement on `w`.
FORGOTTEN: Final = (
    f"FROM {WISHES} w WHERE w.due <= ? AND (w.since IS NULL OR NOT EXISTS (SELECT 1 FROM {WORKERS} a"
    " WHERE a.id = w.worker AND a.seen_at + a.lease >= ?))"
)

log = logging.getLogger("windlass.fleet")


class Sweeper:
    """The sweeps of one worker: of all workers of a store, one at a time has its turn."""

    def __init__(
        self, store: Store, sweep: Callable[[], Awaitable[float | None]], seconds: float
    ) -> None:
        self._store, self._sweep, self._seconds = store, sweep, seconds

    async def run(self) -> None:
        """Sweep until cancelled. An error is logged, and the next sweep tries again."""
        while True:
            try:
                pause = await self._take_turn()
            except Exception as error:
                log.warning("the fleet cannot sweep now: %s", error_text(error))
                pause = self._seconds
            # Not all workers at once: the first that comes sweeps for all of them.
            await seams.sleep(pause * random.uniform(1.0, 1.2))

    async def _take_turn(self) -> float:
        """Sweep if it is time and nobody else does; return the seconds until the next look."""
        began = seams.monotonic()
        left = await self._store.commit(on_snapshot(lambda tx: claim_sweep(tx, self._seconds)))
        if seams.monotonic() - began > self._seconds:
            # The store was away, and the leases of all workers are over: those that live say so first.
            return self._seconds
        if left is not None:
            return max(0.01, min(self._seconds, left))
        again = await self._sweep()
        coming, now = await self._store.consult(
            lambda tx: (next_due(tx, tx.read_clock()), tx.read_clock())
        )
        until = now + self._seconds
        until = min([until, *(when for when in (again, coming) if when is not None)])
        if until < now + self._seconds:
            await self._store.commit(on_snapshot(lambda tx: plan_sweep(tx, until)))
        return max(0.01, until - now)


def claim_sweep(tx: Transaction, seconds: float) -> float | None:
    """Take the turn to sweep; return None if it was taken, or else the seconds until the next one."""
    now = tx.read_clock()
    row = tx.keep(f"SELECT due FROM {TABLE} WHERE name = ? {_OWN}", (NAME,)).fetchone()
    due = None if row is None else row[0]
    if (
        isinstance(due, float) and now < due <= now + seconds
    ):  # a clock that was wrong is not waited for
        return due - now
    tx.keep(
        f"INSERT INTO {TABLE} (name, due) VALUES (?, ?)"
        f" ON CONFLICT (name) DO UPDATE SET due = excluded.due {_OWN}",
        (NAME, now + seconds),
    )
    return None


def plan_sweep(tx: Transaction, due: float) -> None:
    """Let the next sweep come at a time before its turn."""
    tx.keep(f"UPDATE {TABLE} SET due = ? WHERE name = ? AND due > ? {_OWN}", (due, NAME, due))
