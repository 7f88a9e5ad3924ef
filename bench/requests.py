"""What it costs to build a request when much has been said before, on both wires."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

from bench.sampling import REPS, paired
from bench.table import Row, micro
from bench.work import SYSTEM, add
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.models.base import Frame, Request, Strand
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.base import HttpModel
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.tools.function import as_tool

EARLY, LATE = 100, 1000
GROWTH = 1.5
SPAN = 40  # turns timed from there on, one by one

WIRES: dict[str, Callable[[], HttpModel]] = {
    "Anthropic Messages": lambda: AnthropicMessages("claude-opus-4-7", api_key="none"),
    "OpenAI Chat Completions": lambda: OpenAIChat("gpt-4o", api_key="none"),
}


def rows(reps: int = REPS, early: int = EARLY, late: int = LATE) -> list[Row]:
    """A row for each wire."""
    return [_row(name, make(), reps, early, late) for name, make in WIRES.items()]


def _row(name: str, model: HttpModel, reps: int, early: int, late: int) -> Row:
    frame = Frame(SYSTEM, (as_tool(add).spec,))
    _taken(model, frame, early)
    before: list[float] = []
    after: list[float] = []
    for _ in range(reps):
        before.append(_taken(model, frame, early))
        after.append(_taken(model, frame, late))
    pair = paired(after, before)
    title = f"{name}: building the request of turn {late:,} over that of turn {early}"
    sides = micro(pair.ours), f"turn {early}: {micro(pair.bare)}"
    return Row(title, pair.ratio, GROWTH, *sides, (pair.low, pair.high))


def _taken(model: HttpModel, frame: Frame, turns: int) -> float:
    """CPU of one request, with that many turns said before and encoded for earlier requests."""
    strand = Strand([Message("user", (Text("go"),))])
    for turn in range(turns):
        _say(strand, turn)
    model.encode(Request(strand.snapshot(), frame))
    gc.collect()
    spent: list[float] = []
    clock = time.perf_counter  # a request takes microseconds; the CPU's clock is too coarse for one
    for turn in range(turns, turns + SPAN):
        _say(strand, turn)
        began = clock()
        body = model.encode(Request(strand.snapshot(), frame))
        spent.append(clock() - began)
        assert body
    return statistics.median(spent)


def _say(strand: Strand, turn: int) -> None:
    call = ToolCall(f"c{turn}", "add", {"a": turn, "b": 1})
    strand.items.append(Message("assistant", (Text("Let me add."), call)))
    strand.items.append(Message("tool", (ToolResult(call.id, str(turn + 1), False, "add"),)))
