"""Calls in company, what a tool may know, what the model sees, and ids."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    broken,
    kept,
    one_call,
    results,
    said,
)
from windlass.events import ToolCallUpdate, ToolDecided
from windlass.testing import call, run_virtual, scripted

# --------------------------------------------------------------------------- order and company


def timed(name: str, seconds: float, log: list[str]) -> w.Tool:
    async def handler(args: dict[str, Any]) -> str:
        log.append(f"{name} starts")
        await asyncio.sleep(seconds)
        log.append(f"{name} ends")
        return name

    return w.Tool(name, "Wait.", {}, handler=handler)


def test_one_by_one_is_the_loops_way():
    log: list[str] = []

    async def story() -> None:
        tools = [timed("a", 3, log), timed("b", 1, log)]
        model = scripted([call("a"), call("b")], "ok")
        out = await w.agent_loop("go", model=model, tools=tools)
        assert log == ["a starts", "a ends", "b starts", "b ends"]
        assert [record.name for record in out.tool_calls] == ["a", "b"]
        await kept(out, model)

    run_virtual(story())


def test_side_by_side_the_results_keep_the_order_asked():
    log: list[str] = []

    async def story() -> None:
        tools = [timed("a", 3, log), timed("b", 1, log), timed("c", 2, log)]
        model = scripted([call("a"), call("b"), call("c")], "ok")
        out = await w.Agent(model, tools=tools).run("go")
        assert log[:4] == ["a starts", "b starts", "c starts", "b ends"]
        [answer] = [m for m in out.messages if m.role == "tool"]
        assert [block.text for block in answer.content] == ["a", "b", "c"]
        assert [record.name for record in out.tool_calls] == ["a", "b", "c"]
        await kept(out, model)

    run_virtual(story())


@pytest.mark.parametrize("limit", [2, 3])
def test_no_more_than_the_limit_run_at_once(limit: int):
    at_once, most = 0, 0

    @w.tool
    async def work(n: int) -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(1 + n % 3)
        at_once -= 1
        return n

    async def story() -> None:
        model = scripted([call("work", n=n) for n in range(9)], "ok")
        out = await w.agent_loop("go", model=model, tools=[work], max_concurrent_tools=limit)
        assert most == limit
        assert [record.outcome for record in out.tool_calls] == ["ok"] * 9
        await kept(out, model)

    run_virtual(story())


def test_a_failing_policy_leaves_no_call_at_work():
    ended: list[str] = []

    @w.tool
    async def wait(n: int) -> int:
        try:
            await asyncio.sleep(n)
        finally:
            ended.append(str(n))
        return n

    class Breaks(w.Policy[None]):
        async def after_tool(self, run: w.Run, call: w.ToolCall, result: w.ToolResult) -> Any:
            raise RuntimeError("no")

    async def story() -> None:
        model = scripted([call("wait", n=1), call("wait", n=100)])
        out = await w.Agent(model, tools=[wait], policies=[Breaks()]).run("go")
        assert (out.status, out.error and out.error["kind"]) == ("failed", "RuntimeError")
        assert ended == ["1", "100"]

    run_virtual(story())


# --------------------------------------------------------------------------- what a tool may know


async def test_a_context_knows_its_call():
    seen: dict[str, Any] = {}

    @w.tool
    async def look(x: int, ctx: w.ToolContext[dict[str, int]]) -> str:
        seen.update(
            deps=ctx.deps,
            caller=ctx.caller,
            session=ctx.session_id,
            run=ctx.run_id,
            call=ctx.call_id,
            key=ctx.idempotency_key,
            attempt=ctx.attempt,
            cancelled=ctx.cancelled,
        )
        return "seen"

    ann = w.Caller("ann", roles=("support",))
    agent = w.Agent(scripted(call("look", x=1), "ok"), tools=[look])
    out = await agent.run("go", deps={"db": 1}, caller=ann, session_id="s", run_id="r")
    assert seen == {
        "deps": {"db": 1},
        "caller": ann,
        "session": "s",
        "run": "r",
        "call": "call_1",
        "key": "s:call_1",
        "attempt": 1,
        "cancelled": False,
    }
    assert [e.caller for e in out.entries if isinstance(e, ToolDecided)] == ["ann"]
    assert "ctx" not in str(look.parameters)


async def test_deps_and_caller_may_belong_to_the_agent():
    @w.tool
    async def look(ctx: w.ToolContext[str]) -> str:
        return f"{ctx.deps} for {ctx.caller}"

    agent = w.Agent(
        scripted(then=lambda r: "ok" if len(r.messages) > 1 else call("look")),
        tools=[look],
        deps="db",
        caller=w.Caller("bob", tenant="acme"),
    )
    assert (await agent.run("go")).tool_calls[0].result == "db for acme/bob"
    out = await w.agent_loop(
        "go", model=scripted(call("look"), "ok"), tools=[look], deps=7, caller=w.Caller("eve")
    )
    assert out.tool_calls[0].result == "7 for eve"


async def test_a_script_without_identity_is_the_local_caller():
    out = await w.agent_loop("go", model=scripted(call("add", a=1, b=1), "2"), tools=[add])
    assert {e.caller for e in out.entries if isinstance(e, ToolDecided)} == {"local"}


async def test_progress_is_shown_from_any_thread():
    @w.tool
    def count(ctx: w.ToolContext[None]) -> str:
        for n in range(3):
            ctx.progress({"done": n})
        return "ok"

    seen: list[w.Event] = []
    await w.agent_loop(
        "go", model=scripted(call("count"), "ok"), tools=[count], on_event=seen.append
    )
    updates = [e for e in seen if isinstance(e, ToolCallUpdate)]
    assert [e.progress for e in updates if e.progress] == [{"done": n} for n in range(3)]


async def test_a_call_is_shown_pending_in_progress_and_completed():
    seen: list[w.Event] = []
    model = scripted([call("add", a=1, b=2), call("broken")], "ok")
    await w.agent_loop("go", model=model, tools=[add, broken], on_event=seen.append)
    states: dict[str, list[str]] = {}
    for event in seen:
        if isinstance(event, ToolCallUpdate):
            states.setdefault(event.call_id, []).append(event.status)
    assert states == {
        "call_1": ["pending", "in_progress", "completed"],
        "call_2": ["pending", "in_progress", "failed"],
    }


async def test_a_sync_tool_runs_in_a_thread_with_the_context_copied():
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")
    here = threading.get_ident()
    seen: list[Any] = []

    @w.tool
    def look() -> str:
        seen.append((threading.get_ident() != here, place.get()))
        place.set("changed inside")
        return "ok"

    place.set("Delft")
    await one_call(look, call("look"))
    assert seen == [(True, "Delft")]
    assert place.get() == "Delft"


async def test_sync_tools_run_side_by_side_too():
    both = threading.Barrier(2, timeout=5)

    @w.tool
    def meet(n: int) -> int:
        both.wait()
        return n

    model = scripted([call("meet", n=1), call("meet", n=2)], "ok")
    out = await w.Agent(model, tools=[meet]).run("go")
    assert [record.outcome for record in out.tool_calls] == ["ok", "ok"]


# --------------------------------------------------------------------------- what the model sees


async def test_a_long_result_is_cut_for_the_model_and_whole_in_the_journal():
    @w.tool
    async def dump() -> str:
        return "a" * 5000 + "END"

    model = scripted(call("dump"), "ok")
    out = await w.agent_loop("go", model=model, tools=[dump], tool_result_max_bytes=400)
    shown = said(model.requests[1])[-1]
    assert len(shown.encode()) <= 400
    assert shown.startswith("aaa") and shown.endswith("END")
    assert out.tool_calls[0].result == "a" * 5000 + "END"
    whole = await out._run.store.result_of(out.session_id, out.tool_calls[0].id)
    assert whole is not None and whole.result.text == "a" * 5000 + "END"
    assert out.tool_calls[0].id in shown, "the marker says how to find the rest"
    await kept(out, model)


async def test_results_are_cut_at_64_kilobytes_unless_told_otherwise():
    @w.tool
    async def dump(size: int) -> str:
        return "x" * size

    model = scripted([call("dump", size=65_536), call("dump", size=65_537)], "ok")
    await w.agent_loop("go", model=model, tools=[dump])
    fits, cut = (block.text for block in model.requests[1].messages[-1].content)
    assert len(fits) == 65_536
    assert len(cut.encode()) <= 65_536 and cut != "x" * 65_536


async def test_a_tool_may_choose_its_own_words():
    @w.tool
    async def lookup() -> w.ToolResult:
        return w.ToolResult(content="no such order", is_error=True)

    out = await one_call(lookup, call("lookup"))
    assert results(out)["lookup"] == ("error", "no such order")


# --------------------------------------------------------------------------- ids


async def test_ids_a_model_uses_twice_become_unique():
    same = [w.ToolCall("a", "add", {"a": 1, "b": n}) for n in range(2)]
    model = scripted(same, [w.ToolCall("a", "add", {"a": 2, "b": 2})], "ok")
    out = await w.agent_loop("go", model=model, tools=[add])
    ids = [record.id for record in out.tool_calls]
    assert len(set(ids)) == 3 and all(ids)
    assert ids[0] == "a", "the first keeps its own"
    assert [record.result for record in out.tool_calls] == ["1", "2", "4"]
    await kept(out, model)


async def test_empty_ids_are_filled_in():
    blank = w.Response(
        w.Message("assistant", (w.ToolCall("", "add", {"a": 1, "b": 1}),)), stop_reason="tool_use"
    )
    out = await w.agent_loop("go", model=scripted(blank, "ok"), tools=[add])
    assert out.tool_calls[0].id.startswith("call_")


async def test_ids_stay_unique_across_the_runs_of_a_session():
    asked = [w.ToolCall("a", "add", {"a": 1, "b": 1})]
    await w.agent_loop("go", model=scripted(asked, "ok"), tools=[add], session_id="s")
    model = scripted(asked, "ok")
    out = await w.agent_loop("again", model=model, tools=[add], session_id="s")
    assert out.tool_calls[0].id != "a"
    await kept(out)


async def test_the_time_a_call_took_is_on_record():
    @w.tool
    def slow() -> str:
        time.sleep(0.003)
        return "ok"

    out = await one_call(slow, call("slow"))
    assert out.tool_calls[0].duration_ms >= 3
