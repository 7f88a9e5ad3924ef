"""A peer beside the bare loop, in the peer's own environment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from bench import bare, work
from bench.proof_of_calls import counted
from bench.sampling import Work, paired, rounds
from bench.work import Script

LENGTHS = (10, 100, 500)


def main(build: Callable[[], Any], run: Callable[[Any, Script], Awaitable[Any]]) -> None:
    """Measure and print the figures as JSON."""
    print(json.dumps(asyncio.run(_measure(build, run))))


async def _measure(build: Any, run: Any) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    for turns in LENGTHS:
        agent, functions = build(), bare.build("add")
        works = {
            "peer": counted(lambda a=agent, n=turns: run(a, Script(n)), turns - 1),
            "bare": counted(lambda f=functions, n=turns: bare.run(f, Script(n)), turns - 1),
        }
        taken = await rounds(works, 5)
        found[f"a turn of {turns}"] = _per(taken, turns)
    works = {
        "peer": Work(lambda: run(build(), Script(1))),
        "bare": Work(lambda: bare.run(bare.build("add"), Script(1))),
    }
    found["create an agent and run one turn"] = _per(await rounds(works, 5), 1)
    assert work.ran[0]
    return found


def _per(taken: dict[str, list[float]], turns: int) -> tuple[float, ...]:
    pair = paired(taken["peer"], taken["bare"])
    return (pair.ratio, pair.ours / turns, pair.bare / turns, pair.low, pair.high)
