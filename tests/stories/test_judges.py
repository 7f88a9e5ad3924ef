"""Before a run counts as done: your function, your checks, a judge of completion, the done judge."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    said,
)
from tests.stories.judge_helpers import (
    DONE,
    MORE,
    asides,
    from_every_place,
    is_judged,
    of,
    verdict,
)
from windlass import errors
from windlass.events import BudgetExhausted, CheckRan, Framed, JudgeDecision, StepJudgeDecision
from windlass.loop.requests import last_frame
from windlass.policies.judges.judge import render_conversation
from windlass.testing import call, scripted

UNTIL = {"loop_until_done": True}


# --------------------------------------------------------------------------- verify_completion


@pytest.mark.parametrize("answer", [None, True, ""])
async def test_a_function_that_agrees_lets_the_run_end(answer: Any):
    model = scripted("done")
    out = await w.agent_loop("go", model=model, verify_completion=lambda proposal: answer)
    assert (out.status, out.stop_reason, out.llm.iterations) == ("done", "natural", 1)
    [decision] = of(out, JudgeDecision)
    assert (decision.gate, decision.verdict, decision.iteration) == ("verify_completion", "done", 1)
    await kept(out, model)


async def test_a_function_that_objects_is_heard_and_the_run_goes_on():
    model = scripted("first", "second")

    def check(proposal: Any) -> str | None:
        return "no second yet" if "second" not in proposal.text else None

    out = await w.agent_loop("go", model=model, verify_completion=check)
    assert (out.status, out.llm.iterations) == ("done", 2)
    assert said(model.requests[1])[-1] == "no second yet"
    assert model.requests[1].messages[-1].kind == "verify_completion"
    assert [d.verdict for d in of(out, JudgeDecision)] == ["continue", "done"]
    assert of(out, JudgeDecision)[0].reasoning == "no second yet"
    await kept(out, model)


async def test_a_function_is_shown_the_proposal():
    seen: list[Any] = []
    model = scripted([call("add", a=1, b=2), call("broken_name")], "3")
    await w.agent_loop("go", model=model, tools=[add], verify_completion=seen.append)
    [proposal] = seen
    assert (proposal.reason, proposal.iteration, proposal.text) == ("natural", 2, "3")
    assert proposal.successful_tool_names == ["add"] and proposal.session_id
    assert proposal.rejected_tool_names == ["broken_name"]
    assert [m.role for m in proposal.messages] == ["user", "assistant", "tool", "assistant"]


async def test_a_function_may_take_nothing_and_be_asynchronous():
    async def check() -> bool:
        await asyncio.sleep(0)
        return True

    class Callable_:
        async def __call__(self, proposal: Any) -> None:
            assert proposal.text == "ok"

    for one in (check, Callable_()):
        out = await w.agent_loop("go", model=scripted("ok"), verify_completion=one)
        assert out.status == "done"


async def test_false_objects_in_general_words():
    model = scripted("a", "b")
    answers = iter([False, True])
    await w.agent_loop("go", model=model, verify_completion=lambda _: next(answers))
    assert "not finished" in said(model.requests[1])[-1]


async def test_a_function_that_takes_long_does_not_hold_up_others():
    started, release = threading.Event(), threading.Event()

    def check() -> None:
        started.set()
        assert release.wait(10)

    async def others() -> None:
        await asyncio.to_thread(started.wait, 10)
        release.set()  # never reached if the check held the loop

    out, _ = await asyncio.gather(
        w.agent_loop("go", model=scripted("ok"), verify_completion=check), others()
    )
    assert out.status == "done"
    await kept(out)


async def test_a_run_may_be_cancelled_while_a_function_is_at_work():
    started, release, abort = threading.Event(), threading.Event(), w.Abort()

    def check() -> None:
        started.set()
        assert release.wait(10)

    async def stop() -> None:
        await asyncio.to_thread(started.wait, 10)
        abort.abort()
        release.set()

    out, _ = await asyncio.gather(
        w.agent_loop("go", model=scripted("ok"), verify_completion=check, abort=abort), stop()
    )
    assert out.status == "cancelled"
    await kept(out)


async def test_a_function_that_fails_ends_the_run_as_failed():
    def check() -> None:
        raise RuntimeError("no tests here")

    out = await w.agent_loop("go", model=scripted("ok"), verify_completion=check)
    assert (out.status, out.stop_reason) == ("failed", "RuntimeError")
    await kept(out)


async def test_a_function_that_answers_nonsense_is_told_so():
    out = await w.agent_loop("go", model=scripted("ok"), verify_completion=lambda: 7)
    assert out.status == "failed" and "verify_completion answers" in out.error["message"]


@pytest.mark.parametrize("value", [7, [], [7], "", " ", ["true", 7]])
async def test_what_is_no_function_and_no_command_is_refused_before_any_call(value: Any):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match="verify_completion is a function"):
        await w.agent_loop("go", model=model, verify_completion=value)
    assert not model.requests


# --------------------------------------------------------------------------- evidence


async def test_checks_are_run_by_the_runtime_and_recorded():
    def compiles() -> bool:
        return True

    tries = iter(["3 of 9 fail", None])

    async def tests(proposal: Any) -> str | None:
        return next(tries)

    model = scripted("done", "really done")
    out = await w.agent_loop("go", model=model, verify_completion=[compiles, tests])
    assert (out.status, out.llm.iterations) == ("done", 2)
    ran = of(out, CheckRan)
    assert [(c.name, c.passed, c.detail) for c in ran] == [
        ("compiles", True, None),
        ("tests", False, "3 of 9 fail"),
        ("compiles", True, None),
        ("tests", True, None),
    ]
    assert [c["name"] for c in out.checks] == ["compiles", "tests"] * 2
    assert "tests: 3 of 9 fail" in said(model.requests[1])[-1]
    assert "compiles" not in said(model.requests[1])[-1]
    await kept(out, model)


async def test_a_check_that_breaks_has_not_passed():
    def broken() -> None:
        raise OSError("no disk")

    out = await w.agent_loop(
        "go", model=scripted(then="done"), verify_completion=[broken], max_verify_attempts=1
    )
    assert out.status == "verify_exhausted"
    assert of(out, CheckRan)[0].detail == "OSError: no disk"


async def test_without_evidence_a_run_is_never_done():
    """A callback may stop the run without asking a gate; that does not make the work verified."""
    out = await w.agent_loop(
        "go",
        model=scripted("stop now"),
        verify_completion=[lambda: True],
        post_turn_callback=lambda turn: True,
    )
    assert (out.status, out.stop_reason, out.checks) == ("unverified", "post_turn_stop", [])


async def test_evidence_that_is_outdated_is_none():
    """The checks passed once, a judge wanted more, then they failed, then somebody stopped the run."""
    answers, stop = iter([True, "broken again"]), iter([False, False, True])
    out = await w.agent_loop(
        "go",
        model=scripted("a", MORE, "b", "c"),
        verify_completion=[lambda: next(answers)],
        done_judge=True,
        post_turn_callback=lambda turn: next(stop),
    )
    assert out.status == "unverified"


async def test_one_function_that_was_not_asked_leaves_the_run_done():
    out = await w.agent_loop(
        "go",
        model=scripted("stop now"),
        verify_completion=lambda: "never",
        post_turn_callback=lambda turn: True,
    )
    assert (out.status, out.stop_reason) == ("done", "post_turn_stop")


# --------------------------------------------------------------------------- verify_completion_judge


async def test_a_judge_of_completion_vetoes_and_accepts():
    model = scripted("draft", MORE, "final", DONE)
    out = await w.agent_loop("write it", model=model, verify_completion_judge=True)
    assert (out.status, out.llm.iterations, out.final_text) == ("done", 2, "final")
    assert out.completion_judge == {
        "invocations": 2,
        "vetoes": 1,
        "max_invocations": 5,
        "cap_reached": False,
    }
    assert said(model.requests[2])[-1] == "write the tests"
    assert model.requests[2].messages[-1].kind == "verify_completion_judge"
    first = of(out, JudgeDecision)[0]
    assert (first.session_id, first.iteration, first.gate) == (
        out.session_id,
        1,
        "verify_completion_judge",
    )
    assert (first.reasoning, first.next_step) == ("tests are missing", "write the tests")
    assert first.judge_duration_ms >= 0 and first.trigger is None
    await kept(out, model)


async def test_a_judge_sees_the_conversation_and_is_not_part_of_it():
    model = scripted(call("add", a=1, b=2), "It is 3.", DONE)
    out = await w.agent_loop("1 + 2?", model=model, tools=[add], verify_completion_judge=True)
    asked = model.requests[2]
    words = asked.messages[0].text
    assert "USER: 1 + 2?" in words and "CALL add" in words and "RESULT add: 3" in words
    assert "ASSISTANT: It is 3." in words
    assert asked.settings.tool_choice == {"name": "give_verdict"}
    assert [m.role for m in out.all_messages] == ["user", "assistant", "tool", "assistant"]
    assert out.llm.iterations == 2
    await kept(out, model)


async def test_a_judge_has_its_own_words():
    model = scripted("a", verdict("continue"), "b", DONE)
    judge = {"system": "Be strict.", "feedback_fallback": "Not good enough."}
    await w.agent_loop("go", model=model, verify_completion_judge=judge)
    assert model.requests[1].system == "Be strict."
    assert said(model.requests[2])[-1] == "Not good enough."


async def test_reasons_are_told_where_no_next_step_is_named():
    model = scripted("a", verdict("continue", "too short"), "b", DONE)
    await w.agent_loop("go", model=model, verify_completion_judge=True)
    assert said(model.requests[2])[-1] == "too short"


async def test_with_cap_2_two_vetoes_happen_and_the_third_proposal_ends():
    model = scripted("a", MORE, "b", MORE, "c")
    judge = {"max_invocations": 2}
    out = await w.agent_loop("go", model=model, verify_completion_judge=judge)
    assert (out.status, out.stop_reason) == ("verify_capped", "completion_judge_cap_reached")
    assert len(model.requests) == 5
    assert out.completion_judge == {
        "invocations": 2,
        "vetoes": 2,
        "max_invocations": 2,
        "cap_reached": True,
    }
    await kept(out, model)


async def test_the_cap_is_5_where_nobody_says_and_max_feedback_is_another_word_for_it():
    def talk(request: w.Request) -> Any:
        return MORE if is_judged(request) else "x"

    out = await w.agent_loop("go", model=scripted(then=talk), verify_completion_judge=True)
    assert out.completion_judge["vetoes"] == 5 and out.status == "verify_capped"
    judge = {"max_feedback": 1}
    out = await w.agent_loop("go", model=scripted(then=talk), verify_completion_judge=judge)
    assert out.completion_judge["vetoes"] == 1
    with pytest.raises(w.ConfigError, match="the same"):
        both = {"max_feedback": 1, "max_invocations": 1}
        await w.agent_loop("go", model=scripted(), verify_completion_judge=both)


async def test_a_cap_of_0_is_no_cap_and_max_verify_attempts_is_the_last_resort():
    def talk(request: w.Request) -> Any:
        return MORE if is_judged(request) else "x"

    out = await w.agent_loop(
        "go", model=scripted(then=talk), verify_completion_judge={"max_invocations": 0}
    )
    assert (out.status, out.stop_reason) == ("verify_exhausted", "natural")
    assert out.completion_judge == {
        "invocations": 20,
        "vetoes": 20,
        "max_invocations": None,
        "cap_reached": False,
    }
    out = await w.agent_loop(
        "go", model=scripted(then="x"), verify_completion=lambda: "no", max_verify_attempts=3
    )
    assert (out.status, out.llm.iterations) == ("verify_exhausted", 4)
    assert len(of(out, JudgeDecision)) == 3


# --------------------------------------------------------------------------- done_judge


async def test_a_done_judge_is_the_last_gate():
    asked: list[str] = []

    def talk(request: w.Request) -> Any:
        if is_judged(request):
            asked.append(request.system)
            return DONE
        return "x"

    out = await w.agent_loop(
        "go",
        model=scripted(then=talk),
        verify_completion=lambda: asked.append("mine"),
        verify_completion_judge={"system": "completion"},
        done_judge=w.DoneJudge(system="done"),
    )
    assert asked == ["mine", "completion", "done"] and out.status == "done"
    gates = [d.gate for d in of(out, JudgeDecision)]
    assert gates == ["verify_completion", "verify_completion_judge", "done_judge"]


async def test_the_first_veto_ends_the_asking():
    model = scripted("a", MORE, "b", DONE, DONE)
    out = await w.agent_loop("go", model=model, verify_completion_judge=True, done_judge=True)
    gates = [(d.iteration, d.gate, d.verdict) for d in of(out, JudgeDecision)]
    assert gates == [
        (1, "verify_completion_judge", "continue"),
        (2, "verify_completion_judge", "done"),
        (2, "done_judge", "done"),
    ]
    await kept(out, model)


async def test_a_done_judge_has_no_cap_unless_one_is_given():
    model = scripted("a", MORE, "b", MORE, "c", DONE)
    out = await w.agent_loop("go", model=model, done_judge=True)
    assert out.done_judge == {
        "invocations": 3,
        "vetoes": 2,
        "max_invocations": None,
        "cap_reached": False,
    }
    model = scripted("a", MORE, "b")
    out = await w.agent_loop("go", model=model, done_judge={"max_feedback": 1})
    assert (out.status, out.stop_reason) == ("verify_capped", "done_judge_cap_reached")
    assert out.done_judge["cap_reached"] and out.done_judge["max_invocations"] == 1


async def test_a_done_judge_is_asked_on_the_sentinel_and_never_after_a_tool_that_ends_the_run():
    model = scripted("##DONE##", DONE)
    out = await w.agent_loop("go", model=model, done_judge=True, **UNTIL)
    assert (out.stop_reason, out.done_judge["invocations"]) == ("sentinel", 1)
    model = scripted(call("add", a=1, b=1), DONE)
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[add],
        stop_after_successful_tools=["add"],
        done_judge=True,
        verify_completion_judge=True,
    )
    assert (out.status, out.stop_reason, out.llm.iterations) == ("done", "natural", 1)
    assert out.done_judge["invocations"] == 0 and out.completion_judge["invocations"] == 1


@pytest.mark.parametrize("off", [None, False])
async def test_judges_that_are_off_are_not_in_the_result(off: Any):
    out = await w.agent_loop("go", model=scripted("x"), done_judge=off, verify_completion_judge=off)
    assert out.status == "done"
    assert "done_judge" not in out.to_dict() and "completion_judge" not in out.to_dict()


async def test_every_second_turn():
    model = scripted("1 ##DONE##", "2 ##DONE##", MORE, "3 ##DONE##", "4 ##DONE##", DONE)
    out = await w.agent_loop("go", model=model, done_judge={"cadence": {"every": 2}}, **UNTIL)
    assert [d.iteration for d in of(out, JudgeDecision)] == [2, 4]
    assert (out.status, out.llm.iterations) == ("done", 4)


async def test_not_before_the_first_few_turns():
    model = scripted("1", "2", "3", DONE)
    cadence = {"min_iterations_before_first": 2}
    out = await w.agent_loop("go", model=model, done_judge={"cadence": cadence})
    assert [d.iteration for d in of(out, JudgeDecision)] == [3]


async def test_a_cadence_has_a_limit_of_its_own_that_ends_nothing():
    model = scripted("1", MORE, "2", "3")
    judge = {"cadence": {"max_invocations": 1}}
    out = await w.agent_loop("go", model=model, done_judge=judge, max_iterations=3)
    assert (out.status, out.done_judge["invocations"]) == ("budget_exhausted", 1)
    assert out.done_judge["max_invocations"] is None and not out.done_judge["cap_reached"]


async def test_a_function_says_when_a_judge_is_due_and_sees_the_loop():
    seen: list[Any] = []

    async def when(state: Any) -> bool:
        seen.append(state)
        return state.iteration == 2

    model = scripted("1", "2", DONE)
    out = await w.agent_loop("go", model=model, done_judge={"cadence": {"when": when}})
    assert [s.iteration for s in seen] == [1, 2] and out.status == "done"
    assert seen[0].completion.proposed and seen[0].budget.max == 50


async def test_a_judge_may_wait_for_the_required_tools():
    model = scripted("1", call("note", text="x"), "2", DONE)
    cadence = {"when": lambda state: not state.session.required_tools_missing}
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        loop_until_done=True,
        require_successful_tools=["note"],
        done_judge={"cadence": cadence},
    )
    assert [d.iteration for d in of(out, JudgeDecision)] == [3] and out.status == "done"


async def test_a_candidate_that_is_not_due_is_accepted_by_another_gate():
    cadence = {"every": 5}
    out = await w.agent_loop(
        "go", model=scripted("1"), done_judge={"cadence": cadence}, verify_completion=lambda: True
    )
    assert (out.status, out.done_judge["invocations"]) == ("done", 0)


async def test_a_judge_for_stalls_leaves_healthy_ends_alone():
    model = scripted(then="ok ##DONE##")
    out = await w.agent_loop(
        "go", model=model, done_judge={"cadence": {"when": "stalled"}}, max_iterations=3, **UNTIL
    )
    assert (out.status, len(model.requests)) == ("budget_exhausted", 3)


STALLED: dict[str, Any] = {
    "tools": [note],
    "stall_diagnostics": {"threshold": 2},
    "done_judge": {"cadence": {"when": "stalled"}},
}


async def test_a_stall_calls_the_judge_and_done_ends_the_run_before_the_call_runs():
    model = scripted(call("note", text="x"), call("note", text="x"), DONE)
    out = await w.agent_loop("go", model=model, **STALLED)
    assert (out.status, out.stop_reason) == ("done", "stalled_done_judge")
    [decision] = of(out, JudgeDecision)
    assert (decision.trigger, decision.verdict, decision.iteration) == ("stalled", "done", 2)
    assert [r.outcome for r in out.tool_calls] == ["ok", "not_run"]
    assert not [m for m in out.all_messages if m.kind == "stall"]
    await kept(out, model)


async def test_a_stall_that_is_not_done_is_told_and_the_call_runs():
    model = scripted(call("note", text="x"), call("note", text="x"), MORE, then="ok")
    out = await w.agent_loop("go", model=model, max_iterations=4, **STALLED)
    assert [r.outcome for r in out.tool_calls] == ["ok", "ok"]
    told = [m.kind for m in model.requests[3].messages]
    assert told[-2:] == [None, "stall"], "the results first, then what is said about them"
    assert out.done_judge["invocations"] == 1


async def test_a_cap_holds_for_stalls_too():
    model = scripted(*[call("note", text="x")] * 2, MORE, call("note", text="x"))
    options = {**STALLED, "done_judge": {"max_invocations": 1, "cadence": {"when": "stalled"}}}
    out = await w.agent_loop("go", model=model, **options)
    assert (out.status, out.stop_reason) == ("verify_capped", "done_judge_cap_reached")
    await kept(out, model)


# --------------------------------------------------------------------------- who judges


async def test_a_judge_may_be_another_model():
    worker, judge = scripted("done"), scripted(DONE, name="judge", provider="other")
    out = await w.agent_loop("go", model=worker, done_judge={"model": judge})
    assert (len(worker.requests), len(judge.requests)) == (1, 1)
    [reply] = asides(out, "done_judge")
    assert (reply.provider, reply.model) == ("other", "judge")
    rows = await out._run.store.calls(session=out.session_id)
    assert [(row.purpose, row.model) for row in rows] == [
        (None, "scripted"),
        ("done_judge", "judge"),
    ]
    assert out.usage.total_tokens == 30


async def test_a_judge_may_be_named():
    w.llm_mock({"text": '{"verdict": "done", "reasoning": "fine", "next_step": ""}'})
    try:
        out = await w.agent_loop(
            "go", model=scripted("done"), done_judge={"provider": "mock", "model": "judge-1"}
        )
    finally:
        w.llm_mock_clear()
    assert out.status == "done" and asides(out, "done_judge")[0].model == "judge-1"


async def test_a_judge_named_without_a_provider_is_one_of_the_loops():
    w.llm_mock({"text": "work"})
    w.llm_mock({"text": '{"verdict": "done"}'})
    try:
        out = await w.agent_loop(
            "go", provider="mock", model="worker", done_judge={"model": "never-heard-of"}
        )
    finally:
        w.llm_mock_clear()
    [reply] = asides(out, "done_judge")
    assert (reply.provider, reply.model, out.status) == ("mock", "never-heard-of", "done")


@pytest.mark.parametrize("name", ["done_judge", "verify_completion_judge", "step_judge"])
async def test_a_judge_that_cannot_be_reached_is_refused_before_any_call(name: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match="opennai"):
        await w.agent_loop("go", model=model, **{name: {"model": "opennai:gpt-5"}})
    with pytest.raises(w.ConfigError, match="provider"):
        other = scripted()
        await w.agent_loop("go", model=model, **{name: {"model": other, "provider": "openai"}})
    assert not model.requests


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("done_judge", {"cadense": {}}, "cadense.*cadence"),
        ("done_judge", {"cadence": {"evry": 2}}, "evry.*every"),
        ("done_judge", {"cadence": {"every": 0}}, "every"),
        ("done_judge", {"cadence": {"when": "often"}}, "when"),
        ("done_judge", {"max_invocations": -1}, "max_invocations"),
        ("done_judge", 7, "DoneJudge"),
        ("verify_completion_judge", {"modell": "x"}, "modell.*model"),
        ("max_verify_attempts", 0, "max_verify_attempts"),
        ("max_verify_attempts", True, "max_verify_attempts"),
    ],
)
async def test_what_no_judge_is_made_of(option: str, value: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=model, **{option: value})
    assert not model.requests


# --------------------------------------------------------------------------- what judges say


@pytest.mark.parametrize(
    "reply",
    [
        '{"verdict": "done", "reasoning": "ok", "next_step": ""}',
        'Sure! ```json\n{"verdict": "Done",}\n``` Bye.',
        'I thought about {"x": 1} first. {"verdict": "done"}',
        call("something_else", verdict=" DONE "),
    ],
)
async def test_a_verdict_is_found_wherever_it_stands(reply: Any):
    out = await w.agent_loop("go", model=scripted("x", reply), done_judge=True)
    assert out.status == "done", reply


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "yes",
        "{",
        '["done"]',
        '{"verdict": true}',
        '{"verdict": ["done"]}',
        "[" * 5000,
        '{"verdict": "not done"}',
        call("give_verdict"),
        call("give_verdict", verdict=None),
    ],
)
async def test_what_is_no_clear_yes_is_a_no(reply: Any):
    model = scripted("x", reply, "y", DONE)
    out = await w.agent_loop("go", model=model, done_judge=True)
    assert (out.status, out.llm.iterations) == ("done", 2), reply
    assert out.done_judge["vetoes"] == 1
    assert "not finished" in said(model.requests[2])[-1]
    await kept(out, model)


@pytest.mark.parametrize(
    "reply",
    [
        '{"verdict": "continue", "reasoning": "\\ud800", "next_step": "go \\udfff on"}',
        '{"verdict": "continue", "next_step": "' + "x" * 200_000 + '"}',
    ],
    ids=["half characters", "a book"],
)
async def test_a_judge_that_says_what_cannot_be_said_ends_nothing(reply: str):
    model = scripted("x", reply, "y", DONE)
    out = await w.agent_loop("go", model=model, done_judge=True)
    assert (out.status, out.llm.iterations) == ("done", 2), out.error
    assert 0 < len(said(model.requests[2])[-1]) < 5_000
    await kept(out, model)


async def test_what_a_check_printed_may_be_no_text():
    tries = iter(["caf\udce9 failed", None])
    model = scripted("x", "y")
    out = await w.agent_loop("go", model=model, verify_completion=[lambda: next(tries)])
    assert (out.status, out.checks[0]["detail"]) == ("done", "caf? failed")


async def test_what_a_check_printed_may_be_a_book():
    tries = iter(["begins " + "x" * 1_000_000 + " ends", None])
    model = scripted("x", "y")
    await w.agent_loop("go", model=model, verify_completion=[lambda: next(tries)])
    told = said(model.requests[1])[-1]
    assert "begins" in told and told.endswith("ends") and len(told) < 17_000


async def test_a_huge_conversation_is_shown_in_part():
    messages = [w.Message("user", "the task")]
    messages += [w.Message("assistant", "x" * 20_000)] * 200 + [w.Message("user", "the end")]
    words = render_conversation(messages)
    assert len(words) < 130_000
    assert words.startswith("USER: the task") and words.endswith("USER: the end")
    assert "messages left out" in words
    many = w.Message("tool", tuple(w.ToolResult(str(i), "y" * 9_000) for i in range(100)))
    assert len(render_conversation([many])) < 40_000


async def test_a_judge_that_fails_ends_the_run_as_a_provider_error():
    model = scripted("x", then=errors.Overloaded("busy"))
    out = await w.agent_loop("go", model=model, done_judge=True)
    assert (out.status, out.stop_reason) == ("provider_error", "overloaded")
    assert out.done_judge["invocations"] == 0
    await kept(out, model)


async def test_a_judge_cannot_spend_what_is_not_there():
    def talk(request: w.Request) -> Any:
        return MORE if is_judged(request) else "x"

    model = scripted(then=talk, usage={"input_tokens": 400, "output_tokens": 10})
    out = await w.agent_loop("go", model=model, done_judge=True, token_budget=1200)
    assert out.status == "budget_exhausted" and len(of(out, BudgetExhausted)) == 1
    assert out.usage.total_tokens <= 1200 + 410
    await kept(out, model)


async def test_a_run_may_be_cancelled_while_a_judge_thinks():
    abort, waiting = w.Abort(), asyncio.Event()

    async def never(request: w.Request) -> Any:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(
        w.agent_loop("go", model=scripted("x", never), done_judge=True, abort=abort)
    )
    await waiting.wait()
    abort.abort("enough")
    out = await task
    assert out.status == "cancelled" and out.done_judge["invocations"] == 0
    await kept(out)


async def test_what_a_judge_says_is_redacted():
    async with w.Runtime(secrets=("hunter2",)):
        model = scripted("x", verdict("continue", "you wrote hunter2", "hide hunter2"), "y", DONE)
        out = await w.agent_loop("go", model=model, done_judge=True)
    assert "hunter2" not in str(out.trace) and "hunter2" not in str(model.requests[2])
    assert out.status == "done"


@pytest.mark.parametrize("name", ["done_judge", "verify_completion_judge", "step_judge"])
async def test_the_key_of_a_judge_is_a_secret_of_the_run(name: str):
    async with w.Runtime(store="memory:", environ={}):
        judge = scripted(then=verdict("continue", "your key is sk-judge-1234567"))
        judge.secrets = ("sk-judge-1234567",)
        model = scripted(then="x")
        out = await w.agent_loop("go", model=model, max_iterations=3, **{name: {"model": judge}})
    assert "your key is" in str(out.trace) and "sk-judge-1234567" not in str(out.trace)


async def test_whoever_watches_sees_the_decision_where_it_fell():
    seen: list[Any] = []
    model = scripted("x", MORE, "y", DONE)
    await w.agent_loop("go", model=model, done_judge=True, on_event=seen.append)
    kinds = [type(event).__name__ for event in seen]
    assert kinds.count("JudgeDecision") == 2
    assert kinds.index("JudgeDecision") < kinds.index("FeedbackInjected")


# --------------------------------------------------------------------------- many runs, parked runs


async def test_what_is_asked_again_and_again_is_on_record_once():
    model = scripted("a", MORE, "b", MORE, "c", DONE)
    out = await w.agent_loop("go", model=model, session_id="s", done_judge=True)
    assert [entry.why for entry in of(out, Framed)] == ["start", "done_judge"]
    model.replies, model._served = ("d", MORE, "e", DONE), 0
    out = await w.agent_loop("go on", model=model, session_id="s", done_judge=True)
    assert [entry.why for entry in of(out, Framed)] == ["start"]
    entries = await out._run.store.read("s")
    last = last_frame(entries)
    assert last is not None and last.why == "start", "the judge's frame is not the session's"
    await kept(out, model)


async def test_one_agent_judges_many_runs_at_once():
    agent = w.Agent(scripted(then=by_content, delay=0.001), done_judge=True, max_verify_attempts=9)
    outs = await asyncio.gather(*(agent.run("go") for _ in range(8)))
    assert [out.done_judge["invocations"] for out in outs] == [3] * 8
    assert {out.status for out in outs} == {"done"}
    for out in outs:
        await kept(out)


async def test_a_run_that_was_parked_asks_its_judges_once():
    class Approve(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Suspend | None:
            return w.Suspend("approve") if call.id not in run.calls.answers else None

    passed = call("give_verdict", verdict="pass")
    model = scripted(call("note", text="x"), passed, "end", passed, DONE)
    agent = w.Agent(
        model,
        tools=[note],
        policies=[Approve()],
        step_judge={},
        done_judge=True,
        stall_diagnostics=True,
        loop_detection=True,
    )
    parked = await agent.run("go", session_id="parked")
    assert (parked.status, len(model.requests)) == ("suspended", 2)
    out = await agent.resume("parked", decisions={parked.pending[0].id: w.Allow()})
    assert (out.status, out.output, len(model.requests)) == ("done", "end", 5)
    assert [d.iteration for d in of(out, StepJudgeDecision)] == [1, 2]
    await kept(out)


# --------------------------------------------------------------------------- after a crash


def by_content(request: w.Request) -> Any:
    """What it says depends on what it is asked, so that it can be asked by several processes."""
    if is_judged(request):
        words = request.messages[0].text
        return DONE if "third" in words else MORE
    turn = sum(message.role == "assistant" for message in request.messages)
    return ["first", "second", "third"][turn]


@pytest.mark.parametrize("by_entry", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"done_judge": True},
        {"verify_completion_judge": {"max_invocations": 2}},
        {"verify_completion": lambda p: None if "third" in p.text else "not third"},
        {"verify_completion": [lambda: True, lambda p: "third" in p.text]},
        {"verify_completion_judge": True, "done_judge": True, "max_verify_attempts": 2},
    ],
    ids=["done", "capped", "function", "checks", "both"],
)
async def test_a_judged_run_goes_on_from_every_place(options: dict[str, Any], by_entry: bool):
    def make() -> Any:
        model = scripted(then=by_content)
        return w.Agent(model, **options), model

    out = await from_every_place(make, by_entry=by_entry)
    assert out.status in ("done", "verify_capped", "verify_exhausted")
