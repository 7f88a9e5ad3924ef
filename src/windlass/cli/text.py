"""Text for a terminal: control characters removed, cut to length; numbers and ages.

Models and tools write anything. None of it may move a cursor, set a title or hide a line.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from windlass.errors import ConfigError
from windlass.trace.format import (
    clean,
    clean_piece,
    count,
    duration,
    money,
    one_line,
    shown_call,
    tokens,
)

__all__ = [
    "age",
    "ago",
    "clean",
    "clean_piece",
    "colour_diff",
    "count",
    "duration",
    "json_text",
    "money",
    "one_line",
    "safe_json",
    "shown_call",
    "to_program",
    "tokens",
]

# What JSON leaves as it is and a terminal does not.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_AGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|d|w)\s*", re.IGNORECASE)
_DIFF_WIDTH = 500  # characters of a line of a diff
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def json_text(value: Any, *, indent: bool = True) -> str:
    """Encode plain data as JSON that is safe to print on a terminal."""
    import msgspec

    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # the name of a file need not be text
        return safe_json(json.dumps(msgspec.to_builtins(value), indent=2 if indent else None))
    if indent:
        encoded = msgspec.json.format(encoded, indent=2)
    return safe_json(encoded.decode())


def safe_json(text: str) -> str:
    """Escape JSON so that no terminal obeys it."""
    for letter in set(_UNSAFE_IN_JSON.findall(text)):  # of which there are few, however often
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def colour_diff(diff: str | None, most: int = 400) -> Iterator[tuple[str, str]]:
    """Yield the lines of a unified diff, safe to print, each with its style."""
    lines = (diff or "").splitlines()
    for line in lines[:most]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
        style = "bold" if line.startswith(("--- ", "+++ ")) else style
        yield clean(line.expandtabs(4))[:_DIFF_WIDTH], style
    if len(lines) > most:
        yield f"[… {count(len(lines) - most, 'more line')}]", "dim"


# --------------------------------------------------------------------------- numbers


def ago(seconds: float) -> str:
    """Format the time since: `just now`, `5 min ago`, `3 days ago`."""
    if seconds < 60:
        return "just now"
    for size, name in ((86400, "day"), (3600, "hour"), (60, "min")):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {name}{'s' if number > 1 and name != 'min' else ''} ago"
    return "just now"


def age(text: str) -> float:
    """Parse an age into seconds: `30d`, `12h`, `90m`, `2w`."""
    found = _AGE.fullmatch(text)
    if found is None:
        raise ConfigError(f"{text!r} is no age; write 30d, 12h, 90m, 45s or 2w")
    return float(found[1]) * _UNITS[found[2].lower()]


def to_program() -> str:
    """Return how this command is called from a shell here: `windlass`, or a path to it.

    A virtual environment that is not active has no `windlass` on the path.
    """
    called = sys.argv[0] if sys.argv else ""
    if os.path.basename(called) != "windlass" or not os.path.isfile(called):
        return "windlass"
    found = shutil.which("windlass")
    if found is not None and os.path.samefile(found, called):
        return "windlass"
    near = os.path.relpath(called)
    return shlex.quote(called if near.startswith("..") else near)
