"""The names of context: what a user can type, what a run tells, and the story of each."""

from __future__ import annotations

from typing import Any

# name in `windlass` -> the parameters it must take
FUNCTIONS: dict[str, str] = {
    "skill_define": "name options",
    "skill_registry": "skills",
    "compaction_policy": "options",
    "compact_for_bug_fix_resumption": "options",
    "compact_preserving_test_failures": "options",
    "compact_retaining_current_plan": "options",
    "transcript_compact": "transcript options",
    "transcript_summarize": "transcript options",
    "system_reminder": "text propagate ttl",
    "agent_session_remind": "id reminder",
    "agent_prompt_overrides": "overrides named",
    "agent_session_scratchpad": "id",
    "agent_session_set_scratchpad": "id pad options",
    "agent_session_clear_scratchpad": "id options",
}

# struct -> its fields, all of them
STRUCTS: dict[str, str] = {
    "Skill": (
        "name description when_to_use paths allowed_tools prompt disable_model_invocation "
        "user_invocable mcp on_activate on_deactivate license compatibility metadata extra folder files"
    ),
    "SkillMatch": "strategy top_n sticky matcher invoke",
    "SkillQuery": "prompt skills working_files active top_n",
    "SkillMatched": (
        "session_id iteration strategy candidates chosen reassess working_files warning problems "
        "registry"
    ),
    "SkillActivated": "session_id name iteration score reason description allowed_tools mcp",
    "SkillDeactivated": "session_id name iteration",
    "SkillScopeTools": "session_id name allowed_tools tools hidden",
    "SkillNarrowed": (
        "iteration removed_tools remaining_tools reason policy removed kept returned_tools"
    ),
    "ToolSurfaceNarrowing": (
        "enabled window_turns mode hard_keep prune_classes keep_classes unknown_tool_policy"
    ),
    "Reminder": "text ttl propagate",
    "TranscriptProjection": (
        "policy keep_last min_tokens min_chars window_turns roots summary project"
    ),
    "ProjectionContext": "session_id iteration system estimated_tokens",
    "ContextInfo": (
        "iteration system messages visible_messages recorded_messages recent_visible_messages "
        "recent_recorded_messages latest_visible_user_message latest_visible_assistant_message "
        "latest_recorded_user_message latest_recorded_assistant_message latest_tool_result "
        "latest_recorded_tool_result"
    ),
    "DecorationContext": "session_id iteration index timestamp",
    "Scratchpad": (
        "enabled recite reorganize_every max_recent_messages schema_retries initial reorganizer"
    ),
    "Reorganizer": "provider model",
    "SlidingWindow": "max_turns",
    "Summarize": "max_tokens summary_model",
    "CustomStrategy": "compress",
    "Compaction": "strategy keep_last_n policy",
    "CompactionPolicy": "instructions mode scope preserve drop extend_default_instructions author",
    "ProgressTool": "name description system_prompt_nudge",
}

# option -> a value that every door takes
OPTIONS: dict[str, Any] = {
    "skills": [{"name": "ship", "description": "Ship a release"}],
    "skill_match": {"strategy": "metadata", "top_n": 1, "sticky": True},
    "working_files": ["infra/main.tf"],
    "transcript_projection": {"policy": "reachability_gc", "keep_last": 4, "roots": ["src/"]},
    "context_callback": lambda ctx: {"messages": ctx.visible_messages, "system": ctx.system},
    "context_filter": lambda ctx: ctx.messages,
    "message_decorator": lambda message, context: message,
    "timestamp_messages": True,
    "tool_surface_narrowing": {"enabled": True, "window_turns": 5, "mode": "safe"},
    "prompts": {"agent.nudge": {"text": "Go on."}},
    "prompt_overrides": {"agent.nudge": lambda values: "Go on."},
    "on_session_start": lambda start: None,
    "scratchpad": {"reorganize_every": 2, "initial": {"goals": ["a roof"]}},
    "context_strategy": {"type": "sliding-window", "max_turns": 3},
    "compaction": {"strategy": "hybrid", "keep_last_n": 10},
    "compact_strategy": "summarize_middle",
    "compact_threshold": 1_000,
    "compact_keep_first": 2,
    "compact_keep_last": 3,
    "compact_callback": lambda archived, reminders, policy: "short",
    "auto_compact": {"policy": {"mode": "mine"}},
}
#: What an option needs beside it.
BESIDE: dict[str, dict[str, Any]] = dict.fromkeys(("skill_match", "working_files"), {"skills": []})

