"""A run told in seven words: text, tool_use, tool_result, budget_exceeded, loop_detected, error, done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    nothing_left,
)
from windlass.events import RunStarted
from windlass.testing import call, run_virtual, scripted


async def told(agent: w.Agent[Any, Any], prompt: str = "go", **options: Any) -> list[Any]:
    """The events of a run, as pairs."""
    async with agent.stream(prompt, **options) as run:
        return [event async for event in run.events()]


async def test_a_stream_in_a_few_words():
    model = scripted(["Look.", call("add", a=1, b=2)], "It is 3.", stream=True)
    events = await told(w.Agent(model, tools=[add]))
    assert [event.type for event in events] == [
        "text",
        "tool_use",
        "tool_result",
        "text",
        "text",
        "text",
        "done",
    ]
    use, result, done = events[1].data, events[2].data, events[-1].data
    assert (use.name, use.input) == ("add", {"a": 1, "b": 2})
    assert (result.tool_use_id, result.data, result.is_error) == (use.id, "3", False)
    assert (done.status, done.output) == ("done", "It is 3.")
    match events[0]:
        case w.StreamEvent("text", words):
            assert words == "Look."


async def test_a_model_that_does_not_stream_says_its_text_at_once():
    events = await told(w.Agent(scripted("It is 3.")))
    assert [(e.type, e.data) for e in events[:-1]] == [("text", "It is 3.")]


def test_results_come_in_the_order_asked():
    @w.tool(side_effect_level="none")
    async def wait(seconds: int) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return f"{seconds} s"

    async def story() -> None:
        calls = [call("wait", seconds=3), call("nope"), call("wait", seconds=1)]
        for stream in (False, True):
            events = await told(w.Agent(scripted(calls, "ok", stream=stream), tools=[wait]))
            blocks = [e for e in events if e.type.startswith("tool")]
            assert [e.type for e in blocks] == ["tool_use"] * 3 + ["tool_result"] * 3
            assert [e.data.id for e in blocks[:3]] == [e.data.id for e in blocks[3:]]
            assert [e.data.is_error for e in blocks[3:]] == [False, True, False]

    run_virtual(story())


async def test_a_spent_budget_is_said_and_no_call_is_left_half_told():
    usage = w.Usage(900, 600)
    model = scripted(["Let me.", call("add", a=1, b=2)], stream=True, usage=usage)
    events = await told(w.Agent(model, name="clerk", tools=[add], max_token_budget=1400))
    assert [event.type for event in events] == ["text", "text", "budget_exceeded", "done"]
    error = events[2].data
    assert isinstance(error, w.TokenBudgetExceededError) and isinstance(error, w.BudgetExceeded)
    assert (error.agent, error.tokens_used, error.budget) == ("clerk", 1500, 1400)
    assert "clerk" in str(error)
    assert events[-1].data.budget_exceeded is True
    await kept(events[-1].data, model)


def test_seconds_that_run_out_are_a_spent_budget_too():
    async def story() -> None:
        agent = w.Agent(scripted("late", delay=60), budget=w.Budget(seconds=1))
        events = await told(agent)
        assert [event.type for event in events] == ["budget_exceeded", "done"]
        assert "1 seconds" in str(events[0].data)
        assert not isinstance(events[0].data, w.TokenBudgetExceededError)

    run_virtual(story())


async def test_turns_that_run_out_are_no_spent_budget():
    events = await told(w.Agent(scripted(call("add", a=1, b=2)), tools=[add], max_turns=1))
    assert [event.type for event in events] == ["tool_use", "tool_result", "done"]


async def test_a_loop_is_said_before_the_run_ends():
    model = scripted(then=call("note", text="x"))
    agent = w.Agent(
        model, tools=[note], loop_detection={"max_repetitions": 2, "on_loop_detected": "terminate"}
    )
    events = await told(agent)
    assert [e.type for e in events] == ["tool_use", "tool_result", "loop_detected", "done"]
    info = events[2].data
    assert isinstance(info, w.LoopDetectionInfo)
    assert (info.kind, info.repetitions) == ("tool_repetition", 2)
    assert info.detail and events[-1].data.loop_detected


async def test_an_error_is_said_and_the_run_is_done_all_the_same():
    events = await told(w.Agent(scripted(then=w.RateLimited("slow down"))))
    assert [event.type for event in events] == ["error", "done"]
    assert isinstance(events[0].data, w.RateLimited)
    assert events[1].data.status == "provider_error"


async def test_a_policy_that_fails_is_an_error_too():
    class Bad(w.Policy[None]):
        async def after_turn(self, run: w.Run, turn: w.Turn) -> None:
            raise ValueError("my fault")

    events = await told(w.Agent(scripted("x"), policies=[Bad()]))
    assert [event.type for event in events] == ["text", "error", "done"]
    assert isinstance(events[1].data, ValueError)
    assert events[2].data.status == "failed"


def test_a_cancelled_run_is_done_and_no_error():
    async def story() -> None:
        brake, model = w.Abort(), scripted("late", delay=60)
        async with w.Agent(model).stream("go", abort=brake) as run:
            asyncio.get_running_loop().call_later(1, brake.abort, "enough")
            events = [event async for event in run.events()]
        [done] = events
        assert (done.type, done.data.status) == ("done", "cancelled")
        await nothing_left()

    run_virtual(story())


async def test_the_words_of_a_judge_are_no_text_of_the_run():
    class Asks(w.Policy[None]):
        async def after_turn(self, run: w.Run, turn: w.Turn) -> None:
            request = w.Request((w.Message("user", "Good?"),), run.frame)
            await run.ask(request, "done_judge")

    events = await told(w.Agent(scripted("answer", "verdict"), policies=[Asks()]))
    assert [e.data for e in events if e.type == "text"] == ["answer"]


async def test_a_parked_run_is_done_for_now():
    ask = w.Tool(name="ask", description="Ask somebody.")
    events = await told(w.Agent(scripted([call("add", a=1, b=2), call("ask")]), tools=[add, ask]))
    assert [event.type for event in events] == ["tool_use", "tool_use", "done"]
    assert (events[-1].data.status, len(events[-1].data.pending)) == ("suspended", 1)


async def test_a_resumed_run_may_be_watched_as_well():
    ask = w.Tool(name="ask", description="Ask somebody.")
    model = scripted([call("add", a=1, b=2), call("ask")], "ok")
    agent = w.Agent(model, tools=[add, ask])
    out = await agent.run("go", session_id="s")
    told, calls = list[w.Message](), list[str]()
    out = await agent.resume(
        "s",
        results={out.pending[0].id: "yes"},
        on_message=told.append,
        on_tool_result=lambda name, result: calls.append(f"{name}: {result.data}"),
    )
    assert [m.role for m in told] == ["tool", "assistant"]
    assert list(out.messages)[1:] == told
    assert calls == ["ask: yes"]
    with pytest.raises(w.ConfigError, match="on_mesage.*on_message"):
        await agent.resume("s", on_mesage=print)


async def test_the_entries_know_what_the_run_began_with():
    out = await w.Agent(scripted("x"), system=lambda: "Be brief.").run("go")
    [started] = [e for e in out.entries if isinstance(e, RunStarted)]
    assert (started.metadata or {})["system"] == "Be brief."


async def test_a_reader_may_change_how_it_reads():
    async with w.Agent(scripted("one two three", stream=True)).stream("go") as run:
        async for piece in run.text():
            assert piece == "one"
            break
        rest = [event.data async for event in run.events() if event.type == "text"]
    assert rest == [" two", " three"]


def test_the_stream_is_not_read_twice():
    async def story() -> None:
        async with w.Agent(scripted("late", delay=5)).stream("go") as run:
            first = asyncio.ensure_future(anext(aiter(run.events())))
            await asyncio.sleep(1)
            with pytest.raises(RuntimeError, match="one reader"):
                await anext(aiter(run.events()))
            assert (await first).data == "late"

    run_virtual(story())
