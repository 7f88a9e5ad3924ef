"""Watching a run: streams, callbacks, and a word in its ear."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    broken,
    kept,
    note,
    nothing_left,
    said,
)
from windlass.events import (
    InboxTaken,
    IterationStart,
    Replied,
    RunEnded,
    RunStarted,
    ToolResulted,
    kind_of,
)
from windlass.testing import call, run_virtual, scripted

# --------------------------------------------------------------------------- streams


async def test_the_answer_arrives_in_pieces():
    model = scripted("one two three", stream=True)
    async with w.Agent(model).stream("go") as run:
        pieces = [piece async for piece in run.text()]
        out = await run.result()
    assert pieces == ["one", " two", " three"]
    assert out.output == "one two three"
    await kept(out, model)


async def test_watch_is_the_same():
    async with w.Agent(scripted("hi", stream=True)).watch("go") as run:
        assert "".join([piece async for piece in run.text()]) == "hi"


async def test_every_event_can_be_seen():
    model = scripted(["Look.", call("add", a=1, b=2)], "3", stream=True)
    events: list[w.Event] = []
    async with w.Agent(model, tools=[add]).stream("go") as run:
        async for event in run:
            events.append(event)
        out = await run.result()
    kinds = [kind_of(event) for event in events]
    for kind in (
        "run_start",
        "message",
        "iteration_start",
        "text_delta",
        "tool_call_ready",
        "model_reply",
        "decision",
        "tool_intent",
        "tool_call",
        "tool_call_update",
        "tool_result",
        "tool_message",
        "iteration_end",
        "outcome",
    ):
        assert kind in kinds, kind
    journaled = [event for event in events if event in list(out.entries)]
    assert journaled == list(out.entries)
    match next(e for e in events if isinstance(e, w.TextDelta)):
        case w.TextDelta(text):
            assert text == "Look."


async def test_a_model_that_does_not_stream_can_be_watched_too():
    async with w.Agent(scripted("hi")).stream("go") as run:
        seen = [event async for event in run]
    assert any(isinstance(event, Replied) for event in seen)


async def test_text_of_a_model_that_does_not_stream_arrives_whole():
    async with w.Agent(scripted("all at once")).stream("go") as run:
        assert [piece async for piece in run.text()] == ["all at once"]


async def test_the_result_may_be_had_without_reading():
    async with w.Agent(scripted("hi", stream=True)).stream("go") as run:
        assert (await run.result()).output == "hi"


async def test_the_session_is_known_from_the_beginning():
    async with w.Agent(scripted("hi")).stream("go", session_id="s") as run:
        assert run.session_id == "s"
        await run.result()


def test_steering_is_heard_before_the_next_turn():
    @w.tool
    async def work() -> str:
        await asyncio.sleep(10)
        return "worked"

    async def story() -> None:
        model = scripted(call("work"), "in metres")
        async with w.Agent(model, tools=[work]).stream("how tall?") as run:
            await asyncio.sleep(5)
            await run.steer("use metric units")
            out = await run.result()
        assert said(model.requests[1]) == ["how tall?", "worked", "use metric units"]
        assert [e.item for e in out.entries if isinstance(e, InboxTaken)] == ["steer"]
        await kept(out, model)

    run_virtual(story())


def test_a_word_that_comes_during_the_last_turn_is_heard_too():
    async def story() -> None:
        model = scripted("3 feet", "1 metre", delay=10)
        async with w.Agent(model).stream("how tall?") as run:
            await asyncio.sleep(5)
            await run.steer("use metric units")
            out = await run.result()
        assert (out.output, out.turns) == ("1 metre", 2)
        assert said(model.requests[1])[-1] == "use metric units"
        await kept(out, model)

    run_virtual(story())


def test_a_follow_up_waits_until_the_run_would_have_stopped():
    async def story() -> None:
        model = scripted(call("note", text="x"), "hello", "bonjour", delay=10)
        async with w.Agent(model, tools=[note]).stream("greet") as run:
            await asyncio.sleep(5)
            await run.follow_up("now in French")
            out = await run.result()
        assert "now in French" not in said(model.requests[1])
        assert said(model.requests[2])[-1] == "now in French"
        assert (out.output, out.turns) == ("bonjour", 3)
        await kept(out, model)

    run_virtual(story())


def test_a_follow_up_that_had_no_turn_is_deferred():
    async def story() -> None:
        model = scripted(call("note", text="x"), delay=10)
        loop = asyncio.ensure_future(
            w.agent_loop("go", model=model, tools=[note], max_iterations=1, session_id="s")
        )
        await asyncio.sleep(5)
        from windlass.engine.environment import current_store

        await current_store().post("s", "follow_up", "one more thing")
        out = await loop
        assert (out.status, out.deferred_user_messages) == ("budget_exhausted", ["one more thing"])
        again = scripted("ok", "that too")
        out = await w.agent_loop("next", model=again, session_id="s")
        assert said(again.requests[1])[-1] == "one more thing"

    run_virtual(story())


def test_leaving_a_stream_early_cancels_the_run_on_the_record():
    async def story() -> None:
        model = scripted("one two three four", stream=True, pace=1)
        async with w.Agent(model).stream("go", session_id="s") as run:
            async for _ in run.text():
                break
        session = await w.agent_session_read("s")
        assert isinstance(session.entries[-1], RunEnded)
        assert session.entries[-1].status == "cancelled"
        await nothing_left()

    run_virtual(story())


def test_a_stream_can_be_cancelled_with_a_reason():
    async def story() -> None:
        model = scripted("late", delay=60)
        async with w.Agent(model).stream("go") as run:
            await run.cancel("changed my mind")
            out = await run.result()
        assert (out.status, out.stop_reason) == ("cancelled", "changed my mind")
        await kept(out)

    run_virtual(story())


async def test_an_error_inside_the_block_cancels_the_run_and_goes_on():
    with pytest.raises(KeyError, match="mine"):
        async with w.Agent(scripted(then="x", delay=1)).stream("go", session_id="s"):
            raise KeyError("mine")
    assert (await w.agent_session_read("s")).status == "cancelled"
    await nothing_left()


async def test_a_wrong_option_is_an_error_before_the_stream_begins():
    model = scripted("x")
    with pytest.raises(w.ConfigError, match="max_turns"):
        w.Agent(model).stream("go", max_turn=3)
    with pytest.raises(w.ConfigError):
        async with w.Agent(model).stream("go", session_id=7) as run:
            await run.result()
    assert not model.requests


# --------------------------------------------------------------------------- callbacks


async def test_callbacks_are_told_what_concerns_them():
    calls: list[Any] = []
    model = scripted(call("add", a=1, b=2), call("broken"), "done")
    await w.Agent(model, tools=[add, broken]).run(
        "go",
        on_tool_call=lambda name, arguments: calls.append(("call", name, arguments)),
        on_tool_result=lambda name, result: calls.append(("result", name, result.data)),
        on_message=lambda message: calls.append(("message", message.role, message.text)),
    )
    assert calls == [
        ("message", "assistant", ""),
        ("call", "add", {"a": 1, "b": 2}),
        ("result", "add", "3"),
        ("message", "tool", ""),
        ("message", "assistant", ""),
        ("call", "broken", {}),
        ("result", "broken", "ValueError: out of order"),
        ("message", "tool", ""),
        ("message", "assistant", "done"),
    ]


async def test_a_callback_may_be_alone():
    names: list[str] = []
    agent = w.Agent(scripted(call("add", a=1, b=2), "3", call("add", a=2, b=2), "4"), tools=[add])
    await agent.run("go", on_tool_call=lambda name, arguments: names.append(name))
    await agent.run("go", on_tool_result=lambda name, result: names.append(result.data))
    assert names == ["add", "4"]


async def test_on_event_may_belong_to_the_agent_or_to_the_run():
    of_agent: list[w.Event] = []
    of_run: list[w.Event] = []
    agent = w.Agent(scripted(then="x"), on_event=of_agent.append)
    await agent.run("one")
    assert isinstance(of_agent[0], RunStarted) and isinstance(of_agent[-1], RunEnded)
    size = len(of_agent)
    await agent.run("two", on_event=of_run.append)
    assert len(of_agent) == size and of_run


def test_async_callbacks_are_over_before_the_run_returns_and_in_order():
    seen: list[str] = []

    async def slow(event: w.Event) -> None:
        await asyncio.sleep(3 if isinstance(event, RunStarted) else 1)
        seen.append(kind_of(event))

    async def story() -> None:
        out = await w.agent_loop("go", model=scripted("x"), on_event=slow)
        kinds = [kind_of(entry) for entry in out.entries]
        assert seen == kinds
        await nothing_left()

    run_virtual(story())


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_callback_that_fails_does_not_hurt_the_run(
    asynchronous: bool, caplog: pytest.LogCaptureFixture
):
    async def fail_later(*_: Any) -> None:
        raise ValueError("my fault")

    def fail(*_: Any) -> None:
        raise ValueError("my fault")

    bad = fail_later if asynchronous else fail
    model = scripted(call("add", a=1, b=2), "3")
    out = await w.Agent(model, tools=[add]).run(
        "go", on_event=bad, on_tool_call=bad, on_tool_result=bad, on_message=bad
    )
    assert (out.status, out.output) == ("done", "3")
    assert "my fault" in caplog.text
    await kept(out, model)


def test_a_callback_that_never_ends_does_not_keep_a_run_for_ever():
    async def forever(*_: Any) -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        loop, model = asyncio.get_running_loop(), scripted(call("add", a=1, b=2), "3")
        began = loop.time()
        out = await w.Agent(model, tools=[add]).run("go", on_event=forever, on_trace=forever)
        assert (out.status, out.output) == ("done", "3")
        assert loop.time() - began < 15
        await kept(out, model)

    run_virtual(story())


def test_a_callback_that_never_ends_does_not_hold_up_a_cancelled_run():
    async def forever(event: w.Event) -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        agent = w.Agent(scripted("late", delay=60))
        out = await agent.run("go", on_event=forever, timeout=1)
        assert out.status == "cancelled"
        assert loop.time() - began < 1.2
        await nothing_left()

    run_virtual(story())


async def test_events_have_the_same_names_in_the_trace():
    seen: list[w.Event] = []
    out = await w.agent_loop("go", model=scripted("x"), on_event=seen.append)
    live = {"text_delta", "thinking_delta", "tool_call", "tool_call_update", "tool_call_ready"}
    shown = [kind_of(event) for event in seen if kind_of(event) not in live]
    assert shown == [event["kind"] for event in out.trace["events"]]


async def test_turns_are_counted_from_one():
    seen: list[w.Event] = []
    model = scripted(call("add", a=1, b=1), "2")
    await w.agent_loop("go", model=model, tools=[add], on_event=seen.append)
    assert [e.number for e in seen if isinstance(e, IterationStart)] == [1, 2]
    assert [e.tool for e in seen if isinstance(e, ToolResulted)] == ["add"]
