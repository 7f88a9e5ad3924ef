"""Globs over paths: `*` and `?` stay within a folder, `**` does not; bounded in time.

A pattern is matched with one place to come back to for `*` and one for `**`: what stands before the
last of its kind never has to be tried again, so the time is bounded by the product of the lengths,
whatever the pattern.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

LONGEST: Final = 512  # characters of a pattern
_PATH: Final = 1024  # of a path
_HERE: Final = re.compile(r"(?:\./)++")
_MOST: Final = 64  # patterns that braces may stand for


class _Star(msgspec.Struct, frozen=True):
    """Any characters of one name."""


class _Deep(msgspec.Struct, frozen=True):
    """Any characters; `whole`: nothing, or whole folders."""

    whole: bool


class _Class(msgspec.Struct, frozen=True):
    """One character of a set, or one that is not in it."""

    chars: frozenset[str]
    negated: bool

    def takes(self, char: str) -> bool:
        return char != "/" and (char in self.chars) is not self.negated


_Piece = str | _Star | _Deep | _Class
_STAR, _ONE = _Star(), _Class(frozenset(), True)


class Glob:
    """One pattern: `Glob("infra/**").matches("infra/main.tf")`. A bad one is a ValueError."""

    __slots__ = ("pattern", "ways")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        if len(pattern) > LONGEST:
            raise ValueError(f"a pattern has up to {LONGEST} characters")
        self.ways = [_pieces(one) for one in _expand_braces(pattern.removeprefix("./"))]

    def matches(self, path: str) -> bool:
        """Check whether the pattern matches the whole path."""
        if len(path) > _PATH:
            return False
        return any(_matches(pieces, path) for pieces in self.ways)


def tidy(path: str) -> str:
    """Normalise a path for patterns."""
    path = path.replace("\\", "/")
    return path if not path.startswith("./") else _HERE.sub("", path, count=1)


def _expand_braces(pattern: str) -> list[str]:
    """Expand `{a,b}` into the patterns that it stands for."""
    todo, done = [pattern], list[str]()
    while todo:
        one = todo.pop()
        found = _braces(one)
        if found is None:
            done.append(one)
        else:
            start, stop, ways = found
            todo += [one[:start] + way + one[stop:] for way in reversed(ways)]
        if len(todo) + len(done) > _MOST:
            raise ValueError(f"its braces stand for more than {_MOST} patterns")
    return done


def _braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """Find the first innermost braces with a comma in them."""
    start, commas = -1, list[int]()
    for at, char in enumerate(pattern):
        if char == "{":
            start, commas = at, []
        elif char == "," and start >= 0:
            commas.append(at)
        elif char == "}" and start >= 0:
            if commas:
                edges = [start, *commas, at]
                ways = [pattern[a + 1 : b] for a, b in zip(edges, edges[1:], strict=False)]
                return start, at + 1, ways
            start = -1
    return None


def _pieces(pattern: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            end = at
            while end < len(pattern) and pattern[end] == "*":
                end += 1
            folder = end - at > 1 and pattern[end : end + 1] == "/"
            whole = folder and (at == 0 or pattern[at - 1] == "/")
            pieces.append(_STAR if end - at == 1 else _Deep(whole))
            at = end + 1 if whole else end
        elif char == "?":
            pieces.append(_ONE)
            at += 1
        elif char == "[" and (stop := pattern.find("]", at + 2)) > 0:
            pieces.append(_class(pattern[at + 1 : stop]))
            at = stop + 1
        else:
            pieces.append(char)
            at += 1
    return pieces


def _class(text: str) -> _Class:
    negated = text[0] in "!^"
    text = text[1:] if negated else text
    chars: set[str] = set()
    at = 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            first, last = ord(text[at]), ord(text[at + 2])
            if last - first > 512:
                raise ValueError(f"the range {text[at : at + 3]!r} is too wide")
            chars.update(map(chr, range(first, last + 1)))
            at += 3
        else:
            chars.add(text[at])
            at += 1
    return _Class(frozenset(chars), negated)


def _matches(pieces: list[_Piece], path: str) -> bool:
    most, size = len(pieces), len(path)
    place = at = 0
    star = deep = (-1, -1)  # where to go on, in the pattern and in the path
    whole = False
    while place < most or at < size:
        if place < most:
            piece = pieces[place]
            if isinstance(piece, _Deep):
                place, star, whole = place + 1, (-1, -1), piece.whole
                deep = (place, at)
                continue
            if isinstance(piece, _Star):
                place += 1
                star = (place, at)
                continue
            if at < size and (
                piece == path[at] if isinstance(piece, str) else piece.takes(path[at])
            ):
                place, at = place + 1, at + 1
                continue
        if star[0] >= 0 and star[1] < size and path[star[1]] != "/":
            star = (star[0], star[1] + 1)
            place, at = star
            continue
        following = _next(path, deep[1], whole) if deep[0] >= 0 else -1
        if following < 0:
            return False
        deep, star = (deep[0], following), (-1, -1)
        place, at = deep
    return True


def _next(path: str, at: int, whole: bool) -> int:
    """Return where `**` may end next, after it was tried here; -1 for nowhere."""
    if not whole:
        return at + 1 if at < len(path) else -1
    slash = path.find("/", at)
    return slash + 1 if slash >= 0 else -1
