"""Random edits of real files: each must keep the file parseable and change its span alone."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from windlass.toolbox.edits.languages import Language
from windlass.toolbox.edits.outline import Declared, build_outline
from windlass.toolbox.edits.plans import (
    ApplyNode,
    EditRequest,
    InsertAtAnchor,
    PatchText,
    RenameSymbol,
)
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.rename import plan_rename
from windlass.toolbox.edits.result import build_result, parse_result
from windlass.toolbox.edits.scopes.table import resolve_symbols
from windlass.toolbox.edits.selectors import Selector
from windlass.toolbox.edits.source import Source
from windlass.toolbox.edits.spans import SpanEdit, apply_edits


@dataclass
class Report:
    """What came of the edits of some files."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


def edit_file(data: bytes, language: Language, path: str, seed: int, report: Report) -> None:
    """Apply, insert, rename and patch at random places of one file, and check each."""
    rng = random.Random(f"{seed} {path}")
    source = Source(data, language, path)
    report.counts["files"] += 1
    report.counts["bytes"] += len(data)
    if source.faults:
        report.counts["files with errors"] += 1
    if not data.isascii():
        report.counts["files beyond ASCII"] += 1
    outline = [one for one in build_outline(source) if not one.node.has_error]
    for name, label, request, span, line in _edits(source, outline, rng):
        _check(source, name, label, request, span, line, report)


def _edits(
    source: Source, outline: list[Declared], rng: random.Random
) -> Iterator[tuple[str, str, EditRequest, tuple[int, int] | None, int]]:
    if outline:
        for one in rng.sample(outline, min(2, len(outline))):
            other = _twin(source, outline, one, rng)
            text = _text_of(source, other)
            selector = Selector(str(one), source.line_of(one.start))
            yield "apply", str(one), ApplyNode(selector, text), (one.start, one.end), 0
        alone = [one for one in outline if _is_statement(one)]
        for one in rng.sample(alone, min(2, len(alone))):
            text = _text_of(source, one)
            if one.step.name.isidentifier() and one.step.kind not in ("import", "item"):
                text = re.sub(rf"\b{one.step.name}\b", f"{one.step.name}x", text, count=1)
            position = rng.choice(("before", "after"))
            selector = Selector(str(one), source.line_of(one.start))
            yield "insert", f"{position} {one}", InsertAtAnchor(selector, text, position), None, 0
        for one in rng.sample(outline, min(2, len(outline))):
            text = source.data[one.start : one.end].decode(errors="surrogateescape")
            if not text.isprintable() or len(text) < 4 or source.data.count(text.encode()) != 1:
                continue
            # The grammar of C cannot parse a blank after a macro without a value, before `#endif`.
            if one.node.type == "preproc_def" and one.node.child_by_field_name("value") is None:
                continue
            yield (
                "patch",
                str(one),
                PatchText(text, f"{text} ", False, None),
                (one.start, one.end),
                0,
            )
    symbols = [
        one
        for one in resolve_symbols(source)
        if one.is_declared and all(occ.form == "plain" for occ in one.occurrences)
    ]
    for one in rng.sample(symbols, min(3, len(symbols))):
        line = source.line_of(one.occurrences[0].start)
        yield (
            "rename",
            f"{one.name} on line {line}",
            RenameSymbol(one.name, "zq_other", line),
            None,
            line,
        )


def _is_statement(one: Declared) -> bool:
    """Check whether a node can be repeated: `b` of `var a, b` is no statement."""
    parent = one.node.parent
    if one.node.type != "variable_declarator" or parent is None:
        return True
    return sum(child.type == "variable_declarator" for child in parent.named_children) == 1


def _twin(source: Source, outline: list[Declared], one: Declared, rng: random.Random) -> Declared:
    """Return another node of the same kind in the same kind of place, or the node itself."""
    parent = one.node.parent
    twins = [
        other
        for other in outline
        if other.node.type == one.node.type
        and parent is not None
        and other.node.parent is not None
        and other.node.parent.type == parent.type
        and (other.end <= one.start or other.start >= one.end)
    ]
    return rng.choice(twins) if twins else one


def _text_of(source: Source, one: Declared) -> str:
    """Return the text of a node as a model would write it: from its own left edge."""
    indent = source.indent_at(one.start)
    lines = (
        source.data[one.start : one.end].decode(errors="replace").replace("\r\n", "\n").split("\n")
    )
    cut = indent.decode()
    text = "\n".join([lines[0], *[line.removeprefix(cut) for line in lines[1:]]])
    if source.language.name in ("c", "cpp") and source.data[one.end :].lstrip().startswith(b";"):
        text += ";"
    return text


def _check(
    source: Source,
    name: str,
    label: str,
    request: EditRequest,
    span: tuple[int, int] | None,
    line: int,
    report: Report,
) -> None:
    where = f"{source.path}: {name} {label}"
    try:
        change = request.plan(source.data, source.path).change
    except EditRefused as error:
        report.refused[f"{name}: {error.code}"] += 1
        # A file that does not parse to begin with may be refused more than it has to.
        noisy = error.code == "syntax" and bool(source.faults)
        if error.code not in ("ambiguous", "collision") and not noisy:
            report.wrong.append(f"{where}: {error.code}: {str(error)[:300]}")
        return
    if not change.edits:
        report.counts[f"{name} without effect"] += 1
        return
    report.counts[name] += 1
    after = apply_edits(source.data, change.edits)
    made = Source(after, source.language, source.path)
    if len(made.faults) > len(source.faults):
        report.wrong.append(f"{where}: more syntax errors")
    if span is not None:
        start, tail = span[0], len(source.data) - span[1]
        if (
            after[:start] != source.data[:start]
            or after[len(after) - tail :] != source.data[span[1] :]
        ):
            report.wrong.append(f"{where}: bytes outside the node changed")
    if name == "insert" and not _is_subsequence(source.data, after, change.edits):
        report.wrong.append(f"{where}: an insertion removed something")
    if name == "rename":
        _check_rename(source, made, change.edits, line, where, report)
    result = build_result(source.path, source.data, change.edits, change.summary)
    recorded = parse_result(str(result))
    if recorded is None or recorded.reverse(after) != source.data:
        report.wrong.append(f"{where}: undo does not restore the bytes")
    else:
        report.counts["undo"] += 1


def _is_subsequence(before: bytes, after: bytes, edits: Sequence[SpanEdit]) -> bool:
    """Check that an insertion kept every byte but white space between empty brackets."""
    kept = [before[one.start : one.end] for one in edits]
    return not b"".join(kept).strip() and len(after) > len(before)


def _check_rename(
    source: Source, made: Source, edits: Sequence[SpanEdit], line: int, where: str, report: Report
) -> None:
    """Rename back: the bytes must be the first ones, by other lookups in another tree."""
    edits = sorted(edits)
    for one in edits:
        if one.text != b"zq_other":
            report.wrong.append(f"{where}: wrote {one.text!r}")
    old = source.data[edits[0].start : edits[0].end].decode()
    try:
        back = plan_rename(made, "zq_other", old, line)
    except EditRefused as error:
        report.wrong.append(f"{where}: cannot be renamed back: {error}")
        return
    if apply_edits(made.data, back.change.edits) != source.data:
        report.wrong.append(f"{where}: renaming back gives another file")
