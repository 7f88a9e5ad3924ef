"""Rename a symbol: every identifier that is it by the rules of scope, and nothing else."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from windlass.toolbox.edits.change import Change, check_change
from windlass.toolbox.edits.members import find_member_names, find_receiver_names
from windlass.toolbox.edits.outline import Declared, build_outline
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.scopes.resolver import Binding, Occurrence
from windlass.toolbox.edits.scopes.table import RESOLVERS, resolve_symbols
from windlass.toolbox.edits.selectors import find_declared, parse_path
from windlass.toolbox.edits.source import Source
from windlass.toolbox.edits.spans import OffsetMap, SpanEdit

if TYPE_CHECKING:
    from tree_sitter import Node

_IDENTIFIER: Final = re.compile(r"[^\W\d][\w]*\Z")
_SCRIPT_IDENTIFIER: Final = re.compile(r"[^\W\d]?[\w$]*\Z")
_PLAIN_KEYS: Final = {
    "yaml": re.compile(r"[A-Za-z_][\w./-]*\Z"),
    "toml": re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\Z"),
}
_YAML_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_MOST: Final = 20
_CODE_IN_STRINGS: Final = frozenset({"interpolation", "template_substitution"})


class RenamePlan(NamedTuple):
    """A rename of one file: the change, and what has the same name and stays."""

    change: Change
    old_name: str
    is_visible_outside: bool
    left: tuple[str, ...]


class _Target(NamedTuple):
    """The symbol that is renamed: a binding in scope, or a member with its declarations."""

    name: str
    binding: Binding | None
    members: tuple[Node, ...]
    is_visible_outside: bool


def plan_rename(source: Source, symbol: str, new_name: str, line: int | None = None) -> RenamePlan:
    """Plan to rename the symbol that a path names, or that stands on a line."""
    if source.language.name not in RESOLVERS:
        return _plan_key(source, symbol, new_name, line)
    _check_name(source, new_name)
    symbols = resolve_symbols(source)
    target = _find_target(source, symbols, symbol, line)
    if target.name == new_name:
        return RenamePlan(Change((), f"{symbol} is called {new_name} already"), new_name, False, ())
    edits = [SpanEdit(one.start_byte, one.end_byte, new_name.encode()) for one in target.members]
    moved: dict[int, int] = {}
    if target.binding is not None:
        own, moved = _binding_edits(target.binding, new_name)
        edits += own
    after = check_change(source, edits, outline=False)
    if target.binding is not None:
        _check_same_symbols(source, after, symbols, edits, moved, new_name)
    else:
        _check_members(source, after, target, new_name)
    lines = sorted({source.line_of(one.start) for one in edits})
    shown = ", ".join(map(str, lines[:_MOST])) + (", …" if len(lines) > _MOST else "")
    word = "place" if len(edits) == 1 else "places"
    summary = f"renamed {target.name} to {new_name} in {len(edits)} {word} (lines {shown})"
    left = _find_left(source, target.name, edits)
    change = Change(tuple(sorted(edits)), summary)
    return RenamePlan(change, target.name, target.is_visible_outside, tuple(left))


def _check_name(source: Source, name: str) -> None:
    script = source.language.name in ("javascript", "typescript", "tsx")
    fits = (_SCRIPT_IDENTIFIER if script else _IDENTIFIER).match(name)
    if not name or fits is None or (script and name[0].isdigit()):
        raise EditRefused("text", f"{name!r:.100} is no name in {source.language.name}")


def _find_target(source: Source, symbols: list[Binding], symbol: str, line: int | None) -> _Target:
    wanted, _ = parse_path(symbol)
    name = wanted[-1].name or ""
    plain = len(wanted) == 1 and wanted[0].kind is None
    if line is not None and plain:
        here = [one for one in symbols if one.name == name and _is_on(source, one, line)]
        if len(here) == 1:
            return _as_target(source, here[0])
        if len(here) > 1:
            raise _ambiguous(source, symbol, here)
    declared = [one for one in find_declared(source, symbol, line) if one.name_nodes]
    if declared:
        names = {one.name_nodes[0].start_byte for one in declared}
        found = [one for one in symbols if any(occ.start in names for occ in one.occurrences)]
        if found and len({id(one) for one in found}) == 1:
            return _as_target(source, found[0])
        if found and len(found) > 1:
            raise _ambiguous(source, symbol, found)
        groups = {(one.path[:-1], one.step.kind, one.step.name) for one in declared}
        if len(groups) == 1:
            return _member_target(source, declared[0])
        listed = tuple(f"{one} (line {source.line_of(one.start)})" for one in declared[:_MOST])
        raise EditRefused(
            "ambiguous",
            f"{symbol!r} matches {len(declared)} symbols; give a longer path or line=…:\n"
            + "\n".join(listed),
            listed,
        )
    found = _find_local(source, symbols, symbol, line)
    if not found and len(wanted) > 1:
        owners = find_declared(source, symbol.strip("/").rpartition("/")[0], None)
        nodes = find_member_names(source, owners[0].node, name) if len(owners) == 1 else []
        if nodes:
            return _Target(name, None, tuple(nodes), True)
    if not found:
        known = [one.name for one in symbols if one.name == name]
        if known:
            raise EditRefused(
                "not_found",
                f"{name} is used in {source.path or 'the file'} but declared elsewhere; rename it "
                "in the file that declares it",
            )
        names = sorted({one.name for one in symbols if one.is_declared})
        raise EditRefused(
            "not_found",
            f"there is no symbol {symbol!r} in {source.path or 'the file'}; "
            f"it declares {', '.join(names[:30]) or 'nothing'}",
            tuple(names[:_MOST]),
        )
    if len(found) > 1:
        raise _ambiguous(source, symbol, found)
    return _as_target(source, found[0])


def _find_local(
    source: Source, symbols: list[Binding], symbol: str, line: int | None
) -> list[Binding]:
    """Return parameters and variables of a name, inside what the rest of the path names."""
    wanted, _ = parse_path(symbol)
    name = wanted[-1].name
    spans = [(0, len(source.data))]
    if len(wanted) > 1:
        above = find_declared(source, symbol.strip("/").rpartition("/")[0], None)
        spans = [(one.node.start_byte, one.node.end_byte) for one in above]
    found: list[Binding] = []
    for one in symbols:
        if one.name != name or not one.is_declared:
            continue
        first = next(occ for occ in one.occurrences if occ.declares)
        inside = any(start <= first.start < end for start, end in spans)
        if inside and (line is None or _is_on(source, one, line)):
            found.append(one)
    return found


def _is_on(source: Source, binding: Binding, line: int) -> bool:
    return any(source.line_of(one.start) == line for one in binding.occurrences)


def _ambiguous(source: Source, symbol: str, found: Sequence[Binding]) -> EditRefused:
    listed: list[str] = []
    for one in found[:_MOST]:
        first = next((occ for occ in one.occurrences if occ.declares), one.occurrences[0])
        line = source.line_of(first.start)
        text = source.data[slice(*source.line_span(line))].decode(errors="replace").strip()
        listed.append(f"{one.name} on line {line}: {text[:100]}")
    return EditRefused(
        "ambiguous",
        f"{symbol!r} is {len(found)} different symbols; give line=… of the one that is meant:\n"
        + "\n".join(listed),
        tuple(listed),
    )


def _as_target(source: Source, binding: Binding) -> _Target:
    if not binding.is_declared:
        raise EditRefused(
            "not_found",
            f"{binding.name} is declared elsewhere; rename it in the file that declares it",
        )
    fixed = [one for one in binding.occurrences if one.form == "fixed"]
    if fixed:
        raise EditRefused(
            "text",
            f"{binding.name} is the name of a module on line {source.line_of(fixed[0].start)}; "
            "import it under another name with `as`",
        )
    scope = binding.scope
    outside = scope is not None and scope.kind in ("file", "class") or _is_namespace(scope)
    members: list[Node] = []
    if scope is not None and scope.kind == "class" and source.language.name == "python":
        members = find_member_names(source, scope.node, binding.name)
    return _Target(binding.name, binding, tuple(members), outside)


def _is_namespace(scope: object) -> bool:
    node = getattr(scope, "node", None)
    return getattr(node, "type", "") in ("namespace_definition", "mod_item", "internal_module")


def _member_target(source: Source, declared: Declared) -> _Target:
    same = [
        one
        for one in build_outline(source)
        if one.path[:-1] == declared.path[:-1] and one.step[:2] == declared.step[:2]
    ]
    nodes = [node for one in same for node in one.name_nodes]
    nodes = [node for node in nodes if _unquote(source, node) == declared.step.name]
    if source.language.name == "go":
        nodes += find_receiver_names(source, declared)
    else:
        nodes += find_member_names(source, declared.node, declared.step.name)
    unique = {node.start_byte: node for node in nodes}
    if not unique:
        raise EditRefused("not_found", f"{declared} has no name that can be changed")
    quoted = next((one for one in unique.values() if source.text(one)[:1] in "\"'`"), None)
    if quoted is not None:
        raise EditRefused(
            "text", f"{declared} has its name in quotes; use edit_safe_text_patch for it"
        )
    return _Target(declared.step.name, None, tuple(unique.values()), True)


def _unquote(source: Source, node: Node) -> str:
    return source.text(node).strip("\"'`")


def _binding_edits(binding: Binding, new_name: str) -> tuple[list[SpanEdit], dict[int, int]]:
    """Return the edits of a binding, and where each identifier stands inside its new text."""
    edits: list[SpanEdit] = []
    moved: dict[int, int] = {}
    for one in binding.occurrences:
        text, at = _write(one, new_name)
        edits.append(SpanEdit(one.start, one.end, text.encode()))
        moved[one.start] = len(text[:at].encode())
    return edits, moved


def _write(one: Occurrence, new_name: str) -> tuple[str, int]:
    match one.form:
        case "import":
            return f"{one.name} as {new_name}", len(one.name) + 4
        case "shorthand":
            return f"{one.name}: {new_name}", len(one.name) + 2
        case "export":
            return f"{new_name} as {one.name}", 0
        case _:
            return new_name, 0


def _check_same_symbols(
    source: Source,
    after: Source,
    symbols: list[Binding],
    edits: list[SpanEdit],
    moved: dict[int, int],
    new_name: str,
) -> None:
    """Refuse a name that would join two symbols, or take an identifier from another."""
    places = OffsetMap(edits)

    def place(start: int) -> int:
        return places.move(start) + moved.get(start, 0)

    expected = {frozenset(place(occ.start) for occ in one.occurrences) for one in symbols}
    found = {frozenset(occ.start for occ in one.occurrences) for one in resolve_symbols(after)}
    if found == expected:
        return
    taken = [one for one in symbols if one.name == new_name]
    lines = sorted({source.line_of(occ.start) for one in taken for occ in one.occurrences})
    if lines:
        shown = ", ".join(map(str, lines[:_MOST]))
        raise EditRefused(
            "collision",
            f"refused: {new_name} is another symbol already (lines {shown}), and the two would mix; "
            "choose another name",
        )
    raise EditRefused("collision", f"refused: {new_name} is no name that can be used here")


def _check_members(source: Source, after: Source, target: _Target, new_name: str) -> None:
    before, now = build_outline(source), build_outline(after)
    if sum(one.step.name == new_name for one in now) != sum(
        one.step.name == new_name for one in before
    ) + sum(any(node in one.name_nodes for node in target.members) for one in before):
        raise EditRefused("collision", f"refused: {new_name} is no name that can be used here")
    starts = {node.start_byte for node in target.members}
    own = {one.path[:-1] for one in before if any(n.start_byte in starts for n in one.name_nodes)}
    clash = [one for one in before if one.step.name == new_name and one.path[:-1] in own]
    if clash:
        raise EditRefused(
            "collision",
            f"refused: {clash[0]} (line {source.line_of(clash[0].start)}) has this name already",
        )


def _find_left(source: Source, name: str, edits: Sequence[SpanEdit]) -> list[str]:
    """List where the same word stands and was not renamed, in code and in text."""
    ordered = sorted(edits)
    starts = [one.start for one in ordered]
    word = re.compile(rb"(?<![\w$])" + re.escape(name.encode()) + rb"(?![\w$])")
    language = source.language
    left: list[str] = []
    for found in word.finditer(source.data):
        at = found.start()
        before = bisect_right(starts, at) - 1
        if before >= 0 and at < ordered[before].end:
            continue
        node = source.root.descendant_for_byte_range(at, found.end())
        kind = "other code"
        above = node
        while above is not None:
            if above.type in language.comments:
                kind = "a comment"
                break
            if above.type in _CODE_IN_STRINGS:
                break
            if above.type in language.strings and above.start_byte < at:
                kind = "a string"
                break
            above = above.parent
            if above is not None and above.end_byte - above.start_byte > 4000:
                break
        left.append(f"line {source.line_of(at)} ({kind})")
        if len(left) >= _MOST:
            break
    return left


def _plan_key(source: Source, symbol: str, new_name: str, line: int | None) -> RenamePlan:
    """Plan to rename one key of a data file."""
    declared = [one for one in find_declared(source, symbol, line) if one.name_nodes]
    if len(declared) != 1:
        listed = tuple(f"{one} (line {source.line_of(one.start)})" for one in declared[:_MOST])
        what = "matches no key" if not declared else "matches several keys:\n" + "\n".join(listed)
        raise EditRefused("ambiguous" if declared else "not_found", f"{symbol!r} {what}", listed)
    one = declared[0]
    if one.step.name == new_name:
        return RenamePlan(Change((), f"{symbol} is called {new_name} already"), new_name, False, ())
    twins = [
        other
        for other in build_outline(source)
        if other.path[:-1] == one.path[:-1] and other.step.name == new_name
    ]
    if twins:
        raise EditRefused("collision", f"refused: {twins[0]} is there already")
    node = one.name_nodes[0]
    edit = SpanEdit(node.start_byte, node.end_byte, _write_key(source, node, new_name).encode())
    after = check_change(source, [edit], outline=False)
    kept = [str(other) for other in build_outline(after) if other.step.name == new_name]
    if not kept:
        raise EditRefused("text", f"{new_name!r:.100} cannot be a key here")
    change = Change((edit,), f"renamed {one} to {new_name} (line {source.line_of(one.start)})")
    return RenamePlan(change, one.step.name, True, tuple(_find_left(source, one.step.name, [edit])))


def _write_key(source: Source, node: Node, name: str) -> str:
    quoted = source.text(node)[:1] in "\"'"
    plain = _PLAIN_KEYS.get(source.language.name)
    if plain is not None and not quoted and plain.match(name) and name.lower() not in _YAML_WORDS:
        return name
    return json.dumps(name, ensure_ascii=False)


def find_word_lines(data: bytes, name: str) -> list[int]:
    """Return the lines of a file on which a word stands, without parsing it."""
    word = re.compile(rb"(?<![\w$])" + re.escape(name.encode()) + rb"(?![\w$])")
    lines = {data.count(b"\n", 0, found.start()) + 1 for found in word.finditer(data)}
    return sorted(lines)
