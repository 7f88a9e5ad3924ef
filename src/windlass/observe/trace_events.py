"""Trace events: one for each model call and each tool call, when it is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from windlass import seams
from windlass.events import Event, IterationStart, Replied, ReplyFailed, ToolResulted
from windlass.json_types import JsonObject
from windlass.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from windlass.loop.run import Run


_PHASES: Final = {None: "turn", "compaction": "summary"}  # else what the call was for


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One model call or tool call, when it is over: `on_trace=lambda e: print(e.type)`.

    `type` is `llm_call` or `tool_call`. Model calls have `model`, `phase`, `turn` and `tokens`,
    tool calls have `tool`. `phase` is `turn`, or the purpose of the call: `summary`, `done_judge`,
    … Times are milliseconds since 1970.
    """

    type: Literal["llm_call", "tool_call"]
    run_id: str
    task_id: str | None
    agent: str
    start_ms: float
    end_ms: float
    duration_ms: float
    is_error: bool = False
    model: str | None = None
    phase: str | None = None
    turn: int | None = None
    tokens: Usage | None = None
    tool: str | None = None


class Tracer:
    """Converts a run's events to trace events."""

    def __init__(
        self, show: Callable[[TraceEvent], Any], agent: str, task_id: str | None = None
    ) -> None:
        self._show, self._agent, self._task_id = show, agent, task_id
        self._run: Run | None = None
        self._turn = 0

    def of(self, run: Run) -> None:
        """Set the run of the events."""
        self._run, self._turn = run, run.number

    def __call__(self, event: Event) -> Any:
        match event:
            case IterationStart():
                self._turn = event.number
            case Replied():
                return self._model_call(event, event.usage, failed=False)
            case ReplyFailed():
                return self._model_call(event, NO_USAGE, failed=True)
            case ToolResulted() if event.outcome != "not_run":
                fields = self._span("tool_call", event.duration_ms, event.result.is_error)
                return self._show(TraceEvent(**fields, tool=event.tool))
            case _:
                return None
        return None

    def _model_call(self, event: Replied | ReplyFailed, tokens: Usage, *, failed: bool) -> Any:
        return self._show(
            TraceEvent(
                **self._span("llm_call", event.duration_ms, failed),
                model=event.model,
                phase=_PHASES.get(event.purpose, event.purpose),
                turn=self._turn,
                tokens=tokens,
            )
        )

    def _span(self, kind: str, took: float, failed: bool) -> JsonObject:
        now = seams.now() * 1000
        return {
            "type": kind,
            "run_id": self._run.run_id if self._run is not None else "",
            "task_id": self._task_id,
            "agent": self._agent,
            "start_ms": now - took,
            "end_ms": now,
            "duration_ms": took,
            "is_error": failed,
        }
