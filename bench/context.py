"""What keeping a view small costs: a long one cut, and a short one looked at.

A cut is measured beside `json.dumps` of the same messages, as the bare loop encodes what it sends, and msgspec's
time for them is told beside it.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

import windlass as w
from bench.proof import CutCorner
from bench.sampling import REPS, TARGET, Work, paired, rounds
from bench.table import Row, micro
from windlass.events import Compacted, JournalEntry, Reshaped
from windlass.loop.run import Run
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.models.base import Strand
from windlass.models.history import audit
from windlass.policies.compaction.policy import Compactor
from windlass.testing import scripted

MESSAGES = 2_000
CUTTING = 2.0  # times the bare JSON of the messages


async def rows(reps: int = REPS, target: float = TARGET) -> list[Row]:
    """Every row about context."""
    return [
        await _cut(
            "a summary, the model's time excluded", _Cutting(20, 48_000, "llm"), reps, target
        ),
        await _cut("results by reference", _Cutting(100, 400_000, "references"), reps, target),
    ]


class _Cutting(NamedTuple):
    """Lines of a result, the threshold in tokens, and what it is to be done with."""

    lines: int
    limit: int
    engine: str


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

    def __init__(self, cutting: _Cutting, reps: int, target: float) -> None:
        self.cutting, self.reps, self.target = cutting, reps, target
        self.taken: dict[str, list[float]] = {}

    async def before_model(self, run: Run, request: w.Request) -> w.Request:
        items = history(self.cutting.lines)
        plain: Any = msgspec.to_builtins(items)
        policy = Compactor()

        async def bare() -> None:
            json.dumps(plain)

        async def quick() -> None:
            msgspec.json.encode(items)

        async def ours() -> tuple[Any, list[Message]]:
            first = len(run.journal.entries)
            run.view.strand = Strand(list(items))
            await policy.compact(run, "threshold", self.cutting.limit)
            return run.journal.entries[first:], run.view.strand.items

        async def proved(kept: list[Any]) -> None:
            for entries, view in kept:
                _whole(entries, view, items, self.cutting)

        works = {"bare": Work(bare), "msgspec": Work(quick), "ours": Work(ours, proved)}
        self.taken = await rounds(works, self.reps, target=self.target)
        run.view.strand = Strand(list(request.messages))
        return request


def _whole(
    entries: Sequence[JournalEntry], view: list[Message], items: list[Message], asked: _Cutting
) -> None:
    """Refuse a compaction that left anything out."""
    done = [entry for entry in entries if type(entry) is Compacted]
    changed = [entry for entry in entries if type(entry) is Reshaped]
    if [entry.engine_strategy for entry in done] != [asked.engine] or len(changed) != 1:
        raise CutCorner(f"a compaction with {asked.engine} has {done!r:.200} on record")
    if done[0].estimated_tokens_after >= asked.limit or audit(view) or view[0] != items[0]:
        raise CutCorner(f"what {asked.engine} left is too long, or no legal view")
    fewer = len(items) - len(view)
    if fewer != (0 if asked.engine == "references" else done[0].archived - 1):
        raise CutCorner(f"{fewer} messages went, and {done[0].archived} are on record")


async def _cut(how: str, cutting: _Cutting, reps: int, target: float) -> Row:
    probe = _Measuring(cutting, reps, target)
    model = scripted(then="notes")
    async with w.Runtime(store="memory:", environ={}):
        out = await w.agent_loop("go", model=model, policies=[probe], compaction=False)
    if not probe.taken:
        raise CutCorner(f"{how}: {out.error}")
    pair = paired(probe.taken["ours"], probe.taken["bare"])
    quick = statistics.median(probe.taken["msgspec"])
    name = f"compacting {MESSAGES:,} messages ({how}), over `json.dumps` of them"
    sides = micro(pair.ours), f"{micro(pair.bare)}; msgspec: {micro(quick)}"
    return Row(name, pair.ratio, CUTTING, *sides, (pair.low, pair.high))
