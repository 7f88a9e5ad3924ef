"""What a fleet is doing: its workers, its queues, and what is stuck and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.fleet.workers import WorkerRow, list_workers
from windlass.store.base import Store
from windlass.store.wishes import TABLE, Transaction

_OWN: Final = "/* windlass */"
LATE_SECONDS: Final = 60.0  # after which a session that nobody drives is called stuck
MOST_STUCK: Final = 100


class QueueState(msgspec.Struct, frozen=True):
    """A queue: how many sessions wait in it, run, and are due later, and since when one waits."""

    queue: str
    waiting: int
    running: int
    later: int
    oldest: float | None


class StuckSession(msgspec.Struct, frozen=True):
    """A session that wants to run and does not, and why."""

    session: str
    agent: str
    queue: str
    due: float
    tries: int
    why: str


class FleetState(msgspec.Struct, frozen=True):
    """The state of a fleet at one moment."""

    workers: list[WorkerRow]
    queues: list[QueueState]
    stuck: list[StuckSession]


async def read_fleet(store: Store) -> FleetState:
    """Read the state of the fleet of a store."""
    return await store.consult(_read)


def _read(tx: Transaction) -> FleetState:
    now = tx.read_clock()
    workers = list_workers(tx)
    alive = [worker for worker in workers if worker.is_alive(now)]
    rows = tx.keep(
        "SELECT queue, sum(CASE WHEN due <= ? AND since IS NULL THEN 1 ELSE 0 END),"
        " sum(CASE WHEN since IS NOT NULL THEN 1 ELSE 0 END),"
        " sum(CASE WHEN due > ? AND since IS NULL THEN 1 ELSE 0 END),"
        " min(CASE WHEN due <= ? AND since IS NULL THEN due END)"
        f" FROM {TABLE} WHERE due IS NOT NULL GROUP BY queue ORDER BY queue {_OWN}",
        (now, now, now),
    )
    queues = [
        msgspec.convert(dict(zip(QueueState.__struct_fields__, row, strict=True)), QueueState)
        for row in rows.fetchall()
    ]
    return FleetState(workers, queues, _find_stuck(tx, alive, now))


def _find_stuck(tx: Transaction, alive: Sequence[WorkerRow], now: float) -> list[StuckSession]:
    served = {queue for worker in alive for queue in worker.queues}
    names = {worker.id for worker in alive}
    rows = tx.keep(
        f"SELECT session, agent, queue, due, tries, error, worker, since FROM {TABLE}"
        " WHERE due IS NOT NULL AND (error IS NOT NULL OR due < ? OR since < ?)"
        f" ORDER BY due LIMIT {MOST_STUCK} {_OWN}",
        (now, now),
    )
    found: list[StuckSession] = []
    for session, agent, queue, due, tries, error, worker, since in rows.fetchall():
        late = isinstance(due, float) and now - due > LATE_SECONDS
        if isinstance(error, str):
            why = f"try {tries} failed: {error}" if tries else error
        elif since is not None and worker not in names:
            why = f"its worker {worker} is gone"
        elif since is None and queue not in served:
            why = f"no worker serves {queue}"
        elif since is None and late:
            why = "all slots are taken, or a limit holds it back"
        else:
            continue
        row = {"session": session, "agent": agent, "queue": queue, "due": due, "tries": tries}
        found.append(msgspec.convert({**row, "why": why}, StuckSession))
    return found