# option -> each key of its dict with a value; `alias=key` is another name of it
KEYS: dict[str, dict[str, Any]] = {
    "compaction": {
        "strategy": "truncate",
        "keep_last_n": 4,
        "policy": {"mode": "mine"},
        "compaction_policy=policy": {"author": "host"},
    },
    "auto_compact": {"strategy": "hybrid", "keep_last_n": 4, "policy": {"drop": ["x"]}},
    "compaction.policy": {
        "instructions": "Be brief.",
        "mode": "mine",
        "scope": "summary",
        "preserve": ("x",),
        "drop": ("y",),
        "extend_default_instructions": False,
        "author": "host",
    },
    "transcript_projection": {
        "policy": "summary_prefix",
        "keep_last": 3,
        "min_tokens": 9,
        "summary": "So far.",
    },
    "scratchpad": {
        "enabled": False,
        "recite": False,
        "reorganize_every": 7,
        "max_recent_messages": 3,
        "schema_retries": 2,
        "reorganizer": {"provider": "mock", "model": "mock"},
    },
    "skill_match": {"strategy": "host", "top_n": 2, "sticky": False},
    "tool_surface_narrowing": {
        "enabled": False,
        "window_turns": 2,
        "mode": "aggressive",
        "hard_keep": ("x",),
        "prune_classes": ("unknown",),
        "keep_classes": ("progress",),
        "unknown_tool_policy": "prune",
    },
    "progress_tool": {"name": "tell", "description": "Tell.", "system_prompt_nudge": "Tell us."},
}
#: What else such a dict must hold.
KEYS_BESIDE: dict[str, dict[str, Any]] = {
    "transcript_projection": {"policy": "summary_prefix"},
    "skill_match": {"strategy": "host", "matcher": lambda query: []},
}
# what a strategy of the runner takes beside its type
STRATEGY_KEYS: dict[str, dict[str, Any]] = {
    "sliding-window": {"max_turns": 4},
    "summarize": {"max_tokens": 900, "summary_model": "mock"},
    "custom": {"compress": len},
}

# what stands where nobody says anything
DEFAULTS: dict[str, dict[str, Any]] = {
    "Scratchpad": {
        "enabled": True,
        "recite": True,
        "reorganize_every": 3,
        "max_recent_messages": 8,
        "schema_retries": 1,
        "initial": None,
        "reorganizer": None,
    },
    "SkillMatch": {"strategy": "metadata", "top_n": 1, "sticky": True},
    "ToolSurfaceNarrowing": {"enabled": True, "window_turns": 5, "mode": "safe", "hard_keep": ()},
    "CompactionPolicy": {"extend_default_instructions": True},
    "ProgressTool": {"name": "agent_progress"},
}
KEEPS = {"truncate": 10, "summarize_middle": 10, "summarize_all": 0, "hybrid": 10, "custom": 10}
STRATEGIES = "none truncate summarize_middle summarize_all hybrid custom".split()
PROJECTIONS = "clean_tool_repair squash_failed_calls summary_prefix reachability_gc custom".split()
SKILL_KEYS = """
    name description when_to_use paths allowed_tools prompt disable-model-invocation user-invocable
    mcp on_activate on_deactivate
""".split()
CLASSES = "read_only mutating approval session_control progress result_polling unknown".split()
KEPT_CLASSES = "mutating approval session_control progress result_polling unknown".split()
PROMPT_IDS = "agent.loop_contract agent.tool_contract_text agent.completion_judge_system".split()
PAD = {"goals", "open_items", "facts", "refs", "schema"}
PAD_ITEM, PAD_REF = {"text", "source_ref"}, {"id", "kind", "label", "excerpt"}
PAD_BYTES = 16 * 1024
CALLBACK_ANSWERS = ("messages", "system")
PROPAGATE = ("all", "session", "none")
TEXTS = (
    "[Earlier conversation history truncated — 2 turn(s) removed]",
    "[Conversation summary]",
    "[Conversation summary unavailable]",
)

