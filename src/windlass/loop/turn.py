"""One turn as it stands: the reply, its calls, and what became of them."""

from __future__ import annotations

import msgspec

from windlass.loop.verdict import Suspend
from windlass.messages import Message, ToolCall, ToolResult
from windlass.tools.tool import Tool
from windlass.usage import NO_USAGE, Usage

UNNAMED = "unnamed_call"  # what a call is named for which the model gave no name


class Ready(msgspec.Struct, frozen=True):
    """A call that passed the gate, as it will run."""

    call: ToolCall
    tool: Tool
    attempt: int = 1


class Turn:
    """What a policy sees of a turn: `turn.message`, `turn.calls`, `turn.results`."""

    __slots__ = (
        "_text",
        "calls",
        "foreseen",
        "message",
        "number",
        "open",
        "ready",
        "results",
        "shortened",
        "shown",
        "started",
        "stop_reason",
        "usage",
    )

    def __init__(
        self, number: int, message: Message, stop_reason: str, usage: Usage = NO_USAGE
    ) -> None:
        self.number, self.message, self.stop_reason = number, message, stop_reason
        self.usage = usage
        self.calls: tuple[ToolCall, ...] = message.tool_calls
        self.open = bool(self.calls)  # the reply's calls are not yet answered in the view
        self.foreseen: dict[str, ToolResult | Suspend] | None = None  # decided while it streamed
        self.ready: dict[str, Ready] = {}  # passed the gate
        self.started: set[str] = set()  # an intent is on record
        self.results: dict[str, ToolResult] = {}  # as the tools gave them
        self.shown: dict[str, ToolResult] = {}  # as the model sees them
        self.shortened: str | None = None  # the limit of a budget that cut the reply short
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The words of the reply."""
        if self._text is None:
            self._text = self.message.text
        return self._text

    @property
    def answers(self) -> tuple[ToolResult, ...]:
        """The results the model sees, in the order asked."""
        return tuple(self.shown[call.id] for call in self.calls if call.id in self.shown)
