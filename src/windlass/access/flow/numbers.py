"""Numbers that a person mentions, in digits and in words, and what each of them counts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

from windlass.access.flow.tokens import split_name, stem

NumberKind: TypeAlias = Literal["money", "percent", "date", "id", "count", "plain"]

_NUMBER: Final = re.compile(
    r"(?<![\w.,#-])(?P<sign>[#€$£])?\s?"
    r"(?P<digits>\d{1,3}(?:[,' ]\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:[.,]\d+)?)"
    r"(?P<tail>\s?%|\s?€|\s?\$|(?:st|nd|rd|th)\b)?(?![\w]|-\w|[.,]\d)"
)
_UNITS: Final = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen".split()
    )
}
_TENS: Final = {
    word: value
    for value, word in zip(
        range(20, 100, 10),
        "twenty thirty forty fifty sixty seventy eighty ninety".split(),
        strict=True,
    )
}
_SCALES: Final = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "dozen": 12}
#: "a two-night stay", "three-hour"
_NUMBER_NOUN: Final = re.compile(
    r"\b(one|two|three|four|five|six|seven|eight|nine|ten|twelve)-(night|day|week|hour|minute)s?\b"
)
_ORDINALS: Final = {
    word: value
    for value, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split(),
        1,
    )
}
_MONEY: Final = frozenset(
    "eur euro euros usd dollar dollars gbp pound pounds chf francs cent cents yen bucks".split()
)
_PERCENT: Final = frozenset({"percent", "per cent", "pct"})
#: Nouns that a number after them names one thing of: "order 5003", "issues 3 and 4".
ID_NOUNS: Final = frozenset(
    "order issue request pr pull ticket invoice run build job number no nr booking return case thread "
    "account item product room flight user customer event id task page version record entry contract "
    "delivery parcel message mail email transaction payment card".split()
)
_SAME_NOUN: Final = ({"issue", "thread", "ticket", "pr", "pull", "request"}, {"mail", "email"})
#: Words after a number that say nothing of what it counts: "for two of us", "pay 25 to Ann".
_NO_NOUN: Final = frozenset(
    "of to for from in on at by and or with if when as so that please each per off now until than "
    "is are it this the a an us left more remaining total only altogether gets goes was has not but "
    "instead today tomorrow both".split()
)
#: Words before a number that is an amount or a setting, and no object: "set it to 500".
_NO_OBJECT: Final = frozenset(
    "to at by of than about around pay transfer refund costs cost price is for from until limit over "
    "under above below least most only just the a".split()
)
_PEOPLE: Final = frozenset("guest person people passenger traveller adult seat us".split())
_MOST_NUMBERS: Final = 100  # of a text; those after them are not compared
_LIST_WORDS: Final = frozenset({"and", "or", "to", "with", "&"})
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|#|\d+")
#: Phrases that say a number without one: the phrase, its value, kind and noun.
_PHRASES: Final[tuple[tuple[re.Pattern[str], Decimal, NumberKind, str], ...]] = (
    (re.compile(r"\b(?:alone|myself|just me|only me)\b"), Decimal(1), "count", "person"),
    (re.compile(r"\b(?:half an hour|half hour)\b"), Decimal(30), "count", "minutes"),
    (re.compile(r"\bquarter of an hour\b"), Decimal(15), "count", "minutes"),
    (re.compile(r"\ban hour and a half\b"), Decimal(90), "count", "minutes"),
    (re.compile(r"\ban hour\b"), Decimal(1), "count", "hour"),
    (re.compile(r"\ba night\b"), Decimal(1), "count", "night"),
    (re.compile(r"\ba day\b"), Decimal(1), "count", "day"),
    (re.compile(r"\ba week\b"), Decimal(1), "count", "week"),
    (re.compile(r"\ba (?:couple|pair) of\b"), Decimal(2), "plain", ""),
    (re.compile(r"\bhalf (?:the )?price\b|\bhalf off\b"), Decimal(50), "percent", ""),
    (re.compile(r"\b(?:sold out|out of stock|none left)\b"), Decimal(0), "plain", ""),
    (re.compile(r"\bfor free\b|\bfree of charge\b"), Decimal(0), "money", ""),
)


class Number(NamedTuple):
    """A number in a text: its value, its kind, the noun it belongs to and the word before it."""

    value: Decimal
    kind: NumberKind
    noun: str = ""
    before: str = ""


def find_numbers(text: str, dated: Collection[int]) -> Iterator[Number]:
    """Yield the numbers of a text that was folded; `dated` are the places of its dates."""
    for match in islice(_NUMBER.finditer(text), _MOST_NUMBERS):
        start = match.start("digits")
        before = text[max(start - 50, 0) : start]
        for value in _values_of(match["digits"]):
            if start in dated:
                yield Number(value, "date")
            else:
                after = _WORD.match(text, _skip_space(text, match.end()))
                unit = after.group() if after else ""
                tail = (match["tail"] or "").strip()
                yield _classify(value, match["sign"] or "", tail, before, unit)
    yield from _find_number_words(text)
    for pattern, value, kind, noun in _PHRASES:
        if pattern.search(text):
            yield Number(value, kind, noun)


def _values_of(digits: str) -> list[Decimal]:
    """Return what a number may mean: 1.500 is a thousand and a half, or one and a half."""
    found = [parse_number(digits)]
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+", digits):
        found.append(parse_number(digits.replace(".", "")))
    return [value for value in found if value is not None]


def _classify(value: Decimal, sign: str, tail: str, before: str, unit: str) -> Number:
    if sign in ("€", "$", "£") or tail in ("€", "$") or unit in _MONEY:
        return Number(value, "money")
    if tail == "%" or unit in _PERCENT:
        return Number(value, "percent")
    if sign == "#":
        return Number(value, "id")
    if tail in ("st", "nd", "rd", "th"):
        return Number(value, "date")
    words = _WORD.findall(before)
    noun = _noun_before(words)
    if noun:
        return Number(value, "id", noun)
    if re.search(r"\b(?:before|by|until|on|of) the\s*$", before):
        return Number(value, "date")
    return _count(value, unit, words[-1] if words else "")


def _count(value: Decimal, unit: str, before: str) -> Number:
    if unit in _NO_NOUN or not unit.isalpha():
        return Number(value, "plain", "", before)
    return Number(value, "count", unit, before)


def _skip_space(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \u00a0":
        place += 1
    return place


def _noun_before(words: list[str]) -> str:
    """Return the noun that a number in a list belongs to: "pull requests 318, 322 and" -> request."""
    at = len(words) - 1
    while at >= 0 and (words[at] in _LIST_WORDS or words[at].isdigit()):
        at -= 1
    if at < 0:
        return ""
    if words[at] == "#":
        return "number"
    return next((one for one in (words[at], words[at].removesuffix("s")) if one in ID_NOUNS), "")


def _find_number_words(text: str) -> Iterator[Number]:
    words = re.findall(r"[a-z]+(?:-[a-z]+)?|\S", _NUMBER_NOUN.sub(r"\1 \2", text))
    place = 0
    while place < len(words):
        value, size = _read_number_words(words, place)
        if value is None:
            ordinal = _ORDINALS.get(words[place])
            if ordinal is not None:
                yield Number(Decimal(ordinal), "date")
            place += 1
            continue
        before = words[place - 1] if place else ""
        place += size
        unit = words[place] if place < len(words) else ""
        if unit in _MONEY:
            cents, _ = _read_number_words(words, place + 1)  # "six euros ninety"
            yield Number(Decimal(value), "money")
            if cents is not None and cents < 100:
                yield Number((Decimal(value) + Decimal(cents) / 100).normalize(), "money")
        elif unit in _PERCENT or unit == "%" or words[place : place + 2] == ["per", "cent"]:
            yield Number(Decimal(value), "percent")
        else:
            yield _count(Decimal(value), unit, before)


def _read_number_words(words: list[str], place: int) -> tuple[int | None, int]:
    """Return the number that words spell from a place on, and how many words it takes."""
    total, current, size, seen = 0, 0, 0, False
    while place + size < len(words):
        word = words[place + size]
        tens, _, units = word.partition("-")
        if word in _UNITS:
            current += _UNITS[word]
        elif word in _TENS:
            current += _TENS[word]
        elif tens in _TENS and units in _UNITS:
            current += _TENS[tens] + _UNITS[units]
        elif word in _SCALES and (seen or (size and words[place + size - 1] == "a")):
            current = max(current, 1) * _SCALES[word]
            if _SCALES[word] >= 1000:
                total, current = total + current, 0
        elif (
            word == "a"
            and not size
            or word == "and"
            and seen
            and _goes_on(words, place + size + 1, total, current)
        ):
            size += 1
            continue
        else:
            break
        seen = True
        size += 1
    return (total + current, size) if seen else (None, 0)


def _goes_on(words: list[str], place: int, total: int, current: int) -> bool:
    """Return whether "and" stands inside a number: "a hundred and fifty", not "five and six"."""
    if place >= len(words) or (current < 100 and not total):
        return False
    tens, _, _ = words[place].partition("-")
    return words[place] in _UNITS or tens in _TENS


def parse_number(text: str) -> Decimal | None:
    """Return the number that a text is, whatever separates its thousands and decimals."""
    plain = text.strip().replace("'", "")
    if re.fullmatch(r"\d{1,3}(?: \d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(" ", "")
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(",", "")
    elif re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", plain):
        plain = plain.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"-?\d+,\d+", plain):
        plain = plain.replace(",", ".")
    if not re.fullmatch(r"-?\d{1,40}(?:\.\d{1,20})?", plain):
        return None
    try:
        return Decimal(plain).normalize()
    except InvalidOperation:
        return None


def is_object(number: Number, argument: str, tool: str) -> bool:
    """Return whether a number was said as one of the things that an argument names.

    "order 5003", "#5003", "cancel 5003" name an order; "at 7", "before the 7" and "500 euros" do not.
    """
    if number.kind == "id":
        known = nouns_of(argument) or nouns_of(tool)
        return (
            not known or not number.noun or number.noun in known or number.noun in ("number", "no")
        )
    if number.kind not in ("plain", "count"):
        return False
    if _PLACES & frozenset(split_name(argument)):
        return True
    digits = str(number.value)
    is_year = len(digits) == 4 and digits[:2] in ("19", "20")
    return (
        number.kind == "plain"
        and len(digits) >= 3
        and not is_year
        and number.value == number.value.to_integral_value()
        and number.before not in _NO_OBJECT
    )


_PLACES: Final = frozenset({"postcode", "zip", "postal", "street", "house", "pin", "phone"})
_PERCENT_NAMES: Final = frozenset({"percent", "percentage", "pct", "discount"})
_MONEY_NAMES: Final = frozenset(
    "amount price total sum fee cost budget balance cents usd eur euros dollars salary rent".split()
)
_DAY_NAMES: Final = frozenset({"day", "days", "month", "year", "week"})
_ANY_NAMES: Final = frozenset({"value", "limit", "setting", "size", "timeout", "max", "min"})


def is_stake(number: Number, argument: str) -> bool:
    """Return whether a number was said as an amount, percentage, count or day that an argument takes."""
    words = split_name(argument)
    names = frozenset([*words, *[word.removesuffix("s") for word in words]])
    if any(is_same_noun(number.noun, name) for name in names):
        return True
    allowed: tuple[NumberKind, ...] = ("plain",)
    if names & _PERCENT_NAMES:
        allowed = ("percent", "plain")
    elif names & _MONEY_NAMES:
        allowed = ("money", "plain")
    elif names & _DAY_NAMES:
        allowed = ("date",)
    elif names & _ANY_NAMES:
        allowed = ("plain", "money", "percent", "count")
    return number.kind in allowed


def nouns_of(*names: str) -> frozenset[str]:
    """Return the nouns in names of tools and arguments that a number could name one of."""
    found = {
        singular
        for name in names
        for word in split_name(name)
        for singular in (word, word.removesuffix("s"))
        if singular in ID_NOUNS and singular not in ("id", "number", "no", "nr")
    }
    for group in _SAME_NOUN:
        if found & group:
            found |= group
    return frozenset(found)


def is_same_noun(word: str, noun: str) -> bool:
    """Return whether two words are forms of one, or both count people: nights, night."""
    if not word:
        return False
    if {word.removesuffix("s"), noun.removesuffix("s")} <= _PEOPLE:
        return True
    return stem(word) == stem(noun)
