"""Patterns for ripgrep that match every line that a pattern of Python's matches, and maybe more.

They choose the files to look at; the lines are matched by `re`, so that results are the same with
ripgrep and without it. What ripgrep cannot say (look-around, back-references) is left out. Loaded by the
search process, so it needs the standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from windlass.toolbox.search.pattern_facts import (
    FOREIGN,
    Node,
    Parsed,
    match_one,
    parse_pattern,
    sre,
)

_ANYTHING: Final = r"(?-u:[^\n])*"
_FOREIGN: Final = "".join(FOREIGN.values())
_MOST_REPEATS: Final = 200
_REPEATS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_ONE: Final = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
_STARTS: Final = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
_ENDS: Final = (sre.AT_END, sre.AT_END_STRING)


class Untranslatable(Exception):
    """A pattern that no pattern of ripgrep covers."""


def translate_pattern(pattern: str, *, ignore_case: bool) -> str:
    """Translate a pattern for ripgrep; `Untranslatable` where none would do."""
    parsed = parse_pattern(pattern, re.IGNORECASE if ignore_case else 0)
    return _Translator(parsed).translate(parsed.nodes, parsed.flags)


class _Translator:
    def __init__(self, parsed: Parsed) -> None:
        self._parsed = parsed
        self._is_after_end = False  # of the line

    def translate(self, nodes: Sequence[Node], flags: int) -> str:
        return "".join([self._translate_node(node, flags) for node in nodes])

    def _translate_node(self, node: Node, flags: int) -> str:
        kind, operand = node
        if kind in _ONE:
            return self._translate_one(node, flags, 1, 1)
        if kind is sre.SUBPATTERN:
            _, added, removed, inside = operand
            return f"(?:{self.translate(inside, (flags | added) & ~removed)})"
        if kind is sre.BRANCH:
            return self._translate_branches(operand[1], flags)
        if kind in _REPEATS:
            return self._translate_repeat(node, flags)
        if kind is sre.AT:
            return self._translate_place(operand)
        if kind is sre.ATOMIC_GROUP:
            return f"(?:{self.translate(operand, flags)})"
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            return ""
        if kind is sre.GROUPREF:
            return _ANYTHING
        if kind is sre.GROUPREF_EXISTS:
            return self._translate_branches([one or () for one in operand[1:]], flags)
        raise Untranslatable

    def _translate_branches(self, branches: Iterable[Sequence[Node]], flags: int) -> str:
        before = after = self._is_after_end
        parts: list[str] = []
        for one in branches:
            self._is_after_end = before
            parts.append(self.translate(one, flags))
            after = after or self._is_after_end
        self._is_after_end = after
        return f"(?:{'|'.join(parts)})"

    def _translate_place(self, place: object) -> str:
        """Translate a start or an end: a byte order mark and a return there are not of the line."""
        if place in _ENDS:
            self._is_after_end = True
            return r"\r?$"
        if place not in _STARTS:
            return ""
        if self._is_after_end:  # in an empty line, maybe with a return
            raise Untranslatable
        return r"^(?:\x{FEFF})?"

    def _translate_repeat(self, node: Node, flags: int) -> str:
        low, high, inside = node[1]
        most: int | None = None if high is sre.MAXREPEAT else int(high)
        if len(inside) == 1 and inside[0][0] in _ONE:
            return self._translate_one(inside[0], flags, low, most)
        text = self.translate(inside, flags)
        return f"(?:{text}){_count(min(low, 1) if self._is_after_end else low, most)}"

    def _translate_one(self, node: Node, flags: int, low: int, most: int | None) -> str:
        """Translate a step that stands for one character, so many times."""
        count = "" if low == most == 1 else _count(low, most)
        kind, operand = node
        if kind is sre.LITERAL:
            if operand in (10, 0xFFFD) or 0xD800 <= operand <= 0xDFFF:
                raise Untranslatable
            if not flags & re.IGNORECASE:
                return _escape(operand) + count
            small = chr(operand).lower()
            if small.isascii():
                both = {small, small.upper()} if small.isalpha() else {small}
                chars = "".join([_escape(ord(one)) for one in sorted(both)])
                chars += "".join([_escape(ord(one)) for one in FOREIGN.get(small, "")])
                return f"[{chars}]{count}"
        match = match_one(self._parsed, node, flags)
        chars = "".join([_escape(code) for code in range(128) if code != 10 and match(chr(code))])
        if not _reaches_beyond_ascii(node) and not any([match(one) for one in _FOREIGN]):
            return f"[{chars}]{count}" if chars else "[a&&b]"
        # In bytes, because a file may hold what is no UTF-8; a character has up to four.
        return f"(?-u:[{chars}\\x80-\\xFF]){_count(low, None if most is None else most * 4)}"


def _reaches_beyond_ascii(node: Node) -> bool:
    kind, operand = node
    if kind is sre.LITERAL:
        return bool(operand > 127)
    if kind is not sre.IN:
        return True
    for inner, value in operand:
        if inner in (sre.NEGATE, sre.CATEGORY):
            return True
        if (value[1] if inner is sre.RANGE else value) > 127:
            return True
    return False


def _count(low: int, most: int | None) -> str:
    """Return a number of repeats that ripgrep takes, never a smaller choice than was asked for."""
    low = min(low, _MOST_REPEATS)
    if most is None or most > _MOST_REPEATS:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    return f"{{{low},{most}}}"


def _escape(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"
