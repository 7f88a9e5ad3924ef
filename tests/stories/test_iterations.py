"""How many turns a run may take: fixed or adaptive, and a function of yours that decides."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    broken,
    kept,
    note,
    said,
)
from tests.stories.judge_helpers import (
    DONE,
    MORE,
    from_every_place,
    is_judged,
    look,
    of,
)
from windlass.events import LoopControlDecision
from windlass.testing import call, scripted


def busy(request: w.Request) -> Any:
    """Calls a tool for ever."""
    return call("note", text="x")


# --------------------------------------------------------------------------- iteration_budget


async def test_a_fixed_budget_is_max_iterations_by_another_name():
    for budget in ({"max": 3}, {"mode": "fixed", "initial": 3, "max": 3}, w.IterationBudget(max=3)):
        out = await w.agent_loop(
            "go", model=scripted(then=busy), tools=[note], iteration_budget=budget
        )
        assert (out.status, out.stop_reason) == ("budget_exhausted", "max_iterations")
        assert out.llm.iterations == 3 and "adaptive_budget" not in out.to_dict()


async def test_a_fixed_budget_is_50_turns_and_wins_over_max_iterations():
    out = await w.agent_loop(
        "go", model=scripted(then=busy), tools=[note], iteration_budget="fixed", max_iterations=2
    )
    assert out.llm.iterations == 50


async def test_an_adaptive_budget_grows_while_tools_are_called_up_to_its_maximum():
    model = scripted(then=busy)
    out = await w.agent_loop("go", model=model, tools=[note], iteration_budget="adaptive")
    assert (out.status, out.llm.iterations) == ("budget_exhausted", 16)
    grown = out.adaptive_budget
    assert (grown["mode"], grown["initial"], grown["max"]) == ("adaptive", 4, 16)
    assert (grown["extensions_used"], grown["final_limit"]) == (6, 16)
    assert grown["decisions"][0] == {
        "iteration": 4,
        "action": "extend",
        "old_limit": 4,
        "new_limit": 6,
        "reason": "executed 1 tool call",
        "status": None,
    }
    assert [(e.old_limit, e.new_limit) for e in of(out, LoopControlDecision)] == [
        (n, n + 2) for n in range(4, 16, 2)
    ]
    await kept(out, model)


async def test_an_adaptive_budget_does_not_grow_for_talk():
    model = scripted(then="hm")
    out = await w.agent_loop("go", model=model, loop_until_done=True, iteration_budget="adaptive")
    assert (out.status, out.llm.iterations) == ("budget_exhausted", 4)
    assert out.adaptive_budget["decisions"] == []


async def test_an_adaptive_budget_grows_when_the_end_was_refused():
    def talk(request: w.Request) -> Any:
        return MORE if is_judged(request) else "x"

    budget = {"mode": "adaptive", "initial": 1, "max": 3, "extend_by": 1}
    out = await w.agent_loop(
        "go", model=scripted(then=talk), iteration_budget=budget, done_judge=True
    )
    reasons = [d["reason"] for d in out.adaptive_budget["decisions"]]
    assert reasons == ["completion gate vetoed"] * 2 and out.llm.iterations == 3


async def test_an_adaptive_budget_grows_while_required_tools_are_missing():
    budget = {"mode": "adaptive", "initial": 1, "max": 2}
    out = await w.agent_loop(
        "go",
        model=scripted(then="x"),
        tools=[note],
        iteration_budget=budget,
        require_successful_tools=["note"],
    )
    assert [d["reason"] for d in out.adaptive_budget["decisions"]] == [
        "required tools missing: note"
    ]
    assert (out.status, out.llm.iterations) == ("failed", 2)


async def test_what_is_left_out_has_its_usual_value():
    full = w.IterationBudget(mode="adaptive", max=20).resolve()
    assert (full.initial, full.max, full.extend_by, full.expose) == (5, 20, 2, True)
    full = w.IterationBudget(mode="adaptive", max=2).resolve()
    assert full.initial == 1
    full = w.IterationBudget().resolve()
    assert (full.initial, full.max, full.extend_by, full.expose) == (50, 50, 0, False)


@pytest.mark.parametrize("mode", ["fixed", "adaptive"])
@pytest.mark.parametrize("expose", [True, False])
async def test_decisions_are_in_the_result_where_that_is_wanted(mode: Any, expose: bool):
    budget = {"mode": mode, "max": 2, "expose_decisions": expose}
    out = await w.agent_loop("go", model=scripted("x"), iteration_budget=budget)
    assert ("adaptive_budget" in out.to_dict()) is expose
    if expose:
        assert out.adaptive_budget["mode"] == mode and out.adaptive_budget["max"] == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("adaptiv", "adaptive"),
        ({"mode": "free"}, "fixed"),
        ({"initial": 0}, "initial"),
        ({"max": -1}, "max"),
        ({"mode": "adaptive", "extend_by": 0}, "extend_by"),
        ({"mode": "adaptive", "initial": 9, "max": 4}, "more than max"),
        ({"initial": 60}, "more than max"),
        ({"max": 3.5}, "whole number"),
        ({"max": True}, "whole number"),
        ({"maximum": 3}, "max"),
        (7, "IterationBudget"),
    ],
)
async def test_what_is_no_budget_is_refused_before_the_first_call(value: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=model, iteration_budget=value)
    assert not model.requests


# --------------------------------------------------------------------------- loop_control


async def test_a_function_sees_the_whole_state_of_the_loop():
    seen: list[w.LoopState] = []

    def talk(request: w.Request) -> Any:
        if is_judged(request):
            return MORE
        turn = sum(m.role == "assistant" for m in request.messages)
        return [[call("note", text="x"), call("broken")], "draft ##DONE##", "more", "end"][turn]

    @w.tool
    def other() -> str:
        """Do something else."""
        return "done"

    out = await w.agent_loop(
        "go",
        model=scripted(then=talk),
        tools=[note, broken, other],
        loop_until_done=True,
        done_sentinel="##DONE##",
        done_judge={"cadence": {"max_invocations": 1}},
        require_successful_tools=["note", ["broken", "other"]],
        iteration_budget={"mode": "adaptive", "initial": 3, "max": 9},
        loop_control=lambda state: seen.append(state),
    )
    first, second, third = seen
    assert (first.iteration, second.iteration, third.iteration) == (1, 2, 3)
    assert (first.budget.current_limit, first.budget.max) == (3, 9)
    assert (first.budget.remaining, third.budget.remaining) == (2, 0)
    assert first.budget.extension_count == 0
    assert first.turn.tool_call_count == 2 and not first.turn.native_fallback_used
    assert first.turn.successful_tool_names == ["note"]
    assert first.turn.rejected_tool_names == ["broken"]
    assert second.turn.successful_tool_names == [] and second.turn.text_chars == len("draft")
    assert second.session.successful_tool_names == ["note"]
    assert second.session.rejected_tool_names == ["broken"]
    assert not second.session.required_tools_satisfied
    assert second.session.required_tools_missing == ["broken or other"]
    assert not first.completion.proposed and second.completion.proposed
    assert second.completion.vetoed and second.completion.verdict == "continue"
    assert second.completion.feedback == "write the tests"
    assert not third.completion.vetoed and third.completion.feedback is None
    assert first.progress.changed and first.progress.summary == "executed 2 tool calls"
    assert second.progress.summary == "completion gate vetoed"
    assert third.progress.summary == "wrote 4 characters"
    assert out.status == "failed"


async def test_a_function_extends_by_until_or_the_usual_step_never_beyond_the_maximum():
    answers = iter(
        [
            {"action": "extend", "by": 3, "reason": "three"},
            {"action": "extend", "until": 7, "by": 1},
            {"action": "extend"},
            {"action": "extend", "by": -4},
            {"action": "extend", "by": 100},
            {"action": "extend", "until": 2},
            {"action": "none"},
            None,
        ]
    )
    out = await w.agent_loop(
        "go",
        model=scripted(then=busy),
        tools=[note],
        iteration_budget={"mode": "adaptive", "initial": 1, "max": 12, "extend_by": 2},
        loop_control=lambda state: next(answers, None),
    )
    limits = [(d["old_limit"], d["new_limit"]) for d in out.adaptive_budget["decisions"]]
    assert limits == [(1, 4), (4, 7), (7, 9), (9, 11), (11, 12)]
    assert out.adaptive_budget["decisions"][0]["reason"] == "three"
    assert out.adaptive_budget["final_limit"] == 12 == out.llm.iterations
    assert out.adaptive_budget["extensions_used"] == 5


async def test_a_function_replaces_the_usual_rule():
    out = await w.agent_loop(
        "go",
        model=scripted(then=busy),
        tools=[note],
        iteration_budget="adaptive",
        loop_control=lambda state: None,
    )
    assert out.llm.iterations == 4


async def test_a_fixed_budget_cannot_be_extended():
    out = await w.agent_loop(
        "go",
        model=scripted(then=busy),
        tools=[note],
        max_iterations=3,
        loop_control=lambda state: {"action": "extend", "by": 5},
    )
    assert out.llm.iterations == 3 and not of(out, LoopControlDecision)


async def test_a_function_stops_the_loop_and_says_how_it_ended():
    async def control(state: w.LoopState) -> Any:
        if state.iteration == 2:
            return {"action": "stop", "status": "incomplete", "reason": "enough"}

    model = scripted(then=busy)
    out = await w.agent_loop(
        "go", model=model, tools=[note], iteration_budget="adaptive", loop_control=control
    )
    assert (out.status, out.stop_reason, out.llm.iterations) == ("incomplete", "enough", 2)
    [decision] = out.adaptive_budget["decisions"]
    assert (decision["action"], decision["status"], decision["reason"]) == (
        "stop",
        "incomplete",
        "enough",
    )
    assert (decision["old_limit"], decision["new_limit"]) == (4, 4)
    await kept(out, model)


async def test_a_stop_has_a_status_and_a_reason_where_none_is_given():
    out = await w.agent_loop(
        "go", model=scripted(then=busy), tools=[note], loop_control=lambda s: {"action": "stop"}
    )
    assert (out.status, out.stop_reason, out.llm.iterations) == ("stopped", "loop_control", 1)


async def test_it_is_asked_after_each_turn_that_goes_on_and_not_after_the_last():
    asked: list[int] = []
    model = scripted(call("note", text="x"), call("note", text="y"), "end")
    await w.agent_loop(
        "go", model=model, tools=[note], loop_control=lambda s: asked.append(s.iteration)
    )
    assert asked == [1, 2]


async def test_it_is_asked_after_the_nudge():
    """The order of a turn that goes on: nudge, then control."""
    seen: list[str] = []
    model = scripted("hm", "##DONE##")
    await w.agent_loop(
        "go",
        model=model,
        loop_until_done=True,
        loop_control=lambda s: seen.append("control"),
        on_event=lambda event: seen.append(type(event).__name__),
    )
    assert seen.index("FeedbackInjected") < seen.index("control")
    assert seen.count("control") == 1 and "You have not finished" in said(model.requests[1])[-1]


async def test_decisions_are_events():
    seen: list[Any] = []
    await w.agent_loop(
        "go",
        model=scripted(then=busy),
        tools=[note],
        iteration_budget={"mode": "adaptive", "initial": 1, "max": 2},
        on_event=seen.append,
    )
    [event] = [e for e in seen if isinstance(e, LoopControlDecision)]
    assert (event.action, event.old_limit, event.new_limit) == ("extend", 1, 2)
    assert event.iteration == 1 and event.reason


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("extend", "a dict"),
        (True, "a dict"),
        ({"action": "more"}, "extend"),
        ({"action": "extend", "by": "2"}, "by"),
        ({"action": "extend", "until": 2.5}, "until"),
        ({"action": "stop", "status": 3}, "status"),
        ({"action": "stop", "reson": "x"}, "reason"),
    ],
)
async def test_an_answer_that_means_nothing_ends_the_run_in_words(answer: Any, words: str):
    out = await w.agent_loop(
        "go", model=scripted(then=busy), tools=[note], loop_control=lambda s: answer
    )
    assert out.status == "failed" and words in out.error["message"]
    await kept(out)


async def test_what_is_no_function_is_refused():
    with pytest.raises(w.ConfigError, match="loop_control is a function"):
        await w.agent_loop("go", model=scripted("never"), loop_control={"action": "stop"})


async def test_a_budget_s_own_limit_on_turns_is_not_forgotten():
    seen: list[Any] = []
    out = await w.agent_loop(
        "go",
        model=scripted(then=busy),
        tools=[note],
        budget={"iterations": 3},
        loop_control=seen.append,
    )
    assert out.llm.iterations == 3 and seen[0].budget.max == 3
    with pytest.raises(w.ConfigError, match="give one"):
        await w.agent_loop(
            "go", model=scripted(), budget={"iterations": 3}, iteration_budget="adaptive"
        )


async def test_an_agent_has_ten_turns_to_control():
    seen: list[Any] = []
    await w.Agent(
        scripted(call("note", text="x"), "end"), tools=[note], loop_control=seen.append
    ).run("go")
    assert seen[0].budget.max == 10


# --------------------------------------------------------------------------- after a crash


def by_content(request: w.Request) -> Any:
    if is_judged(request):
        return DONE
    turn = sum(message.role == "assistant" for message in request.messages)
    return [w.ToolCall(f"c{turn}", "look", {"text": str(turn)})] if turn < 5 else "end"


def stops_at_four(state: w.LoopState) -> Any:
    if state.iteration == 4:
        return {"action": "stop", "status": "incomplete"}
    return {"action": "extend", "by": 1} if state.budget.remaining == 0 else None


@pytest.mark.parametrize("by_entry", [False, True])
@pytest.mark.parametrize("control", [None, stops_at_four], ids=["usual", "own"])
async def test_a_budget_goes_on_from_every_place(control: Any, by_entry: bool):
    def make() -> Any:
        model = scripted(then=by_content)
        budget = {"mode": "adaptive", "initial": 1, "max": 9, "extend_by": 1}
        agent = w.Agent(
            model, tools=[look], iteration_budget=budget, loop_control=control, done_judge=True
        )
        return agent, model

    out = await from_every_place(make, by_entry=by_entry)
    assert out.status == ("done" if control is None else "incomplete")
