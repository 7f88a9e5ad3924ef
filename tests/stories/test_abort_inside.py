"""Stopping a run from inside it: a tool, the model, a policy, whoever watches."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    nothing_left,
    results,
)
from windlass.events import RunEnded, RunStarted, ToolResulted
from windlass.testing import call, run_virtual, scripted

THREE = (call("pull"), call("add", a=1, b=1), "never said")


def pulling(brake: w.Abort) -> w.Tool:
    async def handler(args: dict[str, Any]) -> str:
        brake.abort("enough")
        return "pulled"

    return w.Tool("pull", "Pull the brake.", {}, handler=handler)


class Pulls(w.Policy[None]):
    """Pulls the brake at one moment."""

    def __init__(self, moment: str, brake: w.Abort) -> None:
        self.moment, self.brake = moment, brake

    def _at(self, moment: str) -> None:
        if moment == self.moment:
            self.brake.abort("enough")

    async def start(self, run: Any) -> None:
        self._at("start")

    async def before_turn(self, run: Any) -> None:
        self._at("before_turn")

    async def before_model(self, run: Any, request: Any) -> Any:
        self._at("before_model")
        return request

    async def after_reply(self, run: Any, turn: Any) -> None:
        self._at("after_reply")

    async def before_tool(self, run: Any, call: Any) -> None:
        self._at("before_tool")

    async def after_tool(self, run: Any, call: Any, result: Any) -> Any:
        self._at("after_tool")
        return result

    async def after_turn(self, run: Any, turn: Any) -> None:
        self._at("after_turn")

    async def before_finish(self, run: Any, turn: Any, finish: Any) -> None:
        self._at("before_finish")

    async def end(self, run: Any, outcome: Any) -> Any:
        self._at("end")
        return outcome


async def test_a_tool_that_returns_at_once():
    brake = w.Abort()
    model = scripted(*THREE)
    out = await w.Agent(model, tools=[pulling(brake), add]).run("go", abort=brake)
    assert (out.status, out.stop_reason, len(model.requests)) == ("cancelled", "enough", 1)
    assert results(out)["pull"] == ("ok", "pulled")
    await kept(out, model)


async def test_the_same_run_without_the_brake_comes_to_its_end():
    brake = w.Abort()
    model = scripted(*THREE)
    out = await w.Agent(model, tools=[pulling(brake), add]).run("go")
    assert (out.status, out.output) == ("done", "never said")
    await kept(out, model)


@pytest.mark.parametrize(
    "moment",
    [
        "start",
        "before_turn",
        "before_model",
        "after_reply",
        "before_tool",
        "after_tool",
        "after_turn",
        "before_finish",
        "end",
    ],
)
async def test_a_policy_at_every_moment(moment: str):
    brake = w.Abort()
    model = scripted(call("add", a=1, b=1), "two")
    agent = w.Agent(model, tools=[add], policies=[Pulls(moment, brake)])
    out = await agent.run("go", abort=brake)
    assert brake.aborted
    assert out.status == ("done" if moment == "end" else "cancelled")
    await kept(out)


@pytest.mark.parametrize("kind", [RunStarted, w.TextDelta, RunEnded])
async def test_whoever_watches(kind: type):
    brake = w.Abort()

    def watch(event: object) -> None:
        if type(event) is kind:
            brake.abort("enough")

    model = scripted("in pieces, word by word", stream=True)
    out = await w.Agent(model).run("go", abort=brake, on_event=watch)
    assert brake.aborted
    assert out.status == ("done" if kind is RunEnded else "cancelled")
    await kept(out)


async def test_the_model_itself():
    brake = w.Abort()

    def reply(request: w.Request) -> str:
        brake.abort("enough")
        return "said all the same"

    out = await w.Agent(scripted(reply)).run("go", abort=brake)
    assert (out.status, out.stop_reason) == ("cancelled", "enough")
    await kept(out)


async def test_generate_raises_aborted():
    brake = w.Abort()
    async with w.Runtime(store="memory:", resources=[], tools=[pulling(brake), add]) as scope:
        with pytest.raises(w.Aborted, match="enough") as raised:
            await scope.models.generate("go", model=scripted(*THREE), abort=brake)
    assert raised.value.status == "cancelled"
    assert [step.outcome for step in raised.value.trace if step.type == "tool_result"] == ["ok"]


async def test_generate_stream_raises_aborted():
    brake = w.Abort()
    async with w.Runtime(store="memory:", resources=[], tools=[pulling(brake), add]) as scope:
        with pytest.raises(w.Aborted, match="enough"):
            async for _ in scope.models.generate_stream("go", model=scripted(*THREE), abort=brake):
                pass
        await nothing_left()


async def test_a_stream_is_cancelled_by_its_own_tool():
    @w.tool
    async def stop() -> str:
        await stream.cancel("I have seen enough")
        return "stopped"

    model = scripted(call("stop"), "never")
    stream = w.Agent(model, tools=[stop]).stream("go")
    async with stream:
        out = await stream.result()
    assert (out.status, out.stop_reason) == ("cancelled", "I have seen enough")
    assert len(model.requests) == 1
    await kept(out, model)


async def test_a_cancel_that_comes_too_late_is_not_for_the_next_run():
    late: list[asyncio.Task[None]] = []

    def watch(event: object) -> None:
        if type(event) is RunEnded:
            late.append(asyncio.ensure_future(stream.cancel()))

    agent = w.Agent(scripted(then="said"))
    stream = agent.stream("go", session_id="s", on_event=watch)
    async with stream:
        out = await stream.result()
    await asyncio.gather(*late)
    again = await agent.run("go on", session_id="s")
    assert (out.status, again.status) == ("done", "done")
    await kept(again)


async def test_a_child_has_a_brake_of_its_own():
    brake = w.Abort()
    child = w.Agent(scripted(*THREE), tools=[pulling(brake), add], name="child", abort=brake)
    model = scripted(call("child", task="dig"), "went on without")
    out = await w.Agent(model, tools=[child.as_tool()]).run("go")
    assert (out.status, out.output) == ("done", "went on without")
    assert results(out)["child"] == ("error", "The agent ended as cancelled (enough).")
    await kept(out, model)


async def test_what_the_caller_cancels_is_raised_though_the_brake_is_pulled():
    brake = w.Abort()
    own: list[asyncio.Task[Any]] = []

    @w.tool
    async def both() -> str:
        brake.abort("enough")
        own[0].cancel()
        return "both"

    agent = w.Agent(scripted(call("both"), "never"), tools=[both])
    own.append(asyncio.ensure_future(agent.run("go", abort=brake, session_id="s")))
    with pytest.raises(asyncio.CancelledError):
        await own[0]
    assert (await w.agent_session_read("s")).status == "cancelled"
    await nothing_left()


async def test_the_callers_own_scopes_see_nothing_of_it():
    """A timeout and a task group around the run are neither expired nor cancelled."""
    brake = w.Abort()
    agent = w.Agent(scripted(*THREE), tools=[pulling(brake), add])
    task = asyncio.current_task()
    assert task is not None
    async with asyncio.timeout(60) as scope, asyncio.TaskGroup() as group:
        beside = group.create_task(asyncio.sleep(0.001, "beside"))
        out = await agent.run("go", abort=brake)
    assert (out.status, beside.result(), scope.expired()) == ("cancelled", "beside", False)
    assert task.cancelling() == 0
    await kept(out)


def test_blocking_calls_return_it():
    brake, other = w.Abort(), w.Abort()
    agent = w.Agent(scripted(*THREE), tools=[pulling(brake), add])
    assert agent.run_sync("go", abort=brake).stop_reason == "enough"
    tools = [pulling(other), add]
    out = w.sync.agent_loop("go", model=scripted(*THREE), tools=tools, abort=other)
    assert (out.status, out.stop_reason) == ("cancelled", "enough")


# --------------------------------------------------------------------------- while a run ends


class SlowResults(w.Policy[None]):
    async def after_tool(self, run: Any, call: Any, result: Any) -> Any:
        await asyncio.sleep(0.01)
        return result


def test_an_end_that_waits_is_not_cut_off():
    """The brake is pulled, and the caller cancelled while open calls are answered."""

    async def story() -> None:
        brake = w.Abort()

        @w.tool
        async def wait() -> str:
            await asyncio.sleep(600)
            return "waited"

        model = scripted([call("wait"), call("add", a=1, b=1)])
        agent = w.Agent(model, tools=[wait, add], policies=[SlowResults()], max_concurrent_tools=1)
        running = asyncio.ensure_future(agent.run("go", abort=brake, session_id="s"))
        await asyncio.sleep(5)
        brake.abort("enough")
        await asyncio.sleep(0.002)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await w.agent_session_read("s")).status == "cancelled"
        await nothing_left()

    run_virtual(story())


@pytest.mark.parametrize("moment", ["end", "after_tool"])
async def test_a_policy_that_is_cancelled_by_itself_does_not_take_the_end_along(moment: str):
    async def gives_up(*_: Any) -> Any:
        given_up = asyncio.get_running_loop().create_future()
        given_up.cancel()
        await given_up

    policy = type("GivesUp", (w.Policy,), {moment: gives_up})()
    model = scripted(call("add", a=1, b=1), "two")
    out = await w.Agent(model, tools=[add], policies=[policy]).run("go")
    assert out.status == ("done" if moment == "end" else "cancelled")
    await kept(out)


def test_a_commit_that_has_begun_decides_what_the_result_is(tmp_path: Path):
    """It outlasts the patience with which a cancelled call is waited for."""
    at_work, go_on = threading.Event(), threading.Event()
    brake = w.Abort()

    @w.tool(transactional=True)
    async def book(ctx: w.ToolContext[None]) -> str:
        def body(tx: Any) -> str:
            at_work.set()
            assert go_on.wait(30)
            return "booked"

        return await ctx.commit(body)

    @w.tool
    async def pull() -> str:
        await asyncio.to_thread(at_work.wait, 30)
        brake.abort("enough")
        return "pulled"

    async def story() -> None:
        async with w.Runtime(store=f"sqlite:///{tmp_path}/s.db", environ={}) as runtime:
            model = scripted([call("book"), call("pull")], "never")
            agent = w.Agent(model, tools=[book, pull])
            out = await agent.run("go", abort=brake, session_id="s")
            assert (out.status, out.stop_reason) == ("cancelling", "enough")
            go_on.set()
            await asyncio.wait(runtime.lingering)
            session = await w.agent_session_read("s")
            outcomes = {e.tool: e.outcome for e in session.entries if type(e) is ToolResulted}
            assert (session.status, outcomes["book"]) == ("cancelling", "ok")
            again = await w.Agent(scripted("ok")).run("go on", session_id="s")
            assert again.status == "done"
            await kept(again)

    asyncio.run(story())
