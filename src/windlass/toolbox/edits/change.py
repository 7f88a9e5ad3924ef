"""A change of one file, and the checks that it must pass before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from windlass.toolbox.edits.outline import build_outline
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.source import Source, SyntaxFault
from windlass.toolbox.edits.spans import OffsetMap, SpanEdit, apply_edits

_SHOWN: Final = 3  # syntax errors that a refusal shows


class Change(NamedTuple):
    """What an edit does to one file, in bytes and in words."""

    edits: tuple[SpanEdit, ...]
    summary: str
    notes: tuple[str, ...] = ()


def check_change(source: Source, edits: Sequence[SpanEdit], *, outline: bool = True) -> Source:
    """Return the file after the edits; `EditRefused` if its syntax would be worse than before.

    With `outline` everything that has a name outside the edits must keep its place in the tree.
    """
    ordered = sorted(edits)
    after = Source(apply_edits(source.data, ordered), source.language, source.path)
    fault = _new_faults(source, after, ordered)
    if fault:
        shown = "\n".join([after.show_fault(one) for one in fault[:_SHOWN]])
        shown += _show_faults_of_text(source, ordered)
        raise EditRefused(
            "syntax",
            f"refused: {source.path or 'the file'} would have {_count(after.faults)} after this change "
            f"and has {len(source.faults)} now. As it would be:\n{shown}",
        )
    if outline and not source.faults:
        _check_outline(source, after, ordered)
    return after


def _show_faults_of_text(source: Source, edits: Sequence[SpanEdit]) -> str:
    """Show what is wrong in the new text alone: in the file, an open bracket shows far away."""
    if len(edits) != 1 or source.language.name not in ("python", "go", "rust"):
        return ""  # a part of a class or a list is no file in the other languages
    alone = Source(edits[0].text.strip(), source.language)
    shown = [alone.show_fault(one) for one in alone.faults[:_SHOWN]]
    return "\nIn the new text alone:\n" + "\n".join(shown) if shown else ""


def has_new_faults(source: Source, edits: Sequence[SpanEdit]) -> bool:
    """Check whether edits would leave a file with more syntax errors than it has."""
    ordered = sorted(edits)
    after = Source(apply_edits(source.data, ordered), source.language, source.path)
    return bool(_new_faults(source, after, ordered))


def _count(faults: tuple[SyntaxFault, ...]) -> str:
    return "1 syntax error" if len(faults) == 1 else f"{len(faults)} syntax errors"


def _new_faults(source: Source, after: Source, edits: Sequence[SpanEdit]) -> list[SyntaxFault]:
    """Return the errors that the edits brought, those in the edited text first; [] if none."""
    if not after.faults:
        return []
    shift = 0
    inside: list[SyntaxFault] = []
    for edit in edits:
        start, end = edit.start + shift, edit.start + shift + len(edit.text)
        shift += len(edit.text) - (edit.end - edit.start)
        touched = [one for one in after.faults if one.start <= end and start <= one.end]
        clean = not any(one.start <= edit.end and edit.start <= one.end for one in source.faults)
        if touched and clean:
            inside += touched
    if len(after.faults) > len(source.faults):
        inside = inside or list(after.faults)
    # The smallest say best what is wrong: a large one can be the whole file.
    return sorted(inside, key=lambda one: one.end - one.start)


def _check_outline(source: Source, after: Source, edits: Sequence[SpanEdit]) -> None:
    """Refuse a change that moves what it does not name: an indent or a bracket that slipped."""
    places = OffsetMap(edits)
    now = {(one.names, one.node.start_byte) for one in build_outline(after)}
    for one in build_outline(source):
        start, end = one.node.start_byte, one.node.end_byte
        if any(edit.start < end and start < edit.end for edit in edits):
            continue
        if (one.names, places.move(start)) in now:
            continue
        raise EditRefused(
            "syntax",
            f"refused: {one} (line {source.line_of(start)}) is outside the change and would not be "
            "at its place any more: the new text has an indentation or a bracket too many or too few",
        )
