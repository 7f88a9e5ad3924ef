"""One loop behind a model API: it answers, and has called the caller's tools on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, broken, note
from tests.stories.policies import named
from windlass.events import ToolResulted
from windlass.testing import call, scripted


@pytest.fixture
async def scope() -> AsyncIterator[w.Runtime]:
    async with w.Runtime(store="memory:", tools=[add, note, broken], environ={}) as runtime:
        yield runtime


def rounds(count: int) -> list[Any]:
    return [call("add", a=at, b=1) for at in range(count)]


async def test_an_answer_with_tools_on_the_way(scope: w.Runtime):
    model = (
        scripted("Let me see.", call("add", a=1, b=2))
        if False
        else scripted(call("add", a=1, b=2), "3")
    )
    out = await scope.models.generate("What is 1 + 2?", model=model)
    assert (out.content, out.finish_reason, out.tool_calls, out.trace) == ("3", "stop", (), None)
    assert out.usage.input_tokens > 0
    assert {tool.name for tool in model.requests[0].tools} == {"add", "note", "broken"}


async def test_tools_are_narrowed_by_name_and_may_be_handed_in(scope: w.Runtime):
    @w.tool
    async def mine() -> str:
        """Mine."""
        return "mine"

    model = scripted("ok")
    await scope.models.generate("hi", model=model, tools=["add", mine])
    assert [tool.name for tool in model.requests[0].tools] == ["add", "mine"]
    model = scripted("ok")
    await scope.models.generate("hi", model=model, tools=[])
    assert not model.requests[0].tools
    with pytest.raises(w.ConfigError, match="the caller has no tool 'ad'; did you mean 'add'"):
        await scope.models.generate("hi", model=scripted(), tools=["ad"])


async def test_policies_that_are_given_take_part(scope: w.Runtime):
    async def before_turn(self: Any, run: w.Run) -> None:
        run.say("Be brief.", "style")

    model = scripted("ok")
    await scope.models.generate(
        "hi", model=model, policies=[named("Brief", before_turn=before_turn)]
    )
    assert [message.text for message in model.requests[0].messages] == ["hi", "Be brief."]


async def test_return_mode_runs_nothing(scope: w.Runtime):
    model = scripted([call("add", a=1, b=2), call("note", text="x")])
    out = await scope.models.generate("go", model=model, tools=["add", "note"], tool_mode="return")
    assert out.finish_reason == "tool_calls" and [c.name for c in out.tool_calls] == ["add", "note"]
    model = scripted("plain")
    out = await scope.models.generate("go", model=model, tool_mode="return")
    assert (out.content, out.tool_calls) == ("plain", ()) and not model.requests[0].tools


async def test_the_trace_has_every_step(scope: w.Runtime):
    model = scripted(["Adding.", call("add", a=1, b=2)], call("broken"), "3")
    out = await scope.models.generate("go", model=model, include_tool_trace=True)
    assert out.trace is not None
    assert [(e.type, e.iteration, e.tool, e.outcome) for e in out.trace] == [
        ("assistant", 1, None, None),
        ("tool_call", 1, "add", None),
        ("tool_result", 1, "add", "ok"),
        ("assistant", 2, None, None),
        ("tool_call", 2, "broken", None),
        ("tool_result", 2, "broken", "error"),
        ("assistant", 3, None, None),
    ]
    assert out.trace[0].content == "Adding." and out.trace[1].arguments == {"a": 1, "b": 2}
    assert out.trace[2].content == "3" and out.trace[0].usage is not None


# --------------------------------------------------------------------------- limits


@pytest.mark.parametrize("most", [0, 1, 2, 10])
async def test_rounds_of_tools_are_limited(scope: w.Runtime, most: int):
    options: Any = {} if most == 10 else {"max_tool_iterations": most}
    model = scripted(*rounds(most), "done")
    assert (await scope.models.generate("go", model=model, **options)).content == "done"
    model = scripted(*rounds(most + 1), "never")
    with pytest.raises(w.BudgetExceeded, match=f"max_tool_iterations={most} is reached") as caught:
        await scope.models.generate("go", model=model, **options)
    trace: Any = caught.value.trace
    assert [e.type for e in trace].count("tool_call") == most + 1
    ran = [e for e in trace if e.type == "tool_result" and e.outcome == "ok"]
    assert len(ran) == most and trace[-1].outcome == "not_run"
    assert caught.value.session_id


async def test_tokens_are_counted_over_the_whole_loop_with_what_tools_answer(scope: w.Runtime):
    @w.tool(side_effect_level="none")
    async def long() -> str:
        """A long answer."""
        return "word " * 4_000  # 5,000 tokens

    model = scripted(call("long"), "done")
    with pytest.raises(w.BudgetExceeded, match="max_tokens=3000 is reached") as caught:
        await scope.models.generate("go", model=model, tools=[long], max_tokens=3_000)
    assert len(model.requests) == 1 and caught.value.trace
    model = scripted(call("long"), "done")
    out = await scope.models.generate("go", model=model, tools=[long], max_tokens=30_000)
    assert out.content == "done"
    capped: Any = {"tools": [long], "max_tokens": 3_000, "tool_result_max_bytes": 1_000}
    out = await scope.models.generate("go", model=scripted(call("long"), "done"), **capped)
    assert out.content == "done"


async def test_a_resumed_run_counts_what_the_model_was_shown_of_a_result(scope: w.Runtime):
    """The journal has the whole of it, which would be 5,000 tokens."""

    @w.tool(side_effect_level="none")
    async def long() -> str:
        """A long answer."""
        return "word " * 4_000

    own: Any = {"tools": [long, note], "max_tokens": 3_000, "tool_result_max_bytes": 1_000}
    model = scripted(call("long"), call("note", text="x"))
    ask: Any = {"rules": [{"ask": "note"}]}
    with pytest.raises(w.Suspended) as parked:
        await scope.models.generate("go", model=model, approval_policy=ask, session_id="s", **own)
    yes = {one.id: True for one in parked.value.pending}
    out = await scope.models.resume("s", decisions=yes, model=scripted("done"), **own)
    assert out.content == "done"


async def test_dollars_are_limited(scope: w.Runtime):
    class Dear(w.Model):
        provider, name = "dear", "dear"

        def __init__(self) -> None:
            self.asked = 0

        def price(self, usage: w.Usage) -> float:
            return usage.output_tokens * 0.01

        async def respond(self, request: w.Request, emit: Any) -> w.Response:
            self.asked += 1
            message = w.Message("assistant", (call("add", a=self.asked, b=1),))
            return w.Response(message, w.Usage(10, 10), "tool_use")

    model = Dear()
    with pytest.raises(w.BudgetExceeded, match=r"max_cost_usd=0\.65 is reached"):
        await scope.models.generate("go", model=model, max_cost_usd=0.65)
    assert model.asked == 5  # for a sixth reply less than 16 tokens are left


async def test_the_reply_has_a_limit_of_its_own(scope: w.Runtime):
    model = scripted("ok")
    await scope.models.generate("go", model=model, max_output_tokens=77)
    assert model.requests[0].settings.max_tokens == 77


async def test_long_results_are_cut_with_a_marker(scope: w.Runtime):
    @w.tool(side_effect_level="none")
    async def long() -> str:
        """A long answer."""
        return "x" * 100_000

    model = scripted(call("long"), "ok")
    await scope.models.generate("go", model=model, tools=[long])
    [result] = [
        b for m in model.requests[1].messages for b in m.content if isinstance(b, w.ToolResult)
    ]
    assert len(result.text.encode()) <= 65_536
    assert "[…truncated; full result 100000 bytes]" in result.text


# --------------------------------------------------------------------------- errors, order, abort


async def test_a_failed_call_is_told_to_the_model_or_ends_the_run(scope: w.Runtime):
    out = await scope.models.generate("go", model=scripted(call("broken"), "I see."))
    assert out.content == "I see."
    model = scripted(["Trying.", call("broken")], "never")
    with pytest.raises(w.ToolFailed, match="broken failed: ValueError: out of order") as caught:
        await scope.models.generate("go", model=model, tool_error_mode="abort")
    assert [e.type for e in caught.value.trace] == ["assistant", "tool_call", "tool_result"]
    assert len(model.requests) == 1


async def test_calls_run_side_by_side_or_one_after_the_other(scope: w.Runtime):
    order: list[str] = []

    @w.tool
    async def step(name: str) -> str:
        """A step."""
        order.append(f"{name} begins")
        await asyncio.sleep(0)
        order.append(f"{name} ends")
        return name

    calls = [call("step", name="a"), call("step", name="b")]
    await scope.models.generate("go", model=scripted(calls, "ok"), tools=[step])
    assert order == ["a begins", "b begins", "a ends", "b ends"]
    order.clear()
    model = scripted(calls, "ok")
    await scope.models.generate("go", model=model, tools=[step], tool_parallelism="serial")
    assert order == ["a begins", "a ends", "b begins", "b ends"]


async def test_an_abort_ends_it_and_what_was_done_stays_done(scope: w.Runtime):
    abort, written = w.Abort(), list[str]()

    @w.tool
    async def write(text: str) -> str:
        """Write."""
        written.append(text)
        if len(written) == 2:
            abort.abort("the client left")
            await asyncio.sleep(60)
        return text

    model = scripted(call("write", text="a"), call("write", text="b"), "never")
    with pytest.raises(w.Aborted, match="the client left") as caught:
        await scope.models.generate("go", model=model, tools=[write], abort=abort)
    assert written == ["a", "b"] and len(model.requests) == 2
    outcomes = [e.outcome for e in caught.value.trace if e.type == "tool_result"]
    assert outcomes == ["ok", "interrupted"]


async def test_arguments_are_checked_as_strictly_as_one_wants(scope: w.Runtime):
    for mode, outcome, said in (
        ("strict", "invalid", "not valid"),
        ("lenient", "ok", "3"),
        ("none", "ok", "12"),
    ):
        model = scripted(call("add", a="1", b="2"), "ok")
        options: Any = {"tool_arg_validation": mode, "include_tool_trace": True}
        out = await scope.models.generate("go", model=model, **options)
        assert out.trace is not None and out.trace[2].outcome == outcome, mode
        assert said in out.trace[2].content


async def test_a_model_that_fails_raises_its_own_error(scope: w.Runtime):
    w.llm_mock(error={"category": "rate_limit", "message": "slow down"}, match="*go*")
    with pytest.raises(w.RateLimited):
        await scope.models.generate("go", provider="mock", llm_caller=w.default_llm_caller())


async def test_a_parked_run_raises_suspended(scope: w.Runtime):
    policy: Any = {"rules": [{"ask": "note"}]}
    model = scripted(call("note", text="x"), "noted")
    with pytest.raises(w.Suspended) as caught:
        await scope.models.generate("go", model=model, approval_policy=policy, session_id="s")
    assert caught.value.session_id == "s" and caught.value.trace


async def test_every_round_trip_is_on_the_books(scope: w.Runtime):
    ann = w.Caller("ann", tenant="acme")
    model = scripted(call("add", a=1, b=2), "3")
    await scope.models.generate("go", model=model, caller=ann, request_id="r1", session_id="s")
    rows = await scope.store.calls(tenant="acme")
    assert [(row.door, row.caller, row.request, row.tool_calls) for row in rows] == [
        ("generate", "acme/ann", "r1", 1),
        ("generate", "acme/ann", "r1", 0),
    ]


async def test_every_event_is_told_through_every_door(scope: w.Runtime):
    ask: Any = {"rules": [{"ask": "note"}]}
    for at, streams in enumerate((False, True)):
        seen: list[Any] = []
        own: Any = {"session_id": f"s{at}", "approval_policy": ask, "on_event": seen.append}
        model = scripted(call("add", a=1, b=2), call("note", text="x"))
        with pytest.raises(w.Suspended) as parked:
            if streams:
                _ = [c async for c in scope.models.generate_stream("go", model=model, **own)]
            else:
                await scope.models.generate("go", model=model, **own)
        assert results_in(seen) == ["add"]
        yes = {one.id: True for one in parked.value.pending}
        more: Any = {"decisions": yes, "model": scripted("noted"), "on_event": seen.append}
        if streams:
            _ = [c async for c in scope.models.resume_stream(f"s{at}", **more)]
        else:
            await scope.models.resume(f"s{at}", **more)
        assert results_in(seen) == ["add", "note"]


def results_in(events: list[Any]) -> list[str]:
    return [event.tool for event in events if isinstance(event, ToolResulted)]


# --------------------------------------------------------------------------- in pieces


async def test_pieces_come_through_all_turns(scope: w.Runtime):
    model = scripted(["One ", call("add", a=1, b=2)], "two")
    chunks = [c async for c in scope.models.generate_stream("go", model=model)]
    assert "".join(c.delta_content or "" for c in chunks) == "One two"
    calls = [one.name for c in chunks for one in c.delta_tool_calls or ()]
    assert calls == ["add"]
    kinds = ["text" if c.delta_content else "call" if c.delta_tool_calls else "end" for c in chunks]
    assert kinds.index("call") < len(kinds) - 1 - kinds[::-1].index("text")
    assert kinds[-1] == "end" and chunks[-1].finish_reason == "stop"


async def test_a_stream_raises_at_its_end(scope: w.Runtime):
    model, seen = scripted(*rounds(3)), list[Any]()
    with pytest.raises(w.BudgetExceeded) as caught:
        async for chunk in scope.models.generate_stream("go", model=model, max_tool_iterations=2):
            seen.append(chunk)
    assert len(seen) == 3 and caught.value.trace


async def test_who_leaves_cancels_the_run(scope: w.Runtime):
    started, ended = asyncio.Event(), list[str]()

    @w.tool
    async def slow() -> str:
        """Slow."""
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "never"

    stream = scope.models.generate_stream(
        "go", model=scripted(call("slow")), tools=[slow], session_id="s"
    )
    assert (await anext(stream)).delta_tool_calls
    await started.wait()
    await stream.aclose()
    assert ended == ["cancelled"]
    assert (await scope.store.info("s")).status == "cancelled"


# --------------------------------------------------------------------------- bad input


class Unpriced(w.Model):
    """A model of one's own that does not say what it costs."""

    provider, name = "own", "unpriced"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        return w.Response(w.Message("assistant", "never"), w.Usage(1, 1))


