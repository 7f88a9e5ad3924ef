"""Stopping a run: from outside, by the clock, and when a tool will not let go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    nothing_left,
    results,
)
from windlass.events import RunEnded
from windlass.testing import call, run_virtual, scripted


def waiting(name: str = "wait", *, on_cancel: Callable[[], None] | None = None) -> w.Tool:
    async def handler(args: dict[str, Any]) -> str:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            if on_cancel is not None:
                on_cancel()
            raise
        return "waited"

    return w.Tool(name, "Wait.", {}, handler=handler)


async def status_of(session_id: str) -> str | None:
    return (await w.agent_session_read(session_id)).status


# --------------------------------------------------------------------------- abort


def test_an_abort_returns_a_result():
    async def story() -> None:
        brake = w.Abort()
        cancelled: list[int] = []
        tool = waiting(on_cancel=lambda: cancelled.append(1))
        model = scripted([call("note", text="x"), call("wait"), call("note", text="y")])
        running = asyncio.ensure_future(
            w.agent_loop("go", model=model, tools=[tool, note], abort=brake)
        )
        await asyncio.sleep(5)
        brake.abort("changed my mind")
        out = await running
        assert (out.status, out.stop_reason) == ("cancelled", "changed my mind")
        assert [record.outcome for record in out.tool_calls] == ["ok", "interrupted", "not_run"]
        assert cancelled == [1]
        with pytest.raises(w.Aborted):
            out.raise_for_status()
        await kept(out, model)

    run_virtual(story())


def test_an_abort_stops_a_model_call():
    async def story() -> None:
        brake = w.Abort()
        model = scripted("late", delay=60)
        running = asyncio.ensure_future(w.Agent(model, abort=brake).run("go"))
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        brake.abort()
        out = await running
        assert asyncio.get_running_loop().time() - began < 0.1
        assert (out.status, out.stop_reason, out.turns) == ("cancelled", "aborted", 0)
        await kept(out)

    run_virtual(story())


async def test_a_run_with_a_pulled_brake_does_not_begin():
    brake = w.Abort()
    brake.abort("no")
    model = scripted("never")
    out = await w.Agent(model).run("go", abort=brake)
    assert (out.status, out.stop_reason, model.requests) == ("cancelled", "no", [])
    assert brake.aborted
    await kept(out)


def test_one_brake_stops_many_runs_and_the_first_reason_counts():
    async def story() -> None:
        brake = w.Abort()
        agent = w.Agent(scripted(then="late", delay=60))
        running = [asyncio.ensure_future(agent.run("go", abort=brake)) for _ in range(3)]
        await asyncio.sleep(1)
        brake.abort("first")
        brake.abort("second")
        outs = await asyncio.gather(*running)
        assert {(out.status, out.stop_reason) for out in outs} == {("cancelled", "first")}
        assert brake.reason == "first"

    run_virtual(story())


async def test_an_abort_may_come_from_another_thread():
    brake = w.Abort()
    begun = threading.Event()

    @w.tool
    async def wait() -> str:
        begun.set()
        await asyncio.sleep(60)
        return "never"

    def pull() -> None:
        begun.wait(5)
        brake.abort("from a thread")

    thread = threading.Thread(target=pull)
    thread.start()
    out = await w.Agent(scripted(call("wait")), tools=[wait]).run("go", abort=brake)
    thread.join()
    assert (out.status, out.stop_reason) == ("cancelled", "from a thread")
    await kept(out)


# --------------------------------------------------------------------------- asyncio and the clock


def test_cancelling_the_task_journals_the_end_and_then_raises():
    async def story() -> None:
        model = scripted(call("wait"))
        running = asyncio.ensure_future(w.Agent(model, tools=[waiting()]).run("go", session_id="s"))
        await asyncio.sleep(5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        entries = (await w.agent_session_read("s")).entries
        assert isinstance(entries[-1], RunEnded) and entries[-1].status == "cancelled"
        await nothing_left()
        out = await w.Agent(scripted("ok")).run("again", session_id="s")
        assert out.status == "done"
        await kept(out)

    run_virtual(story())


def test_asyncio_timeout_works_as_everywhere():
    async def story() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await w.agent_loop("go", model=scripted("late", delay=60), session_id="s")
        assert await status_of("s") == "cancelled"

    run_virtual(story())


def test_a_timeout_of_the_run_returns_a_result():
    async def story() -> None:
        out = await w.Agent(scripted("late", delay=60)).run("go", timeout=5)
        assert (out.status, out.stop_reason) == ("cancelled", "timeout")
        await kept(out)

    run_virtual(story())


def test_a_timeout_that_is_not_reached_changes_nothing():
    async def story() -> None:
        out = await w.Agent(scripted("in time", delay=3)).run("go", timeout=5)
        assert out.status == "done"

    run_virtual(story())


def test_a_cancelled_run_can_be_continued():
    async def story() -> None:
        await w.Agent(scripted(call("wait")), tools=[waiting()]).run(
            "go", session_id="s", timeout=1
        )
        model = scripted("ok")
        out = await w.Agent(model, tools=[waiting()]).run("and now?", session_id="s")
        [answer] = [m for m in model.requests[0].messages if m.role == "tool"]
        assert answer.content[0].outcome == "interrupted"
        await kept(out, None)

    run_virtual(story())


def test_cancelling_the_parent_cancels_the_child():
    async def story() -> None:
        stopped: list[int] = []
        child = w.Agent(
            scripted(call("wait")),
            tools=[waiting(on_cancel=lambda: stopped.append(1))],
            name="child",
        )
        parent = w.Agent(scripted(call("child", task="dig")), tools=[child.as_tool()])
        out = await parent.run("go", timeout=5)
        assert (out.status, stopped) == ("cancelled", [1])
        states = {info.id: info.status for info in await w.agent_session_list()}
        assert set(states.values()) == {"cancelled"}
        await nothing_left()

    run_virtual(story())


def test_a_cancel_in_the_inbox_stops_the_run():
    async def story() -> None:
        from windlass.engine.environment import current_store

        running = asyncio.ensure_future(
            w.Agent(scripted("late", delay=60)).run("go", session_id="s")
        )
        await asyncio.sleep(1)
        await current_store().post("s", "cancel", "the operator says so")
        out = await running
        assert (out.status, out.stop_reason) == ("cancelled", "the operator says so")
        await kept(out)
        again = await w.Agent(scripted("ok")).run("again", session_id="s")
        assert again.status == "done", "a cancel is for one run"

    run_virtual(story())


# --------------------------------------------------------------------------- tools that will not let go


def test_an_async_tool_that_will_not_let_go_leaves_the_run_cancelling():
    async def story() -> None:
        gone = asyncio.Event()

        @w.tool
        async def stubborn() -> str:
            for _ in range(3):
                try:
                    await gone.wait()
                    break
                except asyncio.CancelledError:
                    pass
            return "gone"

        brake = w.Abort()
        agent = w.Agent(scripted([call("stubborn"), call("add", a=1, b=1)]), tools=[stubborn, add])
        running = asyncio.ensure_future(agent.run("go", session_id="s", abort=brake))
        await asyncio.sleep(5)
        loop = asyncio.get_running_loop()
        began = loop.time()
        brake.abort("enough")
        out = await running
        assert loop.time() - began <= 0.1
        assert (out.status, out.stop_reason) == ("cancelling", "enough")
        with pytest.raises(w.Locked):
            await w.Agent(scripted("x")).run("again", session_id="s")
        gone.set()
        await asyncio.sleep(1)
        again = await w.Agent(scripted("ok")).run("again", session_id="s")
        assert again.status == "done"
        await kept(again)

    run_virtual(story())


def test_a_lone_stubborn_tool_is_the_same():
    """Alone it runs in the run's own task."""

    async def story() -> None:
        gone = asyncio.Event()

        @w.tool
        async def stubborn() -> str:
            try:
                await gone.wait()
            except asyncio.CancelledError:
                await gone.wait()
            return "gone"

        running = asyncio.ensure_future(
            w.Agent(scripted(call("stubborn")), tools=[stubborn]).run(
                "go", session_id="s", timeout=1
            )
        )
        out = await running
        assert (out.status, out.stop_reason) == ("cancelling", "timeout")
        with pytest.raises(w.Locked):
            await w.Agent(scripted("x")).run("again", session_id="s")
        gone.set()
        await asyncio.sleep(1)
        again = await w.Agent(scripted("ok")).run("again", session_id="s")
        assert again.status == "done"
        await kept(again)

    run_virtual(story())


