"""Text as words that can be compared: whole, in any case, codes and addresses in one piece."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r"[^\s\"“”„‘«»()\[\]{}<>,;!?|]+")
_EDGES: Final = ".:'’`*_-=/\\&"
_FRONT: Final = ":'’`*=&"
_POSSESSIVE: Final = re.compile(r"['’]s$")


class Token(NamedTuple):
    """A word of a text: as it was written, as it is compared, and where it stands."""

    raw: str
    text: str
    start: int
    end: int


def fold(text: str) -> str:
    """Return a text as it is compared: one Unicode form, one case."""
    return unicodedata.normalize("NFKC", text).casefold()


def tokenize(text: str) -> Iterator[Token]:
    """Yield the words of a text: `"Tom's order R-72."` has `Tom`, `order` and `R-72`.

    An address, a path, a code with hyphens and a number with a point are one word each.
    """
    for match in _TOKEN.finditer(text):
        raw = match.group()
        kept = raw.rstrip(_EDGES)
        front = len(kept) - len(kept.lstrip(_FRONT))
        kept = _POSSESSIVE.sub("", kept[front:])
        if kept:
            start = match.start() + front
            yield Token(kept, fold(kept), start, start + len(kept))


def fold_words(text: str) -> tuple[str, ...]:
    """Return the words of a text as they are compared."""
    return tuple([token.text for token in tokenize(text)])


def find_phrase(words: tuple[str, ...], phrase: tuple[str, ...]) -> int:
    """Return where a phrase stands in a sequence of words, -1 where it does not."""
    size = len(phrase)
    for place in range(len(words) - size + 1):
        if words[place] == phrase[0] and words[place : place + size] == phrase:
            return place
    return -1


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
