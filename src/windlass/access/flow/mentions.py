"""Dates, times and numbers that a person mentions, in the forms that people use."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, NamedTuple, TypeAlias

from windlass.access.flow.tokens import fold, split_name, stem

NumberKind: TypeAlias = Literal["money", "percent", "date", "time", "id", "count", "plain"]

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ),
        1,
    )
    for name in names.split()
}
_MONTH: Final = rf"(?P<month>{'|'.join(_MONTHS)})\b\.?"
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?:,?\s+(?P<year>(?:19|20)\d\d))?\b(?![\d:])"
_DATES: Final = (
    re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)\b"),
    re.compile(r"\b(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>(?:19|20)\d\d)\b"),
    re.compile(
        rf"\b(?P<before>(?:\d{{1,2}}(?:st|nd|rd|th)?\s*(?:,|to|and|until|till|or|-|–)\s*){{0,9}})"
        rf"(?:the\s+)?{_DAY}\s+(?:of\s+)?{_MONTH}{_YEAR}"
    ),
    re.compile(
        rf"\b{_MONTH}\s+(?:the\s+)?{_DAY}(?P<after>(?:\s*(?:to|and|-|–)\s*\d{{1,2}}){{0,9}}){_YEAR}"
    ),
)
_MONTH_OF_YEAR: Final = (
    re.compile(rf"\b{_MONTH}(?:\s+of)?\s+(?P<year>(?:19|20)\d\d)\b"),
    re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)\b(?!-)"),
)
_CLOCK: Final = re.compile(
    r"\b(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?\s*(?P<half>am|pm|a\.m\.|p\.m\.)(?!\w)"
    r"|\b(?P<hour24>\d{1,2}):(?P<minute24>\d\d)\b"
    r"|\bat\s+(?P<bare>\d{1,2})\b(?!\s*(?:[.,:]\d|%|percent|degrees|euros?|dollars?|€))"
    r"|\b(?P<hour_only>\d{1,2})\s*(?:o'clock|uhr|h)\b"
)
_NUMBER: Final = re.compile(
    r"(?<![\w.,#-])(?P<sign>[#€$£])?\s?(?P<digits>\d{1,3}(?:[,' ]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?)"
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
_DURATION: Final = frozenset(
    "second seconds minute minutes hour hours day days night nights week weeks month months year "
    "years degree degrees times km metres meters people persons".split()
)
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
    "is are it this the a an us".split()
)
_PEOPLE: Final = frozenset("guest person people passenger traveller adult seat us".split())
_LIST_WORDS: Final = frozenset({"and", "or", "to", "with", "&"})
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|#|\d+")


class Number(NamedTuple):
    """A number in a text: its value, what it counts, and the noun that it names one of."""

    value: Decimal
    kind: NumberKind
    noun: str = ""


class Mentions(NamedTuple):
    """All dates, times and numbers of a text."""

    dates: frozenset[tuple[int | None, int, int]]  # year, month, day; without a year: None
    months: frozenset[tuple[int, int]]
    times: frozenset[tuple[int, int]]
    numbers: tuple[Number, ...]


def find_mentions(text: str) -> Mentions:
    """Find what a text mentions: `"refund 24.50 euros on order 5003 by 31 March"`."""
    text = fold(text)
    taken: list[tuple[int, int]] = []
    dates = _find_dates(text, taken)
    months = {
        (int(match["year"]), _month(match["month"]))
        for pattern in _MONTH_OF_YEAR
        for match in _matches(pattern, text, taken)
    }
    times = _find_times(text, taken)
    numbers = [*_find_digits(text, taken), *_find_number_words(text)]
    months |= {(year, month) for year, month, _ in dates if year is not None}
    return Mentions(frozenset(dates), frozenset(months), frozenset(times), tuple(numbers))


def _matches(
    pattern: re.Pattern[str], text: str, taken: list[tuple[int, int]]
) -> list[re.Match[str]]:
    found = list(pattern.finditer(text))
    taken.extend(match.span() for match in found)
    return found


def _month(name: str) -> int:
    return int(name) if name.isdigit() else _MONTHS[name]


def _find_dates(text: str, taken: list[tuple[int, int]]) -> set[tuple[int | None, int, int]]:
    found: set[tuple[int | None, int, int]] = set()
    for pattern in _DATES:
        for match in _matches(pattern, text, taken):
            groups = match.groupdict()
            year = int(groups["year"]) if groups.get("year") else None
            others = f"{groups.get('before') or ''} {groups.get('after') or ''}"
            for day in (int(groups["day"]), *map(int, re.findall(r"\d{1,2}", others))):
                found.add((year, _month(groups["month"]), day))
    years = {year for year, _, _ in found if year is not None}
    if len(years) == 1:  # "from 20 March to 3 April 2026"
        [only] = years
        found |= {(only, month, day) for year, month, day in found if year is None}
    return found


def _find_times(text: str, taken: list[tuple[int, int]]) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for match in _matches(_CLOCK, text, taken):
        groups = match.groupdict()
        if groups["half"]:
            hour = int(groups["hour"]) % 12 + (12 if groups["half"][0] == "p" else 0)
            found.add((hour, int(groups["minute"] or 0)))
        elif groups["hour24"]:
            found.add((int(groups["hour24"]), int(groups["minute24"])))
        else:
            hour = int(groups["bare"] or groups["hour_only"])
            found |= {(hour, 0), ((hour + 12) % 24, 0)}
    if re.search(r"\bnoon\b|\bmidday\b", text):
        found.add((12, 0))
    if re.search(r"\bmidnight\b", text):
        found.add((0, 0))
    return found


def _find_digits(text: str, taken: list[tuple[int, int]]) -> list[Number]:
    found: list[Number] = []
    dated = {place for begin, stop in taken for place in range(begin, stop)}
    for match in _NUMBER.finditer(text):
        start = match.start("digits")
        value = parse_number(match["digits"])
        if value is None:
            continue
        if start in dated:
            found.append(Number(value, "date"))
            continue
        tail = (match["tail"] or "").strip()
        after = _WORD.match(text, _skip_space(text, match.end()))
        found.append(
            _classify(value, match["sign"] or "", tail, text[max(start - 80, 0) : start], after)
        )
    return found


def _classify(
    value: Decimal, sign: str, tail: str, before: str, after: re.Match[str] | None
) -> Number:
    unit = after.group() if after else ""
    if sign in ("€", "$", "£") or tail in ("€", "$") or unit in _MONEY:
        return Number(value, "money")
    if tail == "%" or unit in _PERCENT:
        return Number(value, "percent")
    if sign == "#":
        return Number(value, "id")
    if tail in ("st", "nd", "rd", "th"):
        return Number(value, "date")
    noun = _noun_before(before)
    if noun:
        return Number(value, "id", noun)
    if unit in _DURATION:
        return Number(value, "count", unit)
    if re.search(r"\b(?:before|by|until|on|of) the\s*$", before):
        return Number(value, "date")
    return _plain(value, unit)


def _plain(value: Decimal, unit: str) -> Number:
    if unit in _NO_NOUN or not unit.isalpha():
        return Number(value, "plain")
    return Number(value, "count", unit)


def _skip_space(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \u00a0":
        place += 1
    return place


def _noun_before(before: str) -> str:
    """Return the noun that a number in a list belongs to: "pull requests 318, 322 and" -> request."""
    words = _WORD.findall(before)
    while words and (words[-1] in _LIST_WORDS or words[-1].isdigit()):
        words.pop()
    if not words:
        return ""
    if words[-1] == "#":
        return "number"
    singular = words[-1].removesuffix("s")
    return next((word for word in (words[-1], singular) if word in ID_NOUNS), "")


def _find_number_words(text: str) -> list[Number]:
    words = re.findall(r"[a-z]+(?:-[a-z]+)?|\S", text)
    found: list[Number] = []
    place = 0
    while place < len(words):
        value, size = _read_number_words(words, place)
        if value is None:
            ordinal = _ORDINALS.get(words[place])
            if ordinal is not None:
                found.append(Number(Decimal(ordinal), "date"))
            place += 1
            continue
        place += size
        unit = words[place] if place < len(words) else ""
        if unit in _MONEY:
            found.append(Number(Decimal(value), "money"))
        elif unit in _PERCENT or unit == "%":
            found.append(Number(Decimal(value), "percent"))
        else:
            found.append(_plain(Decimal(value), unit))
    return found


def _read_number_words(words: list[str], place: int) -> tuple[int | None, int]:
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
        elif word == "a" and not size:
            size += 1
            continue
        elif word == "and" and seen and place + size + 1 < len(words):
            following = words[place + size + 1]
            if current < 100 or not (following in _UNITS or following in _TENS):
                break
            size += 1
            continue
        else:
            break
        seen = True
        size += 1
    return (total + current, size) if seen else (None, 0)


def parse_number(text: str) -> Decimal | None:
    """Return the number that a text is, whatever separates its thousands and decimals."""
    plain = text.strip().replace(" ", "").replace("'", "")
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(",", "")
    elif re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", plain):
        plain = plain.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"-?\d+,\d+", plain):
        plain = plain.replace(",", ".")
    if not re.fullmatch(r"[-+]?\d{1,40}(?:\.\d{1,20})?", plain):
        return None
    try:
        return Decimal(plain).normalize()
    except InvalidOperation:
        return None


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
