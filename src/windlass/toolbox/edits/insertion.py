"""Add text before, after or inside a syntax node, with the separators that its list needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from windlass.toolbox.edits.change import Change, has_new_faults
from windlass.toolbox.edits.outline import span_of
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.selectors import Place, Selector, find_place
from windlass.toolbox.edits.source import Source, trimmed_end
from windlass.toolbox.edits.spans import SpanEdit
from windlass.toolbox.edits.texts import encode_text, indent_variants

if TYPE_CHECKING:
    from tree_sitter import Node

Position: TypeAlias = Literal["before", "after", "first", "last"]
_SPACED: Final = frozenset(
    {"annotation", "class", "concept", "enum", "function", "impl", "interface", "macro", "module"}
    | {"namespace", "record", "struct", "table", "trait", "union"}
)
#: Types whose members stand on lines of their own without a separator, and need one otherwise.
_INLINE: Final = frozenset({"interface_body", "object_type"})
_INNER_FIELDS: Final = ("body", "value", "right", "type", "definition", "declaration", "declarator")


class _Spot(NamedTuple):
    """A place between two elements: what goes in front of and after the new text."""

    offset: int
    before: bytes
    after: bytes
    indent: bytes
    extra: tuple[SpanEdit, ...] = ()


def plan_insertion(source: Source, selector: Selector, text: str, position: Position) -> Change:
    """Plan to add text at an anchor, on lines of its own where the anchor has some."""
    place = find_place(source, selector)
    data = encode_text(source, text)
    if position in ("first", "last"):
        spot, label = _inside(source, place, position, data), f"{position} in {place.label}"
    elif place.kind == "file":
        raise EditRefused("text", "text goes 'first' or 'last' into a file, not before or after it")
    else:
        spot, label = _beside(source, place, position, data), f"{position} {place.label}"
    variants = indent_variants(source, data, spot.indent)
    if source.language.name in ("c", "cpp") and data.endswith(b"}"):
        variants += [one + b";" for one in variants]  # after a type, not after a function
    if _is_there(source, spot, variants, position):
        return Change((), f"the text is there already, {label}")
    planned = [_edits(source, spot, one) for one in variants]
    chosen = planned[0]
    if len(planned) > 1:
        chosen = next((one for one in planned if not has_new_faults(source, one)), chosen)
    return Change(tuple(chosen), f"inserted {label} (line {source.line_of(spot.offset)})")


def _edits(source: Source, spot: _Spot, text: bytes) -> list[SpanEdit]:
    if spot.after[:1] in (b",", b";") and text.endswith(spot.after[:1]):
        text = text[:-1]
    if spot.before.endswith(b",") and text.startswith(b","):
        text = text[1:].lstrip()
    made = SpanEdit(spot.offset, spot.offset, spot.before + text + spot.after)
    return [*spot.extra, made]


def _is_there(source: Source, spot: _Spot, variants: list[bytes], position: Position) -> bool:
    """Check whether the text stands at the place already, as after a call that was cut off."""
    for one in variants:
        bare = one.rstrip(b",;")
        if position in ("after", "first"):
            following = source.data[spot.offset :].lstrip(b" \t\r\n,;")
            if following.startswith(bare) and _ends(following[len(bare) :]):
                return True
        else:
            leading = source.data[: spot.offset].rstrip(b" \t\r\n,;")
            if leading.endswith(bare) and _begins(leading[: len(leading) - len(bare)]):
                return True
    return False


def _ends(rest: bytes) -> bool:
    return not rest or rest[:1] in b" \t\r\n,;}])"


def _begins(rest: bytes) -> bool:
    return not rest or rest[-1:] in b" \t\r\n,;{[("


def _beside(source: Source, place: Place, position: Position, text: bytes) -> _Spot:
    """Find the spot in front of or after a node."""
    place, top = _lift(source, place, _top_node(source, place))
    parent = top.parent if top is not None else None
    separator = source.language.lists.get(parent.type) if parent is not None else None
    own_line = source.is_first_on_line(place.start)
    indent = _indent_of(source, place)
    if parent is not None and parent.type == "enum_body" and _is_java_member(top):
        separator = None
    if separator is None and not own_line and parent is not None and parent.type in _INLINE:
        separator = ";"
    if position == "before":
        gap = (
            b" "
            if not own_line and not _is_yaml_block(source, parent)
            else _gap(source, place, top, "before") + indent
        )
        return _Spot(place.start, b"", (separator or "").encode() + gap, indent)
    if separator is not None:
        return _after_in_list(source, place, separator.encode(), own_line, indent)
    end = _end_with_marks(source, place.end)
    if not own_line and not _is_yaml_block(source, parent) and _has_more_on_line(source, end):
        return _Spot(end, b" ", b"", indent)
    end = _line_end_after_comment(source, end)
    return _Spot(end, _gap(source, place, top, "after") + indent, b"", indent)


def _after_in_list(
    source: Source, place: Place, separator: bytes, own_line: bool, indent: bytes
) -> _Spot:
    """Find the spot after an element of a list with separators."""
    gap = source.newline + indent if own_line else b" "
    at = _skip_space(source, place.end)
    if source.data[at : at + 1] in (separator, b","):
        end = at + 1
        offset = _line_end_after_comment(source, end) if own_line else end
        return _Spot(offset, gap, separator, indent)
    offset = _line_end_after_comment(source, place.end) if own_line else place.end
    if offset == place.end:
        return _Spot(offset, separator + gap, b"", indent)
    # A comment stands between the element and the new line: the separator goes in front of it.
    return _Spot(offset, gap, b"", indent, (SpanEdit(place.end, place.end, separator),))


def _inside(source: Source, place: Place, position: Position, text: bytes) -> _Spot:
    """Find the spot at the beginning or the end of what a node contains."""
    body = source.root if place.node is None else find_body(source, place.node)
    if body is None:
        raise EditRefused(
            "text",
            f"{place.label} has no body to insert into; use position 'before' or 'after'",
        )
    members = [
        one
        for one in body.named_children
        if one.type not in source.language.comments and not one.is_extra and _is_member(body, one)
    ]
    if not members:
        return _empty(source, place, body)
    if position == "first":
        first = members[0]
        if _is_docstring(source, first) or _is_opening(first):
            return _beside(source, _as_place(source, first), "after", text)
        return _beside(source, _as_place(source, first), "before", text)
    return _beside(source, _as_place(source, members[-1]), "after", text)


def _empty(source: Source, place: Place, body: Node) -> _Spot:
    """Find the spot in a body without members: `{}`, an empty file, a table without keys."""
    newline = source.newline
    if body.parent is None:
        end = len(source.data.rstrip())
        lead = newline if end else b""
        return _Spot(end, lead, b"" if source.data[end:] else newline, b"")
    opening = body.children[0] if body.children else None
    if body.type in ("table", "table_array_element"):
        return _Spot(trimmed_end(source.data, body.start_byte, body.end_byte), newline, b"", b"")
    if opening is None or opening.is_named:
        raise EditRefused("text", f"{place.label} has a body in which nothing can be inserted")
    outer = source.indent_at(body.start_byte)
    indent = outer + source.indent_unit
    closing = body.children[-1].start_byte
    comment = trimmed_end(source.data, opening.end_byte, closing)
    if comment > opening.end_byte:  # only comments are inside
        return _Spot(comment, newline + indent, b"", indent)
    spare = SpanEdit(opening.end_byte, closing, b"")
    extra = (spare,) if closing > opening.end_byte else ()
    return _Spot(closing, newline + indent, newline + outer, indent, extra)


def find_body(source: Source, node: Node) -> Node | None:
    """Return the node with the members of a declaration: its block, object, list or table."""
    language = source.language
    for _ in range(12):
        if node.type in language.lists or node.type in language.containers:
            return node
        below = None
        for field in _INNER_FIELDS:
            below = node.child_by_field_name(field)
            if below is not None and (below.named_child_count or below.child_count):
                break
        if below is None or not below.child_count:
            inner = [one for one in node.named_children if one.type not in language.comments]
            holders = [
                one
                for one in inner
                if one.type in language.lists or one.type in language.containers
            ]
            below = holders[-1] if holders else inner[-1] if inner else None
        if below is None:
            return None
        node = below
    return None


def _top_node(source: Source, place: Place) -> Node | None:
    """Return the outermost node that has the span of a place, below its container."""
    node = place.node
    if node is None:
        return None
    holders = {*source.language.lists, *source.language.containers}
    while node.parent is not None and node.parent.type not in holders and node.parent.parent:
        if node.parent.start_byte < place.start or (
            trimmed_end(source.data, node.parent.start_byte, node.parent.end_byte) > place.end
        ):
            break
        node = node.parent
    return node


def _lift(source: Source, place: Place, top: Node | None) -> tuple[Place, Node | None]:
    """Return the statement around a node that has no siblings, as a struct in a typedef."""
    holders = {*source.language.lists, *source.language.containers}
    node = top
    while node is not None and node.parent is not None and node.parent.type not in holders:
        if node.parent.parent is None:
            return place, top
        node = node.parent
    if node is None or node == top or node.parent is None:
        return place, top
    start, end = span_of(source, node)
    return place._replace(start=start, end=end), node


def _indent_of(source: Source, place: Place) -> bytes:
    if source.language.name == "yaml":
        return b" " * (place.start - source.line_starts[source.line_of(place.start) - 1])
    return source.indent_at(place.start)


def _gap(source: Source, place: Place, top: Node | None, side: Position) -> bytes:
    """Return the line ending and the blank lines between the anchor and the new text."""
    if place.kind not in _SPACED:
        return source.newline
    return source.newline * (1 + _blank_lines(source, place, top, side))


def _blank_lines(source: Source, place: Place, top: Node | None, side: Position) -> int:
    after = source.data[place.end :]
    below = after[: len(after) - len(after.lstrip())].count(b"\n") - 1
    before = source.data[: place.start]
    above = before[len(before.rstrip()) :].count(b"\n") - 1
    is_last = top is None or top.next_named_sibling is None
    is_first = top is None or top.prev_named_sibling is None
    single = b"\n" not in source.data[place.start : place.end]
    if side == "after" and not is_last:
        return min(2, max(0, below))
    if not is_first:
        return min(2, max(0, above))
    if not is_last:
        return min(2, max(0, below))
    if single:
        return 0
    return 2 if source.language.name == "python" and not source.indent_at(place.start) else 1


def _end_with_marks(source: Source, end: int) -> int:
    """Return the end of a statement with the `;` that the grammar leaves outside it."""
    at = end
    while source.data[at : at + 1] in (b" ", b"\t"):
        at += 1
    return at + 1 if source.data[at : at + 1] == b";" else end


def _skip_space(source: Source, at: int) -> int:
    """Return the next offset that holds neither white space nor a comment."""
    while at < len(source.data):
        if source.data[at : at + 1].isspace():
            at += 1
            continue
        node = source.root.descendant_for_byte_range(at, at + 1)
        if node is None or node.type not in source.language.comments:
            break
        at = max(at + 1, node.end_byte)
    return at


def _has_more_on_line(source: Source, at: int) -> bool:
    end = _line_end_after_comment(source, at)
    return bool(source.data[end : source.line_span(source.line_of(max(0, end)))[1]].strip())


def _line_end_after_comment(source: Source, at: int) -> int:
    """Return the end of a comment that follows on the same line, or the offset itself."""
    line_end = source.line_span(source.line_of(at))[1]
    rest = source.data[at:line_end]
    begin = at + len(rest) - len(rest.lstrip())
    if begin >= line_end:
        return at
    node = source.root.descendant_for_byte_range(begin, begin + 1)
    if node is not None and node.type in source.language.comments:
        end = trimmed_end(source.data, node.start_byte, node.end_byte)
        if node.start_byte == begin and end <= line_end:
            return end
    return at


def _as_place(source: Source, node: Node) -> Place:
    end = trimmed_end(source.data, node.start_byte, node.end_byte)
    kind = source.language.declared.get(node.type, node.type)
    inner = node.named_children[-1] if node.type in source.language.wrappers else None
    if inner is not None:
        kind = source.language.declared.get(inner.type, kind)
    return Place(node, node.start_byte, end, node.type, kind)


def _is_member(body: Node, one: Node) -> bool:
    """Check whether a child of a body is a member; a table's own name is not."""
    if body.type in ("table", "table_array_element"):
        return one.type == "pair"
    return one.type not in ("attribute_item", "decorator")


def _is_docstring(source: Source, node: Node) -> bool:
    if source.language.name != "python" or node.type != "expression_statement":
        return False
    return bool(node.named_children) and node.named_children[0].type == "string"


def _is_opening(node: Node) -> bool:
    """Check whether a node has to stay the first of its file."""
    return node.type in ("package_clause", "package_declaration", "hash_bang_line", "shebang")


def _is_java_member(node: Node | None) -> bool:
    return node is not None and node.type == "enum_body_declarations"


def _is_yaml_block(source: Source, parent: Node | None) -> bool:
    return parent is not None and parent.type in ("block_mapping", "block_sequence")
