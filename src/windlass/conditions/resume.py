"""Resume conditions: what wakes a parked run, beside a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import msgspec

from windlass import seams
from windlass.conditions.error import InvalidCondition
from windlass.conditions.trigger_spec import (
    EventSpec,
    TriggerSpec,
    parse_event_spec,
    parse_seconds,
    parse_trigger_spec,
    read_fields,
    refuse_unknown,
    to_spec_dict,
)
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject

_FIELDS: Final = ("trigger", "timeout", "on_event")
_LONGEST_REASON: Final = 4000


class ResumeConditions(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions, any of which wakes a parked run; see `parse_resume_conditions`."""

    trigger: TriggerSpec | None = None
    """The spec of a trigger, as `trigger_register` takes it."""
    timeout: float | None = None
    """Seconds after which the run goes on by itself."""
    on_event: EventSpec | None = None
    """An event by its name, a glob, and values of its payload."""

    def to_dict(self) -> JsonObject:
        """Return the conditions as plain data, which `parse_resume_conditions` takes."""
        fields: JsonObject = {}
        if self.trigger is not None:
            fields["trigger"] = to_spec_dict(self.trigger)
        if self.timeout is not None:
            fields["timeout"] = self.timeout
        if self.on_event is not None:
            event: JsonObject = {"name": self.on_event.name}
            if self.on_event.match:
                event["match"] = self.on_event.match
            fields["on_event"] = event
        return fields


def parse_resume_conditions(
    conditions: Mapping[str, object] | ResumeConditions | None = None,
    *,
    path: str = "conditions",
    now: float | None = None,
) -> ResumeConditions | None:
    """Check resume conditions; None and an empty dict are none.

    ```python
    w.parse_resume_conditions({"timeout": "2h", "on_event": "build.finished"})
    w.parse_resume_conditions({"trigger": {"kind": "timer", "cron": "0 9 * * mon-fri"}})
    ```
    Raises `InvalidCondition` (`WL-SUS-002`) with the path of the field, also for a condition that
    can never hold: a time in the past, a cron expression without a next time.
    """
    if conditions is None:
        return None
    if isinstance(conditions, ResumeConditions):
        conditions = conditions.to_dict()
    fields = read_fields(conditions, path)
    refuse_unknown(fields, _FIELDS, path)
    at = seams.now() if now is None else now
    trigger, timeout, event = (cast("object", fields.get(name)) for name in _FIELDS)
    if trigger is None and timeout is None and event is None:
        return None
    return ResumeConditions(
        trigger=None if trigger is None else parse_trigger_spec(trigger, f"{path}.trigger", now=at),
        timeout=None if timeout is None else parse_seconds(timeout, f"{path}.timeout"),
        on_event=None if event is None else _parse_event(event, f"{path}.on_event"),
    )


def _parse_event(given: object, path: str) -> EventSpec:
    if isinstance(given, str):
        given = {"name": given}
    elif isinstance(given, EventSpec):
        given = {"name": given.name, "match": given.match}
    fields = read_fields(given, path)
    if fields.get("kind", "event") != "event":
        raise InvalidCondition(f"{path}.kind", f"is 'event', not {safe_repr(fields['kind'])}")
    return parse_event_spec(fields, path)


class AwaitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to suspend: `reason`, and the conditions that end it."""

    reason: str
    conditions: ResumeConditions | None = None

    def to_dict(self) -> JsonObject:
        """Return the request as plain data."""
        conditions = None if self.conditions is None else self.conditions.to_dict()
        return {"reason": self.reason, "conditions": conditions}


def agent_await_resumption(
    reason: str, conditions: Mapping[str, object] | ResumeConditions | None = None
) -> AwaitRequest:
    """Check a request to suspend, as the tool of this name does: it suspends nothing itself.

    ```python
    request = w.agent_await_resumption("the build runs", {"on_event": "build.*", "timeout": "1h"})
    return w.Suspend(request.reason, request.to_dict()["conditions"])       # in a policy
    ```
    In a loop the model calls the tool of this name, and the loop suspends.
    """
    if not isinstance(cast("object", reason), str) or not reason.strip():
        raise ConfigError(f"reason says why the run waits, not {safe_repr(reason)}")
    if len(reason) > _LONGEST_REASON:
        raise ConfigError(f"reason has at most {_LONGEST_REASON} characters")
    return AwaitRequest(reason=reason.strip(), conditions=parse_resume_conditions(conditions))
