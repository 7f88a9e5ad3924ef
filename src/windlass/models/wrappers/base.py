"""What models around a model share: a watched emit, final errors, replies shown whole."""

from __future__ import annotations

from typing import Final

from windlass.errors import ModelError
from windlass.events import LiveEvent, TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import Text, Thinking, ToolCall
from windlass.models.base import Emit, Response

OPEN: Final = "<tool_call>"  # begins a call that is written as text


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
