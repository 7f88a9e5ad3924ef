"""The walk over the names of context: they are there, typed, documented, and taken by a run."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import pytest

import windlass as w
from windlass import events
from windlass.agents.context import CHECKS, ContextOptions
from windlass.testing import scripted

FUNCTIONS = {
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
STRUCTS: dict[type[Any], str] = {
    w.Skill: (
        "name description when_to_use paths allowed_tools prompt disable_model_invocation "
        "user_invocable mcp on_activate on_deactivate license compatibility metadata extra folder files"
    ),
    w.SkillMatch: "strategy top_n sticky matcher invoke",
    w.SkillQuery: "prompt skills working_files active top_n",
    w.SkillMatched: (
        "session_id iteration strategy candidates chosen reassess working_files warning problems "
        "registry"
    ),
    w.SkillActivated: ("session_id name iteration score reason description allowed_tools mcp"),
    w.SkillDeactivated: "session_id name iteration",
    w.SkillScopeTools: "session_id name allowed_tools tools hidden",
    w.SkillNarrowed: (
        "iteration removed_tools remaining_tools reason policy removed kept returned_tools"
    ),
    w.ToolSurfaceNarrowing: (
        "enabled window_turns mode hard_keep prune_classes keep_classes unknown_tool_policy"
    ),
    w.Reminder: "text ttl propagate",
    w.TranscriptProjection: (
        "policy keep_last min_tokens min_chars window_turns roots summary project"
    ),
    w.ProjectionContext: "session_id iteration system estimated_tokens",
    w.ContextInfo: (
        "iteration system messages visible_messages recorded_messages recent_visible_messages "
        "recent_recorded_messages latest_visible_user_message latest_visible_assistant_message "
        "latest_recorded_user_message latest_recorded_assistant_message latest_tool_result "
        "latest_recorded_tool_result"
    ),
    w.DecorationContext: "session_id iteration index timestamp",
    w.Scratchpad: (
        "enabled recite reorganize_every max_recent_messages schema_retries initial reorganizer"
    ),
    w.Reorganizer: "provider model",
    w.SlidingWindow: "max_turns",
    w.Summarize: "max_tokens summary_model",
    w.CustomStrategy: "compress",
    w.Compaction: "strategy keep_last_n policy",
    w.CompactionPolicy: (
        "instructions mode scope preserve drop extend_default_instructions author"
    ),
}
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
EVENT = (
    "reason strategy engine_strategy estimated_tokens_before estimated_tokens_after "
    "instruction_mode instruction_source compaction_policy"
).split()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name: str):
    function = getattr(w, name)
    assert name in w.__all__ and len(inspect.getdoc(function) or "") > 10
    signature = inspect.signature(function)
    given = list(signature.parameters)
    assert given[: len(FUNCTIONS[name].split())] == FUNCTIONS[name].split()
    assert signature.return_annotation is not signature.empty


@pytest.mark.parametrize("kind", STRUCTS)
def test_a_struct(kind: type[Any]):
    assert kind.__struct_fields__ == tuple(STRUCTS[kind].split())
    assert kind.__name__ in w.__all__ and inspect.getdoc(kind)


def test_every_option_is_here():
    assert set(OPTIONS) == set(CHECKS) == set(ContextOptions.__annotations__)


@pytest.mark.parametrize("name", OPTIONS)
async def test_an_option_is_taken_by_every_door(name: str):
    options = {**BESIDE.get(name, {}), name: OPTIONS[name]}
    out = await w.agent_loop("go", model=scripted("x"), **options)
    assert out.status == "done"
    assert (await w.Agent(scripted("x"), **options).run("go")).status == "done"


def test_the_event_has_its_two_names():
    tags = {one.__struct_config__.tag: one for one in get_args(events.Event)}
    for tag in ("compaction", "transcript_compacted"):
        assert set(EVENT) <= set(tags[tag].__struct_fields__)
    assert tags["transcript_compacted"] is w.TranscriptCompacted
    assert tags["compaction"] in get_args(events.JournalEntry)
    assert tags["transcript_compacted"] not in get_args(events.JournalEntry)
