"""Models that fail as they are told to, and what a listener saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass import seams
from windlass.errors import ModelError
from windlass.events import LiveEvent, TextDelta
from windlass.messages import Message
from windlass.models.base import Emit, Model, Request, Response
from windlass.usage import Usage

USAGE = Usage(input_tokens=100, output_tokens=10)


class Shaky(Model):
    """A model that answers its script, then `ok`; a failure shows `half` before it."""

    provider = "p"

    def __init__(self, *script: ModelError | str, name: str = "n", delay: float = 0.0) -> None:
        self.script, self.name, self.delay = list(script), name, delay
        self.calls, self.under_way, self.cancelled = 0, 0, 0
        self.asked_at: list[float] = []

    async def respond(self, request: Request, emit: Emit) -> Response:
        self.calls += 1
        self.under_way += 1
        self.asked_at.append(seams.monotonic())
        try:
            step = self.script.pop(0) if self.script else "ok"
            emit(TextDelta("half"))
            if self.delay:
                await seams.sleep(self.delay)
            if isinstance(step, ModelError):
                raise step
            emit(TextDelta(step))
            return Response(Message("assistant", step), USAGE)
        finally:
            self.under_way -= 1

    def price(self, usage: Usage) -> float:
        if usage.cost_usd is not None:
            return usage.cost_usd
        return (usage.input_tokens + usage.output_tokens) / 1000


QUESTION = Request([Message("user", "q")])


async def asked(model: Model, emit: Callable[[Any], None] | None = None) -> Response:
    """Make one call, as a loop would."""
    return await model.respond(QUESTION, emit or (lambda _event: None))


def kinds(events: list[LiveEvent]) -> list[str]:
    """Return the names of the events."""
    return [type(event).__name__ for event in events]
