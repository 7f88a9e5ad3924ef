"""Which node an edit is for: a path such as `class:Cart/function:total`, a line, or a pattern."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, NamedTuple

from windlass.toolbox.edits.languages import KINDS
from windlass.toolbox.edits.outline import Declared, build_outline, span_of
from windlass.toolbox.edits.patterns import find_pattern
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.source import Source, trimmed_end, walk

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST: Final = 12  # candidates that a message lists
_KINDS: Final[dict[str, frozenset[str]]] = {
    "method": frozenset({"function"}),
    "func": frozenset({"function"}),
    "fn": frozenset({"function"}),
    "def": frozenset({"function"}),
    "constructor": frozenset({"function"}),
    "const": frozenset({"variable", "field"}),
    "let": frozenset({"variable"}),
    "var": frozenset({"variable", "field"}),
    "attribute": frozenset({"variable", "field"}),
    "property": frozenset({"field", "key"}),
    "mod": frozenset({"module"}),
    "use": frozenset({"import"}),
    "include": frozenset({"import"}),
    "section": frozenset({"table"}),
    "class": frozenset({"class", "struct", "record"}),
    "struct": frozenset({"struct", "type", "class"}),
    "interface": frozenset({"interface", "type", "trait"}),
    "type": frozenset({"type", "struct", "enum", "interface"}),
}


class Place(NamedTuple):
    """The node that an edit is for."""

    node: Node | None
    """None for the whole file."""
    start: int
    end: int
    label: str
    kind: str


class _Wanted(NamedTuple):
    kind: str | None
    name: str | None
    number: int | None


class Selector(NamedTuple):
    """The three ways to name a node, as they were given."""

    node: str | None = None
    line: int | None = None
    pattern: str | None = None


def find_place(source: Source, selector: Selector) -> Place:
    """Find the one node that is meant; `EditRefused` lists the candidates otherwise."""
    if selector.pattern is not None:
        return _pick(source, find_pattern_places(source, selector), f"pattern {selector.pattern!r}")
    if selector.node is None:
        if selector.line is None:
            raise EditRefused(
                "text", "say which node: node='class:Cart/function:total', line=12 or pattern='…'"
            )
        return _find_by_line(source, selector.line)
    if selector.node in ("file", "/"):
        return Place(None, 0, len(source.data), "file", "file")
    outline = build_outline(source)
    wanted, anchored = parse_path(selector.node)
    found = _match(source, outline, wanted, anchored)
    if selector.line is not None:
        at = selector.line
        on = [one for one in found if _covers(source, one, at)]
        begins = [one for one in on if source.line_of(one.start) == at]
        found = begins or on
    if not found:
        raise _not_found(source, outline, selector)
    return _pick(source, found, f"{selector.node!r}")


def find_declared(source: Source, path: str, line: int | None) -> list[Declared]:
    """Return the declarations that a path matches, on the line that is given."""
    wanted, anchored = parse_path(path)
    outline = build_outline(source)
    found = [one for one in outline if _fits(one, wanted, anchored, contiguous=True)]
    if not found and not anchored:
        found = [one for one in outline if _fits(one, wanted, anchored, contiguous=False)]
    found = _prefer_kind(found, wanted[-1])
    if line is None:
        return found
    on = [one for one in found if _covers(source, _as_place(source, one), line)]
    begins = [one for one in on if source.line_of(one.start) == line]
    return begins or on


def find_pattern_places(source: Source, selector: Selector) -> list[Place]:
    """Return the places that match a pattern, inside the node and on the line that are given."""
    assert selector.pattern is not None
    inside = (0, len(source.data))
    if selector.node is not None:
        place = find_place(source, Selector(selector.node))
        inside = (place.start, place.end)
    places = [
        Place(None, start, end, f"line {source.line_of(start)}", "pattern")
        for start, end in find_pattern(source, selector.pattern)
        if inside[0] <= start and end <= inside[1]
    ]
    if selector.line is not None:
        places = [one for one in places if source.line_of(one.start) == selector.line]
    found: list[Place] = []
    for one in places:
        node = source.root.descendant_for_byte_range(one.start, one.end)
        found.append(one._replace(node=node))
    return found


def parse_path(text: str) -> tuple[list[_Wanted], bool]:
    """Parse `class:Cart/function:total#2`; names with `/`, `:` or `#` stand in double quotes."""
    steps: list[_Wanted] = []
    anchored = text.startswith("/")
    for part in _split(text.strip("/"), "/"):
        pieces = _split(part, ":")
        kind: str | None = None
        if len(pieces) > 1 and (pieces[0] in KINDS or pieces[0] in _KINDS or pieces[0] == "item"):
            kind, name = pieces[0], ":".join(pieces[1:])
        else:
            name = part
        number: int | None = None
        bare, mark, digits = name.rpartition("#")
        if mark and digits.isdigit() and not name.endswith('"'):
            name, number = bare, int(digits)
        if len(name) >= 2 and name[0] == name[-1] == '"':
            name = name[1:-1]
        steps.append(_Wanted(kind, name or None, number))
    if not steps or all(one.name is None and one.kind is None for one in steps):
        raise EditRefused(
            "text", "the path of the node is empty; write 'class:Cart/function:total'"
        )
    return steps, anchored


def _split(text: str, mark: str) -> list[str]:
    parts, quoted = [""], False
    for char in text:
        if char == '"':
            quoted = not quoted
        if char == mark and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _match(
    source: Source, outline: list[Declared], wanted: list[_Wanted], anchored: bool
) -> list[Place]:
    exact = [one for one in outline if _fits(one, wanted, anchored, contiguous=True)]
    if not exact and not anchored:
        exact = [one for one in outline if _fits(one, wanted, anchored, contiguous=False)]
    if exact:
        return [_as_place(source, one) for one in _prefer_kind(exact, wanted[-1])]
    return _match_grammar(source, outline, wanted, anchored)


def _prefer_kind(found: list[Declared], wanted: _Wanted) -> list[Declared]:
    """Return those of the very kind that is named, if there are any: a struct before its typedef."""
    return [one for one in found if one.step.kind == wanted.kind] or found


def _match_grammar(
    source: Source, outline: list[Declared], wanted: list[_Wanted], anchored: bool
) -> list[Place]:
    """Find nodes by the name that the grammar has for them: `function:total/if_statement#2`."""
    last = wanted[-1]
    kind = last.name if last.kind is None else None
    if kind is None or "_" not in kind or not kind.replace("_", "").isalpha():
        return []
    roots = [source.root]
    if len(wanted) > 1:
        above = [one for one in outline if _fits(one, wanted[:-1], anchored, contiguous=True)]
        roots = [one.node for one in above]
    found = [
        Place(
            one, one.start_byte, trimmed_end(source.data, one.start_byte, one.end_byte), kind, kind
        )
        for root in roots
        for one in walk(root)
        if one.type == kind
    ]
    if last.number is not None:
        return found[last.number - 1 : last.number]
    return found


def _fits(one: Declared, wanted: list[_Wanted], anchored: bool, *, contiguous: bool) -> bool:
    path = one.path
    if not _fits_step(path[-1], wanted[-1]):
        return False
    if anchored and len(path) != len(wanted):
        return False
    if contiguous:
        if len(path) < len(wanted):
            return False
        return all(map(_fits_step, path[-len(wanted) :], wanted))
    at = len(path) - 1
    for want in reversed(wanted[:-1]):
        at -= 1
        while at >= 0 and not _fits_step(path[at], want):
            at -= 1
        if at < 0:
            return False
    return True


def _fits_step(step: tuple[str, str, int], wanted: _Wanted) -> bool:
    kind, name, number = step
    if wanted.kind is not None and kind != wanted.kind:
        if kind not in _KINDS.get(wanted.kind, ()):
            return False
    if wanted.number is not None and number != wanted.number:
        return False
    return wanted.name in (None, name) or name.rpartition("::")[2] == wanted.name


def _as_place(source: Source, one: Declared) -> Place:
    return Place(one.node, one.start, one.end, str(one), one.step.kind)


def _covers(source: Source, place: Place, line: int) -> bool:
    return source.line_of(place.start) <= line <= source.line_of(max(place.start, place.end - 1))


def _find_by_line(source: Source, line: int) -> Place:
    if not 1 <= line <= len(source.line_starts):
        raise EditRefused(
            "not_found", f"there is no line {line}: the file has {len(source.line_starts)} lines"
        )
    start, end = source.line_span(line)
    text = source.data[start:end]
    begin = start + len(text) - len(text.lstrip())
    if begin == end:
        raise EditRefused("not_found", f"line {line} is blank; name a line on which a node begins")
    node = source.root.descendant_for_byte_range(begin, begin + 1)
    assert node is not None
    while node.parent is not None and node.parent.start_byte == node.start_byte:
        if node.parent.parent is None or node.parent.type in source.language.containers:
            break
        node = node.parent
    if node.parent is None or node.start_byte != begin:
        raise EditRefused(
            "not_found",
            f"no node begins on line {line}; it is inside what begins on line "
            f"{source.line_of(node.start_byte)}",
        )
    first, last = span_of(source, node)
    others = [
        one
        for one in node.parent.named_children
        if one.start_byte >= last
        and source.line_of(one.start_byte) == line
        and one.type not in source.language.comments
    ]
    if others:
        both = [_show_node(source, one) for one in (node, *others)]
        raise EditRefused(
            "ambiguous",
            f"{len(both)} nodes begin on line {line}; name one by pattern, or use "
            "edit_safe_text_patch:\n" + "\n".join(both[:_MOST]),
            tuple(both),
        )
    kind = source.language.declared.get(node.type, node.type)
    return Place(node, first, last, f"{node.type} on line {line}", kind)


def _show_node(source: Source, node: Node) -> str:
    return " ".join(source.text(node).split())[:100]


def _pick(source: Source, found: list[Place], what: str) -> Place:
    if len(found) == 1:
        return found[0]
    if not found:
        raise EditRefused("not_found", f"{what} matches nothing in {source.path or 'the file'}")
    shown: list[str] = []
    for one in found[:_MOST]:
        line = source.line_of(one.start)
        first = source.data[slice(*source.line_span(line))].decode(errors="replace").strip()
        label = f"{one.label} (line {line})" if one.kind != "pattern" else one.label
        shown.append(f"{label}: {first[:100]}")
    more = f"\n… and {len(found) - _MOST} more" if len(found) > _MOST else ""
    raise EditRefused(
        "ambiguous",
        f"{what} matches {len(found)} nodes; give a longer path, `#2` for the second, or line=… too:\n"
        + "\n".join(shown)
        + more,
        tuple(shown),
    )


def _not_found(source: Source, outline: list[Declared], selector: Selector) -> EditRefused:
    where = f" on line {selector.line}" if selector.line is not None else ""
    message = f"there is no {selector.node!r:.200}{where} in {source.path or 'the file'}"
    labels = {str(one): one for one in outline}
    assert selector.node is not None
    last = parse_path(selector.node)[0][-1].name or ""
    near = [label for label, one in labels.items() if one.step.name.lower() == last.lower()]
    names = {one.step.name for one in outline}
    for name in difflib.get_close_matches(last, sorted(names)[:2000], 4, 0.6):
        near += [label for label, one in labels.items() if one.step.name == name]
    near = list(dict.fromkeys(near))[:_MOST]
    if near:
        return EditRefused(
            "not_found", f"{message}; did you mean {' or '.join(near)}?", tuple(near)
        )
    tops = [str(one) for one in outline if len(one.path) == 1][:_MOST]
    listed = f"; it has {', '.join(tops)}" if tops else "; nothing in it has a name"
    return EditRefused("not_found", message + listed, tuple(tops))
