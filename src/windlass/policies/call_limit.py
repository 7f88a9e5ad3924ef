"""A limit on the tool calls of a run: calls beyond it are answered, not run."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.events import ToolDecided
from windlass.loop.facts import Facts, Take
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import ToolCall, ToolResult


class _AllowedCalls(Facts):
    """The calls that were allowed."""

    def __init__(self) -> None:
        self.calls: set[str] = set()

    def takes(self) -> Mapping[type, Take]:
        return {ToolDecided: self._read_decision}

    def _read_decision(self, entry: ToolDecided) -> None:
        if entry.action == "allow":
            self.calls.add(entry.call_id)


class CallLimit(Policy[None]):
    """A policy that allows `max_calls` calls of a run; refused ones do not count."""

    decides = True

    def __init__(self, max_calls: int, message: str | None = None, name: str = "RateLimit") -> None:
        self.max_calls, self._name = max_calls, name
        self.message = message or (
            f"Not run: this run may make {max_calls} tool calls, and has made them. "
            "Finish with what you have."
        )

    @property
    def name(self) -> str:
        return self._name

    async def before_tool(self, run: Run, call: ToolCall) -> ToolResult | None:
        calls = run.facts(_AllowedCalls).calls
        if len(calls) - (call.id in calls) < self.max_calls:
            return None
        return ToolResult(call.id, self.message, True, call.name, "denied")
