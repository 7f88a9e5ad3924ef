"""The base of models around a model, which pass everything on to it."""

from __future__ import annotations

from typing import Final

from windlass.errors import ModelError
from windlass.events import LiveEvent, TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import Text, Thinking, ToolCall
from windlass.models.base import Completion, Emit, Model, Request, Response
from windlass.models.registry.capabilities import Capabilities
from windlass.usage import Usage

OPEN: Final = "<tool_call>"  # begins a call that is written as text


class Holding(Model):
    """A model around a model; a wrapper of your own overrides `respond`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.provider, self.name = model.provider, model.name
        self.native_tools, self.context_window = model.native_tools, model.context_window
        self.remote, self.retries_calls = model.remote, model.retries_calls
        self.retry_delay = model.retry_delay

    @property
    def address(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the held model."""
        return self.model.address

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The held model's keys: a key may be read from the environment as late as its first call."""
        return self.model.secrets

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Call the held model."""
        return await self.model.respond(request, emit)

    @property
    def capabilities(self) -> Capabilities:
        """The held model's capabilities."""
        return self.model.capabilities

    async def count_tokens(self, request: Request) -> int | None:
        """Count the tokens at the held model."""
        return await self.model.count_tokens(request)

    async def complete(self, completion: Completion, emit: Emit) -> Response | None:
        """Continue a text with the held model."""
        return await self.model.complete(completion, emit)

    def check(self) -> None:
        """Check the held model."""
        self.model.check()

    def price(self, usage: Usage) -> float:
        """Price the usage at the held model."""
        return self.model.price(usage)

    def unpriced(self) -> Model | None:
        """Return the held model if its price is unknown."""
        return self.model.unpriced()

    @property
    def reports_parts(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the held model reports parts of broken replies."""
        return self.model.reports_parts

    async def aclose(self) -> None:
        """Close the held model's connections."""
        await self.model.aclose()


class EmitTracker:
    """An emit that records whether anything was shown, so that a retry can discard it."""

    __slots__ = ("anything", "emit")

    def __init__(self, emit: Emit) -> None:
        self.emit, self.anything = emit, False

    def __call__(self, event: LiveEvent) -> None:
        self.anything = True
        self.emit(event)


def is_final(error: ModelError) -> bool:
    """Check whether an error sets the run's final status, so that no retry follows."""
    return error.status not in (None, "provider_error")


def show(response: Response, emit: Emit) -> None:
    """Emit a reply that was not streamed, block by block."""
    for block in response.message.content:
        if isinstance(block, Text):
            emit(TextDelta(block.text))
        elif isinstance(block, Thinking):
            emit(ThinkingDelta(block.text))
        elif isinstance(block, ToolCall):
            emit(ToolCallReady(block))
