"""The answer of an edit, as an object and as the text that a model reads and an undo reverses."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.toolbox.edits.spans import (
    SpanEdit,
    apply_edits,
    digest_of,
    reverse_diff,
    unified_diff,
)

_DIGESTS: Final = re.compile(r"^digest ([0-9a-f]{16}) -> ([0-9a-f]{16})$", re.MULTILINE)
_BYTES: Final = re.compile(r"^bytes (\d+) (\d+) (\S*)$", re.MULTILINE)
_NOTES: Final = 40


class EditResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an edit did, or would do: `result.diff`, `result.digest`, `str(result)`."""

    path: str
    summary: str
    diff: str
    """The unified diff; empty if nothing changed."""
    digest_before: str
    digest: str
    """The digest of the new content; pass it to the next edit, to detect changes by others."""
    notes: tuple[str, ...] = ()
    restore: tuple[tuple[int, int, bytes], ...] = ()
    """What an undo needs if the file is not UTF-8: the new spans, and their old bytes."""
    is_preview: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether the file is, or would be, different."""
        return self.digest != self.digest_before

    def __str__(self) -> str:
        head = f"{self.path}: {self.summary}"
        if self.is_preview:
            head = f"not written, a preview of {head}"
        lines = [head, *self.notes[:_NOTES]]
        if not self.is_changed:
            return "\n".join([*lines, f"digest {self.digest}"])
        lines.append(f"digest {self.digest_before} -> {self.digest}")
        for start, length, old in self.restore:
            lines.append(f"bytes {start} {length} {base64.b64encode(old).decode()}")
        return "\n".join([*lines, self.diff] if self.diff else lines)


def build_result(
    path: str,
    before: bytes,
    edits: Sequence[SpanEdit],
    summary: str,
    notes: Sequence[str] = (),
    *,
    is_preview: bool = False,
) -> EditResult:
    """Build the answer of an edit of a file whose content was `before`."""
    after = apply_edits(before, edits)
    diff = unified_diff(path, before, after)
    restore: list[tuple[int, int, bytes]] = []
    try:
        text = diff.decode()
        if reverse_diff(after, text.encode()) != before:
            raise ValueError
    except ValueError:
        text = diff.decode(errors="replace")
        moved = 0
        for edit in sorted(edits):
            start = edit.start + moved
            restore.append((start, len(edit.text), before[edit.start : edit.end]))
            moved += len(edit.text) - (edit.end - edit.start)
    return EditResult(
        path=path,
        summary=summary,
        diff=text,
        digest_before=digest_of(before),
        digest=digest_of(after),
        notes=tuple(notes),
        restore=tuple(restore),
        is_preview=is_preview,
    )


class RecordedEdit(msgspec.Struct, frozen=True):
    """An edit as its recorded answer tells it: enough to take it back."""

    digest_before: str
    digest: str
    text: str

    def reverse(self, after: bytes) -> bytes | None:
        """Return the content before the edit; None if the record does not lead there."""
        spans = [
            SpanEdit(int(start), int(start) + int(length), _decode(old))
            for start, length, old in _BYTES.findall(self.text)
        ]
        if spans:
            before = apply_edits(after, spans)
        else:
            _, mark, rest = self.text.partition("\n--- a/")
            made = reverse_diff(after, (mark + rest).encode()) if mark else None
            if made is None:
                return None
            before = made
        return before if digest_of(before) == self.digest_before else None


def parse_result(text: str) -> RecordedEdit | None:
    """Read the recorded answer of an edit; None if it changed nothing."""
    found = _DIGESTS.search(text.partition("\n--- a/")[0])
    return None if found is None else RecordedEdit(found[1], found[2], text)


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
