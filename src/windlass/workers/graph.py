"""A worker whose task is a workflow: the run of its graph, in the worker's own session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.engine.driver import Start
from windlass.events import JournalEntry
from windlass.json_types import JsonObject
from windlass.loop.plan import Plan, as_journaled
from windlass.workflows.execute import WorkflowGraph, build_flow, workflow_graph
from windlass.workflows.host import ForSteps, WorkflowArguments, WorkflowCall, enter_workflow
from windlass.workflows.steps import WorkflowStep, read_steps

DOOR: Final = "spawn_agent"


class GraphRun:
    """One task of a worker with a graph: its plan, and how its run begins."""

    def __init__(
        self,
        graph: WorkflowGraph | Mapping[str, Any],
        options: JsonObject,
        task: str,
        artifacts: Sequence[JsonObject],
    ) -> None:
        arguments = WorkflowArguments(options, DOOR)
        flow = build_flow(task, workflow_graph(graph), artifacts, arguments)
        flow.prepare(arguments.defaults)
        self._flow = flow
        record = as_journaled(flow.describe(), "what a workflow is given")
        self._record: JsonObject = record
        self.plan: Plan = WorkflowCall(arguments).build_request(flow, record).plan

    @property
    def prompt(self) -> str:
        """The first message of its session."""
        return self._flow.build_prompt()

    def check(self, entries: Sequence[JournalEntry]) -> None:
        """Raise `WorkflowChanged` if the steps on record are not those of this graph."""
        self._flow.check(self._record, read_steps(entries))

    def enter(self, begun: Start) -> None:
        """Put the call of the workflow on record, as the reply that the run begins with."""
        enter_workflow(begun, self._flow.name)


def bind_steps(plan: Plan) -> Plan:
    """Return the plan with the rules of a parent binding the steps, not the call of the workflow."""
    bound = {id(one): ForSteps(one) for one in plan.inherited}
    other = plan.of(plan.model)
    other.inherited = tuple([bound[id(one)] for one in plan.inherited])
    other.policies = tuple([bound.get(id(one), one) for one in plan.policies])
    return other.below(())


def list_stages(entries: Sequence[JournalEntry]) -> list[WorkflowStep]:
    """List the steps that a run of a graph has begun."""
    return read_steps(entries)
