"""The time axis of a trace: real seconds, with long waits cut out.

A run that was parked for a week and worked for a minute shows the minute. Drawn seconds are what is
left; `real` says which moment a place on the axis stands for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from windlass.trace.model import Part, Picture

LONGEST_WAIT = 0.25  # of the time at work; a longer one is cut
SHOWN_WAIT = 0.03  # what is left of it


class Cut(NamedTuple):
    """A wait that is not drawn in full."""

    start: float  # real
    end: float
    shown: float  # drawn seconds that it takes


class Axis:
    """A map of real seconds to drawn ones and back."""

    def __init__(self, start: float, end: float, cuts: list[Cut]) -> None:
        self.start, self.end, self.cuts = start, end, cuts
        places: list[tuple[float, float]] = [(start, 0.0)]  # real, drawn
        for cut in cuts:
            real, drawn = places[-1]
            places.append((cut.start, drawn + cut.start - real))
            places.append((cut.end, places[-1][1] + cut.shown))
        real, drawn = places[-1]
        places.append((end, drawn + max(0.0, end - real)))
        self.places = places
        self.length = places[-1][1]

    def place_of(self, real: float) -> float:
        """Return the position of a moment on the axis."""
        at = max(1, min(bisect_right(self.places, (real, float("inf"))), len(self.places) - 1))
        return _between(self.places[at - 1], self.places[at], real, 0)

    def work_seconds(self, drawn: float) -> float:
        """Return the seconds at work up to a position: cut waits do not count."""
        waited = sum(
            max(0.0, min(drawn - self.place_of(cut.start), cut.shown)) for cut in self.cuts
        )
        return drawn - waited

    def at_work(self, seconds: float) -> float:
        """Return the position after so many seconds at work."""
        for cut in self.cuts:
            if seconds > self.place_of(cut.start):
                seconds += cut.shown
        return seconds

    def real(self, drawn: float) -> float:
        """Return the moment at a position of the axis."""
        at = 1
        while at < len(self.places) - 1 and self.places[at][1] < drawn:
            at += 1
        return _between(self.places[at - 1], self.places[at], drawn, 1)


def _between(one: tuple[float, float], two: tuple[float, float], value: float, given: int) -> float:
    width = two[given] - one[given]
    share = 0.0 if width <= 0 else min(1.0, max(0.0, (value - one[given]) / width))
    return one[1 - given] + share * (two[1 - given] - one[1 - given])


def axis_of(parts: Iterable[Part]) -> Axis:
    """Build the axis that shows these runs."""
    busy = sorted(span for part in parts for span in _spans(part))
    if not busy:
        return Axis(0.0, 0.0, [])
    merged: list[tuple[float, float]] = [busy[0]]
    for start, end in busy[1:]:
        if start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    work = sum(end - start for start, end in merged)
    longest = max(work * LONGEST_WAIT, 0.001)
    cuts = [
        Cut(one[1], two[0], work * SHOWN_WAIT)
        for one, two in zip(merged, merged[1:], strict=False)
        if two[0] - one[1] > longest and work > 0
    ]
    return Axis(merged[0][0], merged[-1][1], cuts)


def _spans(part: Part) -> Iterable[tuple[float, float]]:
    for turn in part.turns:
        yield (turn.start, turn.start)
        for bar in turn.bars:
            yield (bar.start, bar.end)
            for child in bar.children:
                yield from _below(child)
        for mark in turn.marks:
            yield (mark.at, mark.at)


def _below(picture: Picture) -> Iterable[tuple[float, float]]:
    for part in picture.parts:
        yield from _spans(part)


def ticks(axis: Axis, most: int) -> list[float]:
    """Choose round positions on the axis, in drawn seconds, at most `most`."""
    if axis.length <= 0 or most < 1:
        return [0.0]
    work = axis.work_seconds(axis.length)
    step = _round_up(work / most)
    return [axis.at_work(step * n) for n in range(int(work / step + 1e-9) + 1)]


def _round_up(seconds: float) -> float:
    for step in _STEPS:
        if step >= seconds:
            return step
    return 86400.0 * -(-seconds // 86400.0)


_STEPS = (
    *(base * 10.0**power for power in range(-4, 1) for base in (1, 2, 5)),
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1800.0,
    3600.0,
    7200.0,
    14400.0,
    21600.0,
    43200.0,
    86400.0,
)
