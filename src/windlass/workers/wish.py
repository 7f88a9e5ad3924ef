"""The wish of a worker to run: raised with its session, kept by who drives it, cleared by its end.

Only workers that were spawned by a run of a named agent, or by a part of a submitted run, have one. Who
ends a task tells the parent in the same transaction, if a fleet drives that or those who wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.errors import NoSuchSession
from windlass.events import JournalEntry, WorkerStopped, WorkerUpdate
from windlass.fleet.workers import list_workers
from windlass.json_types import JsonObject
from windlass.store.base import Journal, Store
from windlass.store.body_sessions import create_session, find_wish_above, post_item
from windlass.store.trigger_rows import disarm_conditions
from windlass.store.wishes import (
    WAKING,
    Transaction,
    clear_wish,
    park_wish,
    postpone_wish,
    raise_wish,
    read_wish,
)
from windlass.workers.record import WORKER_KEY, WorkerRecord

FIRST_SECONDS: Final = 5.0  # for the process that has spawned a worker, before a fleet asks for it
_SUFFIX: Final = ".workers"


def name_queue(agent: str) -> str:
    """Return the queue of the workers of an agent: `refunds@1.workers`."""
    return f"{agent}{_SUFFIX}"


async def find_agent_above(home: Store, session_id: str) -> str | None:
    """Return the name of the agent or workflow whose submitted run a session works for."""
    wish = await home.consult(lambda tx: find_wish_above(tx, session_id))
    if wish is None:
        return None
    name = wish.agent.removesuffix(_SUFFIX)
    return name if "@" in name else f"{name}@1"


def create_worker(
    tx: Transaction,
    record: WorkerRecord,
    metadata: JsonObject,
    parent_id: str | None,
    is_unlimited: bool,
) -> bool:
    """Create the session of a worker with its wish; True if it is left to the fleet."""
    create_session(tx, record.id, metadata=metadata, parent_id=parent_id)
    left = is_unlimited and is_fleet_driven(tx, parent_id) and can_go(record)
    raise_worker_wish(tx, record, record.id, 0.0 if left else FIRST_SECONDS)
    return left


def is_fleet_driven(tx: Transaction, session: str | None) -> bool:
    """Check whether a fleet drives the session now."""
    wish = None if session is None else read_wish(tx, session)
    return wish is not None and wish.since is not None


def can_go(record: WorkerRecord) -> bool:
    """Check whether any process that serves the agent can begin the worker."""
    return not record.stays and not record.begins_under_parent and record.host is None


def raise_worker_wish(
    tx: Transaction, record: WorkerRecord, key: str, seconds: float = FIRST_SECONDS
) -> None:
    """Say that a task of the worker wants to run."""
    if record.agent is None:
        return
    tenant = (record.caller or {}).get("tenant")
    raise_wish(
        tx,
        key,
        agent=name_queue(record.agent),
        due=tx.read_clock() + seconds,
        tenant="" if tenant is None else str(tenant),
    )


async def read_number(home: Store, record: WorkerRecord, key: str) -> int | None:
    """Return the number of the wish that is driven now; None for a worker that has none."""
    if record.agent is None:
        return None
    wish = await home.consult(lambda tx: read_wish(tx, key))
    return None if wish is None else wish.number


async def rest(home: Store, key: str, number: int | None, *, handed_over: bool) -> None:
    """Put on record that a worker waits to be woken, or to be driven by another process."""
    if number is None:
        return
    if handed_over:
        await home.commit(lambda tx: postpone_wish(tx, key, number, tx.read_clock()))
    else:
        await home.commit(lambda tx: park_wish(tx, key, number))


def end_task(tx: Transaction, record: WorkerRecord, key: str, told: JsonObject) -> None:
    """Clear the wish of a worker whose task has ended, and wake the parent that waits for it."""
    wish = read_wish(tx, key)
    if wish is not None:
        clear_wish(tx, key, wish.number)
    tell_parent(tx, record, told)


def tell_parent(tx: Transaction, record: WorkerRecord, told: JsonObject) -> None:
    """Tell the parent of a worker what became of it, if that wakes anybody."""
    if record.parent is None or find_wish_above(tx, record.parent) is None:
        return  # its parent is run by hand: nobody would be woken
    try:
        post_item(tx, record.parent, "result", {record.id: told})
    except NoSuchSession:
        return  # deleted meanwhile


async def write_end(
    journal: Journal, record: WorkerRecord, entries: Sequence[JournalEntry], *, waits: bool = False
) -> None:
    """Write the end of a task: with its wish, and with what the parent is told, or not at all.

    One that `waits` for conditions has them no more.
    """
    if record.agent is None and record.parent is None and not waits:
        for entry in entries:
            journal.append(entry)
        journal.flush()
        await journal.durable()
        return
    told = _tell(record, entries)
    key = journal.session_id

    def end(tx: Transaction) -> None:
        end_task(tx, record, key, told)
        if waits:
            disarm_conditions(tx, key)

    await journal.commit(end, lambda _: entries)


async def is_woken_below(home: Store, session_id: str) -> bool:
    """Check whether a step or a sub-agent that a session waits for is to go on."""
    for child_id in (await home.info(session_id)).child_ids:
        try:
            info = await home.info(child_id)
            if info.state != "parked" or WORKER_KEY in info.metadata:
                continue
            if any([item.kind in WAKING for item in await home.inbox(child_id)]):
                return True
        except NoSuchSession:
            continue  # deleted meanwhile
        if await is_woken_below(home, child_id):
            return True
    return False


def _tell(record: WorkerRecord, entries: Sequence[JournalEntry]) -> JsonObject:
    """Return what the parent is told: how it ended, and the text."""
    told: JsonObject = {"worker": record.id, "name": record.name}
    for entry in entries:
        if isinstance(entry, WorkerUpdate):
            text = str((entry.payload or {}).get("text") or "")
            told |= {"status": entry.status, "number": entry.number, "text": text}
        elif isinstance(entry, WorkerStopped):
            told |= {"status": entry.status, "reason": entry.reason}
    return told


async def is_served(home: Store, agent: str | None) -> bool:
    """Check whether a live process serves the workers of an agent."""
    if agent is None:
        return False
    queue = name_queue(agent)
    known, now = await home.consult(lambda tx: (list_workers(tx), tx.read_clock()))
    return any([queue in one.queues and one.is_alive(now) for one in known])
