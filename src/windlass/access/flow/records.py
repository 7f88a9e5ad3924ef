"""The values that tools gave back, in records: which the user named, and which are private or secret.

A record is an object of a JSON result, or a paragraph of a text. A value of a trusted source is of
trusted origin where its record is about something that the user named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from windlass.access.flow.labels import Trust
from windlass.access.flow.numbers import parse_number
from windlass.access.flow.tokens import fold_words, split_name
from windlass.json_types import is_mapping, is_sequence

MOST_RESULT: Final = 40_000  # characters of a result that are compared
MOST_RECORDS: Final = 1_000  # of a result; what is beyond is not trusted
_START: Final = re.compile(r"[=:<>~(/]")
RUN: Final = 4  # words in a row by which it is noticed that a text was taken over
_PARAGRAPH: Final = re.compile(r"\n\s*\n")


class Record(msgspec.Struct):
    """A piece of a result, and where it came from."""

    words: tuple[str, ...]
    tool: str
    call: str = ""
    trust: Trust = "trusted"
    is_private: bool = False
    is_asked: bool = False  # the user named what was looked up
    is_only: bool = False  # and it is all that was found
    is_named: bool = False  # a name that the user said stands in it, or is its key
    key: str = ""
    starts: tuple[str, ...] = ()
    own_words: frozenset[str] = frozenset()  # that no other record of its result has
    text: str = ""

    def __post_init__(self) -> None:
        self.text = f" {' '.join(self.words)} "

    @property
    def is_lookup(self) -> bool:
        """Whether its values are of trusted origin: the user named what it is about."""
        return self.trust == "trusted" and (self.is_named or self.is_only)

    @property
    def is_readable(self) -> bool:
        """Whether the user named what it was found in: its values may be passed on, as words."""
        return self.trust == "trusted" and self.is_asked

    @property
    def is_hidden(self) -> bool:
        """Whether its values must not go out unasked: secret, or private and not named by the user."""
        return self.trust == "secret" or (
            self.trust == "trusted"
            and self.is_private
            and not (self.is_asked or self.is_named or self.is_only)
        )


class Piece(NamedTuple):
    """The words of a record, the key that it stands under, and the label of its field, if any."""

    words: tuple[str, ...]
    key: str = ""
    trust: Trust | None = None
    starts: tuple[str, ...] = ()  # the first words of its lines


def split_records(text: str, fields: Mapping[str, Trust] | None = None) -> list[Piece]:
    """Return the records in a tool's answer; labelled fields are records of their own."""
    stripped = text[:MOST_RESULT].strip()
    if stripped[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(stripped)
        except (msgspec.DecodeError, RecursionError):
            value = None
        if value is not None:
            found = islice(_walk(value, (), fields or {}), MOST_RECORDS)
            return [piece for piece in found if piece.words]
    paragraphs = _PARAGRAPH.split(stripped)
    if len(paragraphs) == 1:
        paragraphs = stripped.split("\n")
    return [_read_paragraph(one) for one in paragraphs[:MOST_RECORDS] if fold_words(one)]


def _read_paragraph(text: str) -> Piece:
    lines = [words[0] for words in map(fold_words, text.split("\n")) if words]
    return Piece(fold_words(text), starts=tuple(lines))


def _walk(value: object, path: tuple[str, ...], fields: Mapping[str, Trust]) -> Iterator[Piece]:
    """Yield one record of an object's own values, and others of the objects inside it."""
    if is_mapping(value):
        own: list[str] = list(path)
        for key, inner in value.items():
            if key in fields:
                yield Piece((*path, *_leaf_words(inner)), trust=fields[key])
            elif is_mapping(inner) or (is_sequence(inner) and any(map(is_mapping, inner))):
                yield from _walk(inner, (*path, *split_name(str(key))), fields)
            else:
                own += [*split_name(str(key)), *_leaf_words(inner)]
        yield Piece(tuple(own), path[-1] if path else "")
    elif is_sequence(value):
        for inner in value:
            yield from _walk(inner, path, fields)
    else:
        for line in str(value).split("\n"):
            yield Piece((*path, *fold_words(line)))


def _leaf_words(value: object) -> Iterator[str]:
    if is_mapping(value):
        for key, inner in value.items():
            yield from split_name(str(key))
            yield from _leaf_words(inner)
    elif is_sequence(value):
        for inner in value:
            yield from _leaf_words(inner)
    elif isinstance(value, str):
        yield from fold_words(value)
    elif value is not None:
        yield str(value).casefold()


def find_own_words(pieces: Sequence[Piece]) -> list[frozenset[str]]:
    """Return for each record the words that no other record of the result has."""
    if len(pieces) < 2:
        return [frozenset() for _ in pieces]
    counts = Counter([word for piece in pieces for word in set(piece.words)])
    return [frozenset([word for word in piece.words if counts[word] == 1]) for piece in pieces]


class RecordIndex:
    """All records of a session, found by their words: a value costs the same among 10 or 1,000."""

    def __init__(self, above: RecordIndex | None = None) -> None:
        self.records: list[Record] = []
        self._by_word: dict[str, list[Record]] = {}
        self._by_start: dict[str, list[Record]] = {}
        self._runs: dict[tuple[str, ...], Record] = {}
        self.too_long: dict[str, None] = {} if above is None else dict(above.too_long)
        """Tools with secret or private answers that were not compared whole."""
        self._above = above  # the records of whoever handed the work on

    def add(self, record: Record) -> None:
        """Take a record into the index."""
        self.records.append(record)
        for start in record.starts or record.words[:1]:
            self._by_start.setdefault(_START.split(start)[0], []).append(record)
        for word in dict.fromkeys(record.words):
            self._by_word.setdefault(word, []).append(record)
            number = parse_number(word)
            if number is not None and str(number) != word:
                self._by_word.setdefault(str(number), []).append(record)
        if record.trust == "secret" or record.is_private:
            for place in range(len(record.words) - RUN + 1):
                self._runs.setdefault(record.words[place : place + RUN], record)

    def find(self, value: str) -> Iterator[Record]:
        """Yield the records in which a text stands word for word."""
        phrase = fold_words(value)
        if not phrase:
            return
        rarest = min(phrase, key=lambda word: len(self._by_word.get(word, ())))
        whole = f" {' '.join(phrase)} "
        for record in self._by_word.get(rarest, ()):
            if len(phrase) == 1 or whole in record.text:
                yield record
        if self._above is not None:
            yield from self._above.find(value)

    def find_start(self, line: str) -> Iterator[Record]:
        """Yield the records that begin as a line does: `msgspec==0.19.0` as `msgspec==0.18.6`."""
        words = fold_words(line)
        if words:
            yield from self._by_start.get(_START.split(words[0])[0], ())
        if self._above is not None:
            yield from self._above.find_start(line)

    def find_number(self, value: str) -> Iterator[Record]:
        """Yield the records that hold a number, however it is written there."""
        number = parse_number(value)
        yield from self._by_word.get(value if number is None else str(number), ())
        if self._above is not None:
            yield from self._above.find_number(value)

    def find_run(self, words: tuple[str, ...]) -> Record | None:
        """Return the private or secret record from which these words in a row may be taken."""
        found = self._runs.get(words)
        if found is None and self._above is not None:
            return self._above.find_run(words)
        return found
