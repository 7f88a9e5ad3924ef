"""A run is stopped from inside, at every callback and every step, through every door.

What comes of it is a result with a named status (`Aborted` from `generate`), never a bare
`CancelledError`; every call is answered and nothing is left running.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import windlass as w
from tests.cancel.abort_points import (
    EVERY,
    REASON,
    SESSION,
    Brake,
    How,
    step_by_step,
)
from windlass.events import RunEnded, RunStarted
from windlass.models.history import audit
from windlass.store.view import messages_of
from windlass.testing import call, run_virtual, scripted

Shape = Literal["alone", "together", "plain"]
Door = Callable[["World"], Awaitable[Any]]

# --------------------------------------------------------------------------- a run that calls back


class EveryMoment(w.Policy[None]):
    """Passes by the brake at every moment that a policy has."""

    def __init__(self, brake: Brake) -> None:
        self.brake = brake

    async def start(self, run: Any) -> None:
        await self.brake.pass_in("start")

    async def before_turn(self, run: Any) -> None:
        await self.brake.pass_in("before_turn")

    async def before_model(self, run: Any, request: Any) -> Any:
        await self.brake.pass_in("before_model")
        return request

    async def on_model_error(self, run: Any, error: Any) -> w.TryAgain:
        await self.brake.pass_in("on_model_error")
        return w.TryAgain()

    async def after_reply(self, run: Any, turn: Any) -> None:
        await self.brake.pass_in("after_reply")

    async def before_tool(self, run: Any, call: Any) -> None:
        await self.brake.pass_in("before_tool")

    async def after_tool(self, run: Any, call: Any, result: Any) -> Any:
        await self.brake.pass_in("after_tool")
        return result

    async def after_turn(self, run: Any, turn: Any) -> None:
        await self.brake.pass_in("after_turn")

    async def before_finish(self, run: Any, turn: Any, finish: Any) -> None:
        await self.brake.pass_in("before_finish")
        await run.ask(w.Request((w.Message("user", "done?"),)), "judge")

    async def end(self, run: Any, outcome: Any) -> Any:
        await self.brake.pass_in("end")
        return outcome


class Watched(w.Model):
    """A model that passes by the brake as it begins, as it writes and as it ends."""

    def __init__(self, inner: w.Model, brake: Brake) -> None:
        self.inner, self.brake = inner, brake

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        def write(event: Any) -> None:
            self.brake.pass_by("model writes")
            emit(event)

        await self.brake.pass_in("model begins")
        response = await self.inner.respond(request, write)
        await self.brake.pass_in("model ends")
        return response


class World:
    """What one run is made of."""

    def __init__(self, brake: Brake, shape: Shape, runtime: w.Runtime) -> None:
        self.brake, self.shape, self.runtime = brake, shape, runtime
        self.store = runtime.store

    def tools(self) -> list[w.Tool]:
        brake = self.brake

        @w.tool(side_effect_level="read_only")
        async def look() -> str:
            """Look."""
            await brake.pass_in("a tool that reads")
            return "seen"

        @w.tool
        async def send(ctx: w.ToolContext[None]) -> str:
            """Send."""
            await brake.pass_in("a tool begins")
            ctx.progress("half")
            await asyncio.sleep(0.001)
            brake.pass_by("a tool ends")
            return "sent"

        @w.tool
        def write() -> str:
            """Write, in a thread."""
            brake.pass_by("a tool in a thread")
            return "written"

        @w.tool(transactional=True)
        async def book(ctx: w.ToolContext[None]) -> str:
            """Book."""

            def body(tx: Any) -> str:
                if threading.current_thread() is threading.main_thread() or brake.how == "abort":
                    brake.pass_by("a transaction")
                return "booked"

            return await ctx.commit(body)

        return [look, send, write, book]

    def model(self) -> w.Model:
        turns: list[Any] = [call("look"), call("send"), call("write"), call("book")]
        if self.shape == "together":
            turns = [["All at once.", *turns], w.Overloaded("busy")]
        elif self.shape == "plain":
            turns = [call("look"), call("send")]
        judged = [] if self.shape == "plain" else ["yes"]
        return Watched(scripted(*turns, "That is all.", *judged, stream=True), self.brake)

    def options(self) -> dict[str, Any]:
        """What every door of the loop takes."""
        brake = self.brake
        own = {"tools": self.tools(), "abort": brake.abort, "session_id": SESSION}
        if self.shape == "plain":
            return own

        def say(place: str, answer: Any = None) -> Callable[..., Any]:
            def callback(*_: Any) -> Any:
                brake.pass_by(place)
                return answer

            return callback

        def say_later(place: str, answer: Any = None) -> Callable[..., Any]:
            async def callback(*_: Any) -> Any:
                await brake.pass_in(place)
                await asyncio.sleep(0)
                return answer

            return callback

        return {
            **own,
            "policies": [EveryMoment(brake)],
            "on_event": lambda event: brake.pass_by(f"event: {type(event).__name__}"),
            "consent": say_later("consent", True),
            "audit_sink": say_later("audit sink"),
            "telemetry": say("telemetry"),
            "context_callback": say_later("context callback"),
            "post_turn_callback": say("post turn"),
            "message_decorator": lambda message, _: brake.pass_by("decorator") or message,
            "compact_strategy": "custom",
            "compact_threshold": 1,
            "compact_keep_last": 2,
            "compact_callback": say_later("compaction", "in short"),
            "verify_completion": say_later("completion"),
            "approval_policy": {
                "rules": [{"ask": {"tool": "send"}}],
                "request_permission": say_later("permission", True),
            },
        }


# --------------------------------------------------------------------------- the doors


async def by_run(world: World) -> Any:
    return await w.Agent(world.model(), **world.options()).run("go")


async def by_stream(world: World) -> Any:
    async with w.Agent(world.model(), **world.options()).stream("go") as run:
        world.brake.cancel_run = lambda: run.cancel(REASON)
        async for event in run:
            world.brake.pass_by(f"reader: {type(event).__name__}")
        return await run.result()


async def by_loop(world: World) -> Any:
    return await w.agent_loop("go", model=world.model(), **world.options())


async def by_turn(world: World) -> Any:
    judge = {"model": Watched(scripted(then=call("give_verdict", verdict="done")), world.brake)}
    return await w.agent_turn("go", model=world.model(), done_judge=judge, **world.options())


async def by_generate(world: World) -> Any:
    return await world.runtime.models.generate("go", model=world.model(), **world.options())


async def by_generate_stream(world: World) -> Any:
    words = ""
    given = world.options()
    async for chunk in world.runtime.models.generate_stream("go", model=world.model(), **given):
        world.brake.pass_by("reader")
        words += chunk.delta_content or ""
    return words


async def by_resume(world: World) -> Any:
    """Of a run that waits for its host."""
    options = world.options()
    asks = w.Tool("ask", "Ask the host.", {})
    before = w.Agent(scripted(call("ask")), tools=[asks], store=world.store)
    parked = await before.run("go", session_id=SESSION)
    assert parked.status == "suspended"
    agent = w.Agent(world.model(), **{**options, "tools": [*options["tools"], asks]})
    return await agent.resume(SESSION, results={parked.pending[0].id: "the host says so"})


async def by_child(world: World) -> Any:
    """The parent is stopped from inside its child."""
    options = world.options()
    own = {name: options.pop(name) for name in ("abort", "session_id")}
    child = w.Agent(world.model(), name="child", **options)
    model = Watched(scripted(call("child", task="dig"), "dug"), world.brake)
    return await w.Agent(model, tools=[child.as_tool()], **own).run("go")


DOORS: dict[str, Door] = {
    "run": by_run,
    "stream": by_stream,
    "agent_loop": by_loop,
    "agent_turn": by_turn,
    "generate": by_generate,
    "generate_stream": by_generate_stream,
    "resume": by_resume,
    "child": by_child,
}

# --------------------------------------------------------------------------- trials


async def trial(door: Door, world: World) -> str:
    """One run through this door; its status, once all that was promised is checked."""
    brake, store = world.brake, world.store
    brake.loop = asyncio.get_running_loop()
    brake.cancel_run = lambda: store.post(SESSION, "cancel", REASON)
    before = asyncio.all_tasks()
    where = lambda: f"at {brake.at}: {brake.places[brake.at]}"  # noqa: E731
    try:
        out = await door(world)
        status = out.status if isinstance(out, w.LoopResult | w.AgentResult) else "done"
    except w.Aborted as error:
        assert door in (by_generate, by_generate_stream), where()
        status = error.status or ""
    except asyncio.CancelledError:
        raise AssertionError(f"a bare CancelledError, {where()}") from None
    await brake.settled()
    left = [task for task in asyncio.all_tasks() - before if not task.done()]
    assert not left, f"left running {left}, {where()}"
    for info in await store.sessions():
        entries = await store.read(info.id)
        assert not audit([*messages_of(entries), w.Message("user", "next")]), where()
        begun = any(type(entry) is RunStarted for entry in entries)  # a child may not have been
        assert type(entries[-1]) is RunEnded or not begun, where()
        journal = await store.open(info.id)  # nobody holds it any more
        await journal.close()
    return status


def play(door: Door, brake: Brake, shape: Shape, folder: Path | None, *, steps: bool) -> str:
    """A trial in a runtime and a loop of its own."""

    async def main() -> str:
        place = "memory:" if folder is None else f"sqlite:///{folder}/{id(brake)}.db"
        async with w.Runtime(store=place, environ={}, resources=[]) as runtime:
            loop = asyncio.get_running_loop()
            if steps:
                loop.set_task_factory(step_by_step(brake))
            try:
                return await trial(door, World(brake, shape, runtime))
            finally:
                loop.set_task_factory(None)

    return run_virtual(main())


def sweep(
    door: Door,
    shape: Shape,
    how: How,
    folder: Path | None,
    *,
    steps: bool = False,
    every: int = 1,
) -> list[str]:
    """Stop the run at every place that an undisturbed one passes; the places."""
    alone = Brake(how)
    assert play(door, alone, shape, folder, steps=steps) == "done"
    assert len(alone.places) > 10
    for at in range(0, len(alone.places), every * EVERY):
        brake = Brake(how, at)
        status = play(door, brake, shape, folder, steps=steps)
        if not brake.pulled:
            continue  # threads take their time: there were fewer places
        assert status in ("done", "cancelled"), f"{status} at {at}: {brake.places[at]}"
        reads = brake.places[at].startswith("reader")  # beside the run, which may be ending
        if how == "abort" and not steps and not reads and at < over(brake.places):
            assert status == "cancelled", f"at {at}: {brake.places[at]}"
    return alone.places


def over(places: list[str]) -> int:
    """Where the run's end has been decided, and nothing stops it any more."""
    ends = ("end", "event: RunEnded")
    return next((at for at, place in enumerate(places) if place in ends), len(places))


@pytest.mark.parametrize("shape", ["alone", "together"])
@pytest.mark.parametrize("how", ["abort", "cancel"])
@pytest.mark.parametrize("door", DOORS)
def test_at_every_callback(door: str, how: How, shape: Shape):
    sweep(DOORS[door], shape, how, None)


@pytest.mark.parametrize("how", ["abort", "cancel"])
@pytest.mark.parametrize("door", DOORS)
def test_at_every_step(door: str, how: How):
    sweep(DOORS[door], "plain", how, None, steps=True)


@pytest.mark.parametrize("how", ["abort", "cancel"])
@pytest.mark.parametrize("door", DOORS)
def test_at_callbacks_on_sqlite(door: str, how: How, tmp_path: Path):
    sweep(DOORS[door], "together", how, tmp_path, every=7)


@pytest.mark.parametrize("how", ["abort", "cancel"])
@pytest.mark.parametrize("door", DOORS)
def test_at_steps_on_sqlite(door: str, how: How, tmp_path: Path):
    sweep(DOORS[door], "plain", how, tmp_path, steps=True, every=7)
