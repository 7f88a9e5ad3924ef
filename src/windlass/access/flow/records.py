"""The values that tools gave back, in records: which the user named, and which are private or secret.

A record is an object of a JSON result, or a paragraph of a text. A value of a trusted source is of
trusted origin where its record is about something that the user named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from windlass.access.flow.mentions import parse_number
from windlass.access.flow.tokens import find_phrase, fold_words, split_name
from windlass.json_types import is_mapping, is_sequence

Trust: TypeAlias = Literal["trusted", "untrusted", "secret"]

_MOST_RECORDS: Final = 5_000  # of a result; what is beyond is not trusted
_PARAGRAPH: Final = re.compile(r"\n\s*\n")


class Record(NamedTuple):
    """A piece of a result, and where it came from."""

    words: tuple[str, ...]
    tool: str
    call: str
    trust: Trust
    private: bool
    asked: bool  # the user named what was looked up
    keyed: bool  # and it is all that was found
    named: bool  # a name that the user said stands in it, or is its key


class Piece(NamedTuple):
    """The words of a record, and the key that it stands under."""

    words: tuple[str, ...]
    key: str = ""


def split_records(text: str) -> list[Piece]:
    """Return the words of each record in a tool's answer."""
    stripped = text.strip()
    if stripped[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(stripped)
        except (msgspec.DecodeError, RecursionError):
            value = None
        if value is not None:
            return [piece for piece in _walk(value, ()) if piece.words][:_MOST_RECORDS]
    paragraphs = _PARAGRAPH.split(stripped)
    if len(paragraphs) == 1:
        paragraphs = stripped.split("\n")
    return [Piece(words) for words in map(fold_words, paragraphs[:_MOST_RECORDS]) if words]


def _walk(value: object, path: tuple[str, ...]) -> Iterator[Piece]:
    """An object's own values are one record; objects inside it are others, with its keys before them."""
    if is_mapping(value):
        own: list[str] = list(path)
        for key, inner in value.items():
            if is_mapping(inner) or (is_sequence(inner) and any(is_mapping(one) for one in inner)):
                yield from _walk(inner, (*path, *split_name(str(key))))
            else:
                own += [*split_name(str(key)), *_leaf_words(inner)]
        yield Piece(tuple(own), path[-1] if path else "")
    elif is_sequence(value):
        for inner in value:
            yield from _walk(inner, path)
    else:
        for line in str(value).split("\n") if isinstance(value, str) else [str(value)]:
            yield Piece((*path, *fold_words(line)))


def _leaf_words(value: object) -> Iterator[str]:
    if is_sequence(value):
        for inner in value:
            yield from _leaf_words(inner)
    elif isinstance(value, str):
        yield from fold_words(value)
    elif value is not None:
        yield str(value).casefold()


class RecordIndex:
    """All records of a session, found by their words: a value costs the same among 10 or 1,000."""

    def __init__(self) -> None:
        self._by_word: dict[str, list[Record]] = {}
        self.size = 0

    def add(self, record: Record) -> None:
        """Take a record into the index."""
        self.size += 1
        for word in dict.fromkeys(record.words):
            self._by_word.setdefault(word, []).append(record)
            number = parse_number(word)
            if number is not None and str(number) != word:
                self._by_word.setdefault(str(number), []).append(record)

    def find(self, value: str) -> Iterator[Record]:
        """Yield the records in which a text stands word for word."""
        phrase = fold_words(value)
        if not phrase:
            return
        rarest = min(phrase, key=lambda word: len(self._by_word.get(word, ())))
        for record in self._by_word.get(rarest, ()):
            if len(phrase) == 1 or find_phrase(record.words, phrase) >= 0:
                yield record

    def find_number(self, value: str) -> Iterator[Record]:
        """Yield the records that hold a number, however it is written there."""
        number = parse_number(value)
        yield from self._by_word.get(value if number is None else str(number), ())
