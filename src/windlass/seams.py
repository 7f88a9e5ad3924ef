"""Where the outside world comes in: time, ids, sleep, randomness, and named points.

Nothing else in Windlass reads a clock or a random source, so a test can put its own in place and
run a day in a second, or kill the process at `point("journal.after_commit")`.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

now: Callable[[], float] = time.time
monotonic: Callable[[], float] = time.monotonic
sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
rng = random.Random()

strict = False  # tests: a request that breaks I1 raises instead of being mended

_reached: Callable[[str], None] | None = None


def new_id(prefix: str) -> str:
    """A fresh id nobody else has: `new_id("run")` -> `run_5f2c…`."""
    return f"{prefix}_{os.urandom(9).hex()}"


def point(name: str) -> None:
    """A named place in the code. Inert, unless a test watches."""
    if _reached is not None:
        _reached(name)


@contextmanager
def watch_points(reached: Callable[[str], None]) -> Generator[None]:
    """Call `reached(name)` at every point, from whichever thread passes it."""
    global _reached
    before, _reached = _reached, reached
    try:
        yield
    finally:
        _reached = before
