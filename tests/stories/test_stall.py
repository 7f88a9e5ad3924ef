"""A run that goes in circles: one policy, three configurations."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    results,
    said,
)
from tests.stories.judge_helpers import from_every_place, look, of
from windlass.events import LoopDetected, StallWarning, ToolDecided
from windlass.loop.plan import digest_of
from windlass.testing import call, scripted

AGAIN = call("look", text="x")
OTHER = call("look", text="y")


def ticking() -> w.Tool:
    """A tool whose answer is another each time."""
    ticks = iter(range(1000))

    @w.tool(side_effect_level="none")
    async def poll() -> str:
        """Ask how far it is."""
        return f"{next(ticks)} percent"

    return poll


# --------------------------------------------------------------------------- stall_diagnostics


async def test_the_same_call_three_times_in_a_row_is_a_stall():
    model = scripted(AGAIN, AGAIN, AGAIN, "ok")
    out = await w.agent_loop("go", model=model, tools=[look], stall_diagnostics=True)
    assert (out.status, out.repeated_tool_calls, out.suspected_loop) == ("done", 2, True)
    [warning] = out.stall_warnings
    assert warning == {
        "iteration": 3,
        "tool_name": "look",
        "repeat_count": 3,
        "threshold": 3,
        "arguments_digest": digest_of({"text": "x"}),
        "signature_digest": digest_of(("look", {"text": "x"})),
    }
    assert model.requests[3].messages[-1].kind == "stall"
    assert "look 3 times in a row" in said(model.requests[3])[-1]
    assert [r.outcome for r in out.tool_calls] == ["ok"] * 3, "a warning holds nothing back"
    await kept(out, model)


async def test_the_warning_is_an_event():
    seen: list[Any] = []
    model = scripted(*[AGAIN] * 3, "ok")
    out = await w.agent_loop(
        "go", model=model, tools=[look], stall_diagnostics=True, on_event=seen.append
    )
    assert [type(e) for e in seen].count(StallWarning) == 1
    assert "agent_loop_stall_warning" in [e["kind"] for e in out.trace["events"]]


async def test_a_healthy_run_says_so():
    model = scripted(AGAIN, OTHER, AGAIN, "ok")
    out = await w.agent_loop("go", model=model, tools=[look], stall_diagnostics=True)
    assert (out.repeated_tool_calls, out.stall_warnings, out.suspected_loop) == (0, [], False)


@pytest.mark.parametrize("off", [None, False, {"enabled": False}])
async def test_off_means_that_nothing_is_in_the_result(off: Any):
    model = scripted(*[AGAIN] * 4, "ok")
    out = await w.agent_loop("go", model=model, tools=[look], stall_diagnostics=off)
    assert "stall_warnings" not in out.to_dict() and not of(out, StallWarning)


async def test_the_threshold_the_number_of_tellings_and_the_arguments_can_be_chosen():
    model = scripted(*[AGAIN] * 4, "ok")
    rules = {"threshold": 2, "max_feedback": 2, "include_arguments": True}
    out = await w.agent_loop("go", model=model, tools=[look], stall_diagnostics=rules)
    assert [x["repeat_count"] for x in out.stall_warnings] == [2, 3, 4]
    assert out.stall_warnings[0]["arguments"] == {"text": "x"}
    assert [m.kind for m in out.all_messages].count("stall") == 2


async def test_it_may_keep_its_mouth_shut():
    rules = w.StallDiagnostics(threshold=2, inject_feedback=False)
    out = await w.agent_loop(
        "go", model=scripted(AGAIN, AGAIN, "ok"), tools=[look], stall_diagnostics=rules
    )
    assert out.suspected_loop and not [m for m in out.all_messages if m.kind]


@pytest.mark.parametrize("name", ["exempt_tools", "allow_repeated_tools"])
async def test_some_tools_may_be_called_again_and_again_and_end_a_streak(name: str):
    model = scripted(AGAIN, AGAIN, call("add", a=1, b=1), AGAIN, call("add", a=1, b=1), "ok")
    rules = {"threshold": 3, name: ["add"]}
    out = await w.agent_loop("go", model=model, tools=[look, add], stall_diagnostics=rules)
    assert (out.suspected_loop, out.repeated_tool_calls) == (False, 1)
    out = await w.agent_loop(
        "go",
        model=scripted(*[call("add", a=1, b=1)] * 5, "ok"),
        tools=[add],
        stall_diagnostics=rules,
    )
    assert (out.suspected_loop, out.repeated_tool_calls) == (False, 0)


async def test_polling_whose_answer_changes_is_no_stall():
    model = scripted(*[call("poll")] * 6, "ok")
    out = await w.agent_loop("go", model=model, tools=[ticking()], stall_diagnostics=True)
    assert not out.suspected_loop and out.status == "done"


async def test_the_same_call_in_one_turn_counts_too():
    model = scripted([AGAIN, AGAIN, AGAIN], "ok")
    out = await w.agent_loop("go", model=model, tools=[look], stall_diagnostics=True)
    assert [x["repeat_count"] for x in out.stall_warnings] == [3]


async def test_the_order_of_arguments_does_not_matter():
    one, two = call("add", a=1, b=2), call("add", b=2, a=1)
    model = scripted(one, two, one, "ok")
    out = await w.agent_loop("go", model=model, tools=[add], stall_diagnostics=True)
    assert out.suspected_loop


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"threshold": 1}, "threshold"),
        ({"max_feedback": -1}, "max_feedback"),
        ({"exempt_tools": "add"}, "exempt_tools"),
        ({"exempt_tools": [], "allow_repeated_tools": []}, "the same"),
        ({"treshold": 3}, "threshold"),
        ("on", "StallDiagnostics"),
    ],
)
async def test_what_are_no_stall_diagnostics(value: Any, words: str):
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=scripted("never"), stall_diagnostics=value)


# --------------------------------------------------------------------------- loop_detect_*


async def test_three_tiers_a_hint_another_answer_and_no_run():
    ran: list[str] = []

    @w.tool
    async def stuck() -> str:
        """Always the same."""
        ran.append("x")
        return "same"

    model = scripted(*[call("stuck")] * 5, "ok")
    out = await w.agent_loop("go", model=model, tools=[stuck], loop_detect_warn=2)
    shown = [m.content[0].text for m in model.requests[-1].messages if m.role == "tool"]
    assert shown[0] == "same"
    assert shown[1].startswith("same\n\n[stuck has now given this same result 2 times")
    assert shown[2].startswith("stuck gave the same result 3 times")
    assert shown[3].startswith("rejected_loop: not run, stuck gave the same result 3 times")
    assert [r.outcome for r in out.tool_calls] == ["ok", "ok", "ok", "denied", "denied"]
    assert len(ran) == 3 and "stuck" in out.tools.rejected
    await kept(out, model)


async def test_a_skipped_call_says_by_which_rule():
    model = scripted(*[AGAIN] * 4, "ok", stream=True)
    out = await w.agent_loop("go", model=model, tools=[look], loop_detect_skip=4)
    assert results(out)["look"][1].startswith("rejected_loop: not run")
    decided = [e for e in out.entries if isinstance(e, ToolDecided)][-1]
    assert (decided.action, decided.rule) == ("deny", "Stall")
    assert "rejected_loop" in (decided.reason or "")


async def test_other_calls_in_between_do_not_matter_and_another_result_does():
    model = scripted(AGAIN, OTHER, AGAIN, OTHER, AGAIN, OTHER, AGAIN, "ok")
    out = await w.agent_loop("go", model=model, tools=[look], loop_detect_block=3)
    assert [r.outcome for r in out.tool_calls] == ["ok"] * 6 + ["denied"]
    model = scripted(*[call("poll")] * 6, "ok")
    out = await w.agent_loop("go", model=model, tools=[ticking()], loop_detect_warn=2)
    assert {r.outcome for r in out.tool_calls} == {"ok"}
    assert "same result" not in str(model.requests[-1].messages)


async def test_the_tiers_can_be_chosen_and_turned_off():
    model = scripted(*[AGAIN] * 4, "ok")
    options = {"loop_detect_warn": 1, "loop_detect_block": 1, "loop_detect_skip": 2}
    out = await w.agent_loop("go", model=model, tools=[look], **options)
    assert [r.outcome for r in out.tool_calls] == ["ok", "denied", "denied", "denied"]
    model = scripted(*[AGAIN] * 5, "ok")
    out = await w.agent_loop("go", model=model, tools=[look], loop_detect_warn=0)
    assert {r.outcome for r in out.tool_calls} == {"ok"}
    with pytest.raises(w.ConfigError, match="in this order"):
        await w.agent_loop("go", model=scripted(), loop_detect_warn=5)


async def test_without_the_options_nothing_is_held_back():
    model = scripted(*[AGAIN] * 6, "ok")
    out = await w.agent_loop("go", model=model, tools=[look])
    assert {r.outcome for r in out.tool_calls} == {"ok"}


# --------------------------------------------------------------------------- loop_detection


async def test_the_same_turn_three_times_is_a_loop_and_the_model_is_told():
    model = scripted([AGAIN, OTHER], [OTHER, AGAIN], [AGAIN, OTHER], "ok")
    out = await w.Agent(model, tools=[look], loop_detection=True).run("go")
    [found] = of(out, LoopDetected)
    assert (found.iteration, found.loop, found.action) == (3, "tool_repetition", "warn")
    assert found.repeat_count == 3 and "look" in found.detail
    assert model.requests[3].messages[-1].kind == "loop_detected"
    assert (out.status, out.loop_detected) == ("done", False)
    await kept(out, model)


@pytest.mark.parametrize("action", ["warn", "inject"])
async def test_a_second_detection_without_a_clean_turn_ends_the_run(action: str):
    model = scripted(*[AGAIN] * 4)
    rules = {"on_loop_detected": action}
    out = await w.Agent(model, tools=[look], loop_detection=rules).run("go")
    assert (out.status, out.stop_reason, out.loop_detected) == ("stuck", "loop_detected", True)
    assert [f.action for f in of(out, LoopDetected)] == [action, "terminate"]
    assert [r.outcome for r in out.tool_calls] == ["ok", "ok", "ok", "not_run"]
    await kept(out, model)


async def test_a_clean_turn_arms_the_warning_again():
    model = scripted(*[AGAIN] * 3, OTHER, *[AGAIN] * 3, "ok")
    out = await w.Agent(model, tools=[look], loop_detection=True).run("go")
    assert out.status == "done"
    assert [(f.iteration, f.action) for f in of(out, LoopDetected)] == [(3, "warn"), (7, "warn")]


async def test_it_may_end_at_once_and_no_call_of_the_turn_runs():
    model = scripted(AGAIN, ["So it is.", AGAIN])
    rules = w.LoopDetection(max_repetitions=2, on_loop_detected="terminate")
    out = await w.Agent(model, tools=[look], loop_detection=rules).run("go")
    assert (out.status, out.output, out.turns) == ("stuck", "So it is.", 2)
    assert results(out)["look"][0] == "not_run"
    await kept(out, model)


async def test_it_may_only_be_noted():
    model = scripted(*[AGAIN] * 5, "ok")
    rules = {"on_loop_detected": "continue"}
    out = await w.Agent(model, tools=[look], loop_detection=rules).run("go")
    assert out.status == "done" and [f.iteration for f in of(out, LoopDetected)] == [3, 4, 5]
    assert not [m for m in out.all_messages if m.kind]


async def test_a_function_decides_and_may_be_asynchronous():
    seen: list[Any] = []

    def sync(info: w.LoopDetectionInfo) -> str:
        seen.append(info)
        return "terminate"

    async def asynchronous(info: w.LoopDetectionInfo) -> None:
        seen.append(info)

    out = await w.Agent(
        scripted(*[AGAIN] * 3), tools=[look], loop_detection={"on_loop_detected": sync}
    ).run("go")
    assert out.status == "stuck" and seen[0].kind == "tool_repetition"
    assert seen[0].repetitions == 3 and seen[0].detail
    out = await w.Agent(
        scripted(*[AGAIN] * 3, "ok"),
        tools=[look],
        loop_detection={"on_loop_detected": asynchronous},
    ).run("go")
    assert out.status == "done" and of(out, LoopDetected)[0].action == "continue"


async def test_a_function_that_answers_nonsense_is_told_so():
    rules = {"on_loop_detected": lambda info: "panic"}
    out = await w.Agent(scripted(*[AGAIN] * 3), tools=[look], loop_detection=rules).run("go")
    assert out.status == "failed" and "on_loop_detected answers" in out.error["message"]


async def test_the_same_words_are_a_loop_too():
    model = scripted(
        ["hm  hm", AGAIN], [" hm hm ", OTHER], ["hm\nhm", call("look", text="z")], "ok"
    )
    out = await w.Agent(model, tools=[look], loop_detection=True).run("go")
    assert [f.loop for f in of(out, LoopDetected)] == ["text_repetition"]
    model = scripted(then="I am thinking.")
    out = await w.agent_loop("go", model=model, loop_until_done=True, loop_detection=True)
    assert (out.status, out.stop_reason) == ("stuck", "loop_detected")


async def test_how_far_back_it_looks():
    model = scripted(*[AGAIN] * 6, "ok")
    rules = {"max_repetitions": 2, "window": 4, "on_loop_detected": "continue"}
    out = await w.Agent(model, tools=[look], loop_detection=rules).run("go")
    assert [f.repeat_count for f in of(out, LoopDetected)] == [2, 3, 4, 4, 4]
    rules = {"max_repetitions": 3, "window": 1, "on_loop_detected": "continue"}
    out = await w.Agent(scripted(*[AGAIN] * 4, "ok"), tools=[look], loop_detection=rules).run("go")
    assert [f.repeat_count for f in of(out, LoopDetected)] == [3, 3]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"max_repetitions": 1}, "max_repetitions"),
        ({"window": 0}, "window"),
        ({"on_loop_detected": "explode"}, "on_loop_detected"),
        ({"repetitions": 3}, "max_repetitions"),
    ],
)
async def test_what_is_no_loop_detection(value: Any, words: str):
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=scripted("never"), loop_detection=value)


# --------------------------------------------------------------------------- after a crash


def by_content(request: w.Request) -> Any:
    turn = sum(message.role == "assistant" for message in request.messages)
    script = ["x", "x", "x", "y", "x", "x", "x", "x"]
    if turn < len(script):
        return [w.ToolCall(f"c{turn}", "look", {"text": script[turn]})]
    return "the end"


@pytest.mark.parametrize("by_entry", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"stall_diagnostics": {"max_feedback": 2}},
        {"loop_detection": True},
        {"loop_detect_warn": 2},
        {"stall_diagnostics": True, "loop_detection": True, "loop_detect_skip": 5},
    ],
    ids=["stall", "loop", "tiers", "all"],
)
async def test_a_run_that_stalls_goes_on_from_every_place(options: dict[str, Any], by_entry: bool):
    def make() -> Any:
        model = scripted(then=by_content)
        return w.Agent(model, tools=[look], max_turns=20, **options), model

    out = await from_every_place(make, by_entry=by_entry)
    assert out.status in ("done", "stuck")
