"""Behaviour of your own: the order of moments, the strength of verdicts, memory, and words."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    kinds,
    note,
    said,
)
from tests.stories.policies import at, named
from windlass.events import FinishProposed, IterationEnd
from windlass.loop.verdict import strongest
from windlass.testing import call, scripted

# --------------------------------------------------------------------------- order


async def test_every_moment_comes_in_its_place_and_the_afters_in_reverse():
    log: list[str] = []

    def watching(name: str) -> w.Policy[Any]:
        def heard(moment: str, answer: int | None) -> Any:
            async def method(self: Any, run: w.Run, *args: Any) -> Any:
                log.append(f"{moment} {name}")
                return None if answer is None else args[answer]

            return method

        moments = {
            "start": None,
            "before_turn": None,
            "before_model": 0,
            "after_reply": None,
            "before_tool": None,
            "after_tool": 1,
            "after_turn": None,
            "before_finish": None,
            "end": 0,
        }
        return named(name, **{m: heard(m, a) for m, a in moments.items()})

    model = scripted(call("note", text="x"), "done")
    out = await w.agent_loop(
        "go", model=model, tools=[note], policies=[watching("A"), watching("B")]
    )
    turn_one = ["before_turn", "before_model", "after_reply", "before_tool"]
    turn_two = ["before_turn", "before_model", "after_reply", "after_turn", "before_finish"]
    assert log == [
        "start A",
        "start B",
        *[f"{m} {p}" for m in turn_one for p in "AB"],
        "after_tool B",
        "after_tool A",
        "after_turn A",
        "after_turn B",
        *[f"{m} {p}" for m in turn_two for p in "AB"],
        "end B",
        "end A",
    ]
    await kept(out, model)


async def test_at_a_door_the_first_verdict_ends_the_asking():
    asked: list[str] = []

    async def never(self: Any, run: w.Run, turn: w.Turn, finish: w.Finish) -> None:
        asked.append("second")

    out = await w.agent_loop(
        "go",
        model=scripted("x"),
        policies=[
            at("before_finish", w.Stop("stopped", "no")),
            named("Second", before_finish=never),
        ],
    )
    assert (out.status, asked) == ("stopped", [])


async def test_in_the_vote_everybody_is_asked_and_the_strongest_wins():
    votes = {
        "finish": w.Finish("early"),
        "go on": w.KeepGoing(),
        "park": w.Suspend("wait"),
        "stop": w.Stop("stopped", "enough"),
    }

    async def status(*names: str) -> tuple[str, str | None, int]:
        model = scripted("one", "two", "three")
        said = [at("after_turn", votes[name], f"P{n}") for n, name in enumerate(names)]
        out = await w.agent_loop("go", model=model, policies=said, max_iterations=2)
        return out.status, out.stop_reason, len(model.requests)

    assert await status("finish") == ("done", "early", 1)
    assert await status("finish", "go on") == ("budget_exhausted", "max_iterations", 2)
    assert await status("finish", "go on", "park") == ("suspended", "wait", 1)
    assert await status("finish", "park", "stop", "go on") == ("stopped", "enough", 1)


def test_the_first_among_equals():
    assert strongest([w.Stop("a"), w.Stop("b")]) == w.Stop("a")
    assert strongest([]) is None


async def test_a_vote_may_end_a_run_that_still_calls_tools():
    model = scripted(call("add", a=1, b=1))
    out = await w.agent_loop(
        "go", model=model, tools=[add], policies=[at("after_turn", w.Finish("seen enough"))]
    )
    assert (out.status, out.stop_reason) == ("done", "seen enough")
    await kept(out, model)


async def test_a_veto_at_the_end_keeps_the_run_going():
    class Checks(w.Policy[None]):
        async def before_finish(self, run: w.Run, turn: w.Turn, finish: w.Finish) -> Any:
            if "sure" not in turn.text:
                run.say("Are you sure?", "check")
                return w.KeepGoing("not sure")
            return None

    model = scripted("4", "4, I am sure")
    out = await w.agent_loop("2+2?", model=model, policies=[Checks()])
    assert (out.status, out.llm.iterations) == ("done", 2)
    assert said(model.requests[1])[-1] == "Are you sure?"
    assert sum(isinstance(e, FinishProposed) for e in out.entries) == 2
    await kept(out, model)


async def test_a_veto_without_words_lets_the_model_continue():
    first = True

    def veto() -> Any:
        nonlocal first
        verdict, first = (w.KeepGoing() if first else None), False
        return verdict

    model = scripted("a", "b")
    out = await w.agent_loop("go", model=model, policies=[at("before_finish", veto)])
    assert said(model.requests[1])[-1] == "Continue."
    await kept(out, model)


async def test_a_budget_overrules_a_judge():
    out = await w.agent_loop(
        "go",
        model=scripted(then="x"),
        token_budget=40,
        policies=[at("before_finish", w.KeepGoing("never good enough"))],
    )
    assert out.status == "budget_exhausted"


@pytest.mark.parametrize("moment", ["before_turn", "after_reply", "after_turn", "before_finish"])
async def test_a_stop_names_its_status_anywhere(moment: str):
    out = await w.agent_loop(
        "go", model=scripted("x"), policies=[at(moment, w.Stop("over", "because"))]
    )
    assert (out.status, out.stop_reason) == ("over", "because")
    await kept(out)


@pytest.mark.parametrize(
    ("moment", "verdict"),
    [
        ("before_turn", w.KeepGoing()),
        ("before_turn", w.Finish()),
        ("after_reply", w.Finish()),
        ("before_finish", w.Finish()),
        ("before_turn", True),
        ("after_turn", "stop"),
        ("before_tool", w.Stop("no")),
        ("after_tool", "text"),
        ("before_model", 7),
        ("start", "x"),
    ],
)
async def test_a_verdict_in_the_wrong_place_fails_the_run_and_says_so(moment: str, verdict: Any):
    model = scripted(call("add", a=1, b=1), then="x")
    out = await w.agent_loop(
        "go", model=model, tools=[add], policies=[at(moment, verdict, "Odd")], eager_tools=False
    )
    assert out.status == "failed"
    assert out.error is not None
    assert "Odd" in out.error["message"] and moment in out.error["message"]


async def test_a_policy_that_leaves_nothing_of_a_request_is_named():
    async def cuts(self: Any, run: w.Run, request: w.Request) -> w.Request:
        return w.Request((), request.frame)

    scissors = type("Scissors", (w.Policy,), {"before_model": cuts})()
    model = scripted("never")
    out = await w.agent_loop("go", model=model, policies=[scissors])
    assert out.status == "failed" and model.requests == []
    assert out.error is not None and "'Scissors'" in out.error["message"]


async def test_saying_nothing_changes_nothing():
    for moment in ("before_model", "after_tool", "end", "before_tool", "after_turn"):
        model = scripted(call("add", a=1, b=1), "2")
        out = await w.agent_loop("go", model=model, tools=[add], policies=[at(moment, None)])
        assert (out.status, out.final_text) == ("done", "2")


async def test_a_policy_that_raises_fails_the_run_with_its_trace():
    async def breaks(self: Any, run: w.Run, turn: w.Turn) -> None:
        raise ZeroDivisionError("by zero")

    model = scripted(call("note", text="x"))
    out = await w.agent_loop(
        "go", model=model, tools=[note], policies=[named("Breaks", after_turn=breaks)]
    )
    assert (out.status, out.stop_reason) == ("failed", "ZeroDivisionError")
    assert out.error is not None and out.error["message"] == "by zero"
    assert kinds(out)[-1] == "outcome"
    with pytest.raises(w.WindlassError) as caught:
        out.raise_for_status()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.trace["status"] == "failed"
    await kept(out, model)


async def test_a_policy_that_fails_at_the_end_does_not_take_the_answer_away(
    caplog: pytest.LogCaptureFixture,
):
    async def breaks(self: Any, run: w.Run, outcome: w.Outcome) -> w.Outcome:
        raise ZeroDivisionError("by zero")

    out = await w.agent_loop("go", model=scripted("x"), policies=[named("Breaks", end=breaks)])
    assert (out.status, out.final_text) == ("done", "x")
    assert "by zero" in caplog.text


async def test_two_policies_of_one_name_are_an_error():
    with pytest.raises(w.ConfigError, match="'At'"):
        await w.agent_loop(
            "go", model=scripted(), policies=[at("after_turn", None), at("after_turn", None)]
        )


# --------------------------------------------------------------------------- replies that are not run


async def test_a_refused_reply_is_answered_not_run():
    class Critic(w.Policy[None]):
        async def after_reply(self, run: w.Run, turn: w.Turn) -> w.KeepGoing | None:
            if turn.number == 1:
                run.say("Think again.", "critique")
                return w.KeepGoing("hasty")
            return None

    model = scripted(call("note", text="x"), "ok")
    out = await w.agent_loop("go", model=model, tools=[note], policies=[Critic()])
    assert out.tool_calls[0].result == "Not run: hasty."
    assert said(model.requests[1]) == ["go", "Not run: hasty.", "Think again."]
    assert [e.verdict for e in out.entries if isinstance(e, IterationEnd)] == [
        "keep_going",
        "finish",
    ]
    await kept(out, model)


@pytest.mark.parametrize("reply", [call("note", text="x"), "Just words.", ["Both.", call("note")]])
async def test_a_dropped_reply_was_never_said(reply: Any):
    class Critic(w.Policy[None]):
        async def after_reply(self, run: w.Run, turn: w.Turn) -> w.KeepGoing | None:
            if turn.number == 1:
                run.say("Think again.", "critique")
                return w.KeepGoing("hasty", drop=True)
            return None

    model = scripted(reply, "ok")
    out = await w.agent_loop("go", model=model, tools=[note], policies=[Critic()])
    assert said(model.requests[1]) == ["go", "Think again."]
    assert (out.status, out.llm.iterations, out.final_text) == ("done", 2, "ok")
    await kept(out, model)


async def test_a_judge_that_read_the_reply_before_it_was_dropped_is_replayed_too():
    class Judge(w.Policy[None]):
        async def after_reply(self, run: w.Run, turn: w.Turn) -> w.KeepGoing | None:
            if turn.number == 1:
                await run.ask(w.Request([*run.messages, w.Message("user", "Good?")]), "judge")
                return w.KeepGoing(drop=True)
            return None

    model = scripted("first", "no", "second")
    out = await w.agent_loop("go", model=model, policies=[Judge()])
    assert said(model.requests[1]) == ["go", "first", "Good?"]
    assert said(model.requests[2]) == ["go"]
    await kept(out, model)


# --------------------------------------------------------------------------- results left as they are


class Shout(w.Policy[Any]):
    """Write short results in capitals."""

    async def after_tool(self, run: w.Run, call: Any, result: w.ToolResult) -> w.ToolResult:
        return w.ToolResult(result.id, result.text.upper(), name=result.name)

    def leaves(self, run: w.Run, call: Any, result: w.ToolResult) -> bool:
        return len(result.text) > 5


class Whisper(Shout):
    """Change every result, whatever the class above leaves."""

    async def after_tool(self, run: w.Run, call: Any, result: w.ToolResult) -> w.ToolResult:
        return w.ToolResult(result.id, f"({result.text})", name=result.name)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("policy", "seen"),
    [(Shout(), ["ABC", "abcdefg", "XY"]), (Whisper(), ["(abc)", "(abcdefg)", "(xy)"])],
)
async def test_policies_that_leave_a_result_are_not_asked_to_change_it(
    policy: w.Policy[Any], seen: list[str], together: bool
):
    @w.tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    calls = [call("echo", text=text) for text in ("abc", "abcdefg", "xy")]
    model = scripted(*([calls] if together else calls), "done")
    out = await w.agent_loop("go", model=model, tools=[echo], policies=[policy])
    shown = [
        block.text
        for message in model.requests[-1].messages
        if message.role == "tool"
        for block in message.content
    ]
    assert shown == seen
    await kept(out, model)
