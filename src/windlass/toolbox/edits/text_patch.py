"""Replace an exact text: for files without a grammar, and for changes that no node covers."""

from __future__ import annotations

import difflib
from typing import Final

from windlass.toolbox.edits.change import Change
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.spans import SpanEdit

_SHOWN: Final = 5
_LISTED: Final = 20
_COMPARED: Final = 20_000  # lines of a file that are compared with a text that is not found


def plan_text_patch(
    data: bytes, old_text: str, new_text: str, *, replace_all: bool = False, line: int | None = None
) -> Change:
    """Plan to replace a text that stands in the file exactly once, or every one of them."""
    old, new = _encode(data, old_text, "old_text"), _encode(data, new_text, "new_text")
    if not old:
        raise EditRefused("text", "old_text is empty; copy the text to replace from the file")
    if old == new:
        raise EditRefused("text", "old_text and new_text are the same")
    found = _find_all(data, old)
    fresh = [at for at in found if not _is_made(data, at, old, new)]
    if found and not fresh:
        return Change((), "the text is as it should be already")
    if not found:
        if new and _find_all(data, new):
            return Change(
                (), "the text is as it should be already: new_text is there, old_text is not"
            )
        raise EditRefused("not_found", _explain_missing(data, old))
    if line is not None:
        on = zip(fresh, _lines_of(data, fresh), strict=True)
        fresh = [at for at, found_on in on if found_on == line] or fresh
    if len(fresh) > 1 and not replace_all:
        lines = [str(one) for one in _lines_of(data, fresh[:_LISTED])]
        raise EditRefused(
            "ambiguous",
            f"old_text stands in the file {len(fresh)} times, on lines "
            f"{', '.join(lines)}; give more of the text around it, line=…, or replace_all=true",
            tuple(f"line {one}" for one in lines),
        )
    edits = tuple([SpanEdit(at, at + len(old), new) for at in fresh])
    where = f"line {_line_of(data, fresh[0])}" if len(fresh) == 1 else f"{len(fresh)} places"
    return Change(
        edits, f"replaced the text on {where}" if len(fresh) == 1 else f"replaced {where}"
    )


def _encode(data: bytes, text: str, what: str) -> bytes:
    try:
        made = text.encode()
    except UnicodeEncodeError:
        raise EditRefused(
            "text", f"{what} holds half of a surrogate pair, which no file can"
        ) from None
    if b"\r\n" in data and b"\r\n" not in made and data.count(b"\r\n") * 2 > data.count(b"\n"):
        return made.replace(b"\n", b"\r\n")
    return made


def _find_all(data: bytes, text: bytes) -> list[int]:
    found: list[int] = []
    at = data.find(text)
    while at >= 0:
        found.append(at)
        at = data.find(text, at + len(text))
    return found


def _is_made(data: bytes, at: int, old: bytes, new: bytes) -> bool:
    """Check whether a place is inside new_text already, where that holds old_text."""
    inside = new.find(old)
    for _ in range(_LISTED):
        if inside < 0:
            break
        start = at - inside
        if start >= 0 and data[start : start + len(new)] == new:
            return True
        inside = new.find(old, inside + 1)
    return False


def _lines_of(data: bytes, offsets: list[int]) -> list[int]:
    """Return the lines of offsets that are in order, in one pass over the text."""
    lines: list[int] = []
    at, line = 0, 1
    for offset in offsets:
        line += data.count(b"\n", at, offset)
        at = offset
        lines.append(line)
    return lines


def _line_of(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


def _explain_missing(data: bytes, old: bytes) -> str:
    """Say where the file comes nearest to the text, and the first line that differs."""
    lines = [line.rstrip(b"\r") for line in data.split(b"\n")]
    wanted = [line.rstrip(b"\r") for line in old.split(b"\n")]
    first = next((line for line in wanted if line.strip()), b"")
    skipped = wanted.index(first) if first else 0
    stripped = [line.strip() for line in lines[:_COMPARED]]
    starts = [number for number, line in enumerate(stripped) if line == first.strip()]
    for start in starts[:_SHOWN]:
        for step, want in enumerate(wanted[skipped:]):
            have = lines[start + step] if start + step < len(lines) else b""
            if have != want:
                return (
                    f"old_text is not in the file: line {start + step + 1} is\n{_show(have)}\n"
                    f"and old_text has\n{_show(want)}"
                )
    near = difflib.get_close_matches(
        _show(first.strip()), [_show(one) for one in stripped[:2000] if one], 1, 0.6
    )
    if near:
        number = next(n for n, line in enumerate(stripped, 1) if _show(line) == near[0])
        return f"old_text is not in the file; the nearest line is line {number}:\n{near[0]}"
    return "old_text is not in the file, nor a line like its first; read the file again"


def _show(line: bytes) -> str:
    return line[:200].decode(errors="replace")
