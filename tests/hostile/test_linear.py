"""Whatever is written to us is read in time that grows with its length, and without holding the event loop.

A text is made of fragments that a parser is known to look for. Pairs of them are tried at a small size, and those that
cost most for each character are measured at two sizes that are ten times apart. `make prove-linear` tries more
pairs, measures at 100 kB and 1 MB, and writes what it finds to `bench/LINEAR.md`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import platform
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from time import process_time, thread_time

import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

import windlass as w
from tests.hostile.parsers import PARSERS, Parser
from windlass.messages import ToolCall

PROVES = os.environ.get("WINDLASS_PROVE_LINEAR") == "1"
SMALL = 100_000 if PROVES else 8_000
SEARCHED = 1_500  # characters of a text that is only compared with others
SEARCHED_TEXTS = 1_500 if PROVES else 120  # of each parser
TIMES = 10  # the large size, in small ones
# Times the time. A parser that looks at each pair of places takes 100; on a busy machine, what a linear
# one gives back may take 25 to allocate.
MOST = 15 if PROVES else 40
WORST = 3 if PROVES else 2  # texts of each parser that are measured
LEAST = 0.0005  # seconds; what is measured takes at least so long
# Plain loops over a text, in the time of which it is read: a loop over 1 MB takes 20 ms, so this is 100 ms.
# The small texts of CI may take as long as 1 MB may: a parser that is bounded but not small holds the loop for
# milliseconds whatever the length, and `make prove-linear` has the true measure.
MOST_LOOPS = 5 if PROVES else 5 * 1_000_000 // (SMALL * TIMES)
LOOPS = 4 * MOST_LOOPS  # of a parser that holds the event loop too long
NAMES = [one.name for one in PARSERS]
RESULTS = Path(__file__).parents[2] / "bench" / "LINEAR.md"
Make = Callable[[int], str]


# --------------------------------------------------------------------------- the measure


class Measure:
    """Takes the time of a parser, on an event loop of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def took(self, parser: Parser, text: str, repeats: int = 3) -> float:
        """The least CPU seconds that it takes to read a text."""
        return took(lambda: self._read(parser, text), repeats)

    def _read(self, parser: Parser, text: str) -> None:
        if parser.place == "in slices":
            self.loop.run_until_complete(parser.read(text))
        else:
            parser.read(text)

    def held(self, parser: Parser, text: str) -> float:
        """The CPU seconds for which the event loop is held at most while a text is read."""
        if parser.place != "in slices":
            return took(lambda: parser.read(text), 2)
        return self.loop.run_until_complete(self._watch(parser, text))

    async def _watch(self, parser: Parser, text: str) -> float:
        longest, reading = 0.0, asyncio.ensure_future(parser.read(text))
        while not reading.done():
            start = thread_time()
            await asyncio.sleep(0)
            longest = max(longest, thread_time() - start)
        await reading
        return longest


def took(read: Callable[[], object], repeats: int = 3) -> float:
    times, least = 1, float("inf")
    for _ in range(repeats):
        start = process_time()
        for _ in range(times):
            read()
        spent = process_time() - start
        least = min(least, spent / times)
        if spent < LEAST:
            times = min(1000, int(times * LEAST / max(spent, 1e-6)) + 1)
    return least


def scan(text: str) -> int:
    """What a plain loop over the characters takes: the measure of this machine."""
    count = 0
    for letter in text:
        if letter == "{":
            count += 1
    return count


@pytest.fixture
def measure() -> Iterator[Measure]:
    gc.collect()
    gc.disable()
    measure = Measure()
    yield measure
    measure.loop.run_until_complete(measure.loop.shutdown_default_executor())
    measure.loop.close()
    gc.enable()


# --------------------------------------------------------------------------- texts


