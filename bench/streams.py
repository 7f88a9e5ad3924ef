"""What a streamed piece of text costs, and whether a read starts while the model still writes."""

from __future__ import annotations

import time
from typing import Any

from bench import bare, ours
from bench.proof import CutCorner, prove
from bench.sampling import REPS, TARGET, Work, paired, rounds
from bench.table import Row, micro
from bench.work import Script
from windlass.engine.environment import current_store

DELTAS = 2000
DELTA, EAGER = 6.0, 1.15

entries_proved = [0]


async def rows(reps: int = REPS, target: float = TARGET, deltas: int = DELTAS) -> list[Row]:
    """Both rows about streams."""
    return [await _deltas(reps, target, deltas), await _eager(max(3, reps // 2))]


async def _deltas(reps: int, target: float, deltas: int) -> Row:
    works = _sides(lambda: Script(1, deltas=deltas), deltas, "add")
    taken = await rounds(works, reps, target=target)
    pair = paired(taken["ours"], taken["bare"])
    name = f"a streamed piece of text, of {deltas:,} in an answer"
    sides = micro(pair.ours / deltas), micro(pair.bare / deltas)
    return Row(name, pair.ratio, DELTA, *sides, (pair.low, pair.high), peers="x25 to x858")


async def _eager(reps: int) -> Row:
    works = _sides(lambda: Script(2, eager=True), 1, "slow", "quick")
    taken = await rounds(works, reps, target=0, clock=time.perf_counter)
    pair = paired(taken["ours"], taken["bare"])
    name = "a slow read called while the model writes another call, wall time"
    sides = f"{pair.ours * 1000:.1f} ms", f"{pair.bare * 1000:.1f} ms"
    return Row(name, pair.ratio, EAGER, *sides, (pair.low, pair.high), peers="x2.0 to x2.1")


def _sides(script: Any, pieces: int, *tools: str) -> dict[str, Work]:
    functions, agent = bare.build(*tools), ours.build(*tools)

    async def by_hand() -> int:
        return await bare.stream(functions, script())

    async def streamed() -> tuple[int, Any]:
        return await ours.stream(agent, script())

    async def whole(kept: list[Any]) -> None:
        if any(seen != pieces for seen in kept):
            raise CutCorner(f"the bare loop saw {kept[0]} pieces, not {pieces}")

    async def proved(kept: list[Any]) -> None:
        await whole([seen for seen, _ in kept])
        entries_proved[0] += await prove(current_store(), [out for _, out in kept], script())

    return {"bare": Work(by_hand, whole), "ours": Work(streamed, proved)}
