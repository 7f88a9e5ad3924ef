"""Stream events: `text`, `tool_use`, `tool_result`, `budget_exceeded`, `error`, `done` …

A small view of a run's events; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from windlass.errors import BudgetExceeded, TokenBudgetExceededError
from windlass.events import (
    BudgetExhausted,
    Event,
    LoopDetected,
    Replied,
    TextDelta,
    ToolCallStarted,
    ToolDecided,
    ToolMessage,
    ToolResulted,
)
from windlass.messages import ToolCall, ToolResult
from windlass.policies.stall.options import LoopDetectionInfo

Type = Literal[
    "text", "tool_use", "tool_result", "budget_exceeded", "loop_detected", "error", "done"
]

EventType = TypeVar("EventType", bound=Type, covariant=True)
Data = TypeVar("Data", covariant=True)


class StreamEvent(NamedTuple, Generic[EventType, Data]):
    """One event of `run.events()`, with a `type` and `data`.

    ```python
    async for event in run.events():
        print(event.type, event.data)
    ```
    | `type` | `data` |
    |---|---|
    | `text` | a piece of the answer |
    | `tool_use`, `tool_result` | the block: a `ToolCall`, and the `ToolResult` that the model sees |
    | `budget_exceeded` | a `TokenBudgetExceededError`; another `BudgetExceeded` for dollars and seconds |
    | `loop_detected` | a `LoopDetectionInfo` |
    | `error` | the exception; `done` follows |
    | `done` | the result: always the last |
    """

    type: EventType
    data: Data


#: What a run tells while it is under way: `event.type` says which type `event.data` has.
RunEvent: TypeAlias = (
    StreamEvent[Literal["text"], str]
    | StreamEvent[Literal["tool_use"], ToolCall]
    | StreamEvent[Literal["tool_result"], ToolResult]
    | StreamEvent[Literal["budget_exceeded"], BudgetExceeded]
    | StreamEvent[Literal["loop_detected"], LoopDetectionInfo]
    | StreamEvent[Literal["error"], BaseException]
)


class StreamEventAdapter:
    """Converts events of the run to stream events."""

    def __init__(self, agent: str, streamed: bool = False) -> None:
        self._agent = agent
        self._streamed = streamed  # whether pieces of the current reply were emitted
        self._asked: dict[str, ToolCall] = {}  # calls of the last reply, not emitted yet
        self._told: set[str] = set()
        self._results: dict[str, ToolResult] = {}
        self.over_budget = False

    def read(self, event: Event) -> Iterator[RunEvent]:
        """Yield the stream events of an event: none for most."""
        match event:
            case TextDelta():
                self._streamed = True
                yield StreamEvent("text", event.text)
            case Replied(purpose=None):
                streamed, self._streamed = self._streamed, False
                if not streamed and (whole := event.message.text):
                    yield StreamEvent("text", whole)
                self._asked = {call.id: call for call in event.message.tool_calls}
            case ToolDecided() | ToolCallStarted():
                if event.call_id in self._asked:
                    yield from self._calls()
            case ToolResulted():
                if event.outcome != "not_run" and event.call_id in self._asked:
                    yield from self._calls()
                self._results[event.call_id] = event.result
            case ToolMessage():
                yield from self._answers(event)
            case BudgetExhausted() if event.limit != "iterations" and not self.over_budget:
                yield self.budget_event(event.limit, event.used, event.allowed)
            case LoopDetected():
                info = LoopDetectionInfo(event.loop, event.detail, event.repeat_count)
                yield StreamEvent("loop_detected", info)
            case _:
                return

    def budget_event(self, limit: str, used: float, allowed: float) -> RunEvent:
        """Build the event of a spent budget."""
        self.over_budget = True
        if limit == "tokens":
            error: BudgetExceeded = TokenBudgetExceededError(self._agent, int(used), int(allowed))
        else:
            error = BudgetExceeded(f"agent {self._agent!r} used {used:g} {limit} of {allowed:g}")
        return StreamEvent("budget_exceeded", error)

    def _calls(self) -> Iterator[RunEvent]:
        """Yield the calls of an accepted reply, in the order asked."""
        asked, self._asked = self._asked, {}
        self._told |= asked.keys()
        for call in asked.values():
            yield StreamEvent("tool_use", call)

    def _answers(self, event: ToolMessage) -> Iterator[RunEvent]:
        """Yield the results as the model sees them, for calls that were shown."""
        self._asked = {}
        for call_id in event.calls:
            result = (event.shown or {}).get(call_id) or self._results.pop(call_id, None)
            if result is not None and call_id in self._told:
                yield StreamEvent("tool_result", result)
