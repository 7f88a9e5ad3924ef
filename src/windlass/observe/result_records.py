"""Records in a result: tool calls, figures of the model calls, names of tools."""

from __future__ import annotations

from windlass.events import ToolResulted
from windlass.json_types import JsonObject
from windlass.messages import ToolCall
from windlass.records import Record


class ToolCallRecord(Record, frozen=True):
    """One tool call of a run: `name`, `arguments`, `outcome`, `result`, `duration_ms`."""

    id: str
    name: str
    arguments: JsonObject
    outcome: str
    result: str
    is_error: bool
    duration_ms: float

    @property
    def tool_name(self) -> str:
        """The same as `name`."""
        return self.name

    @property
    def input(self) -> JsonObject:
        """The same as `arguments`."""
        return self.arguments

    @property
    def output(self) -> str:
        """The same as `result`."""
        return self.result

    @property
    def duration(self) -> float:
        """The same as `duration_ms`."""
        return self.duration_ms


class LLMMetrics(Record, frozen=True):
    """`result.llm`: the model's side of the run."""

    iterations: int
    duration_ms: int
    input_tokens: int
    output_tokens: int


class ToolSummary(Record, frozen=True):
    """`result.tools`: names of the tools that were called, worked, or were turned down."""

    calls: list[str]
    successful: list[str]
    rejected: list[str]
    mode: str


def to_call_record(call: ToolCall, entry: ToolResulted) -> ToolCallRecord:
    """Return the record of a call from its result in the journal."""
    result = entry.result
    return ToolCallRecord(
        call.id,
        call.name,
        call.arguments,
        entry.outcome,
        result.text,
        result.is_error,
        entry.duration_ms,
    )
