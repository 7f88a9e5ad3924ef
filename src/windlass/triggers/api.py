"""Triggers by id: register, list, remove; and events that anybody may publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.conditions.files import describe_files, resolve_paths
from windlass.conditions.trigger_spec import (
    FileSpec,
    TimerSpec,
    TriggerSpec,
    from_stored_spec,
    name_kind,
    parse_trigger_spec,
    to_spec_dict,
    to_stored_spec,
)
from windlass.engine.ownership import SessionScope
from windlass.errors import ConfigError, safe_repr
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject
from windlass.records import Record
from windlass.store.open import Address
from windlass.store.trigger_rows import (
    PUBLISHED,
    TriggerRow,
    insert_trigger,
    load_triggers,
    read_trigger,
    remove_trigger,
)
from windlass.store.wishes import Transaction
from windlass.triggers.action import insert_published, parse_action
from windlass.triggers.fire import fire_due


class Trigger(Record, frozen=True, kw_only=True):
    """A registered trigger: `trigger.id`, `.spec`, `.action`, `.due`, `.fired`, `.last`."""

    id: str
    spec: JsonObject
    action: JsonObject
    due: float | None  # when it fires next, for a timer
    fired: int  # how often it has
    created_at: float
    last: JsonObject | None = None  # its last firing: at, late, missed


async def trigger_register(
    spec: Mapping[str, Any] | TriggerSpec,
    action: Mapping[str, Any],
    *,
    id: str | None = None,
    store: Address | None = None,
    caller: Caller | None = None,
) -> str:
    """Register a trigger in the store; return its id.

    ```python
    await w.trigger_register(
        {"kind": "timer", "cron": "0 9 * * mon-fri", "timezone": "Europe/Berlin"},
        {"kind": "start", "agent": "reporter", "prompt": "Write the morning report."},
    )
    await w.trigger_register({"kind": "file", "paths": ["inbox"]}, {"kind": "wake", "session": "s1"})
    ```
    A worker process fires it, or `windlass sessions wake`. Raises `InvalidCondition` with the path
    of the field for a spec that can never fire, or an action that means nothing.
    """
    scope = SessionScope.current(store, caller)
    now = scope.home.read_clock()
    parsed = parse_trigger_spec(spec, "spec", now=now)
    wanted = parse_action(action)
    if not is_host(caller) and not (wanted["kind"] == "wake" and isinstance(parsed, TimerSpec)):
        raise ConfigError("a caller registers timers that wake a session of theirs")
    if wanted["kind"] == "wake":
        wanted["session"] = await scope.find(str(wanted["session"]), "mail")
    state: JsonObject = {}
    if isinstance(parsed, FileSpec):
        parsed = FileSpec(paths=resolve_paths(parsed.paths))
        state = describe_files(parsed.paths)
    row = TriggerRow(
        id=seams.new_id("trigger") if id is None else check_identifier(id, "id"),
        kind=name_kind(parsed),
        spec=to_stored_spec(parsed),
        action=scope.environment.redact(wanted),
        tenant=None if caller is None or is_host(caller) else caller.tenant,
        due=parsed.find_first(now) if isinstance(parsed, TimerSpec) else None,
        state=state,
        created_at=now,
    )
    if row.id.startswith("resume:"):
        raise ConfigError("ids that begin with 'resume:' belong to conditions of parked runs")
    await scope.home.commit(lambda tx: insert_trigger(tx, row))
    return row.id


async def trigger_list(
    *, store: Address | None = None, caller: Caller | None = None
) -> list[Trigger]:
    """List the registered triggers, by id; conditions of parked runs are among them."""
    scope = SessionScope.current(store, caller)
    rows = await load_triggers(scope.home)
    return [_describe(row) for row in rows if row.kind != PUBLISHED and _may_see(row, caller)]


async def trigger_remove(
    id: str, *, store: Address | None = None, caller: Caller | None = None
) -> bool:
    """Remove a trigger; False if there is none of this id."""
    scope = SessionScope.current(store, caller)

    def remove(tx: Transaction) -> bool:
        row = read_trigger(tx, id)
        return row is not None and _may_see(row, caller) and remove_trigger(tx, id)

    return await scope.home.commit(remove)


async def publish_event(
    name: str, payload: object = None, *, tenant: str | None = None, store: Address | None = None
) -> str:
    """Publish an event: triggers and parked runs that wait for it fire, each once.

    ```python
    await w.publish_event("build.finished", {"branch": "main", "ok": True})
    ```
    Returns its id when it is stored. If the process dies then, another one delivers it. Sessions and
    triggers of a tenant hear the events of that `tenant` alone; those of the host hear all.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > 500:  # pyright: ignore[reportUnnecessaryIsInstance] - may come from anywhere
        raise ConfigError(f"an event has a name, not {safe_repr(name)}")
    scope = SessionScope.current(store, None)
    try:
        plain: object = msgspec.json.decode(msgspec.json.encode(payload))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"the payload of an event is plain data: {error}") from None
    event: JsonObject = {"name": name, "payload": scope.environment.redact(plain), "hops": 0}
    at = scope.home.read_clock()
    event_id = await scope.home.commit(lambda tx: insert_published(tx, event, at, tenant))
    await fire_due(scope.home, at)
    return event_id or ""


def _may_see(row: TriggerRow, caller: Caller | None) -> bool:
    return caller is None or is_host(caller) or row.tenant == caller.tenant


def _describe(row: TriggerRow) -> Trigger:
    try:
        spec = to_spec_dict(from_stored_spec(row.spec))
    except msgspec.DecodeError:
        spec = {"kind": row.kind}
    return Trigger(
        id=row.id,
        spec=spec,
        action=row.action,
        due=row.due,
        fired=row.fired,
        created_at=row.created_at,
        last=row.state.get("last"),
    )
