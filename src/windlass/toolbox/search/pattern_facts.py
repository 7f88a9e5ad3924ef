"""What a regular expression says of its matches: texts that each must hold, and how far they reach.

Python's own parser is asked, so that a pattern means here what it means to `re`. Loaded by the search
process, so it needs the standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias

_compiler = import_module("re._compiler")
_parser = import_module("re._parser")
sre = import_module("re._constants")

#: A step of a parsed pattern: what it is, and its operands.
Node: TypeAlias = tuple[object, Any]

MOST_LITERALS: Final = 16
#: Letters beyond ASCII that are `i`, `s` or `k` to a search that ignores case.
FOREIGN: Final = {"i": "\u0130\u0131", "s": "\u017f", "k": "\u212a"}
_REPEATS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_PLAIN_PLACES: Final = (sre.AT_BEGINNING, sre.AT_END, sre.AT_BOUNDARY)
_ONE: Final = (sre.NOT_LITERAL, sre.ANY, sre.IN)
_LONGEST_CORE: Final = 64  # characters of one step


class PatternFacts(NamedTuple):
    """What is known of a pattern."""

    literals: tuple[str, ...]
    """Each match holds one of them; none if nothing is known."""
    folds_case: bool
    """Whether the literals are in lower case, to be compared with lower case."""
    has_foreign_cases: bool
    """Whether a letter beyond ASCII can stand for a letter of the literals."""
    is_simple: bool
    """Whether a match in a line is also one in the whole text."""
    leaves_line: bool
    """Whether a match in the whole text could reach over the end of a line."""


class Parsed(NamedTuple):
    """A pattern as Python's parser reads it."""

    nodes: Sequence[Node]
    flags: int
    state: Any


def parse_pattern(pattern: str, flags: int) -> Parsed:
    """Parse a pattern; `re.error`, OverflowError or RecursionError as `re.compile`."""
    found = _parser.parse(pattern, flags)
    return Parsed(found, found.state.flags, found.state)


def read_facts(pattern: str, flags: int) -> PatternFacts:
    """Read what is known of a pattern's matches."""
    parsed = parse_pattern(pattern, flags)
    folds = bool(parsed.flags & re.IGNORECASE)
    literals = _find_literals(parsed.nodes, folds, False) or frozenset()
    leaves = [False]

    def look(node: Node) -> bool:
        kind, operand = node
        if kind in _ONE and not leaves[0]:
            leaves[0] = match_one(parsed, node, parsed.flags)("\n") is not None
        elif kind is sre.AT:
            return operand in _PLAIN_PLACES
        return kind not in (
            sre.ASSERT,
            sre.ASSERT_NOT,
            sre.ATOMIC_GROUP,
            sre.POSSESSIVE_REPEAT,
            sre.GROUPREF_EXISTS,
        )

    is_simple = all([look(node) for node in walk_nodes(parsed.nodes)])
    foreign = folds and any([char in FOREIGN for one in literals for char in one])
    return PatternFacts(tuple(sorted(literals)), folds, foreign, is_simple, leaves[0])


def compile_test(pattern: str, flags: int) -> Callable[..., re.Match[str] | None]:
    """Compile a search that says whether there is a match, not where it begins.

    A repeat at the beginning is cut to its least number: `\\w+x` is there if and only if `\\wx` is, and
    each start inside a long word would be tried.
    """
    parsed = _parser.parse(pattern, flags)
    nodes: list[Node] = list(parsed)
    if nodes and nodes[0][0] in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, high, inside = nodes[0][1]
        is_one = len(inside) == 1 and inside[0][0] in (*_ONE, sre.LITERAL)
        if high is sre.MAXREPEAT and is_one:
            nodes[:1] = [(nodes[0][0], (low, low, inside))] if low else []
    found: Callable[..., re.Match[str] | None]
    found = _compiler.compile(_parser.SubPattern(parsed.state, nodes), flags).search
    return found


def compile_core(pattern: str, flags: int) -> Callable[..., re.Match[str] | None] | None:
    """Compile a search for a short piece that every match holds; None if there is none to find fast.

    The piece is a text with characters of fixed number after it: `_[0-9]{7}` of `[a-z]+_[0-9]{7,}`. A
    text of one or two characters is in most lines, and says little without what follows it.
    """
    parsed = parse_pattern(pattern, flags)
    if parsed.flags & re.IGNORECASE:
        return None
    best: list[Node] = []
    piece: list[Node] = []
    for node in [*_open_groups(parsed.nodes), None]:
        if node is not None and (fixed := _fix_number(node)) is not None:
            if piece or fixed[0] is sre.LITERAL:
                piece.append(fixed)
            if fixed == node:
                continue
        best, piece = max(best, piece, key=len), []
    if len(best) < 2:
        return None
    found: Callable[..., re.Match[str] | None]
    found = _compiler.compile(_parser.SubPattern(parsed.state, best), parsed.flags).search
    return found


