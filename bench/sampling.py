"""Timing by pairs: both sides in turns in one process, so that a busy machine slows both."""

from __future__ import annotations

import gc
import math
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

REPS = int(os.environ.get("REPS", "9"))
TARGET = float(os.environ.get("TARGET_SECONDS", "0.08"))  # of CPU in one sample of one side


class Work(NamedTuple):
    """Something to time: `once` is timed, `after` then looks at what a sample's runs returned.

    One in `every` is kept for that, drawn at random. A result that is kept is work for the garbage
    collector; where a run is over in microseconds and nobody would keep thousands, it would count.
    """

    once: Callable[[], Awaitable[Any]]
    after: Callable[[list[Any]], Awaitable[None]] | None = None
    every: int = 1


class Pair(NamedTuple):
    """The median of the ratios of paired samples, and the medians of both sides in seconds."""

    ratio: float
    ours: float
    bare: float
    low: float
    high: float


async def sample(work: Work, times: int, clock: Callable[[], float] = time.process_time) -> float:
    """Seconds for one run of the work, over so many of them."""
    once = work.once
    chosen = set(random.sample(range(times), math.ceil(times / work.every)))
    kept: list[Any] = []
    gc.collect()
    began = clock()
    for number in range(times):
        result = await once()
        if number in chosen:
            kept.append(result)
    took = (clock() - began) / times
    if work.after is not None:
        await work.after(kept)
    return took


async def rounds(
    works: Mapping[str, Work],
    reps: int = REPS,
    *,
    target: float = TARGET,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """`reps` samples of each, taken in turns: the n-th samples of all were taken together."""
    times: dict[str, int] = {}
    for name, work in works.items():
        await sample(work, 1, clock)  # what is made once is made now
        guess = max(1e-7, await sample(work, 3 if target else 1, clock))
        times[name] = max(1, min(20_000, int(target / guess)))
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(reps):
        for name, work in works.items():
            taken[name].append(await sample(work, times[name], clock))
    return taken


def paired(ours: Sequence[float], bare: Sequence[float]) -> Pair:
    """What two series of samples taken together say."""
    ratios = [mine / other for mine, other in zip(ours, bare, strict=True)]
    return Pair(
        statistics.median(ratios),
        statistics.median(ours),
        statistics.median(bare),
        min(ratios),
        max(ratios),
    )
