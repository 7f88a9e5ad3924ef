"""Fire what is due: timers, published events, changed files. Any number of processes may look.

A trigger is claimed by its number in the transaction that does what it is for, so each occurrence
happens once. After a downtime a timer fires once, and says how late.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from windlass import seams
from windlass.conditions.trigger_spec import EventSpec, TimerSpec, from_stored_spec
from windlass.errors import ConfigError, error_text, safe_repr
from windlass.json_types import JsonObject, is_object
from windlass.store.base import Store
from windlass.store.trigger_rows import (
    PUBLISHED,
    TriggerRow,
    claim_trigger,
    due_triggers,
    find_next_due,
    read_trigger,
    read_triggers,
    remove_trigger,
)
from windlass.store.wishes import Transaction
from windlass.triggers.action import Firing, perform
from windlass.triggers.file_watch import FILE_SECONDS, find_watch

CHUNK: Final = 25  # triggers fired in one transaction: a body is short, also on a busy server
READ_CHUNK: Final = 1000  # triggers looked at in one transaction
SLICE_SECONDS: Final = 0.5  # for which a worker fires before it drives what was woken
_BUSY_SECONDS: Final = 1.0
_IDLE_ROUNDS: Final = 3

log = logging.getLogger("windlass.triggers")


async def fire_due(store: Store, now: float | None = None) -> float | None:
    """Fire all that is due; return when to look again, None if nothing waits for a time or a file.

    ```python
    again = await fire_due(store)
    ```
    It may be called by any number of processes at any time.
    """
    if not hasattr(store, "consult"):
        raise ConfigError(f"store is an open store, such as runtime.store, not {safe_repr(store)}")
    return await _fire_for(store, store.read_clock() if now is None else now, None)


async def fire_some(store: Store, now: float) -> float | None:
    """Fire what is due for a moment; return when to look again, at once if something is left.

    Workers call it in their sweep: what was woken is driven before the last of many is fired.
    """
    return await _fire_for(store, now, SLICE_SECONDS)


async def _fire_for(store: Store, at: float, seconds: float | None) -> float | None:
    until = None if seconds is None else seams.monotonic() + seconds
    idle = 0
    while True:
        due, following = await store.consult(
            lambda tx: (due_triggers(tx, at, CHUNK), find_next_due(tx))
        )
        if not due:
            break
        if await _fire_some(store, due, at):
            if until is not None and seams.monotonic() >= until:
                return at
            idle = 0
            continue
        idle += 1  # somebody else has fired them, and it may take a moment until that is seen
        if idle >= _IDLE_ROUNDS:
            return at + _BUSY_SECONDS
    waits = await _fire_files(store, at)
    found = [when for when in (following, waits) if when is not None]
    return min(found) if found else None


async def _fire_some(store: Store, due: Sequence[TriggerRow], now: float) -> int:
    timers = [row for row in due if row.kind != PUBLISHED]
    fired = 0
    if timers:
        seams.point("triggers.before_fire")
        fired += await store.commit(lambda tx: _fire_timers(tx, timers, now))
        seams.point("triggers.after_fire")
    for row in due:
        if row.kind == PUBLISHED:
            fired += await _deliver(store, row)
    return fired


def _fire_timers(tx: Transaction, rows: Sequence[TriggerRow], now: float) -> int:
    return sum([_fire_timer(tx, row, now) for row in rows])


def _fire_timer(tx: Transaction, row: TriggerRow, now: float) -> bool:
    """Fire one timer, if nobody else has."""
    try:
        spec = from_stored_spec(row.spec)
    except msgspec.DecodeError as error:
        log.error("trigger %s is damaged and is put aside: %s", row.id, error_text(error))
        return claim_trigger(tx, row, None, {**row.state, "error": error_text(error)})
    due = now if row.due is None else row.due
    following, missed = None, 0
    if isinstance(spec, TimerSpec):
        following, missed = spec.find_next(due, now), spec.count_missed(due, now)
    firing = Firing(at=now, late=max(0.0, now - due), missed=missed)
    if not claim_trigger(tx, row, following, {**row.state, "last": firing.describe()}):
        return False
    if firing.late >= 1.0:
        log.info("trigger %s fires %.0f seconds late", row.id, firing.late)
    perform(tx, row, firing)
    if following is None and row.action.get("kind") != "resume":  # which is removed with its like
        remove_trigger(tx, row.id)
    return True


# --------------------------------------------------------------------------- events


async def _deliver(store: Store, row: TriggerRow) -> int:
    """Deliver a published event to the triggers that wait for it; go on where somebody stopped."""
    steps = 0
    while await store.commit(lambda tx: _deliver_some(tx, row.id)):
        steps += 1
        seams.point("triggers.after_delivery")
    return steps + 1


def _deliver_some(tx: Transaction, event_id: str) -> bool:
    """Deliver to some triggers, in the order of their ids; False: it has been delivered to all."""
    row = read_trigger(tx, event_id)
    if row is None:
        return False
    event: object = msgspec.json.decode(row.spec)
    if not is_object(event):
        return not remove_trigger(tx, event_id)
    found = read_triggers(tx, "event", after=str(row.state.get("after", "")), limit=READ_CHUNK)
    name, payload = str(event.get("name")), event.get("payload")
    listening, last = _choose_listening(found, row, name, payload)
    if not claim_trigger(tx, row, row.due, {"after": last}):
        return True  # another process is ahead: look again
    hops = int(event.get("hops") or 0)
    data: JsonObject = {"event": name} if payload is None else {"event": name, "payload": payload}
    for waiting in listening:
        firing = Firing(at=row.created_at, data=data, hops=hops)
        if claim_trigger(tx, waiting, None, {**waiting.state, "last": firing.describe()}):
            perform(tx, waiting, firing)
    if len(found) < READ_CHUNK and (not found or last == found[-1].id):
        remove_trigger(tx, event_id)
        return False
    return True


def _choose_listening(
    found: Sequence[TriggerRow], event: TriggerRow, name: str, payload: object
) -> tuple[list[TriggerRow], str]:
    """Return the triggers that an event is for, as many as one transaction fires, and the last one looked at."""
    listening: list[TriggerRow] = []
    for one in found:
        if one.created_at > event.created_at or not _listens(one, name, payload):
            continue
        if one.tenant is not None and one.tenant != event.tenant:
            continue  # it is none of theirs
        listening.append(one)
        if len(listening) == CHUNK:
            return listening, one.id
    return listening, found[-1].id if found else ""


def _listens(row: TriggerRow, name: str, payload: object) -> bool:
    try:
        spec = from_stored_spec(row.spec)
    except msgspec.DecodeError:
        return False
    return isinstance(spec, EventSpec) and spec.fits(name, payload)


# --------------------------------------------------------------------------- files


async def _fire_files(store: Store, now: float) -> float | None:
    """Fire the triggers whose files have changed; return when to look again."""
    watch = find_watch(store)
    if now < watch.look_at:
        return watch.look_at if watch.rows else None
    began = seams.monotonic()
    await watch.refresh(store)
    watch.look_at = now + FILE_SECONDS
    if not watch.rows:
        return None
    changed = await asyncio.to_thread(watch.find_changed)
    watch.wait_after(now, seams.monotonic() - began)
    for at in range(0, len(changed), CHUNK):
        some = changed[at : at + CHUNK]

        def fire(tx: Transaction, some: Sequence[tuple[TriggerRow, JsonObject, list[str]]] = some):
            for row, state, paths in some:
                firing = Firing(at=now, data={"paths": paths})
                kept = {**state, "last": firing.describe()}
                if claim_trigger(tx, row, None, kept):
                    perform(tx, row, firing)

        await store.commit(fire)
    if changed:
        watch.forget()
    return watch.look_at
