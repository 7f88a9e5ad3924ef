"""Conditions of parked sessions as rows of triggers, written in the transaction of the park."""

from __future__ import annotations

import logging
from collections.abc import Callable

from windlass.conditions.error import InvalidCondition
from windlass.conditions.files import describe_files, resolve_paths
from windlass.conditions.resume import parse_resume_conditions
from windlass.conditions.trigger_spec import (
    FileSpec,
    TimerSpec,
    TriggerSpec,
    name_kind,
    to_stored_spec,
)
from windlass.json_types import JsonObject
from windlass.store.trigger_rows import (
    TriggerRow,
    arm_conditions,
    disarm_conditions,
    is_watched,
    name_condition,
)
from windlass.store.wishes import Transaction

log = logging.getLogger("windlass.triggers")


def build_arming(
    session: str, conditions: JsonObject, now: float, tenant: str | None
) -> Callable[[Transaction], None] | None:
    """Return the body that stores the conditions of a session that parks; None if there are none.

    Conditions of a host's own making, which are not ours to watch, are left to it.
    """
    if not is_watched(conditions):
        return None
    try:
        # what was in the future when the run asked for it may be past by now: it is due then
        wanted = parse_resume_conditions(conditions, now=0.0)
    except InvalidCondition as error:
        log.warning("session %s: nobody watches its conditions: %s", session, error)
        return None
    if wanted is None:
        return None
    specs: list[tuple[str, TriggerSpec]] = []
    if wanted.trigger is not None:
        specs.append(("trigger", wanted.trigger))
    if wanted.timeout is not None:
        specs.append(("timeout", TimerSpec(at=now + wanted.timeout)))
    if wanted.on_event is not None:
        specs.append(("on_event", wanted.on_event))
    rows = [_build_row(session, name, spec, now) for name, spec in specs]
    return lambda tx: arm_conditions(tx, session, rows, tenant)


def build_disarming(session: str) -> Callable[[Transaction], None]:
    """Return the body that removes the conditions of a session that goes on."""

    def disarm(tx: Transaction) -> None:
        disarm_conditions(tx, session)

    return disarm


def _build_row(session: str, name: str, spec: TriggerSpec, now: float) -> TriggerRow:
    state: JsonObject = {}
    if isinstance(spec, FileSpec):
        spec = FileSpec(paths=resolve_paths(spec.paths))
        state = describe_files(spec.paths)
    return TriggerRow(
        id=name_condition(session, name),
        kind=name_kind(spec),
        spec=to_stored_spec(spec),
        action={"kind": "resume", "session": session, "condition": name},
        due=spec.find_first(now) if isinstance(spec, TimerSpec) else None,
        state=state,
        created_at=now,
    )
