"""The result of a workflow: its output, its steps, and what it waits for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from windlass.agents.artifacts import Artifact
from windlass.engine.results import RunResult
from windlass.events import Noted
from windlass.json_types import JsonObject, as_object
from windlass.loop.state import PendingCall
from windlass.workflows.steps import FINISHED, WorkflowStep, read_steps


class WorkflowResult(RunResult):
    """The result of a workflow: `result.output`, `result.steps`, `result.artifacts`, `result.pending`."""

    @cached_property
    def _finish(self) -> JsonObject:
        for entry in reversed(self.entries):
            if type(entry) is Noted and entry.name == FINISHED:
                return as_object(entry.data)
        return {}

    @property
    def name(self) -> str | None:
        """The name of the workflow."""
        return self._run.plan.name

    @property
    def output(self) -> Any:
        """The value of the last step, or of each by name where several have no step after them."""
        data = self._finish.get("data")
        return self._finish.get("text") if data is None else data

    @property
    def final_text(self) -> str:
        """The output as text; empty if there is none."""
        return str(self._finish.get("text") or "")

    @cached_property
    def steps(self) -> list[WorkflowStep]:
        """Every step that was begun, in that order."""
        return read_steps(self.entries)

    @property
    def outputs(self) -> JsonObject:
        """The last output of each node, by its name."""
        return {step.name: step.output for step in self.steps if step.status == "done"}

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The artifacts of all steps, in the order in which the steps ended."""
        found = {one.id: one for step in self.steps for one in step.artifacts}
        return tuple(found.values())

    @property
    def pending(self) -> list[PendingCall]:
        """The calls that its steps wait for; `path` begins with the name of the step.

        `resume` takes a decision or a result for each, by its `id`.
        """
        names = {step.number: step.name for step in self.steps}
        found: list[PendingCall] = []
        for one in super().pending:
            place, inner, _ = one.id.partition("/")
            if inner:  # else it is the workflow itself, whose steps wait for no call
                number = int(place.rpartition(".")[2])
                path = (names[number], *one.path[1:])
                found.append(msgspec.structs.replace(one, path=path))
        return found

    def to_dict(self) -> JsonObject:
        """Convert everything to plain data."""
        return {
            "name": self.name,
            "status": self.status,
            "stop_reason": self.stop_reason,
            "error": self.error,
            "output": self.output,
            "final_text": self.final_text,
            "steps": msgspec.to_builtins(self.steps),
            "artifacts": msgspec.to_builtins(self.artifacts),
            "session_id": self.session_id,
            "usage": msgspec.to_builtins(self.usage),
            "cost_usd": self.cost_usd,
            "pending": msgspec.to_builtins(self.pending),
        }

    def __repr__(self) -> str:
        text = self.final_text
        shown = text if len(text) <= 60 else text[:57] + "…"
        return f"<WorkflowResult {self.status} after {len(self.steps)} steps: {shown!r}>"
