"""Actions of triggers: wake a session, start an agent, publish an event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec

from windlass import seams
from windlass.conditions.error import InvalidCondition
from windlass.conditions.trigger_spec import read_fields, refuse_unknown
from windlass.errors import ConfigError, NoSuchSession, nearest, safe_repr
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject
from windlass.messages import Message, Text
from windlass.store.body_sessions import create_session, post_item
from windlass.store.trigger_rows import (
    PUBLISHED,
    TriggerRow,
    disarm_conditions,
    insert_trigger,
    remove_trigger,
)
from windlass.store.wishes import Transaction, raise_wish

RESUME: Final = "resume"  # the action of a condition that a parked run waits for
_LONGEST_TEXT: Final = 20_000
_LONGEST_NAME: Final = 500
_MOST_HOPS: Final = 8

log = logging.getLogger("windlass.triggers")


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """One firing of a trigger: when, how late, and what came with it."""

    at: float
    late: float = 0.0  # seconds after it was due
    missed: int = 0  # occurrences that passed unseen before
    data: JsonObject = {}  # of the event, the webhook or the files
    hops: int = 0  # events that triggers published one after the other to come here

    def describe(self) -> JsonObject:
        """Return the firing as plain data, without what came with it."""
        fields: JsonObject = {"at": self.at}
        if self.late >= 1.0:
            fields["late"] = round(self.late, 3)
        if self.missed:
            fields["missed"] = self.missed
        return fields


# --------------------------------------------------------------------------- check


def parse_action(given: object, path: str = "action") -> JsonObject:
    """Check the action of a trigger: `{"kind": "wake", "session": "s1"}`."""
    if isinstance(given, Mapping):
        fields = read_fields(cast("object", given), path)
    else:
        raise InvalidCondition(path, f"is a dict, not {safe_repr(given)}")
    kind = fields.get("kind")
    parse = _PARSERS.get(kind) if isinstance(kind, str) else None
    if parse is None:
        hint = nearest(kind, _PARSERS) if isinstance(kind, str) else ""
        raise InvalidCondition(
            f"{path}.kind",
            f"is one of {', '.join(map(repr, _PARSERS))}, not {safe_repr(kind)}{hint}",
        )
    return parse(fields, path)


def _parse_wake(fields: JsonObject, path: str) -> JsonObject:
    refuse_unknown(fields, ("kind", "session", "message"), path)
    session = _identifier(fields, "session", path)
    return {"kind": "wake", "session": session, "message": _text(fields, "message", path)}


def _parse_start(fields: JsonObject, path: str) -> JsonObject:
    refuse_unknown(fields, ("kind", "agent", "prompt", "queue", "priority"), path)
    agent = _identifier(fields, "agent", path)
    prompt = _text(fields, "prompt", path)
    if prompt is None:
        raise InvalidCondition(f"{path}.prompt", "is missing: what the agent is asked")
    priority: object = fields.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise InvalidCondition(f"{path}.priority", f"is a number, not {safe_repr(priority)}")
    queue = None if fields.get("queue") is None else _identifier(fields, "queue", path)
    name = agent if "@" in agent[1:] else f"{agent}@1"
    return {
        "kind": "start",
        "agent": name,
        "prompt": prompt,
        "queue": queue,
        "priority": priority,
    }


def _parse_publish(fields: JsonObject, path: str) -> JsonObject:
    refuse_unknown(fields, ("kind", "name", "payload"), path)
    name: object = fields.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
        raise InvalidCondition(f"{path}.name", f"is the name of an event, not {safe_repr(name)}")
    payload: object = fields.get("payload")
    try:
        plain = msgspec.json.decode(msgspec.json.encode(payload))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidCondition(f"{path}.payload", f"is plain data: {error}") from None
    return {"kind": "publish", "name": name, "payload": plain}


def _identifier(fields: JsonObject, name: str, path: str) -> str:
    value: object = fields.get(name)
    try:
        if not isinstance(value, str):
            raise ConfigError(f"{name} is a name, not {safe_repr(value)}")
        return check_identifier(value, name)
    except ConfigError as error:
        raise InvalidCondition(f"{path}.{name}", str(error)) from None


def _text(fields: JsonObject, name: str, path: str) -> str | None:
    value: object = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise InvalidCondition(f"{path}.{name}", f"is a text, not {safe_repr(value)}")
    if len(value) > _LONGEST_TEXT:
        raise InvalidCondition(f"{path}.{name}", f"has at most {_LONGEST_TEXT} characters")
    return value


_PARSERS: Final[dict[str, Callable[[JsonObject, str], JsonObject]]] = {
    "wake": _parse_wake,
    "start": _parse_start,
    "publish": _parse_publish,
}


# --------------------------------------------------------------------------- do


def perform(tx: Transaction, row: TriggerRow, firing: Firing) -> None:
    """Do what a trigger is for, in the transaction in which it was claimed."""
    action = row.action
    match action.get("kind"):
        case "resume":
            _resume(tx, row, firing)
        case "wake":
            _wake(tx, row, firing)
        case "start":
            _start(tx, row, firing)
        case "publish":
            payload: object = action.get("payload")
            event: JsonObject = {"name": str(action.get("name"))}
            event["payload"] = firing.data if payload is None and firing.data else payload
            event["hops"] = firing.hops + 1
            insert_published(tx, event, firing.at, row.tenant)
        case _:  # of a later version: it stays for one that knows it
            pass


def _resume(tx: Transaction, row: TriggerRow, firing: Firing) -> None:
    """Wake a parked session because a condition holds; the other conditions are over with it."""
    session, condition = str(row.action["session"]), str(row.action["condition"])
    disarm_conditions(tx, session)
    said = f"You go on because a condition that you waited for holds: {condition}"
    if detail := _describe_data(firing):
        said += f" ({detail})"
    payload: JsonObject = {
        "message": f"{said}.",
        "initiator": "triggered",
        "condition": condition,
        **firing.describe(),
    }
    try:
        post_item(tx, session, "resume", payload)  # which raises the wish of a fleet's session
    except NoSuchSession:  # it was deleted, and its conditions with it
        return


def _wake(tx: Transaction, row: TriggerRow, firing: Firing) -> None:
    session, message = str(row.action["session"]), row.action.get("message")
    words = str(message) if message else f"Trigger {row.id} has fired."
    if detail := _describe_data(firing):
        words = f"{words}\n\n{detail}"
    payload: JsonObject = {
        "message": words,
        "initiator": "triggered",
        "trigger": row.id,
        **firing.describe(),
    }
    try:
        post_item(tx, session, "resume", payload)  # which raises the wish of a fleet's session
    except NoSuchSession:  # nobody is left to be woken
        remove_trigger(tx, row.id)


def _start(tx: Transaction, row: TriggerRow, firing: Firing) -> None:
    action, key = row.action, f"{row.id}.{row.fired + 1}"
    prompt = str(action["prompt"])
    if detail := _describe_data(firing):
        prompt = f"{prompt}\n\n{detail}"
    session = seams.new_id("session")
    create_session(tx, session, metadata={"trigger": row.id, "firing": row.fired + 1})
    message: object = msgspec.to_builtins(Message("user", (Text(prompt),)))
    raise_wish(
        tx,
        session,
        agent=str(action["agent"]),
        queue=action.get("queue"),
        priority=int(action.get("priority") or 0),
        key=key,
        tenant=row.tenant or "",
        request={"id": f"request_{key}", "messages": [message]},
    )


def _describe_data(firing: Firing) -> str:
    """Return what came with a firing as JSON, cut to a length that a model can read."""
    if not firing.data:
        return ""
    text = msgspec.json.encode(firing.data).decode(errors="replace")
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def insert_published(
    tx: Transaction, event: JsonObject, at: float, tenant: str | None = None
) -> str | None:
    """Store a published event until it has been delivered to all triggers that wait for it.

    None: triggers have published one another's events again and again, and this one is dropped.
    """
    if event["hops"] > _MOST_HOPS:
        log.warning("event %s is dropped: triggers publish events in a circle", event["name"])
        return None
    row = TriggerRow(
        id=seams.new_id("event"),
        kind=PUBLISHED,
        spec=msgspec.json.encode(event).decode(),
        action={},
        tenant=tenant,
        due=at,
        created_at=at,
    )
    insert_trigger(tx, row)
    return row.id
