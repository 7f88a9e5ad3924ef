"""Text as words that can be compared: whole, in any case, codes and addresses in one piece."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r"[^\s\"“”„‘«»()\[\]{}<>,;!?|]+")
_EDGES: Final = ".:'’`*_-=/\\&"
_FRONT: Final = ":'’`*=&"
_POSSESSIVE: Final = ("'s", "’s")


class Token(NamedTuple):
    """A word of a text: as it was written, as it is compared, and where it stands."""

    raw: str
    text: str
    start: int
    end: int


def fold(text: str) -> str:
    """Return a text as it is compared: one Unicode form, one case."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def tokenize(text: str) -> Iterator[Token]:
    """Yield the words of a text: `"Tom's order R-72."` has `Tom`, `order` and `R-72`.

    An address, a path, a code with hyphens and a number with a point are one word each.
    """
    for match in _TOKEN.finditer(text):
        raw = match.group()
        kept = raw.rstrip(_EDGES)
        start = match.start() + len(kept)
        kept = kept.lstrip(_FRONT)
        start -= len(kept)
        if kept.endswith(_POSSESSIVE):
            kept = kept[:-2]
        if kept:
            yield Token(kept, fold(kept), start, start + len(kept))


def fold_words(text: str) -> tuple[str, ...]:
    """Return the words of a text as they are compared."""
    found: list[str] = []
    for raw in _TOKEN.findall(fold(text)):
        kept = raw.rstrip(_EDGES).lstrip(_FRONT)
        if kept.endswith(_POSSESSIVE):
            kept = kept[:-2]
        if kept:
            found.append(kept)
    return tuple(found)


def split_name(name: str) -> tuple[str, ...]:
    """Return the words of an identifier: `order_id`, `orderId` -> `("order", "id")`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return tuple([part for part in re.split(r"[\W_]+", spaced.lower()) if part])


def stem(word: str) -> str:
    """Return the beginning that forms of a word share: close, closed, closing -> `clos`."""
    for ending in ("ing", "ed", "es", "er", "ly", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
