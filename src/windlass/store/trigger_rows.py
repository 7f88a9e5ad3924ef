"""Rows of triggers: what is watched, what happens then, and when each is due.

All functions take the transaction of a body (`store.commit(body)`). A trigger is fired by whoever
raises its number from the one that was read: however many processes look, one does, and what the
trigger does is in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from windlass.errors import StoreError
from windlass.json_types import JsonObject, is_object
from windlass.store.base import Store
from windlass.store.wishes import Transaction

TABLE: Final = "windlass_triggers"
#: Kinds of rows that are no trigger of a user: a published event that is being delivered.
PUBLISHED: Final = "published"
_OWN: Final = "/* windlass */"  # so that no body has the same statement: see `Tx.keep`
_COLUMNS: Final = "id, kind, spec, action, tenant, due, state, created_at, fired"
_PAGE: Final = 1000
_CONDITIONS: Final = ("trigger", "timeout", "on_event")
DISARM: Final = f"DELETE FROM {TABLE} WHERE id IN (?, ?, ?)"


class TriggerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger as a store keeps it."""

    id: str
    kind: str
    spec: str  # JSON
    action: JsonObject
    tenant: str | None = None
    due: float | None = None  # when a timer fires; None: it is not a matter of time
    state: JsonObject = {}
    created_at: float
    fired: int = 0  # how often it has


def insert_trigger(tx: Transaction, row: TriggerRow) -> None:
    """Add a trigger; `StoreError` if there is one of this id."""
    if read_trigger(tx, row.id) is not None:
        raise StoreError(f"there is a trigger {row.id!r} already")
    tx.keep(
        f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) {_OWN}",
        (row.id, row.kind, row.spec, _pack(row.action), row.tenant, row.due)
        + (_pack(row.state), row.created_at, row.fired),
    )


def read_trigger(tx: Transaction, trigger_id: str) -> TriggerRow | None:
    """Return a trigger, or None."""
    row = tx.keep(f"SELECT {_COLUMNS} FROM {TABLE} WHERE id = ? {_OWN}", (trigger_id,)).fetchone()
    return None if row is None else _read(row)


def read_triggers(
    tx: Transaction, kind: str | None = None, *, after: str = "", limit: int = 1000
) -> list[TriggerRow]:
    """Return triggers by their ids: those after one, of a kind."""
    some, values = ("", ()) if kind is None else (" AND kind = ?", (kind,))
    rows = tx.keep(
        f"SELECT {_COLUMNS} FROM {TABLE} WHERE id > ?{some} ORDER BY id LIMIT ? {_OWN}",
        (after, *values, limit),
    )
    return [_read(row) for row in rows.fetchall()]


async def load_triggers(store: Store, kind: str | None = None) -> list[TriggerRow]:
    """Return all triggers of a store, read page by page."""
    found: list[TriggerRow] = []
    after = ""
    while True:
        page = await store.consult(partial(read_triggers, kind=kind, after=after, limit=_PAGE))
        found += page
        if len(page) < _PAGE:
            return found
        after = page[-1].id


def remove_trigger(tx: Transaction, trigger_id: str) -> bool:
    """Remove a trigger; False if there was none."""
    return tx.keep(f"DELETE FROM {TABLE} WHERE id = ? {_OWN}", (trigger_id,)).rowcount == 1


def due_triggers(tx: Transaction, now: float, limit: int) -> list[TriggerRow]:
    """Return triggers that are due, the earliest first."""
    rows = tx.keep(
        f"SELECT {_COLUMNS} FROM {TABLE} WHERE due <= ? ORDER BY due, id LIMIT ? {_OWN}",
        (now, limit),
    )
    return [_read(row) for row in rows.fetchall()]


def find_next_due(tx: Transaction) -> float | None:
    """Return when the next trigger is due; None if none waits for a time."""
    row = tx.keep(f"SELECT min(due) FROM {TABLE} {_OWN}").fetchone()
    found = None if row is None else row[0]
    return found if isinstance(found, float) else None


def claim_trigger(tx: Transaction, row: TriggerRow, due: float | None, state: JsonObject) -> bool:
    """Fire a trigger that is still as it was read; False if somebody else did."""
    changed = tx.keep(
        f"UPDATE {TABLE} SET fired = fired + 1, due = ?, state = ?"
        f" WHERE id = ? AND fired = ? {_OWN}",
        (due, _pack(state), row.id, row.fired),
    )
    return changed.rowcount == 1


def mark_files(tx: Transaction) -> tuple[int, float, int]:
    """Return what changes when a file trigger is added, removed or fired."""
    row = tx.keep(
        "SELECT count(*), coalesce(max(created_at), 0.0), coalesce(sum(fired), 0)"
        f" FROM {TABLE} WHERE kind = 'file' {_OWN}"
    ).fetchone()
    assert row is not None
    return int(str(row[0])), float(str(row[1])), int(str(row[2]))


# --------------------------------------------------------------------------- resume conditions


def is_watched(conditions: JsonObject | None) -> bool:
    """Check whether conditions name something that triggers watch.

    Others say what a run waits for, such as a sub-agent or a call of the host.
    """
    return any([name in (conditions or ()) for name in _CONDITIONS])


def name_condition(session: str, condition: str) -> str:
    """Return the id of the row for one condition of a parked session."""
    return f"resume:{condition}:{session}"


def arm_conditions(
    tx: Transaction, session: str, rows: Sequence[TriggerRow], tenant: str | None = None
) -> None:
    """Replace the conditions that wake a parked session."""
    disarm_conditions(tx, session)
    for row in rows:
        insert_trigger(tx, msgspec.structs.replace(row, tenant=tenant))


def list_condition_ids(sessions: Sequence[str]) -> list[str]:
    """Return the ids of all rows for the conditions of sessions."""
    return [name_condition(session, name) for session in sessions for name in _CONDITIONS]


def disarm_conditions(tx: Transaction, session: str) -> int:
    """Remove the conditions of a session that goes on; return how many there were."""
    ids = tuple(list_condition_ids([session]))
    removed = tx.keep(f"{DISARM} {_OWN}", ids)
    return max(0, removed.rowcount)


def _pack(value: JsonObject) -> str:
    return msgspec.json.encode(value).decode()


def _read(row: Sequence[object]) -> TriggerRow:
    values = dict(zip(TriggerRow.__struct_fields__, row, strict=True))
    for name in ("action", "state"):
        text = values[name]
        found: object = msgspec.json.decode(str(text)) if text is not None else {}
        values[name] = found if is_object(found) else {}
    return msgspec.convert(values, TriggerRow)
