"""A task for any workflow, however it is written; and its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.options.parse import merge_options
from windlass.workflows.draw import draw_html, draw_mermaid, draw_steps, draw_text
from windlass.workflows.execute import WorkflowGraph, workflow_execute, workflow_graph
from windlass.workflows.functions import Workflow
from windlass.workflows.result import WorkflowResult
from windlass.workflows.steps import WorkflowStep

_FORMATS = ("text", "mermaid", "html")


async def task_run(
    task: str,
    flow: WorkflowGraph | Workflow | Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    /,
    **more: Any,
) -> WorkflowResult:
    """Run a workflow on a task: a graph, its description, or a function with `@workflow`.

    ```python
    result = await w.task_run("Write a note", flow, {"provider": "mock"})
    session = w.workflow_session(result)
    ```
    The options are those of `workflow_execute`.
    """
    given = merge_options(options, more, "task_run")
    if isinstance(flow, Workflow):
        return await flow.run(task, **given)
    return await workflow_execute(task, flow, given.pop("artifacts", None), given)


def workflow_draw(
    flow: WorkflowGraph | Workflow | Mapping[str, Any],
    result: WorkflowResult | None = None,
    *,
    format: Literal["text", "mermaid", "html"] = "text",
) -> str:
    """Draw a workflow for a terminal, as Mermaid or as HTML; with a result, how far it came.

    `print(w.workflow_draw(graph, result))`. Of a function only what it has done can be drawn.
    """
    if format not in _FORMATS:
        hint = nearest(format, _FORMATS) if isinstance(format, str) else ""
        raise ConfigError(f"format is one of {', '.join(_FORMATS)}, not {safe_repr(format)}{hint}")
    return draw_flow(
        flow if isinstance(flow, Workflow) else workflow_graph(flow),
        () if result is None else result.steps,
        format,
    )


def draw_flow(
    flow: WorkflowGraph | Workflow,
    steps: Sequence[WorkflowStep],
    format: str,
    *,
    live: bool = False,
) -> str:
    """Draw a workflow in a format, with how far these steps came; a page that is `live` is not the last."""
    if isinstance(flow, Workflow):
        return draw_steps(flow.name, steps, format, live=live)
    if format == "html":
        return draw_html(flow, steps, live=live)
    return (draw_mermaid if format == "mermaid" else draw_text)(flow, steps)
