"""Changes of bytes: spans that are replaced, their digest, their unified diff and its reverse."""

from __future__ import annotations

import difflib
import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from windlass.toolbox.edits.refusal import EditRefused

DIGEST_LENGTH: Final = 16
_MOST_COMPARED: Final = 25_000_000  # pairs of lines; above, all lines are shown as changed
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE: Final = b"\\ No newline at end of file"


class SpanEdit(NamedTuple):
    """The replacement of the bytes from `start` to `end`."""

    start: int
    end: int
    text: bytes


def digest_of(data: bytes) -> str:
    """Return the digest of a file's content, as tools show it: 16 hex digits of its SHA-256."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_LENGTH]


def apply_edits(data: bytes, edits: Iterable[SpanEdit]) -> bytes:
    """Return the bytes with all edits made; edits must not overlap."""
    pieces: list[bytes] = []
    at = 0
    for edit in sorted(edits, key=lambda one: (one.start, one.end)):
        if edit.start < at:
            raise EditRefused("text", "the changes overlap; make them one at a time")
        pieces += (data[at : edit.start], edit.text)
        at = edit.end
    pieces.append(data[at:])
    return b"".join(pieces)


class OffsetMap:
    """Where bytes outside some edits stand after them."""

    def __init__(self, edits: Iterable[SpanEdit]) -> None:
        ordered = sorted(edits)
        self._ends = [one.end for one in ordered]
        self._shifts = [0]
        for one in ordered:
            self._shifts.append(self._shifts[-1] + len(one.text) - (one.end - one.start))

    def move(self, offset: int) -> int:
        """Return the new place of a byte; what is inserted at it comes before it."""
        return offset + self._shifts[bisect_right(self._ends, offset)]


def split_lines(data: bytes) -> list[bytes]:
    """Split at line feeds alone, and keep them: carriage returns belong to their line."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def unified_diff(path: str, before: bytes, after: bytes) -> bytes:
    """Return the unified diff of a file's content with three lines of context."""
    if before == after:
        return b""
    old, new = split_lines(before), split_lines(after)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    # Only the part that differs is compared: difflib is quadratic.
    start = max(0, head - 3)
    kept = max(0, tail - 3)
    label = path.encode(errors="replace")
    if (len(old) - head - tail) * (len(new) - head - tail) > _MOST_COMPARED:
        gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
        first = b"--- a/%s\n+++ b/%s\n" % (label, label)
        first += b"@@ -%d,%d +%d,%d @@\n" % (head + 1, len(gone), head + 1, len(come))
        signed = [b"-" + line for line in gone] + [b"+" + line for line in come]
        return first + b"".join([_write_line(line, 0) for line in signed])
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        old[start : len(old) - kept],
        new[start : len(new) - kept],
        b"a/" + label,
        b"b/" + label,
    )
    return b"".join([_write_line(line, start) for line in lines])


def _write_line(line: bytes, start: int) -> bytes:
    if line.startswith((b"--- ", b"+++ ")):
        return line
    if (found := _HUNK.match(line)) is not None:
        old, new = int(found[1]) + start, int(found[3]) + start
        return b"@@ -%d,%s +%d,%s @@\n" % (old, found[2] or b"1", new, found[4] or b"1")
    return line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE + b"\n"


def reverse_diff(after: bytes, diff: bytes) -> bytes | None:
    """Return the content before a unified diff was made; None if it does not fit."""
    new = split_lines(after)
    made: list[bytes] = []
    at = 0
    lines = split_lines(diff)
    index = 0
    while index < len(lines):
        found = _HUNK.match(lines[index])
        index += 1
        if found is None:
            continue
        counts = [int(found[2] or 1), int(found[4] or 1)]
        first = int(found[3]) - (1 if counts[1] else 0)
        if first < at or first > len(new):
            return None
        made += new[at:first]
        at = first
        while (counts[0] or counts[1]) and index < len(lines):
            sign, text = lines[index][:1], lines[index][1:]
            index += 1
            if index < len(lines) and lines[index].startswith(_NO_NEWLINE):
                text = text.removesuffix(b"\n")
                index += 1
            if sign in (b" ", b"+"):
                if at >= len(new) or new[at] != text:
                    return None
                at += 1
                counts[1] -= 1
            if sign in (b" ", b"-"):
                made.append(text)
                counts[0] -= 1
    made += new[at:]
    return b"".join(made)
