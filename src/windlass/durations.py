"""Durations: numbers of seconds, or texts such as `"90s"`, `"5m"`, `"2h"`, `"1d"`."""

from __future__ import annotations

import math
import re
from typing import Final

from windlass.errors import ConfigError, safe_repr

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_LONGEST_TEXT: Final = 64
#: Hundred years: what is longer is a mistake, and would not fit a calendar.
LONGEST: Final = 100 * 365 * 86400.0


def parse_duration(value: object, what: str = "a duration") -> float:
    """Convert a duration to seconds: `parse_duration("1h30m") == 5400.0`.

    Raises `ConfigError` for what is no duration, is not positive, or is longer than 100 years.
    """
    seconds = _read(value)
    if seconds is None or math.isnan(seconds):
        raise ConfigError(
            f"{what} is a number of seconds or a text like '90s', '5m', '2h', '1d', not {safe_repr(value)}"
        )
    if seconds <= 0:
        raise ConfigError(f"{what} is longer than nothing, not {safe_repr(value)}")
    if seconds > LONGEST:
        raise ConfigError(f"{what} is at most 100 years, not {safe_repr(value)}")
    return seconds


def _read(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        return None
    text = value.strip()
    if not text or _PART.sub("", text):
        return None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in _PART.findall(text))
