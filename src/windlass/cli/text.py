"""Words for a terminal: cleaned of control characters, cut to length; numbers, ages and durations.

Models and tools write what they like. Nothing of it may move a cursor, set a title or hide a line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from windlass.errors import ConfigError

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
)
# All control characters but tab and newline, marks that turn the writing direction, odd line ends.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
# What JSON leaves as it is and a terminal does not.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_AGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|h|d|w)\s*", re.IGNORECASE)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def clean(text: str) -> str:
    """The text without anything a terminal would obey; tabs and newlines stay."""
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    return _CONTROL.sub("", text)


def clean_piece(text: str) -> str:
    """The same for a piece of a stream, where a sequence may be cut in two: it becomes visible."""
    return _CONTROL.sub("", text)


def one_line(text: str, width: int | None = None) -> str:
    """The text on one line, cut to a width: `one_line("a\\nb", 80)` -> `a b`."""
    if width is not None and len(text) > 8 * width + 4096:  # megabytes need not be read to be cut
        text = text[: 8 * width + 4096]
    flat = " ".join(clean(text).split())
    return flat if width is None or len(flat) <= width else flat[: max(0, width - 1)] + "…"


def shown_call(name: str, arguments: Mapping[str, Any], width: int | None = None) -> str:
    """A call as one would write it: `refund(order="A-1", amount=5.0)`."""
    inside = ", ".join(f"{key}={_literal(value)}" for key, value in arguments.items())
    return one_line(f"{name}({inside})", width)


def _literal(value: Any) -> str:
    import msgspec

    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value)


def json_text(value: Any, *, indent: bool = True) -> str:
    """Plain data as JSON that is safe to print on a terminal."""
    import msgspec

    encoded = msgspec.json.encode(value)
    if indent:
        encoded = msgspec.json.format(encoded, indent=2)
    return safe_json(encoded.decode())


def safe_json(text: str) -> str:
    """JSON that says the same and that no terminal obeys."""
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# --------------------------------------------------------------------------- numbers


def tokens(count: int) -> str:
    """`1,234 tokens`."""
    return f"{count:,} token{'' if count == 1 else 's'}"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def money(usd: float) -> str:
    """Dollars with as many places as they need: `$0.0042`, `$12.30`."""
    if usd == 0 or usd >= 1:
        return f"${usd:,.2f}"
    return f"${usd:.4f}" if usd >= 0.0001 else f"${usd:.2g}"


def duration(seconds: float) -> str:
    """`12 ms`, `3.4 s`, `5 min 02 s`, `3 h 07 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def ago(seconds: float) -> str:
    """How long since: `just now`, `5 min ago`, `3 days ago`."""
    if seconds < 60:
        return "just now"
    for size, name in ((86400, "day"), (3600, "hour"), (60, "min")):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {name}{'s' if number > 1 and name != 'min' else ''} ago"
    return "just now"


def age(text: str) -> float:
    """Seconds from what a person writes: `30d`, `12h`, `90m`, `2w`."""
    found = _AGE.fullmatch(text)
    if found is None:
        raise ConfigError(f"{text!r} is no age; write 30d, 12h, 90m, 45s or 2w")
    return float(found[1]) * _UNITS[found[2].lower()]
