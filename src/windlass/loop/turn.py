"""The state of one turn: the reply, its calls, and their results."""

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


class Turn(msgspec.Struct, eq=False):
    """A turn as a policy sees it: `turn.message`, `turn.calls`, `turn.results`."""

    number: int
    message: Message
    stop_reason: str
    usage: Usage
    calls: tuple[ToolCall, ...]
    open: bool  # the reply's calls are not yet answered in the view
    shortened: str | None = None  # the limit of a budget that cut the reply short
    foreseen: dict[str, ToolResult | Suspend] | None = None  # decided while it streamed
    ready: dict[str, Ready] = {}  # passed the gate
    started: tuple[str, ...] = ()  # an intent is on record
    results: dict[str, ToolResult] = {}  # as the tools gave them
    shown: dict[str, ToolResult] = {}  # as the model sees them
    _text: str | None = None

    @property
    def text(self) -> str:
        """The text of the reply."""
        if self._text is None:
            self._text = self.message.text
        return self._text

    @property
    def answers(self) -> tuple[ToolResult, ...]:
        """The results that the model sees, in the order of its calls."""
        return tuple(self.shown[call.id] for call in self.calls if call.id in self.shown)


def turn_of(number: int, message: Message, stop_reason: str, usage: Usage = NO_USAGE) -> Turn:
    """Build the turn of a reply whose calls have not been looked at."""
    calls = message.tool_calls
    return Turn(number, message, stop_reason, usage, calls, bool(calls))
