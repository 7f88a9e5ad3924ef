"""Seams to the outside world: time, ids, sleep, randomness, and named points.

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

virtual = False  # tests: time is not the real one, so that no server has the same
strict = False  # tests: a request that breaks I1 raises instead of being mended

_reached: Callable[[str], None] | None = None
watched = False  # somebody watches the points: asked first where a turn passes them


_fresh: list[str] = []  # random digits for the next ids: a system call for each is expensive
if hasattr(os, "register_at_fork"):  # a child must not hand out its parent's
    os.register_at_fork(after_in_child=_fresh.clear)


def new_id(prefix: str) -> str:
    """Build a unique id: `new_id("run")` -> `run_5f2c…`."""
    while True:
        try:
            return f"{prefix}_{_fresh.pop()}"
        except IndexError:
            digits = os.urandom(9 * 64).hex()
            _fresh.extend([digits[at : at + 18] for at in range(0, len(digits), 18)])


def point(name: str) -> None:
    """Mark a named place in the code, which does nothing unless a test watches."""
    if _reached is not None:
        _reached(name)


@contextmanager
def watch_points(reached: Callable[[str], None]) -> Generator[None]:
    """Call `reached(name)` at every point, from whichever thread passes it."""
    global _reached, watched
    before, _reached, watched = _reached, reached, True
    try:
        yield
    finally:
        _reached, watched = before, before is not None
