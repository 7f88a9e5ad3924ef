"""The order of the nodes of a graph: what may begin now, side by side, and when the whole is over.

The state is what the journal has: steps begun, steps ended, and the edges that they followed. So it is the same
after a crash, and no condition is asked twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass.agents.artifacts import Artifact
from windlass.errors import WorkflowChanged, error_text, nearest
from windlass.json_types import JsonObject
from windlass.tools.render import to_text
from windlass.tools.tool import Parked
from windlass.workflows.graph import Graph, Node
from windlass.workflows.host import FlowEnd, StepHost
from windlass.workflows.nodes import NodeContext, check_agent, fail, run_node
from windlass.workflows.steps import WorkflowStep

#: The step that the entry follows: the workflow itself.
START: Final = 0


class GraphFlow:
    """A graph with its input, as the host of workflows runs it."""

    def __init__(
        self, graph: Graph, task: str, artifacts: Sequence[Artifact], max_steps: int
    ) -> None:
        self.graph, self.task, self.artifacts = graph, task, tuple(artifacts)
        self.max_steps = max_steps

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.graph.name

    def describe(self) -> JsonObject:
        """Return the input and the shape of the graph."""
        return {
            "name": self.name,
            "input": {"task": self.task, "artifacts": self.artifacts},
            "max_steps": self.max_steps,
            "nodes": {node.id: node.digest for node in self.graph.nodes.values()},
        }

    def build_prompt(self) -> str:
        """Return the task."""
        return self.task

    def check(self, record: JsonObject, steps: Sequence[WorkflowStep]) -> None:
        """Refuse a graph in which a node that was begun is gone or is another one."""
        for step in steps:
            node = self.graph.nodes.get(step.name)
            if node is not None and node.digest == step.digest:
                continue
            if node is None:
                why = f"has no node {step.name!r} any more{nearest(step.name, self.graph.nodes)}"
            else:
                why = f"has another node {step.name!r} now"
            error = WorkflowChanged(
                f"the graph {self.name!r} {why}, and step {step.number} of the session was begun with "
                "it: resume with the graph that it was begun with"
            )
            error.step = step.name
            raise error

    def list_words(self) -> list[str]:
        """List the task, the tasks of the nodes, and the artifacts that the workflow was given."""
        nodes = self.graph.nodes.values()
        own = [text for node in nodes for text in (node.task, node.judge) if text]
        return [self.task, *own, *[one.text for one in self.artifacts if one.text]]

    def prepare(self, defaults: Mapping[str, Any]) -> None:
        """Refuse nodes whose options do not fit together."""
        for node in self.graph.nodes.values():
            check_agent(node, defaults)

    async def carry_out(self, host: StepHost) -> FlowEnd | Parked:
        """Run the nodes that are not over yet."""
        return await Scheduler(self, host).run()


class Scheduler:
    """Begins nodes when nothing that leads to them is under way, until no node is left."""

    def __init__(self, flow: GraphFlow, host: StepHost) -> None:
        self.flow, self.graph, self.host, self.log = flow, flow.graph, host, host.log
        self._tasks: dict[asyncio.Task[WorkflowStep | None], WorkflowStep] = {}
        self._parked: dict[int, WorkflowStep] = {}
        self._out_of_steps = False

    async def run(self) -> FlowEnd | Parked:
        """Run until every branch has ended, failed or parked."""
        try:
            for step in list(self.log.steps.values()):
                if not step.is_over:
                    self._spawn(step)
            while True:
                if self._find_failure() is None:
                    await self._begin_ready()
                if not self._tasks:
                    break
                landed, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in self._tasks if task in landed]:
                    await self._land(self._tasks.pop(task), task.result())
        finally:
            await self._abandon()
        if self._parked:
            return self.host.park(list(self._parked.values()))
        return self._conclude()

    async def _abandon(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _land(self, begun: WorkflowStep, ended: WorkflowStep | None) -> None:
        """Record the end of a step, together with the edges that it follows."""
        if ended is None:
            self._parked[begun.number] = begun
            return
        if ended.status == "done":
            ended = self._follow(ended)
        await self.host.end(ended)

    def _follow(self, step: WorkflowStep) -> WorkflowStep:
        """Return the step with the nodes that its edges lead to."""
        targets: list[str] = []
        for edge in self.graph.edges_from(step.name):
            if step.verdict is not None and step.verdict != (edge.on or "pass"):
                continue
            try:
                if edge.when is None or edge.when(step):
                    targets.append(edge.target)
            except Exception as error:
                words = f"{type(error).__name__}: {error_text(error, 300)}"
                return fail(step, "condition", f"the condition to {edge.target!r} failed: {words}")
        return msgspec.structs.replace(step, edges=tuple(dict.fromkeys(targets)))

    # ----------------------------------------------------------------- what may begin

    async def _begin_ready(self) -> None:
        for failed in self._list_retries():
            if not self._has_room():
                return
            node = self.graph.nodes[failed.name]
            await self._begin(node, failed.key, failed.sources, failed.attempt + 1)
        while self._has_room() and (found := self._find_ready()) is not None:
            name, sources = found
            visits = [one for one in self.log.steps.values() if one.name == name]
            visit = len({one.key for one in visits}) + 1
            await self._begin(self.graph.nodes[name], f"{name}#{visit}", sources, 1)

    def _has_room(self) -> bool:
        if len(self.log.steps) >= self.flow.max_steps:
            self._out_of_steps = bool(self._find_ready() or self._list_retries())
            return False
        return len(self._tasks) < self.host.arguments.max_parallel

    async def _begin(self, node: Node, key: str, sources: tuple[int, ...], attempt: int) -> None:
        step = await self.log.begin(key, node.id, node.kind, node.digest, sources, attempt)
        self._spawn(step)

    def _spawn(self, step: WorkflowStep) -> None:
        work = run_node(self.graph.nodes[step.name], step, self._build_context(step), self.host)
        self._tasks[asyncio.ensure_future(work)] = step

    def _find_ready(self) -> tuple[str, tuple[int, ...]] | None:
        """Find a node that was led to, while nothing under way can lead to it as well."""
        waiting = self._list_waiting()
        busy = {step.name for step in self.log.steps.values() if not step.is_over}
        busy |= {step.name for step in self._list_retries()}
        forward = self.graph.forward
        for name, sources in waiting.items():
            others = (busy | waiting.keys()) - {name}
            if name not in busy and not any([name in forward[other] for other in others]):
                return name, sources
        return None

    def _list_waiting(self) -> dict[str, tuple[int, ...]]:
        """List the nodes that were led to and not begun since, each with the steps that did."""
        begun = {(one.name, source) for one in self.log.steps.values() for source in one.sources}
        waiting: dict[str, tuple[int, ...]] = {}
        if (self.graph.entry, START) not in begun:
            waiting[self.graph.entry] = (START,)
        for step in self.log.steps.values():
            for name in step.edges:
                if (name, step.number) not in begun:
                    waiting[name] = (*waiting.get(name, ()), step.number)
        return waiting

    def _list_retries(self) -> list[WorkflowStep]:
        """List the last attempts that failed where another one is allowed."""
        last = {step.key: step for step in self.log.steps.values()}
        return [
            step
            for step in last.values()
            if step.status == "failed" and step.attempt <= self.graph.nodes[step.name].retries
        ]

    def _find_failure(self) -> WorkflowStep | None:
        """Find a step that ends the workflow: it failed for good, or did not pass."""
        last = {step.key: step for step in self.log.steps.values()}
        for step in last.values():
            if step.status == "failed" and step.attempt > self.graph.nodes[step.name].retries:
                return step
            if step.verdict == "fail" and not step.edges:
                return step
        return None

    # ----------------------------------------------------------------- what a node is given

    def _build_context(self, step: WorkflowStep) -> NodeContext:
        steps = self.log.steps
        before = [steps[number] for number in step.sources if number != START]
        earlier: dict[int, WorkflowStep] = {}
        todo = list(before)
        while todo:
            one = todo.pop()
            if one.number not in earlier:
                earlier[one.number] = one
                todo += [steps[number] for number in one.sources if number != START]
        ordered = [earlier[number] for number in sorted(earlier)]
        artifacts = {one.id: one for one in self.flow.artifacts}
        for one in ordered:
            artifacts |= {artifact.id: artifact for artifact in one.artifacts}
        error = None
        if step.attempt > 1:
            tries = [one for one in steps.values() if one.key == step.key]
            error = next(
                (str((one.error or {}).get("message")) for one in reversed(tries) if one.error),
                None,
            )
        return NodeContext(self.flow.task, before, ordered, tuple(artifacts.values()), error)

    # ----------------------------------------------------------------- the end

    def _conclude(self) -> FlowEnd:
        failed = self._find_failure()
        if failed is not None:
            return self._fail(failed)
        text, data = self._collect_output()
        if self._out_of_steps:
            message = f"the workflow is not over after {self.flow.max_steps} steps"
            error = {"category": "max_steps", "message": message}
            return FlowEnd("budget_exhausted", "max_steps", text, data, error)
        return FlowEnd("done", "finished", text, data)

    def _fail(self, step: WorkflowStep) -> FlowEnd:
        if step.verdict == "fail":
            words = f"{step.name} did not pass: {step.reason or 'no reason was given'}"
            return FlowEnd(
                "failed",
                "verify",
                error={"category": "verify", "message": words, "step": step.name},
            )
        error = dict(step.error or {})
        error["message"] = f"{step.name} failed: {error.get('message')}"
        spent = self.host.run.ledger.reached_limit() if self.host.run.ledger.metered else None
        if error.get("category") == "budget_exhausted" and spent is not None:
            return FlowEnd("budget_exhausted", spent.limit, error=error)
        return FlowEnd("failed", "step", error=error)

    def _collect_output(self) -> tuple[str, Any]:
        """Collect the outputs of the steps that no other step follows."""
        ends = {
            step.name: step
            for step in self.log.steps.values()
            if step.status == "done" and not step.edges
        }
        if len(ends) == 1:
            [last] = ends.values()
            return last.text if last.data is None else to_text(last.data), last.data
        outputs = {name: step.output for name, step in ends.items()}
        text = "\n\n".join([f"## {name}\n{to_text(one)}" for name, one in outputs.items()])
        return text, outputs or None
