"""Run a graph: `workflow_execute`, `task_run`, and how one goes on that was parked or killed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass.agents.artifacts import Artifact
from windlass.engine.limit_options import Budget
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import as_object, is_mapping, is_sequence
from windlass.loop.resume_input import Allow, Deny
from windlass.messages import Message
from windlass.options.checks import no_key
from windlass.options.parse import merge_options
from windlass.workflows.draw import draw_html, draw_mermaid, draw_svg, draw_text
from windlass.workflows.graph import Graph, read_graph
from windlass.workflows.host import (
    WorkflowArguments,
    WorkflowCall,
    check_names,
    drop_limits,
    read_task,
)
from windlass.workflows.result import WorkflowResult
from windlass.workflows.scheduler import GraphFlow

_ARTIFACT: Final = Artifact.__struct_fields__


class WorkflowGraph(Graph):
    """A checked graph: `await graph.run(task)`, `await graph.resume(session_id)`, `graph.draw()`.

    It can be submitted like an agent: `await runtime.submit(graph, task)`.
    """

    #: Options of its runs, where a run names no others.
    options: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        return f"<WorkflowGraph {self.name}: {len(self.nodes)} nodes, {len(self.edges)} edges>"

    def with_(self, **options: Any) -> WorkflowGraph:
        """Return the graph with options of `workflow_execute` for all its runs.

        ```python
        await runtime.serve(graph.with_(model="anthropic:claude-sonnet-4-5", max_steps=30))
        ```
        """
        check_names(options, "WorkflowGraph.with_")
        other = WorkflowGraph(self.name, self.entry, self.nodes, self.edges, self.version)
        other.options = {**self.options, **options}
        return other

    async def run(
        self,
        task: str | Sequence[Message],
        artifacts: Sequence[Artifact | Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> WorkflowResult:
        """Run the graph on a task, as `workflow_execute` does."""
        arguments = WorkflowArguments({**self.options, **options}, "WorkflowGraph.run")
        return await WorkflowCall(arguments).begin(build_flow(task, self, artifacts, arguments))

    async def resume(
        self,
        session_id: str,
        *,
        decisions: Mapping[str, Allow | Deny | bool] | None = None,
        results: Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> WorkflowResult:
        """Go on with a run that was parked or killed, from this or any other process.

        ```python
        result = await graph.resume(result.session_id, decisions={result.pending[0].id: w.Allow()})
        ```
        The task and the artifacts are those that it was begun with. Nodes that are over are not run
        again. `WorkflowChanged` if a node that was begun is another one now.
        """
        options = {**drop_limits(self.options), **options}
        arguments = WorkflowArguments(options, "WorkflowGraph.resume")
        call = WorkflowCall(arguments)
        record = await call.read_record(session_id)
        said = as_object(record.get("input"))
        if "max_steps" not in options and isinstance(record.get("max_steps"), int):
            arguments.max_steps = record["max_steps"]
        flow = build_flow(said.get("task") or "?", self, said.get("artifacts"), arguments)
        return await call.resume(
            flow, session_id, decisions=decisions, results=results, budget=budget
        )

    def draw(self, result: WorkflowResult | None = None) -> str:
        """Draw the graph for a terminal; with a result, how far each node came."""
        return draw_text(self, () if result is None else result.steps)

    def mermaid(self, result: WorkflowResult | None = None) -> str:
        """Draw the graph as a Mermaid flowchart."""
        return draw_mermaid(self, () if result is None else result.steps)

    def html(self, result: WorkflowResult | None = None) -> str:
        """Draw the graph as a page of HTML that needs nothing else."""
        return draw_html(self, () if result is None else result.steps)

    def _repr_html_(self) -> str:
        return draw_svg(self, ())


def workflow_graph(spec: Mapping[str, Any] | WorkflowGraph) -> WorkflowGraph:
    """Check the description of a workflow, and return the graph that `workflow_execute` runs.

    ```python
    graph = w.workflow_graph({
        "name": "review_and_repair",
        "entry": "act",
        "nodes": {"act": {"kind": "stage", "tools": tools}, "verify": {"kind": "verify", "command": "pytest -q"}},
        "edges": [{"from": "act", "to": "verify"}, {"from": "verify", "to": "act", "on": "fail"}],
    })
    ```
    A node takes every option of `agent_loop` beside its own. `ConfigError` for unknown keys and nodes,
    nodes that nothing leads to, and loops that nothing can end.
    """
    if isinstance(spec, WorkflowGraph):
        return spec
    graph = read_graph(spec)
    return WorkflowGraph(graph.name, graph.entry, graph.nodes, graph.edges, graph.version)


async def workflow_execute(
    task: str,
    graph: WorkflowGraph | Mapping[str, Any],
    artifacts: Sequence[Artifact | Mapping[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    /,
    **more: Any,
) -> WorkflowResult:
    """Run a graph on a task, and return a `WorkflowResult`; `status` says how it ended.

    ```python
    result = await w.workflow_execute("Fix the failing test.", graph, [], {"max_steps": 6})
    print(result.status, result.output, [step.name for step in result.steps])
    ```
    `artifacts` are what the nodes may read beside the task. Options: `max_steps` (100), `max_parallel`
    (8), those of one run (`session_id`, `store`, `caller`, `budget`, …), rules that bind every node
    (`permissions`, `approval_policy`, `policy`), and defaults of the nodes (`model`, `tools`, …). A graph
    on the `session_id` of a run that was killed goes on with it.
    """
    door = "workflow_execute"
    checked = workflow_graph(graph)
    given = {**checked.options, **merge_options(options, more, door)}
    arguments = WorkflowArguments(given, door)
    flow = build_flow(task, checked, artifacts, arguments)
    return await WorkflowCall(arguments).begin(flow)


def build_flow(
    task: object, graph: Graph, artifacts: object, arguments: WorkflowArguments
) -> GraphFlow:
    """Check the task and the artifacts, before anything runs."""
    task = read_task(task)
    if not isinstance(task, str) or not task.strip():
        raise ConfigError(f"a task is a text that is not blank, not {safe_repr(task)}")
    return GraphFlow(graph, task, read_given(artifacts), arguments.max_steps)


def read_given(artifacts: object) -> tuple[Artifact, ...]:
    """Read the artifacts that a workflow begins with: dicts, or those of another result."""
    if artifacts is None:
        return ()
    if not is_sequence(artifacts):
        raise ConfigError(f"artifacts is a list, not {safe_repr(artifacts)}")
    return tuple([_read_artifact(at, one) for at, one in enumerate(artifacts)])


def _read_artifact(at: int, given: object) -> Artifact:
    if isinstance(given, Artifact):
        return given
    where = f"artifact {at}"
    if not is_mapping(given):
        raise ConfigError(
            f"{where} is a dict with a title and text or data, not {safe_repr(given)}"
        )
    for key in given:
        if key not in _ARTIFACT:
            raise no_key(where, key, _ARTIFACT)
    if (given.get("text") is None) is (given.get("data") is None):
        raise ConfigError(f"{where} has either text or data")
    usual = {
        "id": f"given_{at}",
        "kind": "note",
        "title": f"artifact {at}",
        "text": None,
        "data": None,
        "created_by": None,
        "session_id": "",
    }
    try:
        return msgspec.convert({**usual, **given}, Artifact)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from None