async def test_a_model_without_a_price_answers_where_dollars_are_not_limited(scope: w.Runtime):
    out = await scope.models.generate("go", model=Unpriced(), max_tokens=100_000)
    assert out.content == "never"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_iterations": 3}, "it is max_tool_iterations here"),
        ({"budget": {"usd": 1}}, "max_tokens and max_cost_usd"),
        ({"tool_mod": "auto"}, "did you mean 'tool_mode'"),
        ({"tool_mode": "always"}, "tool_mode is one of 'auto', 'return'"),
        ({"max_tool_iterations": -1}, "max_tool_iterations is a whole number"),
        ({"max_tokens": 0}, "max_tokens is a whole number"),
        ({"max_cost_usd": -1}, "max_cost_usd is a number"),
        ({"tool_parallelism": "both"}, "tool_parallelism is one of"),
        ({"tool_error_mode": "ignore"}, "tool_error_mode is one of"),
        ({"include_tool_trace": 1}, "include_tool_trace is True or False"),
        ({"tools": "add"}, "tools is a list of names"),
        ({"max_cost_usd": 1.0, "model": Unpriced()}, "has no price.*own:unpriced.*limit tokens"),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_any_call(
    scope: w.Runtime, options: Any, words: str
):
    with pytest.raises(w.ConfigError, match=words):
        await scope.models.generate("go", **{"model": scripted("never"), **options})