def _open_groups(nodes: Iterable[Node]) -> Iterable[Node]:
    """Yield steps in their order, with groups opened, except those with flags of their own."""
    for node in nodes:
        kind, operand = node
        if kind is sre.SUBPATTERN and not operand[1] and not operand[2]:
            yield from _open_groups(operand[3])
        else:
            yield node


def _fix_number(node: Node) -> Node | None:
    """Return a step that stands for a fixed number of characters, each of which must be there."""
    kind, operand = node
    if kind in (*_ONE, sre.LITERAL):
        return node
    if kind not in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        return None
    low, high, inside = operand
    if not 0 < low <= _LONGEST_CORE or len(inside) != 1 or inside[0][0] not in (*_ONE, sre.LITERAL):
        return None
    return node if low == high else (kind, (low, low, inside))


def match_one(parsed: Parsed, node: Node, flags: int) -> Callable[[str], object]:
    """Compile a step that stands for one character."""
    alone = _parser.SubPattern(parsed.state, [node])
    match: Callable[[str], object] = _compiler.compile(alone, flags & ~re.DEBUG).match
    return match


def walk_nodes(nodes: Iterable[Node]) -> Iterable[Node]:
    """Yield all steps of a pattern, with those inside others."""
    for node in nodes:
        yield node
        for inner in list_parts(node):
            yield from walk_nodes(inner)


def list_parts(node: Node) -> list[Sequence[Node]]:
    """Return the patterns inside a step."""
    kind, operand = node
    if kind is sre.BRANCH:
        return list(operand[1])
    if kind is sre.SUBPATTERN:
        return [operand[3]]
    if kind in _REPEATS:
        return [operand[2]]
    if kind in (sre.ASSERT, sre.ASSERT_NOT):
        return [operand[1]]
    if kind is sre.ATOMIC_GROUP:
        return [operand]
    if kind is sre.GROUPREF_EXISTS:
        return [one for one in operand[1:] if one is not None]
    return []


def _find_literals(nodes: Iterable[Node], folds: bool, is_hidden: bool) -> frozenset[str] | None:
    """Return texts of which each match holds one, the longest that are to be had; None: unknown."""
    best: frozenset[str] | None = None
    run = ""
    for node in [*_flatten(nodes, folds, is_hidden), None]:
        char = None if node is None else _read_literal(node, folds)
        if char is not None:
            run += char
            continue
        found = frozenset({run}) if run else None
        best, run = _choose(best, found), ""
        if node is not None:
            best = _choose(best, _find_inside(node, folds))
    return best


def _flatten(nodes: Iterable[Node], folds: bool, is_hidden: bool) -> Iterable[Node]:
    """Yield steps in their order, with groups opened; None operands where nothing is known."""
    for node in nodes:
        kind, operand = node
        if kind is sre.SUBPATTERN:
            hidden = is_hidden or (not folds and bool(operand[1] & re.IGNORECASE))
            yield from _flatten(operand[3], folds, hidden)
        elif is_hidden:
            yield sre.ANY, None
        else:
            yield node


def _read_literal(node: Node, folds: bool) -> str | None:
    kind, operand = node
    if kind is not sre.LITERAL or operand == 0xFFFD or 0xD800 <= operand <= 0xDFFF:
        return None
    char = chr(operand)
    if not folds:
        return char
    return char.lower() if char.isascii() else None


def _find_inside(node: Node, folds: bool) -> frozenset[str] | None:
    kind, operand = node
    if kind in _REPEATS and operand[0] > 0:
        return _find_literals(operand[2], folds, False)
    if kind is sre.ATOMIC_GROUP:
        return _find_literals(operand, folds, False)
    if kind is not sre.BRANCH:
        return None
    found: set[str] = set()
    for branch in operand[1]:
        literals = _find_literals(branch, folds, False)
        if literals is None:
            return None
        found |= literals
    return frozenset(found) if len(found) <= MOST_LITERALS else None


def _choose(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """Return the more telling of two: the one whose shortest text is longer."""
    if one is None or other is None:
        return one if other is None else other
    return max(one, other, key=lambda texts: (min(map(len, texts)), -len(texts)))
