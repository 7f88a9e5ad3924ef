"""What keeping a view small costs: a long one cut, and a short one looked at."""

from __future__ import annotations

import json
from typing import Any

import msgspec

import windlass as w
from bench.sampling import REPS, TARGET, Work, paired, rounds
from bench.table import Row, micro
from windlass.loop.run import Run
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.models.view import Strand
from windlass.policies.compaction.policy import Compacting
from windlass.testing import scripted

MESSAGES = 2_000
CUTTING = 2.0  # times the bare JSON of the messages


async def rows(reps: int = REPS, target: float = TARGET) -> list[Row]:
    """Every row about context."""
    return [
        await _cut("a summary, the model's time excluded", 20, reps, target),
        await _cut("results by reference", 100, reps, target),
    ]


def history(lines: int) -> list[Message]:
    """A coding run of so many messages, with results of so many lines."""
    told = [Message("user", "Find the defect. Never touch production.")]
    for n in range(MESSAGES // 2):
        words = Text(f"The error names module {n}, so I look there next. " * 2)
        told.append(Message("assistant", (words, ToolCall(f"c{n}", "read", {"path": f"m{n}.py"}))))
        told.append(
            Message("tool", (ToolResult(f"c{n}", f"value = {n}\n" * 2 * lines, False, "read"),))
        )
    return told


class _Measuring(w.Policy[None]):
    """Times compactions of a run's view from inside the run."""

    def __init__(self, lines: int, reps: int, target: float) -> None:
        self.lines, self.reps, self.target = lines, reps, target
        self.taken: dict[str, list[float]] = {}

    async def before_model(self, run: Run, request: w.Request) -> w.Request:
        items = history(self.lines)
        plain: Any = msgspec.to_builtins(items)
        policy = Compacting()

        async def bare() -> None:
            json.dumps(plain)

        async def ours() -> None:
            run.strand = Strand(list(items))
            done = await policy.compact(run, "threshold", 48_000)
            assert done and len(run.strand.items) <= len(items)

        works = {"bare": Work(bare), "ours": Work(ours)}
        self.taken = await rounds(works, self.reps, target=self.target)
        run.strand = Strand(list(request.messages))
        return request


async def _cut(how: str, lines: int, reps: int, target: float) -> Row:
    probe = _Measuring(lines, reps, target)
    model = scripted(then="notes")
    async with w.Runtime(store="memory:", environ={}):
        out = await w.agent_loop("go", model=model, policies=[probe], compaction=False)
    assert probe.taken, out.error
    pair = paired(probe.taken["ours"], probe.taken["bare"])
    name = f"compacting {MESSAGES:,} messages ({how}), over their JSON"
    return Row(name, pair.ratio, CUTTING, micro(pair.ours), micro(pair.bare), (pair.low, pair.high))
