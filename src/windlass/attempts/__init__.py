"""Typed output in attempts: `define_agent`, `execute_agent`, and what comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.attempts.definition import AgentDefinition as AgentDefinition
    from windlass.attempts.definition import ObservabilityConfig as ObservabilityConfig
    from windlass.attempts.definition import OutputToolConfig as OutputToolConfig
    from windlass.attempts.definition import ToolsConfig as ToolsConfig
    from windlass.attempts.definition import ValidationConfig as ValidationConfig
    from windlass.attempts.definition import define_agent as define_agent
    from windlass.attempts.execution import execute_agent as execute_agent
    from windlass.attempts.execution import resume_execution as resume_execution
    from windlass.attempts.result import AgentErrorCode as AgentErrorCode
    from windlass.attempts.result import Attempt as Attempt
    from windlass.attempts.result import CallbackError as CallbackError
    from windlass.attempts.result import ExecuteFailure as ExecuteFailure
    from windlass.attempts.result import ExecutionMetadata as ExecutionMetadata
    from windlass.attempts.result import Failure as Failure
    from windlass.attempts.result import FailureContext as FailureContext
    from windlass.attempts.result import Success as Success
    from windlass.attempts.state import AgentExecutionState as AgentExecutionState
    from windlass.attempts.state import ExecuteCallbacks as ExecuteCallbacks
    from windlass.attempts.tools import DEFAULT_SUBMIT_TOOL as DEFAULT_SUBMIT_TOOL
    from windlass.attempts.tools import HelperTool as HelperTool
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "AgentDefinition": "attempts.definition",
            "AgentErrorCode": "attempts.result",
            "AgentExecutionState": "attempts.state",
            "Attempt": "attempts.result",
            "CallbackError": "attempts.result",
            "DEFAULT_SUBMIT_TOOL": "attempts.tools",
            "ExecuteCallbacks": "attempts.state",
            "ExecuteFailure": "attempts.result",
            "ExecutionMetadata": "attempts.result",
            "Failure": "attempts.result",
            "FailureContext": "attempts.result",
            "HelperTool": "attempts.tools",
            "ObservabilityConfig": "attempts.definition",
            "OutputToolConfig": "attempts.definition",
            "Success": "attempts.result",
            "ToolsConfig": "attempts.definition",
            "ValidationConfig": "attempts.definition",
            "define_agent": "attempts.definition",
            "execute_agent": "attempts.execution",
            "resume_execution": "attempts.execution",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "AgentDefinition",
    "AgentErrorCode",
    "AgentExecutionState",
    "Attempt",
    "CallbackError",
    "DEFAULT_SUBMIT_TOOL",
    "ExecuteCallbacks",
    "ExecuteFailure",
    "ExecutionMetadata",
    "Failure",
    "FailureContext",
    "HelperTool",
    "ObservabilityConfig",
    "OutputToolConfig",
    "Success",
    "ToolsConfig",
    "ValidationConfig",
    "define_agent",
    "execute_agent",
    "resume_execution",
]
