"""The names of typed attempts: what a user can type, and what must come of it."""

from __future__ import annotations

# name in `windlass` -> the arguments it must take
FUNCTIONS: dict[str, str] = {
    "define_agent": (
        "name model system output output_tool helpers tools validators validation observability "
        "prompt error_prompt"
    ),
    "execute_agent": (
        "agent input deps abort on_attempt_start on_tool_call on_tool_result on_validation_failure"
    ),
    "resume_execution": (
        "agent session_id input decisions results deps abort on_attempt_start on_tool_call "
        "on_tool_result on_validation_failure"
    ),
}

# class -> its fields
CLASSES: dict[str, str] = {
    "AgentDefinition": "name",
    "AgentExecutionState": (
        "attempt iteration_count max_iterations phase messages tokens deps input resumed"
    ),
    "Attempt": "number iterations value raw errors tokens cost_usd",
    "CallbackError": "callback error",
    "ExecuteCallbacks": "on_attempt_start on_tool_call on_tool_result on_validation_failure",
    "ExecuteFailure": "code message context metadata",
    "ExecutionMetadata": "tokens cost_usd latency_ms callback_errors attempts session_id",
    "Failure": "code message context metadata",
    "FailureContext": (
        "attempt iteration_count max_iterations phase status stop_reason errors pending error"
    ),
    "HelperTool": "definition handler",
    "ObservabilityConfig": "track_tokens",
    "OutputToolConfig": "name description reflection_handler",
    "PartialObject": "",
    "PartialValue": "value attempt is_reset is_complete",
    "AnswerDelta": "tool text",
    "Success": "output metadata",
    "ToolsConfig": "helpers output",
    "ValidationConfig": "max_attempts max_iterations_per_attempt",
}

# the codes of `AgentErrorCode`
CODES = """
    VALIDATION_FAILED MAX_ITERATIONS SUBMIT_BEFORE_OUTPUT INVALID_RESPONSE EXECUTION_CANCELLED
    SUSPENDED PROVIDER_ERROR BUDGET_EXHAUSTED RUN_FAILED
""".split()
