"""A session that is alive elsewhere is reported, never taken by surprise; one may be let go of."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.events import Replied, RunEnded, RunResumed, RunStarted
from windlass.store.base import Store
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore
from windlass.testing import call, scripted
from windlass.testing.postgres import shared_server


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def homes(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Store, Store]]:
    """Two ways to one store, as two processes have them; in memory there is one."""
    if request.param == "memory":
        store = MemoryStore()
        yield store, store
        return
    if request.param == "sqlite":
        first, second = (SqliteStore(tmp_path / "s.db") for _ in range(2))
    else:
        from windlass.store.postgres.store import PostgresStore

        url = shared_server().schema()
        first, second = (PostgresStore(url) for _ in range(2))
    yield first, second
    await first.aclose()
    await second.aclose()


class Gate:
    """A tool that says when it is at work, and waits until it may go on."""

    def __init__(self) -> None:
        self.at_work, self.open = asyncio.Event(), asyncio.Event()
        self.calls = 0

    def tool(self, **options: Any) -> w.Tool:
        async def order(item: str) -> str:
            """Order it."""
            self.calls += 1
            self.at_work.set()
            await self.open.wait()
            return f"ordered {item}"

        return w.tool(**options)(order) if options else w.tool(order)


def working(gate: Gate, **options: Any) -> w.Agent[Any, str]:
    model = scripted(call("order", item="tea"), "All ordered.")
    return w.Agent(model, tools=[gate.tool(**options)])


async def begun(gate: Gate, agent: w.Agent[Any, str], **options: Any) -> asyncio.Task[Any]:
    """A run whose tool is at work."""
    task = asyncio.create_task(agent.run("Order tea.", session_id="s", **options))
    await gate.at_work.wait()
    return task


async def ended(home: Store) -> list[tuple[str, str | None]]:
    return [(e.status, e.stop_reason) for e in await home.read("s") if isinstance(e, RunEnded)]


# --------------------------------------------------------------------------- who holds it


async def test_a_live_session_is_reported_and_its_run_ends_well(homes):
    here, there = homes
    gate = Gate()
    first = await begun(gate, working(gate), store=here, caller=w.Caller("ann"))
    other = w.Agent(scripted("Mine now."))
    doors = [
        other.resume("s", store=there),
        other.run("and coffee", session_id="s", store=there),
        w.agent_loop("and coffee", model=scripted("x"), session_id="s", store=there),
    ]
    for door in doors:
        with pytest.raises(w.SessionHeld, match="'s'") as caught:
            await door
        held = caught.value
        assert held.session_id == "s" and held.holder.pid == os.getpid()
        assert held.holder.caller == "ann" and held.holder.host
        assert held.last_active == (await there.info("s")).updated_at
    with pytest.raises(w.SessionHeld):
        async with other.stream("and coffee", session_id="s", store=there):
            pass
    assert (await there.info("s")).state == "alive"
    gate.open.set()
    out = await first
    assert (out.status, out.output, gate.calls) == ("done", "All ordered.", 1)
    assert await ended(there) == [("done", "natural")]
    again = await other.run("and coffee", session_id="s", store=there)  # now it is free
    assert again.status == "done"


async def test_somebody_else_learns_nothing_and_replaces_nobody(homes):
    here, there = homes
    gate = Gate()
    first = await begun(gate, working(gate), store=here, caller=w.Caller("ann", tenant="acme"))
    eve = w.Caller("eve", tenant="evil")
    mate = w.Caller("eve", tenant="acme")
    other = w.Agent(scripted(*["Mine now."] * 4))
    for take_over in (False, True):
        for door in (
            other.resume("s", store=there, caller=eve, take_over=take_over),
            other.resume("s", store=there, caller=mate, take_over=take_over),
            other.run("x", session_id="s", store=there, caller=mate, take_over=take_over),
        ):
            with pytest.raises(w.NoSuchSession, match="no session 's'"):
                await door
    # the same id of another tenant is another session
    out = await other.run("x", session_id="s", store=there, caller=eve, take_over=True)
    assert out.status == "done" and out.session_id != "s"
    gate.open.set()
    assert (await first).status == "done"


async def test_who_takes_over_goes_on_and_the_other_hears_of_it(homes):
    here, there = homes
    gate = Gate()
    first = await begun(gate, working(gate), store=here)
    taker = working(Gate())
    taker = w.Agent(scripted("Checked."), tools=[Gate().tool()])
    out = await taker.resume("s", store=there, take_over=True)
    assert (out.status, out.output) == ("done", "Checked.")
    assert out.tool_calls[0].outcome == "interrupted"
    gate.open.set()
    with pytest.raises(w.StaleWriter) as caught:
        await first
    assert caught.value.session_id == "s"
    assert await ended(there) == [("done", "natural")]  # and nothing of the first


async def test_a_loop_may_take_over_too(homes):
    here, there = homes
    gate = Gate()
    first = await begun(gate, working(gate), store=here)
    own: dict[str, Any] = {"session_id": "s", "store": there, "take_over": True}
    out = await w.agent_loop("And now?", model=scripted("Checked."), **own)
    assert (out.status, out.visible_text) == ("done", "Checked.")
    gate.open.set()
    with pytest.raises(w.StaleWriter):
        await first


async def test_a_stream_and_a_loop_that_were_replaced_say_so(homes):
    here, there = homes
    for door in ("stream", "loop", "generate"):
        gate = Gate()
        model = scripted(call("order", item="tea"), "All ordered.")
        options: dict[str, Any] = {"session_id": f"s-{door}", "store": here}

        async def run(door: str = door, gate: Gate = gate, model: Any = model, o: Any = options):
            if door == "stream":
                async with w.Agent(model, tools=[gate.tool()]).stream("x", **o) as run:
                    return await run.result()
            if door == "loop":
                return await w.agent_loop("x", model=model, tools=[gate.tool()], **o)
            async with w.Runtime() as rt:
                return await rt.models.generate("x", model=model, tools=[gate.tool()], **o)

        task = asyncio.create_task(run())
        await gate.at_work.wait()
        taker = w.Agent(scripted("Checked."), tools=[Gate().tool()])
        await taker.resume(f"s-{door}", store=there, take_over=True)
        gate.open.set()
        with pytest.raises(w.StaleWriter):
            await task


async def test_the_children_of_a_run_are_taken_over_with_it(tmp_path):
    one, two = SqliteStore(tmp_path / "s.db"), SqliteStore(tmp_path / "s.db")
    gate = Gate()

    def parent(tool: w.Tool, *replies: Any) -> w.Agent[Any, str]:
        child = w.Agent(scripted(*replies), name="helper", tools=[tool])
        model = scripted(call("helper", task="order"), "Done.")
        return w.Agent(model, tools=[child.as_tool()])

    first = asyncio.create_task(
        parent(gate.tool(), call("order", item="tea"), "x").run("go", session_id="s", store=one)
    )
    await gate.at_work.wait()
    child_id = next(i.id for i in await two.sessions() if i.id != "s")
    assert (await two.info(child_id)).state == "alive"
    taker = parent(Gate().tool(), "The child goes on.")
    taker = w.Agent(scripted("Done."), tools=taker.options["tools"])
    out = await taker.resume("s", store=two, take_over=True)
    assert (out.status, out.tool_calls[0].result) == ("done", "The child goes on.")
    gate.open.set()
    with pytest.raises(w.StaleWriter):
        await first
    await one.aclose()
    await two.aclose()


# --------------------------------------------------------------------------- processes

WORKER = """
import asyncio, sys
import windlass as w
from windlass.testing import call, scripted

