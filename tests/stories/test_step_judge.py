"""A judge of single steps: it looks at each reply before any of its calls run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, note, said
from tests.stories.judge_helpers import (
    DONE,
    asides,
    from_every_place,
    is_judged,
    look,
    of,
    step,
)
from windlass import errors
from windlass.events import IterationEnd, StepJudgeDecision
from windlass.testing import call, scripted

PASS, REVISE = step("pass"), step("revise", "read it first")
LONG = {"max_iterations": 20}


async def test_a_step_that_passes_runs():
    model = scripted(call("note", text="x"), PASS, "ok", PASS)
    out = await w.agent_loop("go", model=model, tools=[note], step_judge={}, **LONG)
    assert (out.status, out.llm.iterations, out.tools.successful) == ("done", 2, ["note"])
    first = of(out, StepJudgeDecision)[0]
    assert (first.verdict, first.reasoning, first.confidence) == ("pass", "because", 0.9)
    assert (first.session_id, first.iteration, first.skipped) == (out.session_id, 1, False)
    await kept(out, model)


async def test_a_vetoed_step_is_taken_out_of_the_view_and_its_calls_do_not_run():
    model = scripted(call("note", text="x"), REVISE, "better", PASS)
    out = await w.agent_loop("go", model=model, tools=[note], step_judge={}, **LONG)
    assert (out.status, out.llm.iterations, out.tools.calls) == ("done", 2, [])
    assert [m.role for m in model.requests[2].messages] == ["user", "user"]
    assert said(model.requests[2])[-1] == "read it first"
    assert model.requests[2].messages[-1].kind == "step_judge"
    assert of(out, IterationEnd)[0].verdict == "dropped"
    assert of(out, StepJudgeDecision)[0].critique == "read it first"
    await kept(out, model)


async def test_a_vetoed_step_may_stay_with_its_calls_answered():
    model = scripted(call("note", text="x"), REVISE, "better", PASS)
    judge = {"on_veto": "retain"}
    out = await w.agent_loop("go", model=model, tools=[note], step_judge=judge, **LONG)
    assert [m.role for m in model.requests[2].messages] == ["user", "assistant", "tool", "user"]
    assert [r.outcome for r in out.tool_calls] == ["not_run"]
    assert said(model.requests[2])[-1] == "read it first"
    await kept(out, model)


async def test_the_judge_sees_the_step_before_it_runs():
    ran: list[str] = []

    @w.tool(side_effect_level="none")
    async def look() -> str:
        """A look."""
        ran.append("look")
        return "seen"

    def judge(request: w.Request) -> Any:
        assert "CALL look" in request.messages[0].text and not ran
        return REVISE

    model = scripted(call("look"), judge, "ok", PASS, stream=True)
    await w.agent_loop("go", model=model, tools=[look], step_judge={}, eager_tools=False, **LONG)
    assert ran == []


async def test_after_three_vetoes_in_a_row_the_judge_is_not_asked():
    model = scripted("a", REVISE, "b", REVISE, "c", REVISE, "d")
    out = await w.agent_loop("go", model=model, step_judge=True, **LONG)
    last = of(out, StepJudgeDecision)[-1]
    assert (last.skipped, last.reason, last.verdict) == (True, "max_attempts_reached", None)
    assert (out.final_text, out.llm.iterations, len(model.requests)) == ("d", 4, 7)
    await kept(out, model)


async def test_a_pass_begins_the_count_anew_and_a_skip_does_not():
    one = call("note", text="x")
    model = scripted(one, REVISE, one, PASS, one, REVISE, one, REVISE, one, "end")
    judge = w.StepJudge(max_attempts=2)
    out = await w.agent_loop("go", model=model, tools=[note], step_judge=judge, **LONG)
    seen = [(d.verdict or d.reason) for d in of(out, StepJudgeDecision)]
    assert seen == ["revise", "pass", "revise", "revise", *["max_attempts_reached"] * 2]


async def test_with_no_turn_left_for_another_try_the_judge_is_not_asked():
    model = scripted("a", REVISE, "b")
    out = await w.agent_loop("go", model=model, step_judge={}, max_iterations=2)
    assert [d.reason for d in of(out, StepJudgeDecision)] == [None, "low_iteration_budget"]
    assert out.final_text == "b"
    model = scripted("a")
    judge = {"skip_when_iterations_remaining": 5}
    out = await w.agent_loop("go", model=model, step_judge=judge, max_iterations=5)
    assert of(out, StepJudgeDecision)[0].reason == "low_iteration_budget"
    model = scripted("a", PASS)
    judge = {"skip_when_iterations_remaining": 0}
    out = await w.agent_loop("go", model=model, step_judge=judge, max_iterations=1)
    assert of(out, StepJudgeDecision)[0].verdict == "pass"


async def test_an_empty_reply_is_not_judged_unless_that_is_wanted():
    model = scripted(" ", "ok", PASS)
    until = {"loop_until_done": True, "tools": [note], **LONG}
    out = await w.agent_loop("go", model=model, step_judge={}, **until)
    assert [d.reason for d in of(out, StepJudgeDecision)] == ["empty_response", None]
    model = scripted(" ", PASS, "ok", PASS)
    out = await w.agent_loop("go", model=model, step_judge={"skip_when_empty": False}, **until)
    assert [d.verdict for d in of(out, StepJudgeDecision)] == ["pass", "pass"]


async def test_a_step_that_stalls_is_not_judged_too():
    again = call("note", text="x")
    options = {"tools": [note], "stall_diagnostics": {"threshold": 2}, **LONG}
    model = scripted(again, PASS, again, "ok", PASS)
    out = await w.agent_loop("go", model=model, step_judge={}, **options)
    assert [d.reason for d in of(out, StepJudgeDecision)] == [None, "stall_already_detected", None]
    model = scripted(again, PASS, again, PASS, "ok", PASS)
    out = await w.agent_loop("go", model=model, step_judge={"skip_when_stalled": False}, **options)
    assert [d.verdict for d in of(out, StepJudgeDecision)] == ["pass"] * 3


async def test_a_dropped_step_is_no_repetition():
    again = call("note", text="x")
    model = scripted(again, REVISE, again, REVISE, again, PASS, "ok", PASS)
    out = await w.agent_loop(
        "go", model=model, tools=[note], step_judge={}, stall_diagnostics={"threshold": 2}, **LONG
    )
    assert (out.repeated_tool_calls, out.suspected_loop) == (0, False)


@pytest.mark.parametrize("word", ["pass", "PASS", " approved ", "ok", "accept", "yes"])
async def test_words_that_let_a_step_pass(word: str):
    out = await w.agent_loop("go", model=scripted("a", step(word)), step_judge={}, **LONG)
    assert of(out, StepJudgeDecision)[0].verdict == "pass"


@pytest.mark.parametrize("reply", ["no idea", "", step("perhaps"), call("give_verdict")])
async def test_anything_else_is_a_veto(reply: Any):
    model = scripted("a", reply, "b", PASS)
    out = await w.agent_loop("go", model=model, step_judge={}, **LONG)
    assert [d.verdict for d in of(out, StepJudgeDecision)] == ["revise", "pass"]
    assert said(model.requests[2])[-1]


@pytest.mark.parametrize("value", [True, "very", None, 1e300, [1]])
async def test_a_confidence_that_is_no_number_is_none(value: Any):
    reply = call("give_verdict", verdict="pass", confidence=value)
    out = await w.agent_loop("go", model=scripted("a", reply), step_judge={}, **LONG)
    assert of(out, StepJudgeDecision)[0].confidence is None


async def test_a_judge_that_fails_lets_the_step_pass():
    model = scripted(call("note", text="x"), errors.BadRequest("busy"), "ok", PASS)
    out = await w.agent_loop("go", model=model, tools=[note], step_judge={}, **LONG)
    first = of(out, StepJudgeDecision)[0]
    assert (first.verdict, first.error, first.skipped) == (None, "busy", False)
    assert (out.status, out.tools.successful) == ("done", ["note"])
    await kept(out, model)


async def test_a_budget_that_runs_out_while_it_is_asked_ends_the_run():
    def talk(request: w.Request) -> Any:
        return PASS if is_judged(request) else call("note", text="x" * len(request.messages))

    model = scripted(then=talk, usage={"input_tokens": 300, "output_tokens": 10})
    out = await w.agent_loop(
        "go", model=model, tools=[note], step_judge={}, token_budget=1500, **LONG
    )
    assert out.status == "budget_exhausted"
    await kept(out, model)


async def test_it_may_be_cancelled():
    abort, waiting = w.Abort(), asyncio.Event()

    async def never(request: w.Request) -> Any:
        waiting.set()
        await asyncio.Event().wait()

    model = scripted(call("note", text="x"), never)
    task = asyncio.ensure_future(
        w.agent_loop("go", model=model, tools=[note], step_judge={}, abort=abort, **LONG)
    )
    await waiting.wait()
    abort.abort()
    out = await task
    assert (out.status, out.tools.successful) == ("cancelled", [])
    await kept(out)


async def test_it_may_be_another_model_with_its_own_words():
    worker, judge = scripted("a"), scripted(PASS, name="j", provider="o")
    out = await w.agent_loop(
        "go", model=worker, step_judge={"model": judge, "system": "Be kind."}, **LONG
    )
    assert judge.requests[0].system == "Be kind."
    assert asides(out, "step_judge")[0].model == "j"


async def test_neither_loop_control_nor_the_callback_look_at_a_vetoed_step():
    looked: list[Any] = []
    for on_veto in ("replace", "retain"):
        model = scripted(call("note", text="x"), REVISE, call("note", text="y"), PASS, "z", PASS)
        await w.agent_loop(
            "go",
            model=model,
            tools=[note],
            step_judge={"on_veto": on_veto},
            loop_control=lambda state: looked.append(("control", state.iteration)),
            post_turn_callback=lambda turn: looked.append(("callback", turn.iteration + 1)),
            **LONG,
        )
    assert looked == [("callback", 2), ("control", 2), ("callback", 3)] * 2


async def test_a_vetoed_step_is_no_talk():
    model = scripted("a", REVISE, "b", REVISE, "done ##DONE##", PASS)
    out = await w.agent_loop(
        "go",
        model=model,
        step_judge={"on_veto": "retain"},
        loop_until_done=True,
        max_nudges=0,
        **LONG,
    )
    assert (out.status, out.stop_reason) == ("done", "sentinel")


async def test_steps_are_judged_and_the_end_too():
    model = scripted("a", PASS, DONE)
    out = await w.agent_loop("go", model=model, step_judge={}, done_judge=True, **LONG)
    assert out.status == "done" and [r.purpose for r in out._replies] == [
        None,
        "step_judge",
        "done_judge",
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"on_veto": "drop"}, "replace"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"skip_when_empty": "no"}, "True or False"),
        ({"skip_when_iterations_remaining": -1}, "remaining"),
        ({"max_attempt": 1}, "max_attempts"),
        ("yes", "StepJudge"),
    ],
)
async def test_what_is_no_step_judge(value: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=model, step_judge=value)
    assert not model.requests


def by_content(request: w.Request) -> Any:
    if is_judged(request):
        words = request.messages[0].text
        bad = "bad" in words.rsplit("ASSISTANT:", 1)[-1] or 'CALL note: {"text":"bad' in words
        return step("revise", f"not bad {words.count('not bad')}") if bad else PASS
    told = [m.text for m in request.messages if m.kind == "step_judge"]
    turn = sum(m.role == "assistant" for m in request.messages) + len(told)
    asked = [("bad",), ("good",), ("bad",), ("bad",), ("fine",)]
    if turn < len(asked):
        return [w.ToolCall(f"c{turn}", "look", {"text": asked[turn][0]})]
    return "the end"


@pytest.mark.parametrize("by_entry", [False, True])
@pytest.mark.parametrize("on_veto", ["replace", "retain"])
async def test_a_run_with_judged_steps_goes_on_from_every_place(on_veto: str, by_entry: bool):
    def make() -> Any:
        model = scripted(then=by_content)
        agent = w.Agent(model, tools=[look], step_judge={"on_veto": on_veto, "max_attempts": 2})
        return agent, model

    out = await from_every_place(make, by_entry=by_entry)
    assert out.status == "done" and len(of(out, StepJudgeDecision)) > 3
