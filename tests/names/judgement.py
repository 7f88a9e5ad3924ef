"""The names of judgement: what decides whether a run goes on, and what comes of it."""

from __future__ import annotations

# name in `windlass` -> the parameters it must take
FUNCTIONS: dict[str, str] = {
    "agent_turn": "prompt options",
    "agent_preset": "name overrides",
    "agent_budget": "kind_or_options overrides",
    "audit_agent": "prompt options",
    "repair_agent": "prompt options",
    "summary_agent": "prompt options",
    "verify_agent": "prompt options",
    "merge_captain_agent": "prompt options",
    "review_captain_agent": "prompt options",
    "oncall_captain_agent": "prompt options",
    "release_captain_agent": "prompt options",
    "default_tool_caller": "",
    "with_consent": "consent",
    "with_rate_limit": "options",
    "with_dry_run": "options",
    "with_audit_sink": "sink",
    "with_telemetry": "sink",
    "with_handoff_sink": "sink",
    "compose": "layers",
    "agent_session_seed_from_jsonl": "path options",
}

# class -> its fields, properties and methods
CLASSES: dict[str, str] = {
    "DoneJudge": "provider model system max_invocations cadence",
    "Cadence": "every when max_invocations min_iterations_before_first",
    "CompletionJudge": "provider model system feedback_fallback max_invocations",
    "StepJudge": (
        "provider model system on_veto max_attempts skip_when_empty skip_when_stalled "
        "skip_when_iterations_remaining"
    ),
    "IterationBudget": "mode initial max extend_by expose_decisions",
    "StallDiagnostics": (
        "enabled threshold inject_feedback max_feedback exempt_tools include_arguments"
    ),
    "LoopDetection": "max_repetitions window on_loop_detected",
    "LoopDetectionInfo": "kind detail",
    "TurnPolicy": "require_action_or_yield allow_done_sentinel max_prose_chars",
    "LoopState": "iteration budget turn session completion progress",
    "Proposal": "session_id iteration reason text messages",
    "TurnResult": "iterations judge_decisions",
    "LoopResult": "task_ledger trace",
    "ProgressTool": "name description system_prompt_nudge",
    "ToolCaller": "layers",
    "Agent": "run run_sync stream watch resume with_ override as_tool",
    "AgentResult": (
        "status stop_reason final_text all_messages usage cost_usd trace session_id pending "
        "raise_for_status messages output tool_calls token_usage turns loop_detected "
        "budget_exceeded"
    ),
    "ToolCallRecord": "tool_name input output duration is_error",
    "ToolResult": "data is_error",
    "ToolContext": "agent",
    "AgentInfo": "name role model",
    "StreamEvent": "type data",
    "TraceEvent": (
        "type run_id task_id agent model phase turn tokens tool is_error start_ms end_ms "
        "duration_ms"
    ),
}

# option -> the keys of its dict; an alias stands behind what it is an alias of
OPTIONS: dict[str, str] = {
    "verify_completion": "",
    "verify_completion_judge": (
        "provider model system feedback_fallback max_invocations max_invocations=max_feedback"
    ),
    "done_judge": "provider model system max_invocations max_invocations=max_feedback cadence",
    "max_verify_attempts": "",
    "step_judge": (
        "provider model on_veto max_attempts skip_when_empty skip_when_stalled "
        "skip_when_iterations_remaining"
    ),
    "iteration_budget": "mode initial max extend_by expose_decisions",
    "loop_control": "",
    "stall_diagnostics": (
        "enabled threshold inject_feedback max_feedback exempt_tools "
        "exempt_tools=allow_repeated_tools include_arguments"
    ),
    "loop_detect_warn": "",
    "loop_detect_block": "",
    "loop_detect_skip": "",
    "loop_detection": "max_repetitions window on_loop_detected",
    "turn_policy": "require_action_or_yield allow_done_sentinel max_prose_chars",
    "stop_after_successful_tools": "",
    "require_successful_tools": "",
    "native_tool_fallback": "",
    "post_turn_callback": "",
    "profile": "",
    "schema_retries": "",
    "tool_retries": "",
    "tool_backoff_ms": "",
    "tool_caller": "",
    "consent": "",
    "rate_limit": "max_calls message",
    "dry_run": "tools answer",
    "audit_sink": "",
    "telemetry": "",
    "handoff_sink": "",
    "prefetch_next_turn": "",
    "progress_tool": "name description system_prompt_nudge",
    "llm_transcript_dir": "",
}

