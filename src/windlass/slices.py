"""Work on long texts in slices, so that it never holds the event loop for long.

Such work is a generator that yields now and then and returns its result. `run_at_once` is for callers
without an event loop, and for texts that are short; `run_in_slices` lets others run between two slices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")
Slices: TypeAlias = Generator[None, None, T]

SHORT: Final = 16_384  # characters, or bytes, that may be worked on at once
STEPS: Final = 500  # of a few microseconds each, between two yields


def run_at_once(work: Slices[T]) -> T:
    """Do all of the work now: `run_at_once(calls_in(text))`."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


async def run_in_slices(work: Slices[T]) -> T:
    """Do the work, and let the event loop run between its slices."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
        await asyncio.sleep(0)
