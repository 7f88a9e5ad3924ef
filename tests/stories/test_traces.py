"""Traces: one event for each model call and each tool call, with all its fields."""

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
)
from windlass.testing import call, run_virtual, scripted


def named(scripted_model: Any, **options: Any) -> w.Agent[Any, Any]:
    return w.Agent(scripted_model, name="clerk", tools=[add, note, broken], **options)


def test_every_model_call_and_every_tool_call_is_traced():
    @w.tool
    async def slow() -> str:
        """Takes two seconds."""
        await asyncio.sleep(2)
        return "late"

    async def story() -> None:
        spans: list[w.TraceEvent] = []
        model = scripted(call("slow"), call("nope"), "ok", delay=1, name="tiny")
        agent = w.Agent(model, name="clerk", tools=[slow])
        out = await agent.run("go", on_trace=spans.append, run_id="run_7", task_id="t1")
        assert [(span.type, span.tool or span.turn) for span in spans] == [
            ("llm_call", 1),
            ("tool_call", "slow"),
            ("llm_call", 2),
            ("tool_call", "nope"),
            ("llm_call", 3),
        ]
        for span in spans:
            assert (span.run_id, span.task_id, span.agent) == ("run_7", "t1", "clerk")
            assert span.end_ms - span.start_ms == pytest.approx(span.duration_ms)
        asked, ran, *_ = spans
        assert (asked.model, asked.phase, asked.is_error) == ("tiny", "turn", False)
        assert asked.tokens == w.Usage(input_tokens=10, output_tokens=5)
        assert asked.duration_ms == pytest.approx(1000)
        assert (ran.duration_ms, ran.is_error) == (pytest.approx(2000), False)
        assert ran.start_ms == pytest.approx(asked.end_ms)
        assert spans[3].is_error is True
        assert (ran.model, ran.tokens, asked.tool) == (None, None, None)
        assert out.tool_calls[0].duration == pytest.approx(2000)
        await kept(out, model)

    run_virtual(story())


def test_a_call_that_commits_its_effect_is_traced_with_its_time():
    @w.tool(transactional=True)
    async def pay(ctx: w.ToolContext[None]) -> str:
        """Pay."""
        await asyncio.sleep(2)
        return await ctx.commit(lambda tx: "paid")

    async def story() -> None:
        spans: list[w.TraceEvent] = []
        out = await w.Agent(scripted(call("pay"), "ok"), tools=[pay]).run(
            "go", on_trace=spans.append
        )
        [paid] = [span for span in spans if span.tool == "pay"]
        assert paid.duration_ms == pytest.approx(2000)
        assert out.tool_calls[0].duration == pytest.approx(2000)

    run_virtual(story())


async def test_who_is_traced_may_be_said_for_one_run():
    spans: list[w.TraceEvent] = []
    await named(scripted("x")).run("go", on_trace=spans.append, trace_agent="team/clerk")
    await named(scripted("x")).run("go", on_trace=spans.append)
    out = await w.Agent(scripted("x")).run("go", on_trace=spans.append)
    assert [span.agent for span in spans] == ["team/clerk", "clerk", "unknown"]
    assert (spans[-1].run_id, spans[-1].task_id) == (out.run_id, None)


async def test_what_else_a_model_is_asked_for_has_its_phase():
    class Sums(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            if run.iteration == 1:
                request = w.Request((w.Message("user", "Sum up."),), w.Frame("", (), w.Settings()))
                await run.ask(request, "compaction")
                await run.ask(request, "done_judge")

    spans: list[w.TraceEvent] = []
    model = scripted(call("add", a=1, b=2), "in short", "done", "3")
    await named(model, policies=[Sums()]).run("go", on_trace=spans.append)
    asked = [(span.phase, span.turn) for span in spans if span.type == "llm_call"]
    assert asked == [("turn", 1), ("summary", 1), ("done_judge", 1), ("turn", 2)]


async def test_a_model_call_that_fails_is_traced():
    spans: list[w.TraceEvent] = []
    await named(scripted(then=w.RateLimited("slow"))).run("go", on_trace=spans.append)
    [span] = spans
    assert (span.type, span.is_error, span.turn, span.tokens) == ("llm_call", True, 1, w.Usage())


async def test_a_tool_that_fails_is_traced_and_one_that_was_not_run_is_not():
    spans: list[w.TraceEvent] = []
    await named(scripted(call("broken"), "ok")).run("go", on_trace=spans.append)
    assert [span.is_error for span in spans] == [False, True, False]
    spans.clear()
    model = scripted(call("add", a=1, b=2), usage=w.Usage(900, 600))
    out = await named(model, max_token_budget=1400).run("go", on_trace=spans.append)
    assert out.tool_calls[0].outcome == "not_run"
    assert [span.type for span in spans] == ["llm_call"]


def test_a_tracer_may_be_a_coroutine_and_is_told_in_order():
    async def story() -> None:
        seen: list[str] = []

        async def trace(span: w.TraceEvent) -> None:
            await asyncio.sleep(0.5)
            seen.append(span.type)

        model = scripted(call("add", a=1, b=2), "3")
        out = await named(model).run("go", on_trace=trace)
        assert seen == ["llm_call", "tool_call", "llm_call"]
        await kept(out, model)

    run_virtual(story())


async def test_a_run_that_goes_on_counts_its_turns_on():
    ask = w.Tool(name="ask", description="Ask somebody.")
    model = scripted(call("add", a=1, b=2), call("ask"), "ok")
    agent = w.Agent(model, name="clerk", tools=[add, ask])
    out = await agent.run("go", session_id="s", run_id="run_7")
    spans: list[w.TraceEvent] = []
    await agent.resume("s", results={out.pending[0].id: "yes"}, on_trace=spans.append, task_id="t2")
    assert [(s.type, s.turn, s.run_id, s.task_id) for s in spans] == [
        ("tool_call", None, "run_7", "t2"),
        ("llm_call", 3, "run_7", "t2"),
    ]


async def test_two_runs_at_once_are_traced_apart():
    spans: list[w.TraceEvent] = []
    agent = named(scripted(then="x"))
    outs = await asyncio.gather(
        *(agent.run("go", on_trace=spans.append, task_id=f"t{n}") for n in range(5))
    )
    assert {span.task_id for span in spans} == {f"t{n}" for n in range(5)}
    assert {span.run_id for span in spans} == {out.run_id for out in outs}


async def test_a_streamed_run_is_traced_too():
    spans: list[w.TraceEvent] = []
    async with named(scripted("x", stream=True)).stream("go", on_trace=spans.append) as run:
        await run.result()
    assert [span.type for span in spans] == ["llm_call"]
