"""The names of the heart: what a user can type, and what must come of it."""

from __future__ import annotations

# name in `windlass` -> the parameters it must take
FUNCTIONS: dict[str, str] = {
    "agent_loop": "prompt system options",
    "agent_chat_loop": (
        "config on_user_input on_model_turn close_session wait_for_user_tool max_turns show"
    ),
    "agent_chat_route_input": "value state routes",
    "daemon_spawn": "config task system",
    "daemon_trigger": "daemon event store caller",
    "daemon_snapshot": "daemon store caller",
    "daemon_stop": "daemon timeout store caller",
    "daemon_resume": "daemon config",
    "read_line": "",
    "agentic_user": "goal instructions tools model options",
    "scripted_user": "entries options",
    "fixture_user": "entries options",
    "user_tools": "answerer tools",
    "simulated_user_read_tools": "",
    "simulated_user_post_turn": "answerer",
    "fan_out": "agent tasks limit parent deps",
    "sub_agent_request": "task options parent allowed_tools disallowed_tools returns",
    "sub_agent_run": "task options parent allowed_tools disallowed_tools returns background",
    "spawn_agent": "config parent store caller deps",
    "send_input": "handle task options",
    "suspend_agent": "worker reason options",
    "resume_agent": "worker_or_snapshot resume_input continue_transcript options",
    "agent_stop": "worker options",
    "wait_agent": "handle_or_list",
    "close_agent": "handle",
    "list_agents": "parent",
    "agent_lifecycle_tools": "registry options",
    "worker_request": "worker",
    "worker_result": "worker",
    "worker_provenance": "worker",
    "worker_research_questions": "worker",
    "worker_action_items": "worker",
    "worker_workflow_stages": "worker",
    "worker_verification_steps": "worker",
    "llm_call": "prompt system options",
    "llm_stream": "prompt system options",
    "llm_cost": "model input_tokens output_tokens",
    "llm_session_cost": "",
    "llm_budget": "max_cost",
    "llm_budget_remaining": "",
    "llm_mock": "entry",
    "llm_mock_calls": "",
    "llm_mock_clear": "",
    "tool": "",
    "tool_registry": "",
    "tool_define": "registry name description options",
    "tool_select": "registry names",
    "transcript_render_visible": "transcript",
    "transcript_render_full": "transcript",
    "transcript_events": "transcript",
    "agent_session_open": "id metadata parent_id workspace mounts",
    "agent_session_reset": "id",
    "agent_session_trim": "id keep_last",
    "agent_session_fork": "id",
    "agent_session_fork_at": "id n",
    "agent_session_close": "id",
    "agent_session_list": "",
    "agent_session_read": "id",
}

# class -> its fields, properties and methods
CLASSES: dict[str, str] = {
    "Agent": "run run_sync stream watch resume override with_ as_tool",
    "Artifact": "id kind title text data created_by session_id",
    "ChatCommand": "name arguments state",
    "ChatResult": "session_id turns stop_reason last_result state closed",
    "DaemonHandle": "name session_id persist_path result to_dict",
    "DaemonSnapshot": (
        "name session_id status pending_event_count pending_events in_flight last_event persist_path"
    ),
    "ChildRun": "session_id call_id name usage cost_usd",
    "FanOutResult": "results outputs failures ok usage cost_usd raise_for_status",
    "Handoff": "agent description input_filter name",
    "FanOutFailure": "index task status message session_id",
    "InputLine": "ok value status",
    "SimulatedUser": "answer decide is_addressed",
    "StopResult": "status handoff children handoffs worker",
    "Suspension": "reason initiator suspended_at snapshot_ref conditions",
    "TaskRecord": "number task status run_id session_id",
    "Worker": (
        "id name task status mode created_at updated_at finished_at history config request provenance "
        "payload error transcript artifacts session_id run_id parent_session_id carry execution "
        "suspension handoff is_closed text data result to_dict"
    ),
    "WorkerSummary": "id name task status mode parent_session_id created_at updated_at",
    "Statement": "speaker text",
    "SubAgentRequest": "task tools options parent_session_id",
    "SubAgentResult": (
        "ok summary artifacts evidence_added tokens_used budget_exceeded session_id transcript data error status"
    ),
    "LoopResult": (
        "status stop_reason error text visible_text final_text llm tools deferred_user_messages "
        "trace transcript pending session_id to_dict raise_for_status"
    ),
    "AgentResult": (
        "output status stop_reason final_text messages all_messages tool_calls token_usage usage "
        "cost_usd turns trace session_id pending budget_exceeded raise_for_status"
    ),
    "Abort": "abort aborted reason",
    "Budget": "iterations tokens usd seconds",
    "Caller": "user roles tenant local",
    "SessionCost": "total_cost input_tokens output_tokens call_count",
    "ModelCall": (
        "tenant caller request conversation session run purpose provider model input_tokens "
        "output_tokens cache_read_tokens cache_write_tokens reasoning_tokens gpu_ms cost_usd "
        "latency_ms attempts tool_calls outcome via at"
    ),
    "Runtime": "store config",
    "Policy": (
        "memory keeps start before_turn before_model on_model_error after_reply before_tool "
        "after_tool after_turn before_finish end"
    ),
    "Run": "say ask reshape note recall remember messages",
    "Turn": "message calls results number",
    "Stop": "status reason",
    "Suspend": "reason conditions",
    "KeepGoing": "reason drop",
    "Finish": "reason",
    "Outcome": "status stop_reason",
    "Parked": "reason conditions",
    "Retry": "",
    "TryAgain": "",
    "Allow": "",
    "Deny": "",
    "Message": "role content text tool_calls",
    "Text": "text",
    "Thinking": "text",
    "ToolCall": "id name arguments input",
    "ToolResult": "id content is_error tool_use_id",
    "Image": "data url media_type",
    "Document": "data url media_type",
    "Opaque": "data",
    "Usage": "input_tokens output_tokens cache_read_tokens cache_write_tokens total_tokens",
    "Tool": (
        "name description parameters returns handler annotations timeout keyed defer_loading "
        "namespace"
    ),
    "ToolContext": (
        "caller session_id call_id idempotency_key cancelled progress deps run_id attempt commit"
    ),
    "Model": "respond",
    "Request": "system messages tools settings",
    "Response": "message usage stop_reason",
    "Secret": "reveal",
}

