"""Cron expressions: five fields, evaluated in a time zone, right where clocks change.

A parser of our own: about a page, where a library would have to agree with us about daylight saving.
The rules are those of Debian's cron:

- a fixed time (no `*` in minute or hour) that clocks skip happens as long after midnight as without
  the change; one that clocks repeat happens once, the first time;
- with a `*` in minute or hour, the times are those that a clock on the wall really shows.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr

_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS: Final = {name.lower(): at for at, name in enumerate(calendar.month_abbr) if name}
_WEEKDAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_NO_NAMES: Final[dict[str, int]] = {}
_LONGEST_TEXT: Final = 200
_YEARS: Final = 50  # 29 February on a given weekday comes once in 40 years at worst
_QUARTER: Final = 900  # offsets of time zones, and their changes, are multiples of it


class _Field(msgspec.Struct, frozen=True):
    name: str
    low: int
    high: int
    names: dict[str, int]


_FIELDS: Final = (
    _Field("minute", 0, 59, _NO_NAMES),
    _Field("hour", 0, 23, _NO_NAMES),
    _Field("day of month", 1, 31, _NO_NAMES),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _WEEKDAYS),
)


class Cron(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed cron expression: `parse_cron("0 9 * * mon-fri").find_next(now, zone)`."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    is_fixed: bool  # no `*` in minute or hour
    either_day: bool  # both kinds of days are restricted: one of them is enough

    def find_next(self, after: float, zone: dt.tzinfo) -> float | None:
        """Return the first time after this one; None if there is none within 50 years."""
        return self._next_fixed(after, zone) if self.is_fixed else self._next_shown(after, zone)

    def can_fire(self, now: float) -> bool:
        """Return whether there is a day within 50 years on which it fires."""
        today = dt.datetime.fromtimestamp(now, dt.UTC).date()
        return any(self.is_day(day) for day in _iterate_days(today, self.months))

    def is_day(self, day: dt.date) -> bool:
        """Return whether the expression may fire on this day."""
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either_day else by_month and by_week

    def _next_fixed(self, after: float, zone: dt.tzinfo) -> float | None:
        first = dt.datetime.fromtimestamp(after, zone).date() - dt.timedelta(days=1)
        best: float | None = None
        seen_after = 0
        for day in _iterate_days(first, self.months):
            if best is not None:
                seen_after += 1
                if seen_after > 2:  # a zone may skip a whole day
                    break
            if not self.is_day(day):
                continue
            for hour in self.hours:
                for minute in self.minutes:
                    wall = dt.datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                    at = (
                        wall.timestamp()
                    )  # fold 0: the first of two, later by the gap where skipped
                    if at > after and (best is None or at < best):
                        best = at
        return best

    def _next_shown(self, after: float, zone: dt.tzinfo) -> float | None:
        at = (int(after // 60) + 1) * 60
        minutes, hours = frozenset(self.minutes), frozenset(self.hours)
        last = at + _YEARS * 366 * 86400
        while at <= last:
            try:
                wall = dt.datetime.fromtimestamp(at, zone)
            except (OverflowError, ValueError, OSError):
                return None
            if wall.month not in self.months:
                at = _jump(at, _first_of_next_month(wall.date()), zone)
            elif not self.is_day(wall.date()):
                at = _jump(at, wall.date() + dt.timedelta(days=1), zone)
            elif wall.hour not in hours:
                at = (at // _QUARTER + 1) * _QUARTER
            elif wall.minute not in minutes:
                at += 60
            else:
                return float(at)
        return None


def _iterate_days(first: dt.date, months: frozenset[int]) -> Iterator[dt.date]:
    """Yield the days of these months, from one on, for fifty years."""
    day, last = first, min(first.year + _YEARS, 9998)
    while day.year <= last:
        if day.month in months:
            yield day
            day += dt.timedelta(days=1)
        else:
            day = _first_of_next_month(day)


def _first_of_next_month(day: dt.date) -> dt.date:
    return dt.date(day.year + day.month // 12, day.month % 12 + 1, 1)


def _jump(at: int, day: dt.date, zone: dt.tzinfo) -> int:
    """Return a time shortly before that day begins, later than `at`."""
    midnight = dt.datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
    near = int(midnight // _QUARTER) * _QUARTER - 2 * 3600
    return max((at // _QUARTER + 1) * _QUARTER, near)


@lru_cache(maxsize=1024)
def parse_cron(text: str) -> Cron:
    """Parse a cron expression of five fields, or `@daily` and the like; else `ConfigError`."""
    if len(text) > _LONGEST_TEXT:
        raise ConfigError(f"a cron expression has at most {_LONGEST_TEXT} characters")
    parts = text.split()
    if len(parts) == 1 and parts[0].startswith("@"):
        macro = parts[0].lower()
        if macro not in _MACROS:
            raise ConfigError(f"cron knows no {safe_repr(parts[0])}{nearest(macro, _MACROS)}")
        parts = _MACROS[macro].split()
    if len(parts) != len(_FIELDS):
        raise ConfigError(
            "a cron expression has five fields (minute, hour, day of month, month, day of week), "
            f"not {len(parts)}: {safe_repr(text)}"
        )
    sets = [_parse_field(field, part) for field, part in zip(_FIELDS, parts, strict=True)]
    starred = [part.startswith("*") for part in parts]
    return Cron(
        minutes=tuple(sorted(sets[0])),
        hours=tuple(sorted(sets[1])),
        days=frozenset(sets[2]),
        months=frozenset(sets[3]),
        weekdays=frozenset([day % 7 for day in sets[4]]),
        is_fixed=not (starred[0] or starred[1]),
        either_day=not (starred[2] or starred[4]),
    )


def _parse_field(field: _Field, text: str) -> set[int]:
    found: set[int] = set()
    for piece in text.split(","):
        span, slash, step_text = piece.partition("/")
        step = _parse_number(field, step_text, "step") if slash else 1
        if step < 1:
            raise ConfigError(f"cron: {field.name}: a step is at least 1, not {safe_repr(piece)}")
        if span == "*":
            low, high = field.low, field.high
        else:
            first, dash, second = span.partition("-")
            low = _parse_value(field, first)
            high = _parse_value(field, second) if dash else field.high if slash else low
        if low > high:
            raise ConfigError(f"cron: {field.name}: {safe_repr(piece)} runs backwards")
        found.update(range(low, high + 1, step))
    return found


def _parse_value(field: _Field, text: str) -> int:
    if text.lower() in field.names:
        return field.names[text.lower()]
    value = _parse_number(field, text, "value")
    if not field.low <= value <= field.high:
        raise ConfigError(
            f"cron: {field.name} is {field.low} to {field.high}, not {safe_repr(text)}"
        )
    return value


def _parse_number(field: _Field, text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ConfigError(f"cron: {field.name}: {safe_repr(text)} is no {what}")
    return int(text)


@lru_cache(maxsize=256)
def find_zone(name: str) -> dt.tzinfo:
    """Return a time zone by its IANA name; `ConfigError` if this machine knows none of that name."""
    if name.upper() in ("UTC", "Z"):
        return dt.UTC
    try:
        return ZoneInfo(name)
    except Exception as error:
        raise ConfigError(
            f"there is no time zone {safe_repr(name)} here; write 'UTC' or a name such as "
            "'Europe/Berlin'"
        ) from error