@w.tool
async def order(item: str) -> str:
    "Order it."
    print("at work", flush=True)
    await asyncio.Event().wait()

agent = w.Agent(scripted(call("order", item="tea"), "x"), tools=[order])
asyncio.run(agent.run("go", session_id="s", store=sys.argv[1]))
"""


def worker(place: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, place], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "at work"
    return process


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_killed_holder_is_replaced_at_once_and_a_stopped_one_is_not(kind, tmp_path):
    place = str(tmp_path / "s.db") if kind == "sqlite" else shared_server().schema()
    process = await asyncio.to_thread(worker, place)
    agent = w.Agent(scripted("Checked."), tools=[Gate().tool()])
    async with w.Runtime(place) as rt:
        try:
            process.send_signal(19)  # stopped is not dead
            with pytest.raises(w.SessionHeld) as caught:
                await agent.resume("s")
            assert caught.value.holder.pid == process.pid
            assert [i.state for i in await rt.store.sessions()] == ["alive"]
        finally:
            process.kill()
        for _ in range(100_000):  # a signal takes its time; a zombie is dead, too
            if not (await rt.store.info("s")).alive:
                break
        assert [i.state for i in await rt.store.sessions()] == ["dead"]
        out = await agent.resume("s")
        assert (out.status, out.tool_calls[0].outcome) == ("done", "interrupted")
    process.communicate()


def test_the_command_line_says_who_is_at_work(tmp_path):
    def windlass(*words: str) -> subprocess.CompletedProcess[str]:
        code = "from windlass.cli.main import main; main()"
        env = {**os.environ, "WINDLASS_MOCK": "1"}
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
        )

    place = str(tmp_path / "s.db")
    (tmp_path / "shop.py").write_text(
        textwrap.dedent("""
        import windlass as w

        @w.tool
        def order(item: str) -> str:
            "Order it."
            return "ordered"
        """)
    )
    process = worker(place)
    try:
        words = (
            "sessions",
            "resume",
            "s",
            "--provider",
            "mock",
            "-t",
            "shop:order",
            "--store",
            place,
        )
        listed = windlass("sessions", "list", "--store", place).stdout.splitlines()
        assert listed[1].split()[:2] == ["s", "alive"]
        refused = windlass(*words)
        assert refused.returncode == 1 and f"process {process.pid} on " in refused.stderr
        assert "Traceback" not in refused.stderr
        taken = windlass(*words, "--take-over")
        assert taken.returncode == 0, taken.stderr
    finally:
        process.kill()
        process.communicate()
    infos = json.loads(windlass("sessions", "list", "--json", "--store", place).stdout)
    assert [(info["state"], info["alive"]) for info in infos] == [("done", False)]


# --------------------------------------------------------------------------- letting go


async def test_a_cancelled_task_may_leave_its_run_to_be_taken_up(homes):
    here, there = homes
    gate = Gate()
    agent = working(gate, keyed=True)
    task = await begun(gate, agent, store=here, on_cancel="park")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await ended(there) == [("suspended", "detached")]
    assert (await there.info("s")).state == "parked"
    gate.open.set()
    out = await agent.resume("s", store=there)
    assert (out.status, out.output, gate.calls) == ("done", "All ordered.", 2)
    assert out.tool_calls[0].result == "ordered tea"
    assert not [m for m in out.messages if m.kind == "reminder"]


@pytest.mark.parametrize(
    ("on_cancel", "end"),
    [("park", ("suspended", "detached")), ("cancel", ("cancelled", "cancelled"))],
)
async def test_a_cancelled_loop_is_left_or_ended_as_it_says(on_cancel: Any, end: Any):
    store, gate = MemoryStore(), Gate()
    model = scripted(call("order", item="tea"), "All ordered.")
    own: dict[str, Any] = {"tools": [gate.tool(keyed=True)], "session_id": "s", "store": store}
    loop = w.agent_loop("Order tea.", model=model, on_cancel=on_cancel, **own)
    task = asyncio.create_task(loop)
    await gate.at_work.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await ended(store) == [end]


async def test_cancelling_ends_the_run_unless_somebody_says_otherwise(homes):
    here, there = homes
    gate = Gate()
    task = await begun(gate, working(gate), store=here)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await ended(there) == [("cancelled", "cancelled")]


async def test_what_is_let_go_of_goes_on_as_if_nothing_had_been(homes):
    """The same requests as those of a run that nobody let go of."""
    here, there = homes
    gate = Gate()
    model = scripted(call("order", item="tea"), "All ordered.")
    agent = w.Agent(model, tools=[gate.tool(keyed=True)])
    task = await begun(gate, agent, store=here)
    assert agent.detach("other") == ()
    assert agent.detach("s") == ("s",)
    out = await task
    assert (out.status, out.stop_reason, out.pending) == ("suspended", "detached", [])
    gate.open.set()
    assert (await agent.resume("s", store=there)).status == "done"
    plain = scripted(call("order", item="tea"), "All ordered.")
    again = Gate()
    again.open.set()
    await w.Agent(plain, tools=[again.tool(keyed=True)]).run("Order tea.", store=here)
    told = [[(m.role, m.text) for m in r.messages] for r in model.requests]
    assert told == [[(m.role, m.text) for m in r.messages] for r in plain.requests]
    assert len([e for e in await there.read("s") if isinstance(e, RunResumed)]) == 1


async def test_detach_lets_go_of_all_runs_of_an_agent_and_of_no_other():
    gates = [Gate(), Gate(), Gate()]
    agent, other = working(gates[0]), working(gates[2])

    async def at(gate: Gate, of: w.Agent[Any, str], name: str) -> asyncio.Task[Any]:
        model = scripted(call("order", item="tea"), "x")
        task = asyncio.create_task(
            of.run("go", session_id=name, model=model, tools=[gate.tool(keyed=True)])
        )
        await gate.at_work.wait()
        return task

    tasks = [
        await at(gates[0], agent, "a"),
        await at(gates[1], agent, "b"),
        await at(gates[2], other, "c"),
    ]
    assert sorted(await asyncio.to_thread(agent.detach)) == ["a", "b"]
    assert [(await task).status for task in tasks[:2]] == ["suspended", "suspended"]
    gates[2].open.set()
    assert (await tasks[2]).status == "done"
    assert agent.detach() == ()


async def test_a_reader_who_leaves_lets_go_of_the_run():
    gate = Gate()
    async with working(gate).stream("go", session_id="s", on_cancel="park") as run:
        await gate.at_work.wait()
    assert (await run.result()).status == "suspended"
    async with working(Gate()).stream("go", session_id="t") as run:
        pass
    assert (await run.result()).status == "cancelled"


async def test_an_abort_is_a_cancel_whatever_cancelling_does():
    gate, abort = Gate(), w.Abort()
    task = await begun(gate, working(gate), on_cancel="park", abort=abort)
    abort.abort("enough")
    assert (await task).status == "cancelled"


async def test_children_are_let_go_of_with_their_parent(tmp_path):
    store = SqliteStore(tmp_path / "s.db")
    gate = Gate()
    child_model = scripted(call("order", item="tea"), "Tea is ordered.")
    child = w.Agent(child_model, name="helper", tools=[gate.tool(keyed=True)])
    agent = w.Agent(scripted(call("helper", task="order"), "Done."), tools=[child.as_tool()])
    task = await begun(gate, agent, store=store, on_cancel="park")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {i.state for i in await store.sessions()} == {"parked"}
    gate.open.set()
    out = await agent.resume("s", store=store)
    assert (out.status, out.tool_calls[0].result) == ("done", "Tea is ordered.")
    await store.aclose()


@pytest.mark.parametrize("value", ["stop", 1, None])
async def test_on_cancel_is_one_of_two_words(value):
    with pytest.raises(w.ConfigError, match="on_cancel"):
        await w.agent_loop("x", model=scripted("y"), on_cancel=value)
    assert (await w.agent_loop("x", model=scripted("y"), on_cancel="park")).status == "done"


async def test_a_run_may_be_let_go_of_from_inside():
    @w.tool
    async def leave() -> str:
        """Let go of this very run."""
        assert agent.detach() == ("s",)
        await asyncio.sleep(0)
        return "never"

    agent = w.Agent(scripted(call("leave"), "On I go."), tools=[leave])
    out = await agent.run("go", session_id="s")
    assert (out.status, out.stop_reason) == ("suspended", "detached")
    kept = await agent.run("another prompt", session_id="s")  # it takes none while it is parked
    assert (kept.status, kept.stop_reason, kept.pending) == ("suspended", "detached", [])
    out = await agent.resume("s")
    assert (out.status, out.output) == ("done", "On I go.")
    assert out.tool_calls[0].outcome == "interrupted"


async def test_a_stubborn_tool_keeps_its_session_until_it_ends(tmp_path):
    """A thread cannot be stopped: nobody goes on beside it."""
    started, go_on = threading.Event(), threading.Event()

    @w.tool(keyed=True)
    def slow() -> str:
        """Take long."""
        started.set()
        go_on.wait(60)
        return "slow"

    one, two = SqliteStore(tmp_path / "s.db"), SqliteStore(tmp_path / "s.db")
    model = scripted(call("slow"), "done")
    async with w.Runtime(one) as rt:
        agent = w.Agent(model, tools=[slow])
        task = asyncio.create_task(agent.run("go", session_id="s", on_cancel="park"))
        await asyncio.to_thread(started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await two.info("s")).state == "alive"
        with pytest.raises(w.SessionHeld):
            await w.Agent(model, tools=[slow]).resume("s", store=two)
        go_on.set()
        await asyncio.wait(rt.lingering)
        assert (await two.info("s")).state == "parked"
        out = await w.Agent(model, tools=[slow]).resume("s", store=two)
        assert out.status == "done"
    await one.aclose()
    await two.aclose()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_wherever_a_run_is_let_go_of_it_goes_on_and_does_nothing_twice(kind, tmp_path):
    """Cancelled at the first point that it passes, at the second, and so on until none is left."""
    done: list[str] = []

    @w.tool
    async def plain(item: str) -> str:
        """Do it, and never twice."""
        await asyncio.sleep(0)
        done.append(item)
        await asyncio.sleep(0)
        return f"did {item}"

    loop, untouched, parked = asyncio.get_running_loop(), False, 0
    for steps in range(1, 200):
        store: Store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / f"{steps}.db")
        done.clear()
        replies = (
            [call("plain", item="a"), call("plain", item="b")],
            call("plain", item="c"),
            "end",
        )

        async def go(store: Store = store, replies: Any = replies) -> Any:
            agent = w.Agent(scripted(*replies), tools=[plain])
            return await agent.run("go", session_id="s", store=store, on_cancel="park")

        task, left = asyncio.create_task(go()), iter(range(steps - 1))

        def pull(_point: str, task: Any = task, left: Any = left) -> None:
            if next(left, None) is None:
                loop.call_soon_threadsafe(task.cancel)

        with seams.watch_points(pull):
            await asyncio.wait({task})
        untouched = not task.cancelled()
        try:
            entries = await store.read("s")
        except w.NoSuchSession:
            entries = []
        if any(isinstance(e, RunStarted) for e in entries):
            asked = sum(isinstance(e, Replied) for e in entries)
            agent = w.Agent(scripted(*replies[asked:]), tools=[plain])
            out = await agent.resume("s", store=store)
            assert out.status == "done", (steps, out)
            parked += (await ended(store))[0] == ("suspended", "detached")
            assert all(done.count(item) <= 1 for item in "abc"), (steps, done)
            lost = [c.arguments["item"] for c in out.tool_calls if c.outcome == "interrupted"]
            assert set(done) | set(lost) == set("abc"), (steps, done, lost)
        await store.aclose()
        if untouched:
            break
    assert untouched and parked > 5