# what a key takes, for the walk over all of them
VALUES: dict[str, object] = {
    "provider": "mock",
    "model": "mock",
    "system": "x",
    "feedback_fallback": "x",
    "max_invocations": 2,
    "cadence": {"every": 2},
    "on_veto": "retain",
    "max_attempts": 2,
    "skip_when_empty": False,
    "skip_when_stalled": False,
    "skip_when_iterations_remaining": 2,
    "mode": "adaptive",
    "initial": 2,
    "max": 20,
    "extend_by": 3,
    "expose_decisions": False,
    "enabled": False,
    "threshold": 4,
    "inject_feedback": False,
    "max_feedback": 2,
    "exempt_tools": ("x",),
    "include_arguments": True,
    "max_repetitions": 5,
    "window": 9,
    "on_loop_detected": "inject",
    "require_action_or_yield": True,
    "allow_done_sentinel": False,
    "max_prose_chars": 9,
    "max_calls": 7,
    "message": "x",
    "tools": ("x",),
    "answer": "x",
    "name": "x",
    "description": "x",
    "system_prompt_nudge": "x",
}

# what a `loop_control` function sees
STATE: dict[str, str] = {
    "budget": "current_limit max remaining extension_count",
    "turn": (
        "tool_call_count successful_tool_names rejected_tool_names text_chars native_fallback_used"
    ),
    "session": (
        "successful_tool_names rejected_tool_names required_tools_satisfied required_tools_missing"
    ),
    "completion": "proposed vetoed verdict feedback",
    "progress": "changed summary",
}

AGENT_OPTIONS = """
    system tools name role allowed_tools disallowed_tools max_turns max_tokens temperature
    max_token_budget loop_detection abort output deps_type budget policies tool_preset
""".split()
RUN_OPTIONS = """
    on_tool_call on_tool_result on_message on_warning on_trace run_id task_id trace_agent abort
    timeout
""".split()
STREAM_TYPES = "text tool_use tool_result budget_exceeded loop_detected done error".split()

# event -> its fields
EVENTS: dict[str, str] = {
    "judge_decision": "session_id iteration verdict reasoning next_step judge_duration_ms trigger",
    "step_judge_decision": "skipped verdict reasoning critique confidence reason error",
    "loop_control_decision": "iteration action old_limit new_limit reason status",
    "agent_loop_stall_warning": (
        "iteration tool_name repeat_count threshold arguments_digest signature_digest arguments"
    ),
    "loop_detected": "loop detail action",
    "check": "name passed detail duration_ms",
    "native_tool_fallback": "calls",
    "progress_reported": "message entries",
}

ITERATION_FIELDS = "iteration started ended tool_count prose_chars".split()
DECISION_FIELDS = "iteration verdict reasoning next_step judge_duration_ms trigger".split()
JUDGE_FIELDS = "invocations vetoes max_invocations cap_reached".split()
BUDGET_FIELDS = "mode initial max final_limit extensions_used decisions".split()
LEDGER_FIELDS = "deliverables nudges".split()
TRACE_COUNTERS = "native_text_tool_fallbacks native_text_tool_fallback_rejections empty_completion_retries".split()

# each is reached by a run in test_judgement.py
ENDS: dict[str, str] = {
    "completion_judge_cap_reached": "verify_capped",
    "done_judge_cap_reached": "verify_capped",
    "natural": "verify_exhausted",
    "stalled_done_judge": "done",
    "required_tools_satisfied": "done",
    "missing_required_tools": "failed",
    "native_tool_fallback_rejected": "failed",
    "loop_control": "stopped",
    "out of patience": "incomplete",
    "post_turn_stop": "unverified",
    "loop_detected": "stuck",
}
SKIPS = """
    max_attempts_reached low_iteration_budget empty_response stall_already_detected
""".split()

# what a `post_turn_callback` sees and may answer
TURN_FIELDS = """
    session_id iteration has_tool_calls dispatch tool_results tool_count successful_tool_names
    rejected_tool_names session_successful_tools session_rejected_tools text visible_text
""".split()
TURN_RESULT_FIELDS = "tool_name ok status rendered_result error".split()
TURN_SUPERSEDED = "tool_names consecutive_single_tool_turns session_tools_used".split()
TURN_ANSWERS = "message stop stop_reason next_options llm_options veto".split()

PROFILES = "tool_using researcher verifier completer".split()
PRESETS = """
    audit repair summary verify merge_captain review_captain oncall_captain release_captain
""".split()
CAPTAIN_OPTIONS = "cheap_caller frontier_caller escalate_predicate logging_sink".split()
SEED_OPTIONS = "provider model truncate_to_last drop_tool_calls validate session_id new_id".split()
