"""Whatever happens to a call, the model gets exactly one result that says so."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    broken,
    kept,
    note,
    one_call,
    results,
)
from windlass.events import ToolDecided, ToolIntended, ToolResulted
from windlass.testing import call, run_virtual, scripted

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
