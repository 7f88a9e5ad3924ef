"""Dates, months and times of day that a person mentions, in the forms that people use."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final, NamedTuple, TypeAlias

Day: TypeAlias = tuple[int | None, int, int]  # year, month, day; without a year: None

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
_ORDINAL: Final = r"(?:st|nd|rd|th)?"
_DAY: Final = rf"(?P<day>\d{{1,2}}){_ORDINAL}"
_YEAR: Final = r"(?:,?\s+(?P<year>(?:19|20)\d\d))?\b(?![\d:])"
_AND: Final = r"\s*(?:,|to|and|until|till|or|-|–)\s*"
_DATES: Final = (
    re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)\b"),
    re.compile(r"\b(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>(?:19|20)?\d\d)\b"),
    re.compile(r"\b(?P<day>\d{1,2})/(?P<month>\d{1,2})/(?P<year>(?:19|20)?\d\d)\b"),
    re.compile(
        rf"\b(?P<before>(?:\d{{1,2}}{_ORDINAL}{_AND}){{0,4}})"
        rf"(?:the\s+)?{_DAY}\s+(?:of\s+)?{_MONTH}{_YEAR}"
    ),
    re.compile(rf"\b{_MONTH}\s+(?:the\s+)?{_DAY}(?P<after>(?:{_AND}\d{{1,2}}\b){{0,4}}){_YEAR}"),
)
_MONTHS_OF_YEAR: Final = re.compile(
    rf"\b(?P<names>(?:(?:{'|'.join(_MONTHS)})\b\.?{_AND}){{0,11}}(?:{'|'.join(_MONTHS)})\b\.?)"
    r"(?:\s+of)?,?\s+(?P<year>(?:19|20)\d\d)\b"
)
_NUMERIC_MONTH: Final = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)\b(?!-)")
_MONTH_END: Final = re.compile(rf"\b(?P<which>end|beginning|start) of {_MONTH}{_YEAR}")
_LONE_DAY: Final = re.compile(r"\bthe (\d{1,2})(?:st|nd|rd|th)?\b(?!\s+of)")

_ORDINALS: Final = {
    "": 0,
    "twenty-": 20,
    "thirty-": 30,
    **{
        word: number
        for number, word in enumerate(
            "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
            "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth "
            "twentieth".split(),
            1,
        )
    },
}
_ORDINAL_WORD: Final = re.compile(
    rf"\b(?P<tens>twenty-|thirty-)?(?P<unit>{'|'.join(list(_ORDINALS)[3:])})\b"
)
_HOURS: Final = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), 1
    )
}
_HOUR: Final = rf"(?:[01]?\d|2[0-4]|{'|'.join(_HOURS)})"
_CLOCK: Final = re.compile(
    r"\b(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?\s*(?P<half>am|pm|a\.m\.|p\.m\.)(?!\w)"
    r"|\b(?P<hour_a>\d{1,2})\s*(?:-|–|to|until)\s*(?P<hour_b>\d{1,2})\s*(?P<half_b>am|pm)(?!\w)"
    r"|\b(?P<hour24>\d{1,2})(?::|h)(?P<minute24>\d\d)\b"
    rf"|\b(?P<part>half past|quarter past|quarter to)\s+(?P<part_hour>{_HOUR})\b"
    rf"|\b(?:from|between)\s+(?P<from>{_HOUR})\s+(?:to|and|until|till)\s+(?P<to>{_HOUR})\b"
    rf"(?!\s*(?:[.,:]\d|%|percent|euro|dollar|€|st\b|nd\b|rd\b|th\b|of\b|{'|'.join(_MONTHS)}))"
    rf"|\bat\s+(?:about\s+|around\s+)?(?P<bare>{_HOUR})\b"
    r"(?!\s*(?:[.,:]\d|%|percent|degrees|euro|dollar|€|st\b|nd\b|rd\b|th\b))"
    rf"|\b(?P<hour_only>{_HOUR})\s*(?:o'clock|uhr|h\b|in the (?:morning|afternoon|evening))"
)
_DURATION: Final = {
    "night": timedelta(days=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
}
_MOST: Final = 50  # durations and days that are combined


class Dates(NamedTuple):
    """The days, months and times of a text, and where in it they stand."""

    days: frozenset[Day]
    months: frozenset[tuple[int, int]]
    times: frozenset[tuple[int, int]]
    places: frozenset[int]

    def has_day(self, day: date, durations: tuple[timedelta, ...] = ()) -> bool:
        """Return whether a day was said, or a day and how long after it: "for three nights"."""
        if (day.year, day.month, day.day) in self.days or (None, day.month, day.day) in self.days:
            return True
        return any(
            (before.year, before.month, before.day) in self.days
            for before in (day - duration for duration in durations if duration.days)
        )

    def has_time(self, hour: int, minute: int, durations: tuple[timedelta, ...] = ()) -> bool:
        """Return whether a time was said, or a time and how long after it: "for one hour"."""
        if (hour, minute) in self.times:
            return True
        minutes = hour * 60 + minute
        return any(
            divmod(int(minutes - duration.total_seconds() // 60), 60) in self.times
            for duration in durations
            if not duration.days
        )


def find_dates(text: str) -> Dates:
    """Find the days, months and times in a text that was folded."""
    places: set[int] = set()
    text = _ORDINAL_WORD.sub(_spell_ordinal, text)
    days = set(_find_days(text, places))
    years = {year for year, _, _ in days if year is not None}
    if len(years) == 1:  # "from 20 March to 3 April 2026"
        [only] = years
        days |= {(only, month, day) for year, month, day in days if year is None}
    for match in _LONE_DAY.finditer(text):  # "from 6 May to the 9th"
        known = {(year, month) for year, month, _ in days}
        days |= {(year, month, int(match[1])) for year, month in known}
    months = {(year, month) for year, month, _ in days if year is not None}
    months |= set(_find_months(text, places))
    times = set(_find_times(text, places))
    return Dates(frozenset(days), frozenset(months), frozenset(times), frozenset(places))


def _spell_ordinal(match: re.Match[str]) -> str:
    """Write an ordinal in digits in as many letters, so that places stay what they are."""
    number = f"{_ORDINALS[match['tens'] or ''] + _ORDINALS[match['unit'] or '']}th"
    return number.ljust(len(match.group()))


def durations_of(counts: Iterator[tuple[int, str]]) -> tuple[timedelta, ...]:
    """Return the durations among counted nouns: `(3, "nights")`."""
    found = [
        number * _DURATION[noun.removesuffix("s")]
        for number, noun in counts
        if noun.removesuffix("s") in _DURATION and 0 < number < 10_000
    ]
    return tuple(found[:_MOST])


def _matches(pattern: re.Pattern[str], text: str, places: set[int]) -> Iterator[re.Match[str]]:
    for match in pattern.finditer(text):
        places.update(range(*match.span()))
        yield match


def _find_days(text: str, places: set[int]) -> Iterator[Day]:
    for pattern in _DATES:
        for match in _matches(pattern, text, places):
            groups = match.groupdict()
            year = _full_year(groups.get("year"))
            month = _month(groups["month"])
            others = f"{groups.get('before') or ''} {groups.get('after') or ''}"
            for day in (int(groups["day"]), *map(int, re.findall(r"\d{1,2}", others))):
                yield year, month, day
                if "/" in match.group():  # which is the month, nobody knows
                    yield year, day, month
    for match in _matches(_MONTH_END, text, places):
        year, month = _full_year(match["year"]), _month(match["month"])
        last = match["which"] == "end"
        yield year, month, monthrange(year or 2025, month)[1] if last else 1


def _full_year(text: str | None) -> int | None:
    if not text:
        return None
    return int(text) if len(text) == 4 else 2000 + int(text)


def _month(name: str) -> int:
    return int(name) if name.isdigit() else _MONTHS[name]


def _find_months(text: str, places: set[int]) -> Iterator[tuple[int, int]]:
    for match in _matches(_MONTHS_OF_YEAR, text, places):
        for name in re.findall(r"[a-z]+", match["names"]):
            if name in _MONTHS:
                yield int(match["year"]), _MONTHS[name]
    for match in _matches(_NUMERIC_MONTH, text, places):
        yield int(match["year"]), int(match["month"])


def _find_times(text: str, places: set[int]) -> Iterator[tuple[int, int]]:
    for match in _matches(_CLOCK, text, places):
        groups = match.groupdict()
        if groups["half"]:
            hour = int(groups["hour"]) % 12 + (12 if groups["half"][0] == "p" else 0)
            yield hour, int(groups["minute"] or 0)
        elif groups["half_b"]:
            for name in ("hour_a", "hour_b"):
                yield int(groups[name]) % 12 + (12 if groups["half_b"] == "pm" else 0), 0
        elif groups["hour24"]:
            yield int(groups["hour24"]), int(groups["minute24"])
        elif groups["part"]:
            shift = {"half past": 30, "quarter past": 15, "quarter to": -15}[groups["part"]]
            for hour in _both_halves(groups["part_hour"]):
                yield divmod((hour * 60 + shift) % 1440, 60)
        else:
            for name in ("bare", "hour_only", "from", "to"):
                if groups[name]:
                    yield from [(hour, 0) for hour in _both_halves(groups[name])]
    for word, hour in (("noon", 12), ("midday", 12), ("midnight", 0)):
        if re.search(rf"\b{word}\b", text):
            yield hour, 0


def _both_halves(text: str) -> tuple[int, int]:
    hour = _HOURS.get(text) or int(text)
    return hour % 24, (hour + 12) % 24
