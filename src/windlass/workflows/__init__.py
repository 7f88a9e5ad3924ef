"""Workflows: graphs of stages, and functions whose steps are not run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.workflows.execute import WorkflowGraph as WorkflowGraph
    from windlass.workflows.execute import workflow_execute as workflow_execute
    from windlass.workflows.execute import workflow_graph as workflow_graph
    from windlass.workflows.functions import Workflow as Workflow
    from windlass.workflows.functions import WorkflowContext as WorkflowContext
    from windlass.workflows.functions import workflow as workflow
    from windlass.workflows.result import WorkflowResult as WorkflowResult
    from windlass.workflows.sessions import WorkflowSession as WorkflowSession
    from windlass.workflows.sessions import WorkflowUsage as WorkflowUsage
    from windlass.workflows.sessions import workflow_session as workflow_session
    from windlass.workflows.sessions import workflow_session_archive as workflow_session_archive
    from windlass.workflows.sessions import workflow_session_fork as workflow_session_fork
    from windlass.workflows.sessions import workflow_session_persist as workflow_session_persist
    from windlass.workflows.sessions import workflow_session_restore as workflow_session_restore
    from windlass.workflows.sessions import workflow_session_resume as workflow_session_resume
    from windlass.workflows.steps import WorkflowStep as WorkflowStep
    from windlass.workflows.task import task_run as task_run
    from windlass.workflows.task import workflow_draw as workflow_draw
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "Workflow": "workflows.functions",
            "WorkflowContext": "workflows.functions",
            "WorkflowGraph": "workflows.execute",
            "WorkflowResult": "workflows.result",
            "WorkflowSession": "workflows.sessions",
            "WorkflowStep": "workflows.steps",
            "WorkflowUsage": "workflows.sessions",
            "task_run": "workflows.task",
            "workflow": "workflows.functions",
            "workflow_draw": "workflows.task",
            "workflow_execute": "workflows.execute",
            "workflow_graph": "workflows.execute",
            "workflow_session": "workflows.sessions",
            "workflow_session_archive": "workflows.sessions",
            "workflow_session_fork": "workflows.sessions",
            "workflow_session_persist": "workflows.sessions",
            "workflow_session_restore": "workflows.sessions",
            "workflow_session_resume": "workflows.sessions",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "Workflow",
    "WorkflowContext",
    "WorkflowGraph",
    "WorkflowResult",
    "WorkflowSession",
    "WorkflowStep",
    "WorkflowUsage",
    "task_run",
    "workflow",
    "workflow_draw",
    "workflow_execute",
    "workflow_graph",
    "workflow_session",
    "workflow_session_archive",
    "workflow_session_fork",
    "workflow_session_persist",
    "workflow_session_restore",
    "workflow_session_resume",
]
