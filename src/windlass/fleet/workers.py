"""Workers on record: who serves which queues, and when it was last heard of."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Final

import msgspec

from windlass import seams
from windlass.errors import SessionWriter
from windlass.store.base import Store
from windlass.store.wishes import Transaction

TABLE: Final = "windlass_workers"
LEASE_SECONDS: Final = 30.0  # after which a worker that was not heard of is taken for lost
BEAT_SECONDS: Final = 10.0
FORGET_SECONDS: Final = 86_400.0
_OWN: Final = "/* windlass */"


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the store knows it."""

    id: str
    engine: str
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    started_at: float
    seen_at: float
    state: str  # standby, serving, draining

    def is_alive(self, now: float) -> bool:
        """Check whether it was heard of within its lease."""
        return now - self.seen_at <= LEASE_SECONDS


def new_worker(engine: str, queues: Sequence[str], slots: int) -> WorkerRow:
    """Describe a worker of this process."""
    host, pid, now = socket.gethostname(), os.getpid(), seams.now()
    return WorkerRow(
        id=f"{host}/{pid}/{seams.new_id('worker')}",
        engine=engine,
        host=host,
        pid=pid,
        queues=tuple(queues),
        slots=slots,
        started_at=now,
        seen_at=now,
        state="serving",
    )


def beat(tx: Transaction, worker: WorkerRow) -> None:
    """Put on record that a worker is there; forget those that were lost long ago."""
    tx.keep(
        f"INSERT INTO {TABLE} (id, engine, host, pid, queues, slots, started_at, seen_at, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " queues = excluded.queues, seen_at = excluded.seen_at, state = excluded.state"
        f" {_OWN}",
        (worker.id, worker.engine, worker.host, worker.pid)
        + (msgspec.json.encode(worker.queues).decode(), worker.slots)
        + (worker.started_at, seams.now(), worker.state),
    )
    tx.keep(f"DELETE FROM {TABLE} WHERE seen_at < ? {_OWN}", (seams.now() - FORGET_SECONDS,))


def remove_worker(tx: Transaction, worker_id: str) -> None:
    """Remove a worker that has ended."""
    tx.keep(f"DELETE FROM {TABLE} WHERE id = ? {_OWN}", (worker_id,))


def list_workers(tx: Transaction) -> list[WorkerRow]:
    """List the workers on record, the oldest first."""
    names = WorkerRow.__struct_fields__
    rows = tx.keep(f"SELECT {', '.join(names)} FROM {TABLE} ORDER BY started_at, id {_OWN}")
    found: list[WorkerRow] = []
    for row in rows.fetchall():
        values = dict(zip(names, row, strict=True))
        values["queues"] = msgspec.json.decode(str(values["queues"]))
        found.append(msgspec.convert(values, WorkerRow))
    return found


async def is_lost(
    store: Store, driven_by: str | None, worker: str, holder: SessionWriter | None
) -> bool:
    """Check whether a session is held by the worker that drove it before, and that one is lost.

    A session that somebody runs by hand is held by another process, and is left to it.
    """
    if driven_by is None or driven_by == worker or holder is None:
        return False
    host, pid, _name = driven_by.split("/", 2)
    if (holder.host, str(holder.pid)) != (host, pid):
        return False
    known = await store.consult(list_workers)
    return not any(one.id == driven_by and one.is_alive(seams.now()) for one in known)
