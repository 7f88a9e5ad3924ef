"""What the user said, and whether a value of a call is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from windlass.access.flow.actions import forms_of
from windlass.access.flow.mentions import (
    Mentions,
    Number,
    NumberKind,
    find_mentions,
    is_same_noun,
    nouns_of,
    parse_number,
)
from windlass.access.flow.tokens import Token, find_phrase, fold_words, split_name, stem, tokenize

_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTH: Final = re.compile(r"(\d{4})-(\d\d)")
_TIME: Final = re.compile(r"(\d\d?):(\d\d)(?::00)?(?:Z|[+-]\d\d:?\d\d)?")
_DATE_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d?:\d\d\S*)")
_HYPHENS: Final = re.compile(r"[-/–]")
_NEGATION: Final = frozenset(
    "no not without don't dont never nor off stop isn't doesn't won't shouldn't out".split()
)
_MONEY_NAMES: Final = frozenset(
    "amount price total sum fee cost budget limit balance cents usd eur euros dollars salary rent".split()
)
_PERCENT_NAMES: Final = frozenset({"percent", "percentage", "pct", "discount"})
_DAY_NAMES: Final = frozenset({"day", "days", "month", "year", "week"})
#: Words that begin a sentence or are in every request: they name nothing.
_COMMON: Final = frozenset(
    "a about after again all also am an and any are as ask at be because been before but by call can "
    "check could do does done each every everybody find for from get give go good have he hello her "
    "here hi him his how i if in into is it its just let like look mail make may me more morning my "
    "need new no not now of on one or order our out over pay please put read say see send set she so "
    "some somebody take tell thank thanks that the their them then there they this to today tomorrow "
    "two up us use want was we were what when where which who why will with would write yes you your "
    "monday tuesday wednesday thursday friday saturday sunday euros euro eur issue pull request "
    "january february march april june july august september october november december".split()
)


#: What is to be said or written: "comment: Duplicate of #187". It names no target.
_DICTATED: Final = re.compile(
    r"\b(?:comment|say|says|saying|tell|text|message|reply|answer|write|writing|reason|note|notes)"
    r"\b[^:.\n]{0,40}:\s+(?P<words>[^\n]+?)(?=[.!?](?:\s|$)|\n|$)",
    re.IGNORECASE,
)


class UserWords:
    """All that a person said in a session, ready to be asked about single values."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = tuple([text for text in texts if text])
        self.text = "\n".join(self.texts)
        self._tokens: tuple[Token, ...] = tuple(tokenize(self.text))
        self._words = tuple([token.text for token in self._tokens])
        self._places: dict[str, list[int]] = {}
        for place, word in enumerate(self._words):
            self._places.setdefault(word, []).append(place)
        self._stems = {stem(word) for word in self._words}
        self._mentions: Mentions | None = None
        self._quoted = frozenset(
            fold_words(phrase)
            for phrase in re.findall(r"[\"“„«'‘`]([^\"”“»'’`\n]{1,200})[\"”“»'’`]", self.text)
        )
        self.names = frozenset(
            token.text for token in self._tokens if _is_name(token) or (token.text,) in self._quoted
        )

    @property
    def mentions(self) -> Mentions:
        """The dates, times and numbers in it."""
        if self._mentions is None:
            self._mentions = find_mentions(_DICTATED.sub(" ", self.text))
        return self._mentions

    def says(self, value: str) -> bool:
        """Return whether a text was said, word for word, in any case."""
        return self._find(fold_words(value)) >= 0

    def _find(self, phrase: tuple[str, ...]) -> int:
        if not phrase:
            return -1
        for place in self._places.get(phrase[0], ()):
            if self._words[place : place + len(phrase)] == phrase:
                return place
        return -1

    def names_text(self, value: str, argument: str) -> bool:
        """Return whether a text was said as the name of something.

        A single ordinary word counts only in quotes or beside the argument's own name: a word that
        stands anywhere in a request is no target.
        """
        phrase = fold_words(value)
        place = self._find(phrase)
        if place < 0:
            return False
        if len(phrase) > 1 or phrase in self._quoted or self._words[place] in self.names:
            return True
        own = {stem(word) for word in split_name(argument)}
        return any(
            stem(near) in own
            for found in self._places[self._words[place]]
            for near in self._words[max(found - 2, 0) : found + 3]
        )

    def names_choice(self, value: str) -> bool:
        """Return whether a choice was said, in any form of the word: closed, "close it"."""
        parts = split_name(value)
        return bool(parts) and all(
            stem(part) in self._stems
            or any(word.endswith(part) for word in self._words if len(part) > 3)
            for part in parts
        )

    def says_switch(self, value: bool, argument: str) -> bool:
        """Return whether a switch was spoken of, and whether the user wants it on or off."""
        parts = [stem(part) for part in split_name(argument) if len(part) > 2]
        if not parts:
            return False
        places = [
            [place for place, word in enumerate(self._words) if stem(word) == part]
            for part in parts
        ]
        if not all(places):
            return False
        first = min(found[0] for found in places)
        around = self._words[max(first - 4, 0) : first + 3]
        return value is not any(word in _NEGATION for word in around)

    def says_date(self, value: str) -> bool | None:
        """Return whether a date or time was said; None: the value is none."""
        if both := _DATE_TIME.fullmatch(value):
            return bool(self.says_date(both[1])) and bool(self.says_date(both[2]))
        if day := _DATE.fullmatch(value):
            year, month, number = map(int, day.groups())
            known = self.mentions.dates
            return (year, month, number) in known or (None, month, number) in known
        if month := _MONTH.fullmatch(value):
            return (int(month[1]), int(month[2])) in self.mentions.months
        if clock := _TIME.fullmatch(value):
            return (int(clock[1]), int(clock[2])) in self.mentions.times
        return None

    def says_number(self, value: Decimal, argument: str, tool: str, *, target: bool) -> bool:
        """Return whether a number was said as what this argument takes.

        An amount needs an amount, an id the noun that it belongs to: "at 7" is no order 7.
        """
        value = value.normalize()
        found = [number for number in self.mentions.numbers if number.value == value]
        if target:
            return any(self._is_id(number, argument, tool) for number in found)
        return any(_fits_stake(number, argument) for number in found)

    def _is_id(self, number: Number, argument: str, tool: str) -> bool:
        if number.kind != "id":
            return False
        known = nouns_of(argument) or nouns_of(tool)
        return (
            not known or not number.noun or number.noun in known or number.noun in ("number", "no")
        )

    def names_any_of(self, words: Iterable[str]) -> bool:
        """Return whether one of these words is a name that the user said."""
        return any(
            word in self.names
            or (_HYPHENS.search(word) and any(part in self.names for part in _HYPHENS.split(word)))
            for word in words
        )

    def asks_for(self, action: str) -> bool:
        """Return whether the user spoke of an action, by its verb or one that means the same."""
        return any(
            stem(form) in self._stems or (" " in form and self.says(form))
            for form in forms_of(action)
        )

    def says_key(self, word: str) -> bool:
        """Return whether a word was said that is no everyday word."""
        return word in self._places and word not in _COMMON and len(word) > 3


def _is_name(token: Token) -> bool:
    raw = token.raw
    if any(letter in raw for letter in "@/_#") or any(letter.isdigit() for letter in raw):
        return parse_number(raw) is None
    if raw[:1].isupper():
        return token.text not in _COMMON
    return any(letter.isupper() for letter in raw) or ("." in raw and not raw.endswith("."))


def _fits_stake(number: Number, argument: str) -> bool:
    names = frozenset(split_name(argument))
    allowed: frozenset[NumberKind]
    if any(is_same_noun(number.noun, name) for name in names):
        return True
    if names & _PERCENT_NAMES:
        allowed = frozenset({"percent", "plain"})
    elif names & _MONEY_NAMES:
        allowed = frozenset({"money", "plain"})
    elif names & _DAY_NAMES:
        allowed = frozenset({"date"})
    else:
        allowed = frozenset({"plain"})
    return number.kind in allowed


def contains_phrase(words: tuple[str, ...], value: str) -> bool:
    """Return whether a text stands in a sequence of words."""
    phrase = fold_words(value)
    return bool(phrase) and find_phrase(words, phrase) >= 0
