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
BEATS: Final = 3  # heartbeats in a lease
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
    lease: float
    state: str  # standby, serving, draining

    def is_alive(self, now: float) -> bool:
        """Check whether it was heard of within its lease."""
        return now - self.seen_at <= self.lease


def new_worker(engine: str, queues: Sequence[str], slots: int, lease: float) -> WorkerRow:
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
        lease=lease,
        state="serving",
    )


def beat(tx: Transaction, worker: WorkerRow) -> None:
    """Put on record that a worker is there; forget those that were lost long ago."""
    now = tx.read_clock()
    tx.keep(
        f"INSERT INTO {TABLE} (id, engine, host, pid, queues, slots, started_at, seen_at, lease,"
        " state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " queues = excluded.queues, seen_at = excluded.seen_at, state = excluded.state"
        f" {_OWN}",
        (worker.id, worker.engine, worker.host, worker.pid)
        + (msgspec.json.encode(worker.queues).decode(), worker.slots)
        + (worker.started_at, now, worker.lease, worker.state),
    )
    tx.keep(f"DELETE FROM {TABLE} WHERE seen_at < ? {_OWN}", (now - FORGET_SECONDS,))


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


def drives_now(tx: Transaction, worker_id: str | None) -> bool:
    """Check whether a worker is on record and was heard of within its lease."""
    if worker_id is None:
        return False
    row = tx.keep(
        f"SELECT 1 FROM {TABLE} WHERE id = ? AND seen_at + lease >= ? {_OWN}",
        (worker_id, tx.read_clock()),
    )
    return row.fetchone() is not None


async def is_lost(store: Store, worker: str, holder: SessionWriter | None) -> bool:
    """Check whether a session is held by a worker other than this one, and that one is lost.

    The holder is compared with the workers on record, and not with who was to drive the session: that
    may have been somebody since who found it held. A session that somebody runs by hand is held by
    a process without a worker, and is left to it.
    """
    if holder is None:
        return False
    known, now = await store.consult(lambda tx: (list_workers(tx), tx.read_clock()))
    same = [one for one in known if (one.host, one.pid) == (holder.host, holder.pid)]
    if any(one.id == worker or one.is_alive(now) for one in same):
        return False
    # A process that begins later may have the id of one that is gone.
    return any(holder.since - one.seen_at <= one.lease for one in same)
