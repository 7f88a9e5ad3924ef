"""Behaviours of a run, one policy each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.events.policy import Reminder as Reminder
    from windlass.loop.abort import Abort as Abort
    from windlass.loop.ledger import Budget as Budget
    from windlass.loop.policy import Policy as Policy
    from windlass.loop.policy import TryAgain as TryAgain
    from windlass.loop.resume_input import Allow as Allow
    from windlass.loop.resume_input import Deny as Deny
    from windlass.loop.run import Run as Run
    from windlass.loop.turn import Turn as Turn
    from windlass.loop.verdict import Ask as Ask
    from windlass.loop.verdict import Finish as Finish
    from windlass.loop.verdict import KeepGoing as KeepGoing
    from windlass.loop.verdict import Outcome as Outcome
    from windlass.loop.verdict import Stop as Stop
    from windlass.loop.verdict import Suspend as Suspend
    from windlass.loop.verdict import Verdict as Verdict
    from windlass.policies.compaction.options import Compaction as Compaction
    from windlass.policies.compaction.options import (
        compact_for_bug_fix_resumption as compact_for_bug_fix_resumption,
    )
    from windlass.policies.compaction.options import (
        compact_preserving_test_failures as compact_preserving_test_failures,
    )
    from windlass.policies.compaction.options import (
        compact_retaining_current_plan as compact_retaining_current_plan,
    )
    from windlass.policies.compaction.options import compaction_policy as compaction_policy
    from windlass.policies.compaction.summary_prompt import CompactionPolicy as CompactionPolicy
    from windlass.policies.completion import TurnPolicy as TurnPolicy
    from windlass.policies.context_callback import ContextInfo as ContextInfo
    from windlass.policies.context_strategy.options import ContextStrategy as ContextStrategy
    from windlass.policies.context_strategy.options import CustomStrategy as CustomStrategy
    from windlass.policies.context_strategy.options import SlidingWindow as SlidingWindow
    from windlass.policies.context_strategy.options import Summarize as Summarize
    from windlass.policies.decorators import DecorationContext as DecorationContext
    from windlass.policies.guardrails import GuardrailContext as GuardrailContext
    from windlass.policies.handoffs import Handoff as Handoff
    from windlass.policies.judges.evidence import Proposal as Proposal
    from windlass.policies.judges.gates import Cadence as Cadence
    from windlass.policies.judges.options import CompletionJudge as CompletionJudge
    from windlass.policies.judges.options import DoneJudge as DoneJudge
    from windlass.policies.judges.step import StepJudge as StepJudge
    from windlass.policies.loop_state import LoopState as LoopState
    from windlass.policies.preview.plan import EffectPlan as EffectPlan
    from windlass.policies.preview.plan import PlannedEffect as PlannedEffect
    from windlass.policies.progress import ProgressTool as ProgressTool
    from windlass.policies.projection.custom import ProjectionContext as ProjectionContext
    from windlass.policies.projection.options import TranscriptProjection as TranscriptProjection
    from windlass.policies.prompt_overrides import PromptOverrides as PromptOverrides
    from windlass.policies.prompt_overrides import agent_prompt_overrides as agent_prompt_overrides
    from windlass.policies.reminders.options import system_reminder as system_reminder
    from windlass.policies.reminders.policy import SessionStart as SessionStart
    from windlass.policies.scratchpad.options import Reorganizer as Reorganizer
    from windlass.policies.scratchpad.options import Scratchpad as Scratchpad
    from windlass.policies.skills.options import skill_define as skill_define
    from windlass.policies.skills.options import skill_registry as skill_registry
    from windlass.policies.skills.skill import Skill as Skill
    from windlass.policies.skills.skill import SkillMatch as SkillMatch
    from windlass.policies.skills.skill import SkillQuery as SkillQuery
    from windlass.policies.skills.skill import SkillRegistry as SkillRegistry
    from windlass.policies.stall.options import LoopDetection as LoopDetection
    from windlass.policies.stall.options import LoopDetectionInfo as LoopDetectionInfo
    from windlass.policies.stall.options import StallDiagnostics as StallDiagnostics
    from windlass.policies.taint.policy import Taint as Taint
    from windlass.policies.tool_narrowing import ToolSurfaceNarrowing as ToolSurfaceNarrowing
    from windlass.policies.turn_limit.options import IterationBudget as IterationBudget
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "Abort": "loop.abort",
            "Allow": "loop.resume_input",
            "Ask": "loop.verdict",
            "Budget": "loop.ledger",
            "Cadence": "policies.judges.gates",
            "Compaction": "policies.compaction.options",
            "CompactionPolicy": "policies.compaction.summary_prompt",
            "CompletionJudge": "policies.judges.options",
            "ContextInfo": "policies.context_callback",
            "ContextStrategy": "policies.context_strategy.options",
            "CustomStrategy": "policies.context_strategy.options",
            "DecorationContext": "policies.decorators",
            "Deny": "loop.resume_input",
            "DoneJudge": "policies.judges.options",
            "EffectPlan": "policies.preview.plan",
            "Finish": "loop.verdict",
            "GuardrailContext": "policies.guardrails",
            "Handoff": "policies.handoffs",
            "IterationBudget": "policies.turn_limit.options",
            "KeepGoing": "loop.verdict",
            "LoopDetection": "policies.stall.options",
            "LoopDetectionInfo": "policies.stall.options",
            "LoopState": "policies.loop_state",
            "Outcome": "loop.verdict",
            "PlannedEffect": "policies.preview.plan",
            "Policy": "loop.policy",
            "ProgressTool": "policies.progress",
            "ProjectionContext": "policies.projection.custom",
            "PromptOverrides": "policies.prompt_overrides",
            "Proposal": "policies.judges.evidence",
            "Reminder": "events.policy",
            "Reorganizer": "policies.scratchpad.options",
            "Run": "loop.run",
            "Scratchpad": "policies.scratchpad.options",
            "SessionStart": "policies.reminders.policy",
            "Skill": "policies.skills.skill",
            "SkillMatch": "policies.skills.skill",
            "SkillQuery": "policies.skills.skill",
            "SkillRegistry": "policies.skills.skill",
            "SlidingWindow": "policies.context_strategy.options",
            "StallDiagnostics": "policies.stall.options",
            "StepJudge": "policies.judges.step",
            "Stop": "loop.verdict",
            "Summarize": "policies.context_strategy.options",
            "Suspend": "loop.verdict",
            "Taint": "policies.taint.policy",
            "ToolSurfaceNarrowing": "policies.tool_narrowing",
            "TranscriptProjection": "policies.projection.options",
            "TryAgain": "loop.policy",
            "Turn": "loop.turn",
            "TurnPolicy": "policies.completion",
            "Verdict": "loop.verdict",
            "agent_prompt_overrides": "policies.prompt_overrides",
            "compact_for_bug_fix_resumption": "policies.compaction.options",
            "compact_preserving_test_failures": "policies.compaction.options",
            "compact_retaining_current_plan": "policies.compaction.options",
            "compaction_policy": "policies.compaction.options",
            "skill_define": "policies.skills.options",
            "skill_registry": "policies.skills.options",
            "system_reminder": "policies.reminders.options",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "Abort",
    "Allow",
    "Ask",
    "Budget",
    "Cadence",
    "Compaction",
    "CompactionPolicy",
    "CompletionJudge",
    "ContextInfo",
    "ContextStrategy",
    "CustomStrategy",
    "DecorationContext",
    "Deny",
    "DoneJudge",
    "EffectPlan",
    "Finish",
    "GuardrailContext",
    "Handoff",
    "IterationBudget",
    "KeepGoing",
    "LoopDetection",
    "LoopDetectionInfo",
    "LoopState",
    "Outcome",
    "PlannedEffect",
    "Policy",
    "ProgressTool",
    "ProjectionContext",
    "PromptOverrides",
    "Proposal",
    "Reminder",
    "Reorganizer",
    "Run",
    "Scratchpad",
    "SessionStart",
    "Skill",
    "SkillMatch",
    "SkillQuery",
    "SkillRegistry",
    "SlidingWindow",
    "StallDiagnostics",
    "StepJudge",
    "Stop",
    "Summarize",
    "Suspend",
    "Taint",
    "ToolSurfaceNarrowing",
    "TranscriptProjection",
    "TryAgain",
    "Turn",
    "TurnPolicy",
    "Verdict",
    "agent_prompt_overrides",
    "compact_for_bug_fix_resumption",
    "compact_preserving_test_failures",
    "compact_retaining_current_plan",
    "compaction_policy",
    "skill_define",
    "skill_registry",
    "system_reminder",
]
