"""Flow control from step to step: what a step has touched comes with its output into those that read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass.access.caller import Caller
from windlass.access.flow.call_values import Known
from windlass.access.flow.labels import TaintState, flow_of
from windlass.access.flow.records import RecordIndex
from windlass.access.flow.words import UserWords
from windlass.agents.subagent import ChildAgent
from windlass.engine.results import RunResult
from windlass.events import ToolResulted
from windlass.loop.plan import Plan
from windlass.policies.taint.options import Taint, TaintOptions
from windlass.policies.taint.policy import NAME, ChildFlowControl, touched_in
from windlass.store.base import Store
from windlass.workflows.steps import WorkflowStep

_NOT_RUN = ("denied", "not_run")


class BoundAgent:
    """An agent that reads the output of steps which have touched untrusted content."""

    def __init__(self, agent: ChildAgent, policy: ChildFlowControl) -> None:
        self._agent, self._policy = agent, policy

    @property
    def options(self) -> Mapping[str, Any]:
        """The checked options that it was created with."""
        return self._agent.options

    async def plan_for(
        self,
        deps: Any,
        caller: Caller | None,
        session_id: str | None,
        going_on: Store | None = None,
    ) -> Plan:
        """Return the plan of one run, bound by the flow control of the workflow."""
        plan = await self._agent.plan_for(deps, caller, session_id, going_on)
        return plan.below((self._policy,))


def bind_agent(
    agent: ChildAgent, labels: Mapping[str, str], words: Iterable[str], options: Mapping[str, Any]
) -> ChildAgent:
    """Return the agent of a step below flow control, where it reads what is not trusted.

    `words` are those of whoever wrote the task and the workflow. What other steps have said is in the
    task of the step, and is not trusted.
    """
    rules = TaintOptions.read(options).taint
    if rules is False or "reads_untrusted" not in labels:
        return agent
    known = Known(UserWords(list(words)), UserWords(), RecordIndex())
    above = (TaintState(dict(labels)), known)
    return BoundAgent(agent, ChildFlowControl(rules or Taint(), f"parent.{NAME}", above))


def find_labels(result: RunResult) -> dict[str, str]:
    """Return what the run of a step has touched, and the tool that did so first."""
    run = result._run  # pyright: ignore[reportPrivateUsage]
    state = touched_in(run.own_entries)
    for entry in run.own_entries:
        if type(entry) is ToolResulted and entry.outcome not in _NOT_RUN:
            tool = run.tools.get(entry.tool)
            if tool is not None:
                flow = flow_of(tool.name, tool.annotations, assume=False)
                state = state.with_(flow.labels, tool.name)
    return dict(state.by)


def collect_labels(step: WorkflowStep, steps: Mapping[int, WorkflowStep]) -> dict[str, str]:
    """Return what the steps have touched whose output a step may read.

    Of a graph these are the steps that lead to it; of a function all that are over.
    """
    found: dict[str, str] = {}
    for one in _list_before(step, steps):
        for label, tool in one.labels.items():
            found.setdefault(label, tool)
    return found


def _list_before(step: WorkflowStep, steps: Mapping[int, WorkflowStep]) -> Sequence[WorkflowStep]:
    if not step.sources:
        return [one for one in steps.values() if one.is_over and one.number != step.number]
    return [steps[number] for number in step.sources if number in steps]