async def test_a_thread_that_will_not_let_go_leaves_the_run_cancelling():
    release, begun = threading.Event(), threading.Event()
    saw: list[bool] = []

    @w.tool
    def stubborn(ctx: w.ToolContext[None]) -> str:
        begun.set()
        release.wait(5)
        saw.append(ctx.cancelled)
        return "late"

    brake = w.Abort()
    try:
        running = asyncio.ensure_future(
            w.Agent(scripted(call("stubborn")), tools=[stubborn]).run(
                "go", session_id="s", abort=brake
            )
        )
        await asyncio.to_thread(begun.wait, 5)
        brake.abort("enough")
        out = await running
        assert (out.status, results(out)["stubborn"][0]) == ("cancelling", "interrupted")
        with pytest.raises(w.Locked):
            await w.Agent(scripted("x")).run("again", session_id="s")
    finally:
        release.set()
    for _ in range(500):
        try:
            again = await w.Agent(scripted("ok")).run("again", session_id="s")
            break
        except w.Locked:
            await asyncio.sleep(0.002)
    assert again.status == "done"
    assert saw == [True], "it was told"
    await kept(again)


def test_cancelling_twice_changes_nothing():
    async def story() -> None:
        running = asyncio.ensure_future(
            w.Agent(scripted(call("wait")), tools=[waiting()]).run("go", session_id="s")
        )
        await asyncio.sleep(1)
        running.cancel()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await status_of("s") == "cancelled"

    run_virtual(story())


def test_a_tool_that_swallows_the_cancellation_does_not_save_the_run():
    async def story() -> None:
        @w.tool
        async def swallows() -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return "half"
            return "whole"

        model = scripted(call("swallows"), "never")
        out = await w.Agent(model, tools=[swallows]).run("go", timeout=1)
        assert (out.status, len(model.requests)) == ("cancelled", 1)
        assert results(out)["swallows"] == ("ok", "half")
        await kept(out, model)

    run_virtual(story())
