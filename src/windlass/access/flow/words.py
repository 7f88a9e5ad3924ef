"""What the user said, and whether a value of a call is in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Final

from windlass.access.flow.actions import CHOICE_VERBS, forms_of
from windlass.access.flow.dates import Dates, durations_of, find_dates
from windlass.access.flow.items import find_codes
from windlass.access.flow.numbers import Number, find_numbers, is_object, is_stake, parse_number
from windlass.access.flow.tokens import Token, fold, fold_words, split_name, stem, tokenize

_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTH: Final = re.compile(r"(\d{4})-(\d\d)")
_TIME: Final = re.compile(r"(\d\d?):(\d\d)(?::00)?(?:Z|[+-]\d\d:?\d\d)?")
_DATE_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d?:\d\d\S*)")
_HYPHENS: Final = re.compile(r"[-/–]")
_NEGATION: Final = frozenset(
    "no not without don't dont never nor off stop isn't doesn't won't shouldn't".split()
)
_ON: Final = ("switch on", "turn on", "enable", "activate")
_OFF: Final = ("switch off", "turn off", "disable", "deactivate", "stop")
#: Words with which people ask for a switch that has another name: (on, off).
_SWITCHES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    **dict.fromkeys(("enabled", "enable", "active", "on"), (_ON, _OFF)),
    **dict.fromkeys(("visible", "shown"), (("show", "unhide"), ("hide", "take out", "take off"))),
    **dict.fromkeys(("public",), (("publish",), ("hide", "unpublish"))),
}
_OPPOSITE: Final = re.compile(r"(?:un|dis|de)(?P<word>\w{3,})")
_NOBODY: Final = frozenset({"nobody", "no-one", "none", "nothing", "without", "alone"})
#: Nouns after a word that make it a name: "the service team".
_KINDS: Final = frozenset(
    "team channel group folder list department room branch account board inbox label environment "
    "calendar project".split()
)
#: Nouns before a name that say what kind of thing it names; those of a group name the same kind.
_NAMED_KINDS: Final = tuple(
    frozenset(group.split())
    for group in (
        "branch ref",
        "tag release version",
        "file path document attachment content",
        "folder directory path",
        "channel room",
        "label",
        "coupon code voucher",
        "package module dependency",
        "hotel",
        "flight",
        "payee recipient",
        "product item",
        "environment env",
        "run job build",
    )
)
_ARTICLES: Final = frozenset({"the", "a", "an", "called", "named", "of"})
_WE: Final = frozenset({"we", "i", "us", "we'll", "i'll", "our"})
_QUANTIFIERS: Final = frozenset({"all", "every", "everybody", "everyone", "each", "whole"})
_FIRST_SAID: Final = (
    4_000  # characters; what was said between the first and the last is not compared
)
_LAST_SAID: Final = 4_000
_LONGEST: Final = 2_000  # characters of a value; nobody says more word for word
_FAR: Final = 100  # words; a sentence between two of them counts as many
_LIST: Final = 4  # words that the next thing of a list may be further away


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


_CLAUSE_END: Final = re.compile(r"[.,;:!?()\n]")
_SENTENCE_END: Final = re.compile(r"[.;!?\n]")
_QUOTED: Final = re.compile(r"[\"“„«'‘`]([^\"”“»'’`\n]{1,200})[\"”“»'’`]")
#: What is to be said or written: "comment: Duplicate of #187". It names no target.
_DICTATED: Final = re.compile(
    r"\b(?:comment|say|says|saying|tell|text|message|reply|answer|write|writing|reason|note|notes)"
    r"\b[^:.\n]{0,40}:\s+(?P<words>[^\n]+?)(?=[.!?](?:\s|$)|\n|$)",
    re.IGNORECASE,
)


class UserWords:
    """All that a person said in a session, ready to be asked about single values."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        text = "\n".join([text for text in texts if text])
        if len(text) > _FIRST_SAID + _LAST_SAID:
            text = f"{text[:_FIRST_SAID]}\n{text[-_LAST_SAID:]}"
        self.text = text

    @cached_property
    def _tokens(self) -> tuple[Token, ...]:
        return tuple(tokenize(self.text))

    @cached_property
    def _words(self) -> tuple[str, ...]:
        return tuple([token.text for token in self._tokens])

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, word in enumerate(self._words):
            found.setdefault(word, []).append(place)
        return found

    @cached_property
    def _stems(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, word in enumerate(self._words):
            for part in {word, *_HYPHENS.split(word)}:
                found.setdefault(stem(part), []).append(place)
        return found

    @cached_property
    def _clauses(self) -> tuple[int, ...]:
        """The number of the clause that each word stands in."""
        found: list[int] = []
        clause, end = 0, 0
        for token in self._tokens:
            clause += bool(_CLAUSE_END.search(self.text, end, token.start))
            found.append(clause)
            end = token.end
        return tuple(found)

    @cached_property
    def _quotes(self) -> frozenset[tuple[str, ...]]:
        return frozenset(fold_words(phrase) for phrase in _QUOTED.findall(self.text))

    @cached_property
    def names(self) -> frozenset[str]:
        """The words that name something: capitals, codes, paths, words in quotes."""
        return frozenset(
            [
                token.text
                for token in self._tokens
                if _is_name(token) or (token.text,) in self._quotes
            ]
        )

    @cached_property
    def _pairs(self) -> frozenset[tuple[str, str]]:
        """Two words in a row of which neither is an everyday word: "garden lamp"."""
        return frozenset(
            [
                pair
                for pair in zip(self._words, self._words[1:], strict=False)
                if not (_COMMON & set(pair))
                and all(len(word) > 2 and word.isalpha() for word in pair)
            ]
        )

    @cached_property
    def dates(self) -> Dates:
        """The dates and times in it."""
        return find_dates(self._free_text)

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        """The numbers in it."""
        return tuple(find_numbers(self._free_text, self.dates.places))

    @cached_property
    def _free_text(self) -> str:
        return fold(_DICTATED.sub(" ", self.text))

    @cached_property
    def _codes(self) -> frozenset[str]:
        return find_codes(self.text)

    def says(self, value: str) -> bool:
        """Return whether a text was said, word for word, in any case."""
        if len(value) > _LONGEST:
            return False
        return self._find(fold_words(value)) >= 0 or bool(
            find_codes(value, whole=True) & self._codes
        )

    def _find(self, phrase: tuple[str, ...]) -> int:
        if not phrase:
            return -1
        for place in self._places.get(phrase[0], ()):
            if self._words[place : place + len(phrase)] == phrase:
                return place
        return -1

    def names_text(self, value: str, argument: str, tool: str) -> bool:
        """Return whether a text was said as the name of what an argument takes.

        A single ordinary word counts only in quotes or after the argument's own name, and everyday
        words never: a word that stands anywhere in a request is no target.
        """
        phrase = fold_words(value)
        place = self._find(phrase)
        if place < 0:
            return self.says(value)
        word = self._words[place]
        if _COMMON.issuperset(phrase):
            return False
        names = {stem(part) for part in (*split_name(argument), *split_name(tool))}
        if all(self._is_other_kind(found, names) for found in self._places[word]):
            return False
        if len(phrase) > 1 or phrase in self._quotes or word in self.names:
            return True
        own = {stem(part) for part in split_name(argument)}
        if any(
            self._words[found + 1 : found + 2] and self._words[found + 1] in _KINDS
            for found in self._places[word]
        ):
            return True
        return any(
            stem(self._words[at]) in own and self._clauses[at] == self._clauses[found]
            for found in self._places[word]
            for at in range(max(found - 7, 0), min(found + 3, len(self._words)))
        )

    def _is_other_kind(self, place: int, names: set[str]) -> bool:
        """Return whether a word was said as the name of another kind of thing: "branch py312"."""
        before = [word for word in self._words[max(place - 3, 0) : place] if word not in _ARTICLES]
        if not before or self._clauses[place - 1] != self._clauses[place]:
            return False
        noun = before[-1].removesuffix("s")
        group = next((group for group in _NAMED_KINDS if noun in group), None)
        return group is not None and not any(stem(one) in names for one in (*group, "to"))

    @cached_property
    def says_nobody(self) -> bool:
        """Whether the user said that there is nobody, or nothing, to name."""
        return not _NOBODY.isdisjoint(self._words)

    def find_choice(self, value: str) -> list[int]:
        """Return where a choice was said, or else a verb that means the same."""
        found = self.find_exact_choice(value)
        if found or value not in CHOICE_VERBS:
            return found
        return [place for place in self.find_action(value) if not self._is_negated(place)]

    def find_exact_choice(self, value: str) -> list[int]:
        """Return where a choice was said, in any form of the word: closed, "close it"."""
        parts = split_name(value)
        if not parts:
            return []
        if value in CHOICE_VERBS:
            phrases = [form for form in forms_of(value) if " " in form and self._says_apart(form)]
            if phrases:
                return [at for form in phrases for at in self._stems.get(stem(form.split()[0]), ())]
        found = [self._stems.get(stem(part), []) for part in parts]
        if all(found):
            return [place for place in found[0] if not self._is_negated(place)]
        if len(parts) > 1 or len(value) < 4:
            return []
        ending = stem("".join(parts))
        return [place for place, word in enumerate(self._words) if word.endswith(ending)]

    def _is_negated(self, place: int) -> bool:
        clause = self._clauses[place]
        return any(
            self._words[near] in _NEGATION and self._clauses[near] == clause
            for near in range(max(place - 3, 0), place)
        )

    def wants_switch(self, argument: str) -> bool | None:
        """Return whether the user wants a switch on or off; None: nothing was said of it."""
        others = _SWITCHES.get(argument.lower())
        if others is not None:
            for wanted, phrases in zip((True, False), others, strict=True):
                if any(self._says_apart(phrase) for phrase in phrases):
                    return wanted
        names = split_name(argument)
        if len(names) > 2 and (who := self._who_does(names)) is not None:
            return who
        parts = [stem(part) for part in names if len(part) > 2]
        places = [self._stems.get(part, []) for part in parts]
        if parts and all(places):
            return not self._is_negated(min(found[0] for found in places))
        opposite = {
            stem(match["word"]) for word in self._words if (match := _OPPOSITE.fullmatch(word))
        }
        return False if parts and set(parts) <= opposite else None

    def _who_does(self, names: tuple[str, ...]) -> bool | None:
        """Return who the user says does it, for a switch such as `shop_pays_shipping`.

        True: we do. False: somebody else does. None: nothing was said, or both.
        """
        found: set[bool] = set()
        for place in self._stems.get(stem(names[-1]), ()):
            clause = self._clauses[place]
            if self._words[place + 1 : place + 3] in (("on", "us"), ("on", "me")):
                found.add(True)
            for verb in self._stems.get(stem(names[-2]), ()):
                if self._clauses[verb] == clause and verb > 0 and self._clauses[verb - 1] == clause:
                    subjects = [
                        self._words[near]
                        for near in range(max(verb - 3, 0), verb)
                        if self._clauses[near] == clause
                    ]
                    found.add(not _WE.isdisjoint(subjects) and not self._is_negated(verb))
        return found.pop() if len(found) == 1 else None

    def _says_apart(self, phrase: str) -> bool:
        """Return whether the words of a phrase were said in one clause: "switch my reply on"."""
        first, *rest = phrase.split()
        return any(
            all(
                any(
                    self._words[at] == word and self._clauses[at] == self._clauses[place]
                    for at in range(place + 1, min(place + 9, len(self._words)))
                )
                for word in rest
            )
            for place in self._stems.get(stem(first), ())
            if not self._is_negated(place)
        )

    def says_date(self, value: str) -> bool | None:
        """Return whether a date or time was said; None: the value is none."""
        if both := _DATE_TIME.fullmatch(value):
            return bool(self.says_date(both[1])) and bool(self.says_date(both[2]))
        durations = durations_of((int(one.value), one.noun) for one in self.numbers if one.noun)
        if day := _DATE.fullmatch(value):
            try:
                return self.dates.has_day(date(*map(int, day.groups())), durations)
            except ValueError:
                return False
        if month := _MONTH.fullmatch(value):
            return (int(month[1]), int(month[2])) in self.dates.months
        if clock := _TIME.fullmatch(value):
            return self.dates.has_time(int(clock[1]), int(clock[2]), durations)
        return None

    def says_number(self, value: Decimal, argument: str, tool: str, *, target: bool) -> bool:
        """Return whether a number was said as what this argument takes.

        An amount needs an amount, an id the noun that it belongs to: "at 7" is no order 7.
        """
        value = value.normalize()
        found = [number for number in self.numbers if number.value == value]
        if target:
            return any(is_object(number, argument, tool) for number in found)
        return any(is_stake(number, argument) for number in found)

    def has_number(self, value: Decimal) -> bool:
        """Return whether a number was said at all."""
        value = value.normalize()
        return any(number.value == value for number in self.numbers)

    def names_any_of(self, words: tuple[str, ...]) -> bool:
        """Return whether one of these words, or two in a row, name something that the user said."""
        for word in words:
            if word in self.names:
                return True
            if _HYPHENS.search(word) and any(part in self.names for part in _HYPHENS.split(word)):
                return True
        pairs = self._pairs
        return bool(pairs) and any(pair in pairs for pair in zip(words, words[1:], strict=False))

    def wants_all_of(self, value: str) -> bool:
        """Return whether the user wants everything that a name stands for: "everybody in the list"."""
        place = self._find(fold_words(value))
        return place >= 0 and not _QUANTIFIERS.isdisjoint(self._words[max(place - 8, 0) : place])

    def find_action(self, action: str) -> list[int]:
        """Return where the user spoke of an action, by its verb or one that means the same."""
        found: list[int] = []
        for form in forms_of(action):
            first, *rest = form.split()
            if not rest:
                found += self._stems.get(stem(form), [])
            elif self._says_apart(form):
                found += self._stems.get(stem(first), [])
        return found

    def is_nearer(
        self,
        places: list[int],
        rivals: Iterable[list[int]],
        anchors: list[int],
        *,
        slack: bool = False,
    ) -> bool:
        """Return whether some places are as near to others as any of their rivals.

        `slack` lets the things of a list be a little further away each.
        """
        mine = self._distance(places, anchors) - (_LIST if slack else 0)
        return all(mine <= self._distance(rival, anchors) for rival in rivals)

    def places_of(self, value: str) -> list[int]:
        """Return where the first word of a value was said."""
        first = next(iter(fold_words(value)), None)
        return [] if first is None else self._places.get(first, [])

    def _distance(self, places: list[int], anchors: list[int]) -> int:
        return min(
            [
                abs(place - anchor) + _FAR * (self._sentence(place) != self._sentence(anchor))
                for place in places[:50]
                for anchor in anchors[:50]
            ],
            default=10 * _FAR,
        )

    @cached_property
    def _sentences(self) -> tuple[int, ...]:
        found: list[int] = []
        sentence, end = 0, 0
        for token in self._tokens:
            sentence += bool(_SENTENCE_END.search(self.text, end, token.start))
            found.append(sentence)
            end = token.end
        return tuple(found)

    def _sentence(self, place: int) -> int:
        return self._sentences[place]

    def find_alike(self, value: str, argument: str, tool: str) -> list[str]:
        """Return other things that look like this one: `351` for `350`, `R-75` for `R-74`."""
        mine = fold(value)
        shape = _shape(mine)
        if "9" not in shape:
            return []
        found = [word for word in self._places if word != mine and _shape(word) == shape]
        if not mine.isdigit():
            return found
        objects = {str(one.value) for one in self.numbers if is_object(one, argument, tool)}
        return [word for word in found if word in objects]

    def says_any_key(self, words: frozenset[str]) -> bool:
        """Return whether one of these words was said that is no everyday word."""
        return any([self.says_key(word) for word in words])

    def says_key(self, word: str) -> bool:
        """Return whether a word was said that is no everyday word."""
        return word in self._places and word not in _COMMON and len(word) > 2 and word.isalpha()


def _shape(word: str) -> str:
    return re.sub(r"[a-z]+", "a", re.sub(r"\d+", "9", word))


def _is_name(token: Token) -> bool:
    raw = token.raw
    if any(letter in raw for letter in "@/_#") or any(letter.isdigit() for letter in raw):
        return parse_number(raw) is None
    if raw[:1].isupper():
        return token.text not in _COMMON
    return any(letter.isupper() for letter in raw) or ("." in raw and not raw.endswith("."))
