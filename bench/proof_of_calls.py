"""Did a run call its tools as often as its script says? For those who keep no journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bench import work
from bench.sampling import Work


class NotCalled(AssertionError):
    """Something was timed that left calls out."""


def counted(once: Callable[[], Awaitable[Any]], calls: int) -> Work:
    """The work, refused when a run of it made another number of calls."""

    async def run() -> int:
        before = work.ran[0]
        await once()
        return work.ran[0] - before

    async def after(kept: list[Any]) -> None:
        wrong = [count for count in kept if count != calls]
        if wrong:
            raise NotCalled(f"a run made {wrong[0]} tool calls, not {calls}")

    return Work(run, after)
