"""The walk over every name of judgement: it is there, it is taken, and a run reaches it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, get_args

import pytest

import windlass as w
from tests.names import judgement
from tests.option_areas import CHECKS, JUDGEMENT
from windlass.agents.agent_turn import IterationSummary, JudgeSummary
from windlass.agents.keywords import CaptainKeywords
from windlass.engine.keywords import LoopOptions
from windlass.engine.limit_options import PROFILES
from windlass.events import JournalEntry, kind_of
from windlass.policies import loop_state as state
from windlass.policies import post_turn
from windlass.sessions import seed
from windlass.testing import call, scripted

DONE = call("give_verdict", verdict="done", reasoning="", next_step="")
MORE = call("give_verdict", verdict="continue", reasoning="", next_step="more")


@w.tool(side_effect_level="none")
async def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("name", judgement.FUNCTIONS)
def test_a_function(name: str):
    function = getattr(w, name)
    assert name in w._HOME and inspect.getdoc(function)
    given = list(inspect.signature(function).parameters)
    assert given[: len(judgement.FUNCTIONS[name].split())] == judgement.FUNCTIONS[name].split()


@pytest.mark.parametrize("name", judgement.CLASSES)
def test_a_class_and_its_parts(name: str):
    kind = getattr(w, name)
    assert name in w._HOME and inspect.getdoc(kind)
    assert set(judgement.CLASSES[name].split()) <= set(dir(kind))


@pytest.mark.parametrize("name", judgement.OPTIONS)
def test_an_option_is_known_checked_and_typed(name: str):
    assert name in LoopOptions.__annotations__ and name in JUDGEMENT
    with pytest.raises(w.ConfigError, match=name):
        w.Agent(scripted("x"), **{name: object()})


KEYS = [(name, key) for name, keys in judgement.OPTIONS.items() for key in keys.split()]


@pytest.mark.parametrize(("option", "key"), KEYS, ids=lambda value: value)
def test_a_key_is_taken_and_arrives(option: str, key: str):
    field, _, alias = key.partition("=")
    value = judgement.VALUES[field]
    typed = CHECKS[option](option, {alias or field: value})
    arrived = getattr(typed, field)
    if field == "cadence":
        assert arrived == w.Cadence(every=2)
    else:
        assert arrived == value
    with pytest.raises(w.ConfigError, match=f"{option}.*{alias or field}"):
        CHECKS[option](option, {f"{alias or field}_": value})


@pytest.mark.parametrize("part", judgement.STATE)
def test_what_a_control_function_sees(part: str):
    kind = getattr(state, f"{part.capitalize()}State")
    assert set(judgement.STATE[part].split()) == set(kind.__struct_fields__)


@pytest.mark.parametrize("name", judgement.EVENTS)
def test_an_event_and_its_fields(name: str):
    [kind] = [one for one in get_args(JournalEntry) if one.__struct_config__.tag == name]
    assert set(judgement.EVENTS[name].split()) <= set(kind.__struct_fields__)
    assert inspect.getdoc(kind)


def test_the_summaries_of_a_turn():
    assert list(IterationSummary.__struct_fields__) == judgement.ITERATION_FIELDS
    assert list(JudgeSummary.__struct_fields__) == judgement.DECISION_FIELDS


def test_what_a_callback_sees_and_answers():
    assert list(post_turn.TurnInfo.__struct_fields__) == judgement.TURN_FIELDS
    assert list(post_turn.TurnToolResult.__struct_fields__) == judgement.TURN_RESULT_FIELDS
    assert list(post_turn.SUPERSEDED) == judgement.TURN_SUPERSEDED
    assert list(post_turn.ANSWERS) == judgement.TURN_ANSWERS


def test_profiles_presets_and_seeds():
    assert list(PROFILES) == judgement.PROFILES
    for name in judgement.PRESETS:
        assert w.agent_preset(name)["profile"] in PROFILES
        assert callable(getattr(w, f"{name}_agent"))
    own = set(CaptainKeywords.__annotations__) - set(LoopOptions.__annotations__)
    assert set(judgement.CAPTAIN_OPTIONS) <= own
    assert list(seed.OPTIONS) == judgement.SEED_OPTIONS


async def test_the_fields_of_a_result():
    out = await w.agent_loop(
        "go",
        model=scripted("x", DONE, DONE),
        verify_completion_judge=True,
        done_judge=True,
        iteration_budget="adaptive",
        stall_diagnostics=True,
        loop_detection=True,
    )
    assert list(out.completion_judge) == list(out.done_judge) == judgement.JUDGE_FIELDS
    assert list(out.adaptive_budget) == judgement.BUDGET_FIELDS
    assert set(judgement.LEDGER_FIELDS) <= set(out.task_ledger)
    assert all(out.trace[name] == 0 for name in judgement.TRACE_COUNTERS)
    assert (out.repeated_tool_calls, out.stall_warnings, out.suspected_loop) == (0, [], False)
    assert out.loop_detected is False


# --------------------------------------------------------------------------- how runs end

Ending = Callable[[], Coroutine[Any, Any, w.LoopResult]]


def run(*replies: Any, then: Any = None, **options: Any) -> Ending:
    return lambda: w.agent_loop("go", model=scripted(*replies, then=then), **options)


WRITTEN = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
STALLED: dict[str, Any] = {
    "tools": [look],
    "stall_diagnostics": {"threshold": 2},
    "done_judge": {"cadence": {"when": "stalled"}},
}
ENDINGS: dict[str, Ending] = {
    "completion_judge_cap_reached": run(
        "a", MORE, "b", verify_completion_judge={"max_invocations": 1}
    ),
    "done_judge_cap_reached": run("a", MORE, "b", done_judge={"max_invocations": 1}),
    "natural": run(then="a", verify_completion=lambda: "no", max_verify_attempts=1),
    "stalled_done_judge": run(call("look"), call("look"), DONE, **STALLED),
    "required_tools_satisfied": run(
        call("look"), "a", tools=[look], require_successful_tools=["look"]
    ),
    "missing_required_tools": run(
        then="a", tools=[look], require_successful_tools=["look"], max_iterations=1
    ),
    "native_tool_fallback_rejected": run(
        WRITTEN, tools=[look], native_tool_fallback="reject", max_iterations=1
    ),
    "loop_control": run(
        then=call("look"), tools=[look], loop_control=lambda state: {"action": "stop"}
    ),
    "out of patience": run(
        then=call("look"),
        tools=[look],
        loop_control=lambda state: {
            "action": "stop",
            "status": "incomplete",
            "reason": "out of patience",
        },
    ),
    "post_turn_stop": run("a", verify_completion=[lambda: True], post_turn_callback=lambda t: True),
    "loop_detected": run(then=call("look"), tools=[look], loop_detection=True),
}


@pytest.mark.parametrize("reason", judgement.ENDS)
async def test_a_run_ends_like_this(reason: str):
    out = await ENDINGS[reason]()
    assert (out.status, out.stop_reason) == (judgement.ENDS[reason], reason)


async def test_every_reason_to_skip_a_step_is_reached():
    passed = call("give_verdict", verdict="pass")
    revise = call("give_verdict", verdict="revise")
    runs = [
        run("a", revise, "b", step_judge={"max_attempts": 1}),
        run("a", step_judge={}, max_iterations=1),
        run(" ", "b", passed, step_judge={}, tools=[look], loop_until_done=True),
        run(
            call("look"),
            passed,
            call("look"),
            "b",
            passed,
            step_judge={},
            tools=[look],
            stall_diagnostics={"threshold": 2},
        ),
    ]
    reasons: list[str] = []
    for one in runs:
        out = await one()
        skips = [e for e in out.entries if kind_of(e) == "step_judge_decision"]
        reasons += [e.reason for e in skips if e.skipped]  # pyright: ignore
    assert reasons == judgement.SKIPS
