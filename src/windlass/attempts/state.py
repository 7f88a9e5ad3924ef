"""The state of an execution: what callbacks, validators and prompts are shown of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, TypedDict

from windlass.attempts.history import ENDED, STARTED, AttemptHistory, AttemptRecord
from windlass.attempts.result import Attempt, CallbackError, Phase
from windlass.events import Event, Noted, ToolCallStarted, ToolResulted
from windlass.json_types import JsonObject, as_object
from windlass.loop.run import Run
from windlass.messages import Message
from windlass.usage import NO_USAGE, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionState:
    """Where an execution stands, as callbacks and validators see it; nothing in it can be changed."""

    attempt: int
    """The attempt under way, from 1."""
    iteration_count: int
    """Model calls of this attempt so far."""
    max_iterations: int
    phase: Phase
    messages: Sequence[Message]
    """The history that the next request carries."""
    tokens: Usage
    """Tokens of all attempts so far."""
    deps: Any
    input: Any
    resumed: bool = False
    """Whether another process began the execution: what it announced last may be announced again."""


class ExecuteCallbacks(TypedDict, total=False):
    """The callbacks of `execute_agent`. What one raises is in `metadata.callback_errors`."""

    on_attempt_start: Callable[[AgentExecutionState], object] | None
    on_tool_call: Callable[[AgentExecutionState, str, JsonObject], object] | None
    on_tool_result: Callable[[AgentExecutionState, str, str], object] | None
    on_validation_failure: Callable[[AgentExecutionState, Attempt[object]], object] | None


CALLBACKS = tuple(ExecuteCallbacks.__annotations__)


class Execution:
    """An execution in this process: its input, its phase, and its callbacks, as a sink of the run."""

    def __init__(
        self,
        output_tool: str,
        hidden: frozenset[str],
        max_iterations: int,
        callbacks: Mapping[str, Callable[..., object] | None],
        read_attempt: Callable[[AttemptRecord], Attempt[object]],
        *,
        given: object = None,
        resumed: bool = False,
    ) -> None:
        self.output_tool, self.hidden, self.max_iterations = output_tool, hidden, max_iterations
        self.callbacks = {name: each for name, each in callbacks.items() if each is not None}
        self.given, self.resumed = given, resumed
        self.phase: Phase = "prompt"
        self.run: Run | None = None
        self.errors: list[CallbackError] = []
        self._read_attempt = read_attempt

    def history(self, run: Run) -> AttemptHistory:
        """Return the attempts of the run so far."""
        return run.facts(AttemptHistory, self.output_tool)

    def state(self, run: Run, phase: Phase | None = None) -> AgentExecutionState:
        """Return where the execution stands."""
        history = self.history(run)
        current = history.current
        return AgentExecutionState(
            attempt=current.number if current else 1,
            iteration_count=current.iterations if current else 0,
            max_iterations=self.max_iterations,
            phase=phase or self.phase,
            messages=run.messages,
            tokens=history.usage if history.attempts else NO_USAGE,
            deps=run.deps,
            input=self.given,
            resumed=self.resumed,
        )

    def look(self, event: Event) -> Awaitable[object] | None:
        """Call the callback that an event of the run is for."""
        match event:
            case Noted(name="attempt_started"):
                return self._tell("on_attempt_start", phase="prompt")
            case Noted(name="attempt_ended"):
                return self._tell_failure(as_object(event.data))
            case ToolCallStarted() if event.name not in self.hidden:
                return self._tell("on_tool_call", event.name, event.arguments)
            case ToolResulted() if event.tool not in self.hidden and event.outcome in _MADE:
                return self._tell("on_tool_result", event.tool, event.result.text)
            case _:
                return None

    def _tell_failure(self, data: JsonObject) -> Awaitable[object] | None:
        if (
            not data.get("errors")
            or self.run is None
            or "on_validation_failure" not in self.callbacks
        ):
            return None
        current = self.history(self.run).current
        if current is None:
            return None
        return self._tell("on_validation_failure", self._read_attempt(current), phase="validation")

    def _tell(
        self, name: str, *what: object, phase: Phase = "iteration"
    ) -> Awaitable[object] | None:
        callback = self.callbacks.get(name)
        if callback is None or self.run is None:
            return None
        try:
            answer = callback(self.state(self.run, phase), *what)
        except Exception as error:
            self.errors.append(CallbackError(name, error))
            return None
        return self._collect(name, answer) if isawaitable(answer) else None

    async def _collect(self, name: str, answer: Awaitable[object]) -> None:
        try:
            await answer
        except Exception as error:
            self.errors.append(CallbackError(name, error))


#: Outcomes of calls that were made.
_MADE = frozenset({"ok", "error", "retry", "timeout", "interrupted"})
assert (STARTED, ENDED) == ("attempt_started", "attempt_ended")  # as `look` matches them
