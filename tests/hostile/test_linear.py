"""Whatever is written to us is read in time that grows with its length and no faster.

A text is made of fragments that a parser is known to look for. Pairs of them are tried at a small size, and those that
cost most for each character are measured at two sizes that are ten times apart. `make prove-linear` tries all
pairs, and measures at 100 kB and 1 MB.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from itertools import product
from time import process_time

import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st

import windlass as w
from tests.hostile.parsers import PARSERS, Parser
from windlass.messages import ToolCall

PROVES = os.environ.get("WINDLASS_PROVE_LINEAR") == "1"
SMALL = 100_000 if PROVES else 20_000
SEARCHED = 1_500  # characters of a text that is only compared with others
SEARCHED_TEXTS = 500  # of each parser; all of them where it is to be proved
TIMES = 10  # the large size, in small ones
# Times the time. A parser that looks at each pair of places takes 100; on a busy machine, what a linear
# one gives back may take 25 to allocate.
MOST = 15 if PROVES else 40
WORST = 5 if PROVES else 2  # texts of each parser that are measured
LEAST = 0.0005  # seconds; what is measured takes at least so long
NAMES = [one.name for one in PARSERS]


def took(read: Callable[[str], object], text: str, repeats: int = 3) -> float:
    """The least CPU seconds that it takes to read a text."""
    times, least = 1, float("inf")
    for _ in range(repeats):
        start = process_time()
        for _ in range(times):
            read(text)
        spent = process_time() - start
        least = min(least, spent / times)
        if spent < LEAST:
            times = min(1000, int(times * LEAST / max(spent, 1e-6)) + 1)
    return least


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
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


def worst_texts(parser: Parser) -> list[Callable[[int], str]]:
    """The texts that cost most for each of their characters."""
    costs: list[tuple[float, int, Callable[[int], str]]] = []
    ways = list(product(SHAPES, parser.fragments, parser.fragments))
    step = 1 if PROVES else len(ways) // SEARCHED_TEXTS + 1
    for shape, one, other in ways[::step]:

        def make(
            size: int,
            shape: Callable[[str, str, int], str] = shape,
            one: str = one,
            other: str = other,
        ) -> str:
            return shape(one, other, size)

        text = make(SEARCHED)
        costs.append((took(parser.read, text, 1) / len(text), len(costs), make))
    costs.sort(key=lambda cost: cost[:2], reverse=True)
    return [make for _, _, make in costs[:WORST]]


def assert_linear(parser: Parser, make: Callable[[int], str]) -> None:
    """Ten times the text takes at most `MOST` times as long, and not long at all."""
    small, large = make(SMALL), make(SMALL * TIMES)
    shown, failure = f"{parser.name}: {make(60)!r}", ""
    for attempt in range(3):  # others may be at work on the machine
        little, much = took(parser.read, small, 3 + attempt), took(parser.read, large, 2 + attempt)
        baseline = took(scan, large)
        if much > MOST * little:
            failure = f"{shown}: {little:.4f} s, and {much:.4f} s for ten times of it"
        elif not parser.in_pieces and much > parser.most * baseline:
            failure = f"{shown}: {much / baseline:.0f} times a plain loop"
        else:
            return
    raise AssertionError(failure)


def scan(text: str) -> int:
    """What a plain loop over the characters takes: the measure of this machine."""
    count = 0
    for letter in text:
        if letter == "{":
            count += 1
    return count


# --------------------------------------------------------------------------- the property


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
def test_time_grows_with_the_length_of_a_text_and_no_faster(parser: Parser):
    for make in worst_texts(parser):
        assert_linear(parser, make)


@pytest.mark.parametrize("parser", PARSERS, ids=NAMES)
def test_a_search_finds_no_text_that_takes_longer(parser: Parser):
    """Fragments in any order, led towards what costs most; what looks slow is measured at full size."""
    parts = st.lists(
        st.tuples(st.sampled_from(parser.fragments), st.integers(1, 40)), min_size=1, max_size=5
    )

    @settings(max_examples=200 if PROVES else 12)
    @given(parts)
    def search(chosen: list[tuple[str, int]]) -> None:
        def make(size: int) -> str:
            return sized(tuple([part * count for part, count in chosen]), size)

        little = took(parser.read, make(SEARCHED), 1)
        much = took(parser.read, make(SEARCHED * TIMES), 1)
        target(much / little)
        if much > MOST * little:
            assert_linear(parser, make)

    search()


def test_a_slow_parser_is_found():
    """The measure itself: one that reads all again at every letter fails."""

    def read(text: str) -> int:
        return sum([len(text[at:].lstrip("a")) for at in range(0, len(text), 2000)])

    slow = Parser("slow", read, ("a", "b"))
    with pytest.raises(AssertionError, match="for ten times of it"):
        for make in worst_texts(slow):
            assert_linear(slow, make)


async def test_a_reply_of_many_calls_takes_time_by_their_number():
    async def add(n: int) -> int:
        """Add."""
        return n

    async def run(count: int) -> float:
        calls = tuple([ToolCall(f"c{n}", "add", {"n": n}) for n in range(count)])
        least = float("inf")
        for _ in range(3):
            model = w.testing.scripted(w.Message("assistant", calls), "ok")
            start = process_time()
            out = await w.Agent(model, tools=[add]).run("go")
            least = min(least, process_time() - start)
            assert out.status == "done"
        return least

    await run(500)
    little, much = await run(500), await run(5000)
    assert much <= MOST * little, f"{little:.3f} s for 500 calls, {much:.3f} s for 5,000"
