"""Workers: agents in the background, their lifecycle, and tasks for child agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.workers.accessors import worker_action_items as worker_action_items
    from windlass.workers.accessors import worker_provenance as worker_provenance
    from windlass.workers.accessors import worker_request as worker_request
    from windlass.workers.accessors import worker_research_questions as worker_research_questions
    from windlass.workers.accessors import worker_result as worker_result
    from windlass.workers.accessors import worker_verification_steps as worker_verification_steps
    from windlass.workers.accessors import worker_workflow_stages as worker_workflow_stages
    from windlass.workers.control import close_agent as close_agent
    from windlass.workers.control import list_agents as list_agents
    from windlass.workers.control import resume_agent as resume_agent
    from windlass.workers.control import send_input as send_input
    from windlass.workers.control import suspend_agent as suspend_agent
    from windlass.workers.control import wait_agent as wait_agent
    from windlass.workers.record import Suspension as Suspension
    from windlass.workers.record import TaskRecord as TaskRecord
    from windlass.workers.record import Worker as Worker
    from windlass.workers.record import WorkerSummary as WorkerSummary
    from windlass.workers.spawn import spawn_agent as spawn_agent
    from windlass.workers.stop import StopResult as StopResult
    from windlass.workers.stop import agent_stop as agent_stop
    from windlass.workers.sub_agent_run import SubAgentError as SubAgentError
    from windlass.workers.sub_agent_run import SubAgentRequest as SubAgentRequest
    from windlass.workers.sub_agent_run import SubAgentResult as SubAgentResult
    from windlass.workers.sub_agent_run import sub_agent_request as sub_agent_request
    from windlass.workers.tools import agent_lifecycle_tools as agent_lifecycle_tools
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "StopResult": "workers.stop",
            "SubAgentError": "workers.sub_agent_run",
            "SubAgentRequest": "workers.sub_agent_run",
            "SubAgentResult": "workers.sub_agent_run",
            "Suspension": "workers.record",
            "TaskRecord": "workers.record",
            "Worker": "workers.record",
            "WorkerSummary": "workers.record",
            "agent_lifecycle_tools": "workers.tools",
            "agent_stop": "workers.stop",
            "close_agent": "workers.control",
            "list_agents": "workers.control",
            "resume_agent": "workers.control",
            "send_input": "workers.control",
            "spawn_agent": "workers.spawn",
            "sub_agent_request": "workers.sub_agent_run",
            "suspend_agent": "workers.control",
            "wait_agent": "workers.control",
            "worker_action_items": "workers.accessors",
            "worker_provenance": "workers.accessors",
            "worker_request": "workers.accessors",
            "worker_research_questions": "workers.accessors",
            "worker_result": "workers.accessors",
            "worker_verification_steps": "workers.accessors",
            "worker_workflow_stages": "workers.accessors",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "StopResult",
    "SubAgentError",
    "SubAgentRequest",
    "SubAgentResult",
    "Suspension",
    "TaskRecord",
    "Worker",
    "WorkerSummary",
    "agent_lifecycle_tools",
    "agent_stop",
    "close_agent",
    "list_agents",
    "resume_agent",
    "send_input",
    "spawn_agent",
    "sub_agent_request",
    "suspend_agent",
    "wait_agent",
    "worker_action_items",
    "worker_provenance",
    "worker_request",
    "worker_research_questions",
    "worker_result",
    "worker_verification_steps",
    "worker_workflow_stages",
]
