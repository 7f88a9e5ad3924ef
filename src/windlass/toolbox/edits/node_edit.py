"""Replace one syntax node, and nothing else."""

from __future__ import annotations

from windlass.toolbox.edits.change import Change, has_new_faults
from windlass.toolbox.edits.selectors import Place, Selector, find_place
from windlass.toolbox.edits.source import Source
from windlass.toolbox.edits.spans import SpanEdit
from windlass.toolbox.edits.texts import encode_text, indent_variants


def plan_replacement(source: Source, selector: Selector, text: str) -> Change:
    """Plan to replace the named node by new text, indented as the node is."""
    place = find_place(source, selector)
    data = encode_text(source, text)
    indent = _indent_of(source, place)
    variants = [
        _drop_doubled_end(source, place, one) for one in indent_variants(source, data, indent)
    ]
    chosen = variants[0]
    if len(variants) > 1:
        for one in variants:
            if not has_new_faults(source, [SpanEdit(place.start, place.end, one)]):
                chosen = one
                break
    edit = SpanEdit(place.start, place.end, chosen)
    lines = f"lines {source.line_of(place.start)}-{source.line_of(max(place.start, place.end - 1))}"
    if source.data[place.start : place.end] == chosen:
        return Change((), f"{place.label} has this text already")
    return Change((edit,), f"replaced {place.label} ({lines})")


def _indent_of(source: Source, place: Place) -> bytes:
    if source.language.name == "yaml":
        return b" " * (place.start - source.line_starts[source.line_of(place.start) - 1])
    return source.indent_at(place.start)


def _drop_doubled_end(source: Source, place: Place, text: bytes) -> bytes:
    """Leave out a last `;` or `,` that stands after the node already."""
    for mark in (b";", b","):
        inside = source.data[place.start : place.end].endswith(mark)
        if (
            text.endswith(mark)
            and not inside
            and source.data[place.end :].lstrip().startswith(mark)
        ):
            return text[:-1]
    return text
