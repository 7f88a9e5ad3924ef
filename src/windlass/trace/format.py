"""Text for display: control characters removed, cut to length; numbers and durations.

Models and tools write anything. None of it may move a cursor, set a title or hide a line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
)
# All control characters but tab and newline, marks that turn the writing direction, odd line ends.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+"
)


def clean(text: str) -> str:
    """Remove what a terminal would obey; tabs and newlines stay."""
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    return _CONTROL.sub("", text)


def clean_piece(text: str) -> str:
    """Clean a piece of a stream, where a cut control sequence becomes visible."""
    return _CONTROL.sub("", text)


def one_line(text: str, width: int | None = None) -> str:
    """Put the text on one line, cut to a width: `one_line("a\\nb", 80)` -> `a b`."""
    if width is not None and len(text) > 8 * width + 4096:  # megabytes need not be read to be cut
        text = text[: 8 * width + 4096]
    flat = " ".join(clean(text).split())
    return flat if width is None or len(flat) <= width else flat[: max(0, width - 1)] + "…"


def cells(text: str) -> int:
    """Count the terminal columns of a text."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


def _cell(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Put the text on one line, cut to so many columns."""
    flat = one_line(text, max(width, 0) + 1)
    if cells(flat) <= width:
        return flat
    kept, room = "", width - 1
    for char in flat:
        room -= _cell(char)
        if room < 0:
            break
        kept += char
    return kept + "…" if width > 0 else ""


def pad(text: str, width: int) -> str:
    """Cut or fill the text to exactly so many columns."""
    shown = fit(text, width)
    return shown + " " * (width - cells(shown))


def shown_call(name: str, arguments: Mapping[str, Any], width: int | None = None) -> str:
    """Format a call: `refund(order="A-1", amount=5.0)`."""
    inside = ", ".join(f"{key}={literal(value)}" for key, value in arguments.items())
    return one_line(f"{name}({inside})", width)


def literal(value: Any) -> str:
    """Format a value as JSON, or by `repr` where JSON cannot."""
    import msgspec  # not for `windlass --help`, which formats texts only

    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return repr(value)


# --------------------------------------------------------------------------- numbers


def tokens(count: int) -> str:
    """Format a count of tokens: `1,234 tokens`."""
    return f"{count:,} token{'' if count == 1 else 's'}"


def count(number: int, one: str, many: str | None = None) -> str:
    """Format a number of things: `1 turn`, `2 turns`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short(number: int) -> str:
    """Format a count briefly: `950`, `12.3k`, `4.1M`."""
    if number < 1000:
        return str(number)
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size * 0.9995:
            shown = f"{number / size:.1f}" if number < 99.95 * size else f"{number / size:.0f}"
            return f"{shown}{letter}"
    return str(number)


def money(usd: float) -> str:
    """Format dollars with as many places as they need: `$0.0042`, `$12.30`."""
    if usd == 0 or usd >= 1:
        return f"${usd:,.2f}"
    return f"${usd:.4f}" if usd >= 0.0001 else f"${usd:.2g}"


def size(bytes_: int) -> str:
    """Format a size: `512 bytes`, `12.3 kB`, `10.0 MB`."""
    if bytes_ < 1000:
        return count(bytes_, "byte")
    return f"{bytes_ / 1000:.1f} kB" if bytes_ < 999_950 else f"{bytes_ / 1e6:.1f} MB"


def format_fine_duration(seconds: float) -> str:
    """Format a duration, finer than `duration` where it is short: `0.4 ms`."""
    return f"{seconds * 1000:.1f} ms" if 0 < seconds < 0.0095 else duration(seconds)


def duration(seconds: float) -> str:
    """Format a duration: `12 ms`, `3.4 s`, `5 min 02 s`, `3 h 07 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
