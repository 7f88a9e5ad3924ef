"""Search for a pattern in the lines of a file, in memory that does not grow with the file.

A text that every match must hold is looked for first, and only lines that have it are matched.
Loaded by the search process, so it needs the standard library alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from windlass.toolbox.search.pattern_facts import (
    PatternFacts,
    compile_core,
    compile_test,
    read_facts,
)

BLOCK: Final = 1 << 24  # bytes that are looked at together; a longer line is taken in pieces
HEAD: Final = 8192  # a NUL in so many bytes makes a file a binary one
SHOWN: Final = 400  # characters of a line that are shown
_CROSSED: Final = 1 << 16  # a larger file is matched line by line if a match could leave the line
_SHORT: Final = 2  # bytes of a text that is in too many lines to be looked for alone
_BOM: Final = b"\xef\xbb\xbf"


class Hit(NamedTuple):
    """A line that matches: where it is in the block, and its text."""

    start: int
    end: int
    text: str


class Line(NamedTuple):
    """A line to show."""

    number: int
    text: str
    is_match: bool


class LineSearch:
    """A compiled pattern: `search.find_in(file, size)` yields the lines that match."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        self.match = re.compile(pattern, flags).search
        self.facts: PatternFacts = read_facts(pattern, flags)
        self._test = self.match
        self._in_text = re.compile(pattern, flags | re.MULTILINE).search
        if self.facts.is_simple:
            self._test = compile_test(pattern, flags)
            self._in_text = compile_test(pattern, flags | re.MULTILINE)
        literals = [one.encode() for one in self.facts.literals]
        if self.facts.is_simple and max(map(len, literals), default=0) <= _SHORT:
            core = compile_core(pattern, flags)
            if core is not None:
                self._in_text, literals = core, []
        self._one = literals[0] if len(literals) == 1 else None
        self._any = re.compile(b"|".join(map(re.escape, literals))).search if literals else None

    def find_in(self, file: int, size: int, context: int = 0) -> Iterator[list[Line]]:
        """Yield the matching lines of an open file, each with the lines around it; none if binary."""
        before = 1  # the number of the first line of the block
        rest = b""
        first = True
        while True:
            data = os.read(file, min(BLOCK, size + 1 if first else BLOCK))
            is_last = len(data) < BLOCK
            if first and b"\0" in data[:HEAD]:
                return
            block = rest + data
            cut = len(block) if is_last else block.rfind(b"\n") + 1
            if not cut:
                cut = len(block)
            block, rest = block[:cut], block[cut:]
            skipped = 3 if first and block.startswith(_BOM) else 0
            number, counted = before, 0
            for hit in self._find_in_block(block, skipped):
                number += block.count(b"\n", counted, hit.start)
                counted = hit.start
                yield _surround(block, hit, number, context, skipped)
            if is_last:
                return
            before += block.count(b"\n")
            first = False

    def _find_in_block(self, block: bytes, skipped: int) -> Iterator[Hit]:
        facts = self.facts
        if self._any is None:
            return self._find_in_text(block, skipped)
        searched = block
        if facts.folds_case:
            if facts.has_foreign_cases and not block.isascii():
                return self._find_in_text(block, skipped)
            searched = block.lower()
        return self._find_by_literal(block, searched, skipped)

    def _find_by_literal(self, block: bytes, searched: bytes, skipped: int) -> Iterator[Hit]:
        one, several, at = self._one, self._any, skipped
        assert several is not None
        while True:
            if one is not None:
                found = searched.find(one, at)
            else:
                match = several(searched, at)
                found = -1 if match is None else match.start()
            if found < 0:
                return
            start = max(block.rfind(b"\n", 0, found) + 1, skipped)
            end = block.find(b"\n", found)
            end = len(block) if end < 0 else end
            text = to_text(block, start, end)
            if self._test(text):
                yield Hit(start, end, text)
            at = end + 1

    def _find_in_text(self, block: bytes, skipped: int) -> Iterator[Hit]:
        facts = self.facts
        if not facts.is_simple or (facts.leaves_line and len(block) > _CROSSED):
            return self._find_by_line(block, skipped)
        return self._find_by_match(block, skipped)

    def _find_by_line(self, block: bytes, skipped: int) -> Iterator[Hit]:
        start, size, match = skipped, len(block), self._test
        while start < size:
            end = block.find(b"\n", start)
            end = size if end < 0 else end
            text = to_text(block, start, end)
            if match(text):
                yield Hit(start, end, text)
            start = end + 1

    def _find_by_match(self, block: bytes, skipped: int) -> Iterator[Hit]:
        """Search the whole text: far fewer calls than one for each line."""
        text = block[skipped:].decode("utf-8", "replace")
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        at, start, search, match = 0, skipped, self._in_text, self._test
        counted = 0
        while at < len(text):
            found = search(text, at)
            if found is None or (found.start() == len(text) and text.endswith("\n")):
                return  # after the last line end there is no line
            begin = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.start())
            end = len(text) if end < 0 else end
            line = text[begin:end]
            if match(line):
                for _ in range(text.count("\n", counted, begin)):
                    start = block.index(b"\n", start) + 1
                counted = begin
                last = block.find(b"\n", start)
                yield Hit(start, len(block) if last < 0 else last, line)
            at = end + 1


def to_text(block: bytes, start: int, end: int) -> str:
    """Return a line as text, without the line end; bytes that are no UTF-8 become U+FFFD."""
    if end < len(block) and end > start and block[end - 1] == 13:
        end -= 1
    return block[start:end].decode("utf-8", "replace")


def _surround(block: bytes, hit: Hit, number: int, context: int, skipped: int) -> list[Line]:
    """Return a line that matches, with so many lines before and after it."""
    lines = [Line(number, hit.text, True)]
    end = hit.start - 1
    for back in range(1, context + 1):
        if end < skipped:
            break
        start = max(block.rfind(b"\n", 0, end) + 1, skipped)
        lines.insert(0, Line(number - back, shorten(to_text(block, start, end)), False))
        end = start - 1
    start = hit.end + 1
    for on in range(1, context + 1):
        if start >= len(block):
            break
        end = block.find(b"\n", start)
        end = len(block) if end < 0 else end
        lines.append(Line(number + on, shorten(to_text(block, start, end)), False))
        start = end + 1
    return lines


def shorten(text: str, at: int = 0) -> str:
    """Return a long line as the part around a place."""
    if len(text) <= SHOWN:
        return text
    begin = max(0, min(at - SHOWN // 4, len(text) - SHOWN))
    piece = text[begin : begin + SHOWN]
    left = f"… ({begin:,} characters) " if begin else ""
    after = len(text) - begin - SHOWN
    return f"{left}{piece}" + (f" … ({after:,} characters)" if after else "")
