"""What a piece of a typed answer costs a reader: as a partial value, against as text."""

from __future__ import annotations

import asyncio
import json
from typing import Any, TypedDict

import windlass as w
from bench.proof import CutCorner
from bench.sampling import REPS, TARGET, Work, paired, rounds
from bench.table import Row, micro
from windlass.models.base import Emit, Response
from windlass.models.registry.capabilities import Capabilities

PIECE = 10  # characters
SIZES = (20_000, 100_000)
ALLOWED = 3.0


class Item(TypedDict):
    """One of many."""

    name: str
    price: float
    note: str


class Answer(TypedDict):
    """A long answer."""

    items: list[Item]


class Writer(w.Model):
    """Writes an answer in small pieces, and lets its reader take each."""

    provider, name = "bench", "writer"

    @property
    def capabilities(self) -> Capabilities:
        """It takes a schema, so that its text is the answer."""
        return Capabilities(structured=("schema",))

    def __init__(self, text: str) -> None:
        self.pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]

    async def respond(self, request: w.Request, emit: Emit) -> Response:
        """Write all pieces."""
        for piece in self.pieces:
            emit(w.TextDelta(piece))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return Response(w.Message("assistant", "".join(self.pieces)), w.Usage(1, 1))


async def rows(reps: int = REPS, target: float = TARGET) -> list[Row]:
    """Both sizes: the figure must not grow with the answer."""
    return [await _row(size, reps, target) for size in SIZES]


async def _row(size: int, reps: int, target: float) -> Row:
    note = "some words of a usual length, and a few more"
    items = [{"name": f"thing {n}", "price": n * 1.5, "note": note} for n in range(size // 90)]
    model = Writer(json.dumps({"items": items}))
    agent: w.Agent[Any, Any] = w.Agent(model, output=Answer)
    pieces = len(model.pieces)

    async def by_text() -> int:
        async with agent.stream("go") as run:
            return len([text async for text in run.text()])

    async def by_value() -> int:
        seen, value = 0, None
        async with agent.stream("go") as run:
            async for partial in run.partial():
                seen, value = seen + 1, partial.value
        if value is None or len(value["items"]) != len(items):
            raise CutCorner("the last value is not the whole answer")
        return seen

    async def whole(kept: list[Any]) -> None:
        if any(seen < pieces // 2 for seen in kept):
            raise CutCorner(f"a reader saw {min(kept)} of {pieces} pieces")

    works = {"text": Work(by_text, whole), "value": Work(by_value, whole)}
    taken = await rounds(works, reps, target=target)
    pair = paired(taken["value"], taken["text"])
    name = f"a piece of a typed answer of {size // 1000} kB: `run.partial()` against `run.text()`"
    sides = micro(pair.ours / pieces), micro(pair.bare / pieces)
    return Row(name, pair.ratio, ALLOWED, *sides, (pair.low, pair.high))