# kind of an entry -> the fields that it must have; each is told by a run of sixty turns
KINDS: dict[str, str] = {
    "compaction": (
        "reason strategy engine_strategy estimated_tokens_before estimated_tokens_after "
        "instruction_mode instruction_source compaction_policy"
    ),
    "agent_scratchpad": "action version counts",
    "skill_matched": "candidates",
    "skill_activated": "score reason",
    "skill_deactivated": "name",
    "skill_scope_tools": "allowed_tools",
    "skill_narrow": "removed_tools remaining_tools reason policy removed kept",
    "system_reminder": "propagate source originating_agent_id ttl",
}

# story -> the names that it tells of
STORIES: dict[str, str] = {
    "test_compaction": (
        "compaction strategy keep_last_n policy compaction_policy none truncate summarize_middle "
        "summarize_all hybrid custom compact_strategy compact_threshold compact_keep_first "
        "compact_keep_last compact_callback summary auto_compact CompactionPolicy instructions mode "
        "scope preserve drop extend_default_instructions author compact_for_bug_fix_resumption "
        "compact_preserving_test_failures compact_retaining_current_plan TranscriptCompacted reason "
        "engine_strategy estimated_tokens_before estimated_tokens_after instruction_mode "
        "instruction_source"
    ),
    "test_projection": (
        "transcript_projection policy clean_tool_repair squash_failed_calls summary_prefix "
        "reachability_gc custom project keep_last min_tokens min_chars window_turns roots summary"
    ),
    "test_scratchpad": (
        "scratchpad enabled recite reorganize_every max_recent_messages schema_retries initial "
        "reorganizer provider model goals open_items facts refs schema user:initial scratchpad_version"
    ),
    "test_scratchpad_sessions": (
        "agent_scratchpad agent_session_scratchpad agent_session_set_scratchpad "
        "agent_session_clear_scratchpad"
    ),
    "test_skills": (
        "skills skill_match strategy embedding host top_n sticky working_files skill_define "
        "skill_registry name description when_to_use paths allowed_tools prompt "
        "disable-model-invocation user-invocable mcp on_activate on_deactivate skill_matched "
        "skill_activated skill_deactivated skill_scope_tools score reason"
    ),
    "test_narrowing": (
        "skill_narrow removed_tools remaining_tools reason policy removed kept tool_surface_narrowing "
        "enabled window_turns mode hard_keep prune_classes keep_classes unknown_tool_policy read_only "
        "mutating approval session_control progress result_polling unknown"
    ),
    "test_context_callback": (f"context_callback context_filter {STRUCTS['ContextInfo']}"),
    "test_decorators": "timestamp_messages message_decorator session_id iteration index timestamp",
    "test_prompts": (
        "prompts prompt_overrides text path agent_prompt_overrides agent.loop_contract "
        "agent.tool_contract_text agent.completion_judge_system"
    ),
    "test_reminders": (
        "system_reminder propagate source inherited originating_agent_id ttl on_session_start"
    ),
    "test_progress": "progress_tool name description system_prompt_nudge agent_progress progress_reported",
    "test_context_strategy": (
        "context_strategy type sliding-window summarize custom max_turns max_tokens summary_model compress"
    ),
    "test_transcript_compaction": "transcript_compact keep_last summary transcript_summarize",
}
