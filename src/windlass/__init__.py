"""Windlass runs LLM agents one bounded, judged, recorded turn at a time.

Names load when they are first used, so that `import windlass` costs next to nothing; type checkers
read them in `__init__.pyi`.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "access.approval": ("ApprovalPolicy", "PolicyDecision", "Rule"),
    "access.caller": ("Caller",),
    "access.roles": ("Roles",),
    "access.ceiling": ("Ceiling",),
    "policies.taint": ("Taint",),
    "access.permissions": ("PermissionRequest", "Permissions", "path_scope"),
    "agents.abort": ("Abort",),
    "agents.agent": ("Agent",),
    "agents.approvals": ("NoSuchApproval", "PendingApproval", "approvals", "approve", "deny"),
    "agents.plans": ("approve_plan", "plan_of"),
    "agents.effects": ("UndoStep",),
    "agents.undoing": ("undo", "undoable"),
    "resources.undoing": ("CannotUndo",),
    "policies.preview": ("EffectPlan", "PlannedEffect"),
    "agents.completing": ("llm_completion",),
    "agents.cost": (
        "SessionCost",
        "llm_budget",
        "llm_budget_remaining",
        "llm_cost",
        "llm_session_cost",
    ),
    "agents.context.compaction": (
        "Compaction",
        "compact_for_bug_fix_resumption",
        "compact_preserving_test_failures",
        "compact_retaining_current_plan",
        "compaction_policy",
    ),
    "agents.context.reminders": ("system_reminder",),
    "agents.context.scratchpad": ("Reorganizer", "Scratchpad"),
    "agents.context.skills": ("skill_define", "skill_registry"),
    "agents.context.strategy": (
        "ContextStrategy",
        "CustomStrategy",
        "SlidingWindow",
        "Summarize",
    ),
    "resources.conversation": ("ConversationResource", "ConversationTurn"),
    "agents.generate": (
        "GenerateChunk",
        "GenerateOpts",
        "GenerateResult",
        "Models",
        "ToolTraceEntry",
    ),
    "agents.llm": ("Chunk", "LLMResult", "llm_call", "llm_stream"),
    "agents.judgement": ("CompletionJudge", "DoneJudge"),
    "agents.loop": ("agent_loop",),
    "agents.stream_events": ("StreamEvent",),
    "agents.trace_events": ("TraceEvent",),
    "agents.turn": ("agent_turn", "TurnResult"),
    "agents.options": ("Budget", "LoopOptions"),
    "agents.prompts": ("PromptOverrides", "agent_prompt_overrides"),
    "agents.presets": (
        "agent_budget",
        "agent_preset",
        "audit_agent",
        "merge_captain_agent",
        "oncall_captain_agent",
        "release_captain_agent",
        "repair_agent",
        "review_captain_agent",
        "summary_agent",
        "verify_agent",
    ),
    "agents.seeding": ("agent_session_seed_from_jsonl",),
    "agents.results": ("AgentResult", "LoopResult", "ToolCallRecord"),
    "agents.runtime": ("Runtime",),
    "agents.sessions": (
        "agent_session_close",
        "agent_session_fork",
        "agent_session_fork_at",
        "agent_session_list",
        "agent_session_open",
        "agent_session_read",
        "agent_session_remind",
        "agent_session_reset",
        "agent_session_trim",
    ),
    "agents.scratchpads": (
        "agent_session_clear_scratchpad",
        "agent_session_scratchpad",
        "agent_session_set_scratchpad",
    ),
    "agents.transcript_compaction": ("transcript_compact", "transcript_summarize"),
    "agents.transcripts": (
        "transcript_events",
        "transcript_render_full",
        "transcript_render_visible",
    ),
    "callers.breaker": ("with_circuit_breaker",),
    "callers.budget": ("with_budget",),
    "callers.cache": ("with_cache",),
    "callers.caller": ("compose", "default_llm_caller"),
    "callers.escalation": ("with_escalation",),
    "callers.fallback": ("with_fallback",),
    "callers.logs": ("with_logging",),
    "callers.retry": ("with_retry",),
    "callers.shadow": ("with_shadow",),
    "errors": (
        "Aborted",
        "AuthFailed",
        "BadReply",
        "BadRequest",
        "BudgetExceeded",
        "CircuitOpen",
        "ConfigError",
        "Conflict",
        "ConnectionFailed",
        "ContextOverflow",
        "Corrupt",
        "Full",
        "Locked",
        "ModelError",
        "InvalidValue",
        "NoSuchSession",
        "NotFound",
        "OutputMissing",
        "Overloaded",
        "PermissionDenied",
        "QuotaExceeded",
        "RateLimited",
        "Refused",
        "ResourceError",
        "ServerError",
        "StaleWriter",
        "StoreError",
        "StreamBroken",
        "Suspended",
        "Timeout",
        "TokenBudgetExceededError",
        "ToolFailed",
        "WindlassError",
    ),
    "events": (
        "Event",
        "SkillActivated",
        "SkillDeactivated",
        "SkillMatched",
        "SkillNarrowed",
        "SkillScopeTools",
        "TextDelta",
        "ThinkingDelta",
        "ToolCallReady",
        "ToolCallStarted",
        "ToolCallUpdate",
        "TranscriptCompacted",
    ),
    "loop.answers": ("Allow", "Deny"),
    "loop.policy": ("Policy", "TryAgain"),
    "loop.run": ("Run",),
    "loop.turn": ("Turn",),
    "loop.verdict": ("Ask", "Finish", "KeepGoing", "Outcome", "Stop", "Suspend", "Verdict"),
    "notes": ("Reminder",),
    "policies.narrowing": ("ToolSurfaceNarrowing",),
    "policies.reminders": ("SessionStart",),
    "messages": (
        "Document",
        "Image",
        "Message",
        "Opaque",
        "Text",
        "Thinking",
        "ToolCall",
        "ToolResult",
        "estimate_tokens",
    ),
    "models.base": ("Frame", "Model", "Request", "Response", "Settings"),
    "models.matrix": (
        "provider_capabilities",
        "provider_capabilities_clear",
        "provider_capabilities_install",
    ),
    "models.mock": ("llm_mock", "llm_mock_calls", "llm_mock_clear"),
    "policies.completion": ("TurnPolicy",),
    "policies.evidence": ("Proposal",),
    "policies.gates": ("Cadence",),
    "policies.turns": ("IterationBudget",),
    "policies.circles": ("LoopDetection", "LoopDetectionInfo", "StallDiagnostics"),
    "policies.state": ("LoopState",),
    "policies.step_judge": ("StepJudge",),
    "policies.compaction.instructions": ("CompactionPolicy",),
    "policies.context_callback": ("ContextInfo",),
    "policies.decorating": ("DecorationContext",),
    "policies.projection.custom": ("ProjectionContext",),
    "policies.projection.settings": ("TranscriptProjection",),
    "resources.audit": ("AuditRow",),
    "resources.exporting": ("Handle", "Resources", "export"),
    "resources.fields": ("field",),
    "resources.query": ("Page", "Query"),
    "resources.reflect": ("reflect",),
    "resources.resource": ("Resource",),
    "resources.work": ("ResourceTx",),
    "redact": ("Secret",),
    "store.calls": ("ModelCall",),
    "policies.progress": ("ProgressTool",),
    "policies.skills.registry": ("SkillRegistry",),
    "policies.skills.skill": ("Skill", "SkillMatch", "SkillQuery"),
    "tools.base": ("AgentInfo", "Parked", "Retry", "Tool", "ToolContext"),
    "tools.calling": ("ToolCaller", "default_tool_caller"),
    "tools.function": ("tool",),
    "tools.middleware": (
        "with_audit_sink",
        "with_consent",
        "with_dry_run",
        "with_handoff_sink",
        "with_rate_limit",
        "with_telemetry",
    ),
    "tools.registry": ("tool_define", "tool_registry", "tool_select"),
    "tools.tool_search": ("ToolSearch",),
    "usage": ("Usage",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("callers", "errors", "models", "sync", "testing")

__all__ = [*_HOME, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOME:
        value = getattr(import_module(f"windlass.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"windlass.{name}")
    else:
        from windlass.errors import nearest

        raise AttributeError(f"windlass has no name {name!r}{nearest(name, __all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