def sized(parts: tuple[str, ...], size: int) -> str:
    """The parts again and again, up to a size."""
    unit = "".join(parts)
    return (unit * (size // len(unit) + 1))[:size]


def alternating(one: str, other: str, size: int) -> str:
    return sized((one, other), size)


def halves(one: str, other: str, size: int) -> str:
    return sized((one,), size // 2) + sized((other,), size // 2)


def opened(one: str, other: str, size: int) -> str:
    return one + sized((other,), size) + one


def growing(one: str, other: str, size: int) -> str:
    """One more of the first fragment after each of the second: no two stretches are the same."""
    parts: list[str] = []
    length = count = 0
    while length < size:
        count += 1
        parts.append(one * count + other)
        length += len(parts[-1])
    return "".join(parts)[:size]


SHAPES = (alternating, halves, opened, growing)


def worst_texts(parser: Parser, measure: Measure) -> list[Make]:
    """The texts that cost most for each of their characters."""
    costs: list[tuple[float, int, Make]] = []
    ways = list(product(SHAPES, parser.fragments, parser.fragments))
    step = len(ways) // SEARCHED_TEXTS + 1
    for shape, one, other in ways[::step]:

        def make(
            size: int,
            shape: Callable[[str, str, int], str] = shape,
            one: str = one,
            other: str = other,
        ) -> str:
            return shape(one, other, size)

        text = make(SEARCHED)
        costs.append((measure.took(parser, text, 1) / len(text), len(costs), make))
    costs.sort(key=lambda cost: cost[:2], reverse=True)
    return [make for _, _, make in costs[:WORST]]


# --------------------------------------------------------------------------- the property


def assert_linear(parser: Parser, make: Make, measure: Measure) -> tuple[float, float, float]:
    """Ten times the text takes at most `MOST` times as long, and holds the event loop for a short time only.

    Returns what was found: how many times as long, the seconds of the large text, and those of the longest hold.
    """
    small, large = make(SMALL), make(SMALL * TIMES)
    shown, failure = f"{parser.name}: {make(60)!r}", ""
    for attempt in range(3):  # others may be at work on the machine
        loop = took(lambda: scan(large), 2 + attempt)
        little = measure.took(parser, small, 3 + attempt)
        much = measure.took(parser, large, 1 + attempt)
        held = measure.held(parser, large) if parser.place == "in slices" else much
        if (
            much > MOST * little and much > loop
        ):  # what is faster than that may be a matter of caches
            failure = f"{shown}: {little:.4f} s, and {much:.4f} s for ten times of it"
        elif parser.place in ("at once", "in slices") and held > _limit(parser, loop):
            failure = f"{shown}: holds the event loop as long as {held / loop:.1f} plain loops"
        else:
            return (much / little if much > loop else 0.0), much, held
    raise AssertionError(failure)


def _limit(parser: Parser, loop: float) -> float:
    return MOST_LOOPS * loop * parser.copies + 2 * LEAST


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
def test_time_grows_with_the_length_of_a_text_and_no_faster(parser: Parser, measure: Measure):
    found = [assert_linear(parser, make, measure) for make in worst_texts(parser, measure)]
    if PROVES:
        loop = took(lambda: scan("a" * (SMALL * TIMES)), 5)
        _write(parser, [max(column) for column in zip(*found, strict=True)], loop)


def _write(parser: Parser, worst: list[float], loop: float) -> None:
    """Add a line to the table, which the first parser begins."""
    if parser is PARSERS[0]:
        RESULTS.write_text(HEAD.format(python=platform.python_version(), limit=MOST))
    ratio, seconds, held = worst
    shown = {"in pieces": "between pieces", "for people": "no loop"}.get(
        parser.place, f"{held * 1000 / parser.copies:.0f} ms ({held / loop / parser.copies:.1f})"
    )
    with RESULTS.open("a") as file:
        file.write(
            f"| {parser.name} | {parser.place} | {parser.copies} | {f'{ratio:.1f}' if ratio else '-'} | "
            f"{seconds * 1000:.0f} ms | {shown} | {loop * 1000:.0f} ms |\n"
        )


HEAD = """# Parsers on texts made to be slow

Written by `make prove-linear` (Python {python}). Each row is the worst of the three texts that cost most, out of up to 1,500 pairs of
fragments in four shapes; a search of hypothesis goes over the same. A row passes if 1 MB takes at most {limit} times as long as
100 kB, and if the event loop is held for no longer than five plain Python loops over the text take: 100 ms for each MB
on a machine where one takes 20 ms. The last column is that loop, measured with the row.

- *at once*: read between two turns of others, so the hold is all of it.
- *in slices*: a coroutine that lets others run, or a thread.
- *in pieces*: given one byte or character at a time, as a stream brings it.
- *for people*: a command or a notebook draws with it, on no event loop that others share.

A ratio of `-` is that of a parser which is faster than a plain loop: there, memory says more than the parser.
*Copies* is how often the text is in what is read; the hold is for one of them.

| parser | runs | copies | 1 MB : 100 kB | 1 MB | longest hold (plain loops) | plain loop |
|---|---|---|---|---|---|---|
"""


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
def test_a_search_finds_no_text_that_takes_longer(parser: Parser, measure: Measure):
    """Fragments in any order, led towards what costs most; what looks slow is measured at full size."""
    parts = st.lists(
        st.tuples(st.sampled_from(parser.fragments), st.integers(1, 40)), min_size=1, max_size=5
    )

    @settings(max_examples=50 if PROVES else 6)
    @given(parts)
    def search(chosen: list[tuple[str, int]]) -> None:
        def make(size: int) -> str:
            return sized(tuple([part * count for part, count in chosen]), size)

        little = measure.took(parser, make(SEARCHED), 1)
        much = measure.took(parser, make(SEARCHED * TIMES), 1)
        target(much / little)
        if much > MOST * little:
            assert_linear(parser, make, measure)

    search()


# --------------------------------------------------------------------------- the measure itself


def test_a_slow_parser_is_found(measure: Measure):
    """One that reads all again at every letter fails."""

    def read(text: str) -> int:
        return sum([text.count("b", at) for at in range(0, len(text), SMALL // 80)])

    slow = Parser("slow", read, ("a", "b"), "in pieces")
    with pytest.raises(AssertionError, match="for ten times of it"):
        assert_linear(slow, lambda size: "a" * size, measure)


def test_a_parser_that_holds_the_event_loop_is_found(measure: Measure):
    """One that takes its time in one slice fails, and the same with many slices does not."""

    async def read(text: str, slices: int) -> None:
        for _ in range(slices):
            for _ in range(LOOPS // slices):
                scan(text)
            await asyncio.sleep(0)

    def parser(slices: int) -> Parser:
        return Parser("scan", lambda text: read(text, slices), ("a",), "in slices")

    def make(size: int) -> str:
        return "a" * size

    with pytest.raises(AssertionError, match="holds the event loop"):
        assert_linear(parser(1), make, measure)
    assert_linear(parser(LOOPS), make, measure)


async def test_a_reply_of_many_calls_takes_time_by_their_number():
    async def add(n: int) -> int:
        """Add."""
        return n

    async def run(count: int) -> float:
        calls = tuple([ToolCall(f"c{n}", "add", {"n": n}) for n in range(count)])
        least = float("inf")
        for _ in range(2):
            model = w.testing.scripted(w.Message("assistant", calls), "ok")
            start = process_time()
            out = await w.Agent(model, tools=[add]).run("go")
            least = min(least, process_time() - start)
            assert out.status == "done"
        return least

    await run(300)
    little, much = await run(300), await run(3000)
    assert much <= MOST * little, f"{little:.3f} s for 300 calls, {much:.3f} s for 3,000"
