"""The policy of attempts: it begins each, validates its output, and ends the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from windlass.attempts.history import ENDED, NOT_MADE, STARTED, AttemptRecord
from windlass.attempts.result import AgentErrorCode, list_problems
from windlass.attempts.state import Execution
from windlass.attempts.tools import SUBMIT
from windlass.attempts.validation import OutputCheck
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Stop
from windlass.messages import ToolCall, ToolResult


class Attempts(Policy[None]):
    """Repeats attempts until an output passes, within the limits of the definition."""

    def __init__(
        self,
        check: OutputCheck[Any],
        *,
        reflects: bool,
        max_attempts: int,
        max_iterations: int,
        build_execution: Callable[[], Execution],
    ) -> None:
        self.check, self.reflects = check, reflects
        self.max_attempts, self.max_iterations = max_attempts, max_iterations
        self._build_execution = build_execution

    def execution(self, run: Run) -> Execution:
        """Return the execution that the run belongs to; a replay has one without callbacks."""
        found: Execution | None = run.cache.get(Execution)
        if found is None:
            found = run.cache[Execution] = self._build_execution()
        return found

    async def before_turn(self, run: Run) -> None:
        """Begin an attempt where none is under way."""
        execution = self.execution(run)
        current = execution.history(run).current
        if current is None or current.is_over:
            number = 1 if current is None else current.number + 1
            if current is None and execution.callbacks:
                # What is announced belongs to an execution that can be resumed, so that it can
                # be marked as a repetition.
                await run.store_record()
            run.note(STARTED, {"attempt": number})
        execution.phase = "iteration"
        if run.cancelled:  # no call is begun after an abort
            await asyncio.sleep(0)

    def leaves(self, run: Run, call: ToolCall, result: ToolResult) -> bool:
        """Return whether the model reads the result as it is."""
        return result.outcome != "unknown_tool"

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        """Tell the model of a tool that there is not."""
        if result.outcome != "unknown_tool":
            return result
        return ToolResult(
            call.id, f"Error: Unknown tool {call.name}", True, call.name, result.outcome
        )

    async def after_turn(self, run: Run, turn: Turn) -> Finish | KeepGoing | Stop | None:
        """End the attempt if the reply gave its output, and validate that."""
        execution = self.execution(run)
        current = execution.history(run).current
        if current is None or turn.stop_reason == "pause_turn":
            return None
        if not turn.calls:
            why = f"the model called no tool (stop reason {turn.stop_reason!r})"
            return _stop(AgentErrorCode.INVALID_RESPONSE, why)
        if not self._is_given(turn):
            if current.iterations < self.max_iterations:
                return None
            why = f"attempt {current.number} took {current.iterations} iterations without an output"
            return _stop(AgentErrorCode.MAX_ITERATIONS, why)
        output = current.last_output
        if output is None:
            why = f"{SUBMIT} was called before {self.check.tool}"
            return _stop(AgentErrorCode.SUBMIT_BEFORE_OUTPUT, why)
        return await self._validate(run, execution, current, output)

    def _is_given(self, turn: Turn) -> bool:
        """Check whether a call of the turn ends the attempt."""
        ends = SUBMIT if self.reflects else self.check.tool
        made = [call for call in turn.calls if call.name == ends]
        return any([turn.results[call.id].outcome not in NOT_MADE for call in made])

    async def _validate(
        self, run: Run, execution: Execution, attempt: AttemptRecord, output: ToolCall
    ) -> Finish | KeepGoing | Stop:
        execution.phase = "validation"
        state = execution.state(run)
        errors = await self.check.validate(output, state)
        prompt = None
        if errors and attempt.number < self.max_attempts:
            prompt = await self.check.write_error_prompt(errors, state)
        ended = {"attempt": attempt.number, "call_id": output.id, "errors": list(errors)}
        run.note(ENDED, ended)
        if not errors:
            return Finish("output")
        if prompt is None:
            why = (
                f"no output passed in {attempt.number} attempts; the last:\n{list_problems(errors)}"
            )
            return _stop(AgentErrorCode.VALIDATION_FAILED, why)
        run.say(prompt, "validation")
        return KeepGoing("validation")


def _stop(code: AgentErrorCode, message: str) -> Stop:
    """Build the verdict that ends an execution with this code."""
    error = {"category": "bad_reply", "kind": code.value, "message": message}
    return Stop("failed", code.value.lower(), error)