# error -> what it is one of
ERRORS: dict[str, str] = {
    "WindlassError": "Exception",
    "ConfigError": "WindlassError",
    "ModelError": "WindlassError",
    "RateLimited": "ModelError",
    "Overloaded": "ModelError",
    "AuthFailed": "ModelError",
    "BadRequest": "ModelError",
    "ContextOverflow": "ModelError",
    "Refused": "ModelError",
    "Timeout": "ModelError",
    "StreamBroken": "ModelError",
    "BadReply": "ModelError",
    "ToolFailed": "WindlassError",
    "McpError": "WindlassError",
    "BudgetExceeded": "WindlassError",
    "Aborted": "WindlassError",
    "OutputMissing": "WindlassError",
    "PermissionDenied": "WindlassError",
    "StoreError": "WindlassError",
    "StaleWriter": "StoreError",
    "Corrupt": "StoreError",
    "Full": "StoreError",
    "Locked": "StoreError",
    "SessionHeld": "Locked",
    "Conflict": "ResourceError",
}

LOOP_OPTIONS = """
    subagents subagent_tools
    mcp_servers tools tool_format session_id store on_event abort loop_until_done persistent done_sentinel
    max_iterations max_nudges nudge max_concurrent_tools token_budget llm_options eager_tools max_calls_per_reply
    policies model provider system caller deps budget max_resume_attempts closing_answer await_resumption tool_timeout
    tool_result_max_bytes tool_arg_validation name run_id request_id conversation_id
    input_guardrails output_guardrails
    api_key base_url headers llm_caller llm_retries llm_backoff_ms take_over on_cancel on_pending
    daemon persist_path resume_path wake_interval_ms watch_paths consolidate_on_idle
    idle_watchdog_attempts event_queue_capacity
""".split()

LLM_FIELDS = "iterations duration_ms input_tokens output_tokens".split()
TOOLS_FIELDS = "calls successful rejected mode".split()
ERROR_FIELDS = """
    category reason kind provider model message phase tool_format after_tool_result
""".split()
SUPERSEDED = {
    "iterations": "llm.iterations",
    "duration_ms": "llm.duration_ms",
    "tools_used": "tools.calls",
    "successful_tools": "tools.successful",
    "rejected_tools": "tools.rejected",
    "tool_calling_mode": "tools.mode",
}

# each is reached by a run in test_statuses.py
STATUSES = (
    "done stuck budget_exhausted provider_error cancelled cancelling suspended failed "
    "idle watchdog".split()
)
STOP_REASONS = "sentinel natural max_nudges".split()

BLOCKS = "text thinking tool_call tool_result image document opaque".split()
ROLES = "system user assistant tool".split()
SIDE_EFFECTS = "none read_only workspace_write process_exec network".split()

EVENTS = """
    iteration_start iteration_end tool_call tool_call_update tool_call_audit feedback_injected
    budget_exhausted loop_stuck
""".split()
TRANSCRIPT_KINDS = """
    message tool_intent tool_execution tool_result host_input private_reasoning thinking_summary
    provider_payload plan transcript_fork transcript_reset transcript_archive transcript_abandon
    transcript_resume
""".split()

MOCK_KEYS = "text tool_calls match consume_match usage stop_reason error".split()
MOCK_CALL_FIELDS = "messages system tools options".split()
TRANSCRIPT_FIELDS = "id messages events summary metadata scratchpad scratchpad_version".split()
SESSION_FIELDS = "parent_id child_ids root_id".split()
TESTING = "scripted call no_model_requests cassette".split()
COMMANDS = """
    run chat demo models sessions config|show config|check sessions|list sessions|show
    sessions|resume sessions|export sessions|prune worker fleet
    daemon|start daemon|trigger daemon|status daemon|stop daemon|resume
""".split()
