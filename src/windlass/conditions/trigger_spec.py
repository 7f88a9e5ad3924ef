"""Trigger specs: what fires a trigger, as plain data that is checked before anything runs."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, cast

import msgspec

from windlass import seams
from windlass.conditions.cron import find_zone, parse_cron
from windlass.conditions.error import InvalidCondition
from windlass.durations import parse_duration
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.globs import like
from windlass.json_types import JsonObject, is_object

_SHORTEST_INTERVAL: Final = 1.0
_MOST_PATHS: Final = 1000
_LONGEST_NAME: Final = 500
_ENVIRONMENT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_WEBHOOK_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)+", re.ASCII)


class TimerSpec(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="timer", omit_defaults=True
):
    """A timer: at a time, or again and again."""

    every: float | None = None  # seconds
    at: float | None = None  # seconds since the epoch
    cron: str | None = None
    timezone: str = "UTC"

    def find_first(self, now: float) -> float | None:
        """Return when it is due for the first time."""
        return self.at if self.at is not None else self.find_next(now, now)

    def find_next(self, due: float, now: float) -> float | None:
        """Return when it is due after it was due and fired; None: never again.

        What was missed is not made up for. An occurrence that has fired does not come again when a
        clock is set back.
        """
        after = max(due, now)
        if self.every is not None:
            return due + self.every * (math.floor((after - due) / self.every) + 1)
        if self.cron is not None:
            return parse_cron(self.cron).find_next(after, find_zone(self.timezone))
        return None

    def count_missed(self, due: float, now: float) -> int:
        """Return how many occurrences of an interval passed unseen, beside the one that fires."""
        if self.every is None or now <= due:
            return 0
        return math.floor((now - due) / self.every)


class FileSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="file"):
    """Files or folders: a trigger that fires when one of them changes."""

    paths: tuple[str, ...]


class EventSpec(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="event", omit_defaults=True
):
    """Events whose name fits a glob and whose payload has these values."""

    name: str
    match: JsonObject = {}

    def fits(self, name: str, payload: object) -> bool:
        """Return whether an event of this name and payload is meant."""
        return like(self.name, name) and (not self.match or _contains(payload, self.match))


class WebhookSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="webhook"):
    """A path of the webhook app, and the environment variable with the secret that signs requests."""

    path: str
    secret_env: str


TriggerSpec: TypeAlias = TimerSpec | FileSpec | EventSpec | WebhookSpec


def _contains(value: object, wanted: object) -> bool:
    """Return whether a JSON value has all that is wanted: objects may have more keys."""
    if is_object(wanted):
        return is_object(value) and all(
            [key in value and _contains(value[key], part) for key, part in wanted.items()]
        )
    if isinstance(wanted, bool) or isinstance(value, bool):
        return wanted is value
    return wanted == value


# --------------------------------------------------------------------------- parse


def parse_trigger_spec(
    given: object, path: str = "trigger", *, now: float | None = None
) -> TriggerSpec:
    """Check a trigger spec: `parse_trigger_spec({"kind": "timer", "every": "5m"})`.

    Raises `InvalidCondition` with the path of the field for a spec that could never fire.
    """
    if isinstance(given, TimerSpec | FileSpec | EventSpec | WebhookSpec):
        given = to_spec_dict(given)
    fields = read_fields(given, path)
    kind = fields.get("kind")
    parse = _PARSERS.get(kind) if isinstance(kind, str) else None
    if parse is None:
        hint = nearest(kind, _PARSERS) if isinstance(kind, str) else ""
        said = "is missing" if kind is None else f"is not {safe_repr(kind)}"
        raise InvalidCondition(
            f"{path}.kind", f"{said}: one of {', '.join(map(repr, _PARSERS))}{hint}"
        )
    return parse(fields, path, seams.now() if now is None else now)


def read_fields(given: object, path: str) -> JsonObject:
    """Return a mapping with texts as keys; `InvalidCondition` for anything else."""
    if not isinstance(given, Mapping):
        raise InvalidCondition(path, f"is a dict, not {safe_repr(given)}")
    fields = cast("Mapping[object, object]", given)
    for key in fields:
        if not isinstance(key, str):
            raise InvalidCondition(path, f"has texts as keys, not {safe_repr(key)}")
    return dict(cast("Mapping[str, object]", given))


def refuse_unknown(fields: JsonObject, known: Iterable[str], path: str) -> None:
    """Refuse fields of another name, and name the nearest right one."""
    known = tuple(known)
    for name in fields:
        if name not in known:
            raise InvalidCondition(
                f"{path}.{name}" if name.isidentifier() else path,
                f"there is no field {safe_repr(name)}{nearest(name, known)}; "
                f"the fields are {', '.join(known)}",
            )


def _parse_timer(fields: JsonObject, path: str, now: float) -> TimerSpec:
    refuse_unknown(fields, ("kind", "every", "at", "cron", "timezone"), path)
    said = [name for name in ("every", "at", "cron") if fields.get(name) is not None]
    if len(said) != 1:
        has = "none of them" if not said else " and ".join(said)
        raise InvalidCondition(path, f"a timer has one of every, at, cron; this has {has}")
    zone = fields.get("timezone")
    if zone is not None:
        if said[0] == "every":
            raise InvalidCondition(f"{path}.timezone", "an interval has no time zone")
        if not isinstance(zone, str):
            raise InvalidCondition(f"{path}.timezone", f"is a name, not {safe_repr(zone)}")
        _check_text(f"{path}.timezone", find_zone, zone)
    name = zone or "UTC"
    if said[0] == "every":
        every = parse_seconds(fields["every"], f"{path}.every")
        if every < _SHORTEST_INTERVAL:
            raise InvalidCondition(f"{path}.every", "is at least a second")
        return TimerSpec(every=every)
    if said[0] == "at":
        return TimerSpec(at=_parse_time(fields["at"], f"{path}.at", name, now))
    cron = fields["cron"]
    if not isinstance(cron, str):
        raise InvalidCondition(f"{path}.cron", f"is a text, not {safe_repr(cron)}")
    spec = TimerSpec(cron=cron.strip(), timezone=name)
    _check_text(f"{path}.cron", parse_cron, cron.strip())
    if not parse_cron(spec.cron or "").can_fire(now):
        raise InvalidCondition(f"{path}.cron", f"{safe_repr(cron)} never fires")
    return spec


def parse_seconds(value: object, path: str) -> float:
    """Convert a duration to seconds; `InvalidCondition` with its path if it is none."""
    try:
        return parse_duration(value)
    except ConfigError as error:
        raise InvalidCondition(path, str(error).removeprefix("a duration ")) from None


def _check_text(path: str, check: Callable[[str], object], text: str) -> None:
    try:
        check(text)
    except ConfigError as error:
        raise InvalidCondition(path, str(error)) from None


def _parse_time(value: object, path: str, zone: str, now: float) -> float:
    when = value
    if isinstance(when, str) and len(when) <= 64:
        try:
            when = dt.datetime.fromisoformat(when.strip())
        except ValueError:
            pass
    if isinstance(when, int | float) and not isinstance(when, bool):
        raise InvalidCondition(
            path, f"is an ISO 8601 text such as '2027-01-31T09:00:00+01:00', not {safe_repr(value)}"
        )
    if not isinstance(when, dt.datetime):
        raise InvalidCondition(
            path, f"is a time such as '2027-01-31T09:00:00+01:00', not {safe_repr(value)}"
        )
    if when.tzinfo is None:
        when = when.replace(tzinfo=find_zone(zone))
    try:
        at = when.timestamp()
    except (OverflowError, ValueError) as error:
        raise InvalidCondition(path, f"{safe_repr(value)} is no time of a calendar") from error
    if at <= now:
        late = f"{now - at:,.0f} seconds ago"
        raise InvalidCondition(path, f"{safe_repr(value)} is in the past, {late}")
    return at


def _parse_files(fields: JsonObject, path: str, now: float) -> FileSpec:
    refuse_unknown(fields, ("kind", "paths"), path)
    given: object = fields.get("paths")
    listed: list[object] = [given] if isinstance(given, str) else []
    if isinstance(given, list | tuple):
        listed = list(cast("list[object]", given))
    if not listed:
        raise InvalidCondition(
            f"{path}.paths", f"is a list of paths, not {safe_repr(fields.get('paths'))}"
        )
    if len(listed) > _MOST_PATHS:
        raise InvalidCondition(f"{path}.paths", f"has at most {_MOST_PATHS} paths")
    paths: list[str] = []
    for at, one in enumerate(listed):
        if not isinstance(one, str) or not one.strip() or "\0" in one:
            raise InvalidCondition(f"{path}.paths[{at}]", f"is a path, not {safe_repr(one)}")
        paths.append(one)
    return FileSpec(paths=tuple(dict.fromkeys(paths)))


def parse_event_spec(fields: JsonObject, path: str, now: float = 0.0) -> EventSpec:
    """Check the name and the values of an event spec."""
    refuse_unknown(fields, ("kind", "name", "match"), path)
    name: object = fields.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
        raise InvalidCondition(f"{path}.name", f"is the name of an event, not {safe_repr(name)}")
    match: object = fields.get("match")
    if match is None:
        return EventSpec(name=name)
    values = read_fields(match, f"{path}.match")
    try:
        plain: JsonObject = msgspec.json.decode(msgspec.json.encode(values))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidCondition(f"{path}.match", f"is plain data: {error}") from None
    return EventSpec(name=name, match=plain)


def _parse_webhook(fields: JsonObject, path: str, now: float) -> WebhookSpec:
    refuse_unknown(fields, ("kind", "path", "secret_env"), path)
    place: object = fields.get("path")
    if not isinstance(place, str) or not _WEBHOOK_PATH.fullmatch(place) or len(place) > 200:
        raise InvalidCondition(
            f"{path}.path", f"is a path such as '/github/push', not {safe_repr(place)}"
        )
    secret: object = fields.get("secret_env")
    if not isinstance(secret, str) or not _ENVIRONMENT_NAME.fullmatch(secret):
        raise InvalidCondition(
            f"{path}.secret_env",
            "is the name of the environment variable that holds the secret, "
            f"not {'missing' if secret is None else 'such a value'}",
        )
    return WebhookSpec(path=place, secret_env=secret)


_PARSERS: Final[dict[str, Callable[[JsonObject, str, float], TriggerSpec]]] = {
    "timer": _parse_timer,
    "file": _parse_files,
    "event": parse_event_spec,
    "webhook": _parse_webhook,
}


# --------------------------------------------------------------------------- stored form


def to_spec_dict(spec: TriggerSpec) -> JsonObject:
    """Return a spec as plain data, which `parse_trigger_spec` takes."""
    fields: JsonObject = msgspec.to_builtins(spec)
    if isinstance(spec, TimerSpec) and spec.at is not None:
        fields["at"] = dt.datetime.fromtimestamp(spec.at, dt.UTC).isoformat()
    return fields


def name_kind(spec: TriggerSpec) -> str:
    """Return the kind of a spec: `timer`, `file`, `event` or `webhook`."""
    return str(spec.__struct_config__.tag)


def from_stored_spec(text: str | bytes) -> TriggerSpec:
    """Read a spec as a store keeps it; what was in the future then may be past."""
    return _decode(text)


def to_stored_spec(spec: TriggerSpec) -> str:
    """Return a spec as a store keeps it."""
    return msgspec.json.encode(spec).decode()


_decode = msgspec.json.Decoder(TimerSpec | FileSpec | EventSpec | WebhookSpec).decode
