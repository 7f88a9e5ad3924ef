"""Whatever happens to a call, the model gets exactly one result that says so."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

import windlass as w
from tests.stories.world import add, broken, kept, note, results, said
from windlass.events import ToolCallUpdate, ToolDecided, ToolIntended, ToolResulted
from windlass.testing import call, run_virtual, scripted


async def one_call(tool: Any, asked: w.ToolCall, **options: Any) -> w.LoopResult:
    model = scripted(asked, "ok")
    out = await w.agent_loop("go", model=model, tools=[tool], **options)
    assert out.status == "done"
    await kept(out, model)
    return out


# --------------------------------------------------------------------------- each kind of end


async def test_an_unknown_tool_is_answered_with_the_nearest_name():
    out = await one_call(add, call("ad", a=1, b=2))
    outcome, words = results(out)["ad"]
    assert outcome == "unknown_tool"
    assert "'add'" in words and "Available: add" in words
    assert out.tools.rejected == ["ad"]


async def test_an_unknown_tool_like_no_other_gets_the_list():
    out = await one_call(add, call("zzz"))
    assert results(out)["zzz"][1] == "There is no tool 'zzz'. Available: add."


async def test_arguments_that_do_not_fit_are_answered_path_by_path():
    out = await one_call(add, call("add", a="x", b=2))
    outcome, words = results(out)["add"]
    assert outcome == "invalid"
    assert "a:" in words
    assert not any(isinstance(e, ToolIntended) for e in out.entries)


async def test_lenient_arguments_are_mended_and_the_mending_is_on_record():
    out = await one_call(add, call("add", a="1", b=2), tool_arg_validation="lenient")
    assert results(out)["add"] == ("ok", "3")
    [decided] = [e for e in out.entries if isinstance(e, ToolDecided)]
    assert decided.arguments == {"a": 1, "b": 2}
    [resulted] = [e for e in out.entries if isinstance(e, ToolResulted)]
    assert resulted.coerced and "a" in resulted.coerced[0]


async def test_strict_is_the_default():
    out = await one_call(add, call("add", a="1", b=2))
    assert results(out)["add"][0] == "invalid"


async def test_unchecked_arguments_reach_the_handler_as_they_are():
    seen: list[Any] = []
    free = w.Tool("free", "Take anything.", {"a": {"type": "integer"}}, handler=seen.append)
    await one_call(free, call("free", a="x", more=1), tool_arg_validation="none")
    assert seen == [{"a": "x", "more": 1}]


async def test_an_exception_is_an_error_result_with_its_name():
    out = await one_call(broken, call("broken"))
    assert results(out)["broken"] == ("error", "ValueError: out of order")


async def test_retry_is_for_the_model_to_read():
    @w.tool
    async def pay(amount: float) -> str:
        raise w.Retry("amount must be positive")

    out = await one_call(pay, call("pay", amount=-1))
    assert results(out)["pay"] == ("retry", "amount must be positive")


def test_an_async_tool_that_takes_too_long_is_stopped():
    stopped: list[bool] = []

    @w.tool(timeout=5)
    async def slow() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(True)
        return "never"

    async def story() -> None:
        out = await one_call(slow, call("slow"))
        outcome, words = results(out)["slow"]
        assert outcome == "timeout"
        assert "5 s" in words and "not known whether it took effect" in words
        assert stopped

    run_virtual(story())


def test_a_read_that_takes_too_long_has_no_doubtful_effect():
    @w.tool(side_effect_level="read_only", timeout=5)
    async def look() -> str:
        await asyncio.sleep(60)
        return "never"

    async def story() -> None:
        out = await one_call(look, call("look"), eager_tools=False)
        assert results(out)["look"][0] == "timeout"
        assert "effect" not in results(out)["look"][1]

    run_virtual(story())


def test_the_default_time_limit_is_an_option():
    @w.tool
    async def slow() -> str:
        await asyncio.sleep(60)
        return "at last"

    async def story() -> None:
        assert results(await one_call(slow, call("slow")))["slow"][0] == "ok"
        cut = await one_call(slow, call("slow"), tool_timeout=3)
        assert results(cut)["slow"][0] == "timeout"
        assert "3 s" in results(cut)["slow"][1]
        free = await one_call(slow, call("slow"), tool_timeout=None)
        assert results(free)["slow"][0] == "ok"

    run_virtual(story())


def test_a_tool_that_answers_late_but_answers_is_heard():
    @w.tool(timeout=5)
    async def tidy() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "half of it"
        return "all"

    async def story() -> None:
        assert results(await one_call(tidy, call("tidy")))["tidy"] == ("ok", "half of it")

    run_virtual(story())


async def test_a_sync_tool_that_takes_too_long_is_left_behind():
    release = threading.Event()

    @w.tool(timeout=0.005)
    def stuck() -> str:
        release.wait(5)
        return "late"

    model = scripted(call("stuck"), "ok")
    try:
        out = await w.agent_loop("go", model=model, tools=[stuck], session_id="s")
        assert (out.status, results(out)["stuck"][0]) == ("done", "timeout")
        with pytest.raises(w.Locked):  # its thread may still do something: nobody writes here
            await w.agent_loop("again", model=scripted("x"), session_id="s")
    finally:
        release.set()
    for _ in range(500):
        try:
            out = await w.agent_loop("again", model=scripted("x"), session_id="s")
            break
        except w.Locked:
            await asyncio.sleep(0.002)
    assert out.status == "done"


async def test_a_policy_may_deny_a_call_with_a_reason():
    class Careful(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.ToolResult:
            return w.ToolResult(content="not on Sundays", is_error=True, outcome="denied")

    ran: list[int] = []

    @w.tool
    async def act() -> None:
        ran.append(1)

    out = await one_call(act, call("act"), policies=[Careful()])
    assert results(out)["act"] == ("denied", "not on Sundays")
    assert not ran
    [decided] = [e for e in out.entries if isinstance(e, ToolDecided)]
    assert (decided.action, decided.rule) == ("deny", "Careful")


async def test_a_policy_may_answer_a_call_itself():
    class Cached(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.ToolResult:
            return w.ToolResult(content="from memory")

    out = await one_call(broken, call("broken"), policies=[Cached()])
    assert results(out)["broken"] == ("ok", "from memory")


async def test_a_policy_may_change_the_arguments_and_they_are_checked_again():
    class Doubles(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.ToolCall:
            return w.ToolCall(call.id, call.name, {"a": call.arguments["a"] * 2, "b": 0})

    class Breaks(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.ToolCall:
            return w.ToolCall(call.id, call.name, {"a": "x"})

    out = await one_call(add, call("add", a=4, b=2), policies=[Doubles()], eager_tools=False)
    assert results(out)["add"] == ("ok", "8")
    out = await one_call(add, call("add", a=4, b=2), policies=[Breaks()], eager_tools=False)
    assert results(out)["add"][0] == "invalid"


async def test_calls_that_were_not_run_say_why():
    class Enough(w.Policy[None]):
        async def after_reply(self, run: w.Run, turn: w.Turn) -> w.Stop:
            return w.Stop("stopped", "enough")

    model = scripted([call("note", text="a"), call("note", text="b")])
    out = await w.agent_loop("go", model=model, tools=[note], policies=[Enough()])
    assert out.status == "stopped"
    assert [(r.outcome, r.result) for r in out.tool_calls] == [("not_run", "Not run: enough.")] * 2
    await kept(out, model)


async def test_a_stop_after_a_result_leaves_later_calls_unrun():
    class First(w.Policy[None]):
        async def after_tool(self, run: w.Run, call: w.ToolCall, result: w.ToolResult) -> w.Stop:
            return w.Stop("stopped", "one is enough")

    model = scripted([call("note", text="a"), call("note", text="b")])
    out = await w.agent_loop("go", model=model, tools=[note], policies=[First()])
    assert [record.outcome for record in out.tool_calls] == ["ok", "not_run"]
    await kept(out, model)


def test_an_interrupted_call_has_an_unknown_outcome():
    @w.tool
    async def pay() -> str:
        await asyncio.sleep(60)
        return "paid"

    async def story() -> None:
        model = scripted(call("pay"))
        out = await w.Agent(model, tools=[pay]).run("go", timeout=1)
        assert (out.status, out.stop_reason) == ("cancelled", "timeout")
        outcome, words = results(out)["pay"]
        assert outcome == "interrupted"
        assert "outcome is unknown" in words
        await kept(out, model)

    run_virtual(story())


async def test_a_tool_that_raises_a_cancellation_of_its_own_is_an_error():
    @w.tool
    async def odd() -> str:
        raise asyncio.CancelledError("mine")

    out = await one_call(odd, call("odd"))
    assert results(out)["odd"][0] == "error"


async def test_a_call_without_a_name_is_answered_and_its_siblings_run():
    model = scripted([w.ToolCall("x", "", {}), call("add", a=1, b=2)], "ok")
    out = await w.agent_loop("go", model=model, tools=[add])
    assert [record.outcome for record in out.tool_calls] == ["unknown_tool", "ok"]
    assert "" not in out.tools.calls
    assert all(block.name for block in model.requests[1].messages[1].tool_calls)
    await kept(out, model)


async def test_arguments_that_are_no_json_object_are_answered():
    model = scripted([w.ToolCall("x", "add", {}, raw='{"a": 1, "b"')], "ok")
    out = await w.agent_loop("go", model=model, tools=[add])
    assert out.tool_calls[0].outcome == "invalid"
    assert '{"a": 1, "b"' in out.tool_calls[0].result
    await kept(out, model)


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
            deps=ctx.deps, caller=ctx.caller, session=ctx.session_id, run=ctx.run_id,
            call=ctx.call_id, key=ctx.idempotency_key, attempt=ctx.attempt, cancelled=ctx.cancelled,
        )  # fmt: skip
        return "seen"

    ann = w.Caller("ann", roles=("support",))
    agent = w.Agent(scripted(call("look", x=1), "ok"), tools=[look])
    out = await agent.run("go", deps={"db": 1}, caller=ann, session_id="s", run_id="r")
    assert seen == {
        "deps": {"db": 1}, "caller": ann, "session": "s", "run": "r", "call": "call_1",
        "key": "s:call_1", "attempt": 1, "cancelled": False,
    }  # fmt: skip
    assert [e.caller for e in out.entries if isinstance(e, ToolDecided)] == ["ann"]
    assert "ctx" not in str(look.parameters)


async def test_deps_and_caller_may_belong_to_the_agent():
    @w.tool
    async def look(ctx: w.ToolContext[str]) -> str:
        return f"{ctx.deps} for {ctx.caller}"

    agent = w.Agent(
        scripted(then=lambda r: "ok" if len(r.messages) > 1 else call("look")),
        tools=[look], deps="db", caller=w.Caller("bob", tenant="acme"),
    )  # fmt: skip
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
