"""The walk over the names of context: they are there, typed, documented, told by a run and by a story."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import windlass as w
from tests.crash import context_scenes as scenes
from tests.names import context
from tests.option_areas import CHECKS, CONTEXT
from windlass import events, seams
from windlass.engine.keywords import LoopOptions
from windlass.events import JournalEntry, kind_of
from windlass.events import policy as events_policy
from windlass.policies import context_callback
from windlass.policies.compaction.options import STRATEGIES
from windlass.policies.compaction.policy import Compactor
from windlass.policies.projection.options import POLICIES
from windlass.policies.prompt_overrides import PROMPTS
from windlass.policies.scratchpad import pad
from windlass.policies.tool_narrowing import ToolSurfaceNarrowing
from windlass.testing import call, scripted
from windlass.tools.kinds import CLASSES

STORIES = Path(__file__).parents[1] / "stories"


@pytest.mark.parametrize("name", context.FUNCTIONS)
def test_a_function(name: str):
    function = getattr(w, name)
    assert name in w._HOME and len(inspect.getdoc(function) or "") > 10
    signature = inspect.signature(function)
    given = list(signature.parameters)
    assert given[: len(context.FUNCTIONS[name].split())] == context.FUNCTIONS[name].split()
    assert signature.return_annotation is not signature.empty


@pytest.mark.parametrize("name", context.STRUCTS)
def test_a_struct(name: str):
    kind = getattr(w, name)
    assert kind.__struct_fields__ == tuple(context.STRUCTS[name].split())
    assert name in w._HOME and inspect.getdoc(kind)


def test_every_option_is_here():
    assert set(context.OPTIONS) == CONTEXT
    assert set(LoopOptions.__annotations__) >= CONTEXT
    assert "progress_tool" in LoopOptions.__annotations__


@pytest.mark.parametrize("name", context.OPTIONS)
async def test_an_option_is_taken_by_every_door(name: str):
    options = {**context.BESIDE.get(name, {}), name: context.OPTIONS[name]}
    out = await w.agent_loop("go", model=scripted("x"), **options)
    assert out.status == "done"
    assert (await w.Agent(scripted("x"), **options).run("go")).status == "done"
    with pytest.raises(w.ConfigError, match=name):
        w.Agent(scripted("x"), **{name: object()})


# --------------------------------------------------------------------------- keys

KEYS = [(option, key) for option, keys in context.KEYS.items() for key in keys]


def checked(option: str, value: dict[str, Any]) -> Any:
    if option == "compaction.policy":
        return CHECKS["compaction"]("compaction", {"policy": value}).policy
    return CHECKS[option](option, value)


@pytest.mark.parametrize(("option", "key"), KEYS, ids=lambda value: str(value))
def test_a_key_is_taken_and_arrives(option: str, key: str):
    typed, _, field = key.partition("=")
    value, beside = context.KEYS[option][key], context.KEYS_BESIDE.get(option, {})
    arrived = getattr(checked(option, {**beside, typed: value}), field or typed)
    if isinstance(value, dict):  # it stands for a struct
        for name, part in value.items():
            got = getattr(arrived, name)
            assert got == (tuple(part) if isinstance(part, list) else part)
    else:
        assert arrived == value
    with pytest.raises(w.ConfigError, match=f"{typed}_"):
        checked(option, {**beside, f"{typed}_": value})


@pytest.mark.parametrize("kind", context.STRATEGY_KEYS)
def test_a_strategy_of_the_runner(kind: str):
    keys = context.STRATEGY_KEYS[kind]
    arrived = CHECKS["context_strategy"]("context_strategy", {"type": kind, **keys})
    assert {name: getattr(arrived, name) for name in keys} == keys
    assert type(arrived) in get_args(w.ContextStrategy) and "ContextStrategy" in w._HOME


@pytest.mark.parametrize("name", context.DEFAULTS)
def test_what_stands_where_nobody_says_anything(name: str):
    kind = getattr(w, name)
    usual = {field.name: field.default for field in msgspec.structs.fields(kind)}
    assert {key: usual[key] for key in context.DEFAULTS[name]} == context.DEFAULTS[name]


def test_strategies_projections_classes_and_prompts():
    assert {"none", *STRATEGIES} == set(context.STRATEGIES)
    kept = {one: Compactor(one).keep_last for one in STRATEGIES}
    assert kept == context.KEEPS
    assert list(POLICIES) == context.PROJECTIONS
    assert list(CLASSES) == context.CLASSES
    assert set(CLASSES) - ToolSurfaceNarrowing().prunes() == set(context.KEPT_CLASSES)
    assert set(context.PROMPT_IDS) <= set(PROMPTS)
    assert context_callback.ANSWERS == context.CALLBACK_ANSWERS
    assert get_args(events_policy.Propagate) and set(get_args(events_policy.Propagate)) == set(
        context.PROPAGATE
    )


def test_a_skill_is_written_with_these_keys():
    values: dict[str, Any] = {
        "name": "ship",
        "description": "d",
        "when_to_use": "w",
        "paths": ["a/**"],
        "allowed_tools": ["*"],
        "prompt": "p",
        "disable-model-invocation": True,
        "user-invocable": False,
        "mcp": ["files"],
        "on_activate": len,
        "on_deactivate": len,
    }
    assert list(values) == context.SKILL_KEYS
    skill = w.skill_define("ship", values)
    for key, value in values.items():
        got = getattr(skill, key.replace("-", "_"))
        assert got == (tuple(value) if isinstance(value, list) else value), key


def test_the_pad_and_its_parts():
    assert set(pad.Pad.__struct_fields__) == context.PAD
    assert set(pad.Item.__struct_fields__) == context.PAD_ITEM
    assert set(pad.Ref.__struct_fields__) == context.PAD_REF
    assert pad.MOST == context.PAD_BYTES


# --------------------------------------------------------------------------- what a run tells


def test_the_event_has_its_two_names():
    tags = {one.__struct_config__.tag: one for one in get_args(events.Event)}
    wanted = set(context.KINDS["compaction"].split())
    for tag in ("compaction", "transcript_compacted"):
        assert wanted <= set(tags[tag].__struct_fields__)
    assert tags["transcript_compacted"] is w.TranscriptCompacted
    assert tags["compaction"] in get_args(events.JournalEntry)
    assert tags["transcript_compacted"] not in get_args(events.JournalEntry)


async def test_every_kind_is_told_with_its_fields(monkeypatch: pytest.MonkeyPatch):
    clock = scenes.Clock()
    monkeypatch.setattr(seams, "now", clock)
    seen: list[Any] = []
    agent = scenes.agent_of(clock, lambda sent: None, lambda *asked: None)
    out = await agent.run(scenes.TASK, session_id=scenes.SESSION, on_event=seen.append)
    told: dict[str, JournalEntry] = {kind_of(entry): entry for entry in out.entries}
    for kind, fields in context.KINDS.items():
        assert set(fields.split()) <= set(told[kind].__struct_fields__), kind
        assert inspect.getdoc(type(told[kind]))
    assert any(type(event) is w.TranscriptCompacted for event in seen)
    kinds = {event["kind"] for event in out.trace["events"]}
    assert set(context.KINDS) <= kinds
    transcript = (await w.agent_session_read(scenes.SESSION)).transcript
    assert transcript["scratchpad_version"] > 5
    assert set(transcript["scratchpad"]) == context.PAD
    assert transcript["metadata"]["agent_scratchpad"]
    refs = {ref["id"] for ref in transcript["scratchpad"]["refs"]}
    assert "user:initial" in refs
    shown = {event["kind"] for event in transcript["events"]}
    assert set(context.KINDS) <= shown


async def test_the_texts_of_a_runner_s_strategies():
    history = [w.Message(role, f"{role} {n}") for n in range(5) for role in ("user", "assistant")]
    asked = [*history, w.Message("user", "and now?")]

    async def shown(strategy: dict[str, Any], *replies: str) -> str:
        model = scripted(call("agent_progress", message="half"), *replies, "ok")
        options: dict[str, Any] = {"context_strategy": strategy, "progress_tool": True}
        out = await w.agent_loop("go", model=model, messages=asked, **options)
        assert out.status == "done"
        return "\n".join(message.text for message in model.requests[-1].messages)

    removed, told, untold = context.TEXTS
    head, _, tail = removed.partition("2")
    window = await shown({"type": "sliding-window", "max_turns": 2})
    assert head in window and tail in window
    assert told in await shown({"type": "summarize", "max_tokens": 5}, "so it was")
    assert untold in await shown({"type": "summarize", "max_tokens": 5}, " ")


async def test_the_model_s_own_report():
    model = scripted(call("agent_progress", message="half"), "ok")
    out = await w.agent_loop("go", model=model, progress_tool=True)
    assert "progress_reported" in {kind_of(entry) for entry in out.entries}


# --------------------------------------------------------------------------- what a story tells

TOLD = [(story, name) for story, names in context.STORIES.items() for name in names.split()]


@pytest.mark.parametrize(("story", "name"), TOLD, ids=lambda value: str(value))
def test_a_story_tells_of_it(story: str, name: str):
    words = (STORIES / f"{story}.py").read_text()
    assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", words), f"{story} says no {name}"


def test_the_policies_by_name_are_functions_of_a_policy():
    for name in ("bug_fix_resumption", "test_failures", "current_plan"):
        [function] = [one for one in context.FUNCTIONS if one.endswith(name)]
        made = getattr(w, function)(author="host")
        assert type(made) is w.CompactionPolicy and made.author == "host" and made.preserve
    assert w.compaction_policy() == w.CompactionPolicy()
    assert "compaction" in [policy.name for policy in w.Agent(scripted("x")).plan.policies]
