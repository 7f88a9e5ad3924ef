"""The steps of a workflow as its journal has them: each is begun once, and ended once.

A step has a note for its beginning and one for its end, beside the entries of a tool call, so that traces,
audit logs and budgets see the session that works for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from windlass import seams
from windlass.agents.artifacts import Artifact
from windlass.engine.results import RunResult
from windlass.events import (
    JournalEntry,
    Noted,
    Replied,
    ReplyFailed,
    ToolDecided,
    ToolIntended,
    ToolResulted,
)
from windlass.identifiers import child_session_id
from windlass.json_types import JsonObject, as_object
from windlass.loop.plan import as_journaled, digest_of
from windlass.loop.run import Run
from windlass.messages import ToolResult
from windlass.records import Record

BEGUN: Final = "workflow_step_begun"
ENDED: Final = "workflow_step_ended"
#: The note with the outcome of the whole workflow.
FINISHED: Final = "workflow_finished"
RULE: Final = "workflow"  # who decided that a step may run, in the audit log


class WorkflowStep(Record, frozen=True, kw_only=True):
    """A step of a workflow: `step.name`, `step.status`, `step.text`, `step.data`."""

    number: int
    """In the order in which steps were begun, from 1."""
    key: str
    """Its place in the workflow: the node and its visit, or the position in the function."""
    name: str
    """The node, the agent or the function."""
    kind: str
    """`stage`, `verify`, `subagent`, `run` or `step`."""
    digest: str = ""
    sources: tuple[int, ...] = ()
    """The steps that it follows."""
    attempt: int = 1
    status: str = "running"
    """`running`, `done` or `failed`."""
    text: str = ""
    data: Any = None
    verdict: str | None = None
    """Of a verify node: `pass` or `fail`."""
    reason: str | None = None
    error: JsonObject | None = None
    artifacts: tuple[Artifact, ...] = ()
    edges: tuple[str, ...] = ()
    """The nodes that its edges led to."""
    session_id: str = ""
    """Of the run that worked for it; empty where none did."""
    calls: int = 0
    """Model calls of that run."""
    model_ms: float = 0.0
    """Milliseconds that they took."""
    labels: dict[str, str] = {}
    """What it and the steps before it have touched: `reads_untrusted`, …, and the tool that did so."""

    @property
    def output(self) -> Any:
        """The value of the step: `data`, or `text` where there is none."""
        return self.text if self.data is None else self.data

    @property
    def is_over(self) -> bool:
        """Whether its end is on record."""
        return self.status != "running"


class StepLog:
    """The steps of one run of a workflow, read from its journal and written to it."""

    def __init__(self, run: Run, call_id: str) -> None:
        self.run, self.call_id = run, call_id
        self.steps: dict[int, WorkflowStep] = {
            step.number: step for step in read_steps(run.own_entries)
        }
        self._started: dict[int, float] = {}

    def find(self, key: str) -> WorkflowStep | None:
        """Return the last step with this key."""
        return next((one for one in reversed(self.steps.values()) if one.key == key), None)

    def name_call(self, step: WorkflowStep) -> str:
        """Return the id of the step's entries, which its session is named after."""
        return f"{self.call_id}.{step.number}"

    def name_session(self, step: WorkflowStep) -> str:
        """Return the id of the session that works for the step."""
        return child_session_id(self.run.session_id, self.name_call(step))

    async def begin(
        self,
        key: str,
        name: str,
        kind: str,
        digest: str = "",
        sources: tuple[int, ...] = (),
        attempt: int = 1,
    ) -> WorkflowStep:
        """Record that a step begins, and wait until that is stored."""
        step = WorkflowStep(
            number=len(self.steps) + 1,
            key=key,
            name=name,
            kind=kind,
            digest=digest,
            sources=sources,
            attempt=attempt,
        )
        self.steps[step.number] = step
        run, call_id = self.run, self.name_call(step)
        run.note(BEGUN, _describe_begin(step))
        run.record(ToolDecided(call_id, name, "allow", RULE, run.caller_name, digest_of(key)))
        run.record(ToolIntended(call_id, name, "keyed", attempt))
        self._started[step.number] = seams.monotonic()
        await run.store_record()
        seams.point("workflow.step_begun")
        return step

    async def end(self, step: WorkflowStep) -> WorkflowStep:
        """Record how a step ended, and wait until that is stored."""
        run, call_id = self.run, self.name_call(step)
        self.steps[step.number] = step
        began = self._started.get(step.number, seams.monotonic())
        failed = step.status == "failed"
        words = str((step.error or {}).get("message") or "") if failed else step.text
        result = ToolResult(call_id, words, failed, step.name, "error" if failed else "ok")
        took = (seams.monotonic() - began) * 1000
        run.note(ENDED, _describe_end(step))
        if run.redactor is not None:
            result = run.redactor.value(result)
        run.record(ToolResulted(call_id, step.name, result.outcome, result, took))
        await run.store_record()
        seams.point("workflow.step_ended")
        return step


def add_result(step: WorkflowStep, result: RunResult) -> WorkflowStep:
    """Return the step with the session that worked for it, and what that asked of models."""
    made = [one for one in result.entries if isinstance(one, (Replied, ReplyFailed))]
    took = sum([one.duration_ms for one in made])
    return msgspec.structs.replace(
        step, session_id=result.session_id, calls=len(made), model_ms=took
    )


def read_steps(entries: Iterable[JournalEntry]) -> list[WorkflowStep]:
    """Read the steps from the entries of a run, in the order in which they were begun."""
    found: dict[int, WorkflowStep] = {}
    for entry in entries:
        if type(entry) is not Noted or entry.name not in (BEGUN, ENDED):
            continue
        data = as_object(entry.data)
        if entry.name == BEGUN:
            step = msgspec.convert(data, WorkflowStep)
            found[step.number] = step
        elif (known := found.get(data.get("number", 0))) is not None:
            found[known.number] = msgspec.structs.replace(known, **_read_end(data))
    return list(found.values())


_AT_BEGIN: Final = ("number", "key", "name", "kind", "digest", "sources", "attempt")
_AT_END: Final = (
    "status",
    "text",
    "data",
    "verdict",
    "reason",
    "error",
    "artifacts",
    "edges",
    "session_id",
    "calls",
    "model_ms",
    "labels",
)


def _describe_begin(step: WorkflowStep) -> JsonObject:
    return as_journaled({name: getattr(step, name) for name in _AT_BEGIN}, "a step")


def _describe_end(step: WorkflowStep) -> JsonObject:
    said = {name: getattr(step, name) for name in _AT_END}
    return as_journaled(
        {"number": step.number, "name": step.name, **said}, f"the result of step {step.name!r}"
    )


def _read_end(data: JsonObject) -> JsonObject:
    said = {name: data[name] for name in _AT_END if name in data}
    said["artifacts"] = tuple([msgspec.convert(one, Artifact) for one in said["artifacts"]])
    said["edges"] = tuple(said["edges"])
    return said
