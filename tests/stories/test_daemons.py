"""Daemons: idle where other loops end, woken by messages, events, files and timers."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, said
from windlass import seams
from windlass.engine.environment import current_environment
from windlass.events import Noted
from windlass.json_types import as_object
from windlass.replay.replay import recorded_runs, replay_run
from windlass.testing import call, scripted
from windlass.testing.virtual_time import run_virtual


@w.tool(side_effect_level="none")
async def look(what: str) -> str:
    """Look at something."""
    return f"{what} is fine"


def notes(entries: Any, name: str) -> list[dict[str, Any]]:
    return [as_object(e.data) for e in entries if type(e) is Noted and e.name == name]


def wakes(out: w.LoopResult) -> list[str]:
    return [data["reason"] for data in notes(out.entries, "daemon_wake")]


async def test_daemon_without_a_wake_source_ends_as_idle(tmp_path: Path):
    model = scripted(call("look", what="it"), "all fine")
    path = tmp_path / "reviewer"
    out = await w.agent_loop(
        "Review it.", model=model, tools=[look], daemon=True, persist_path=path
    )
    assert (out.status, out.daemon_state) == ("idle", "idle")
    assert out.daemon_snapshot_path == str(path) and path.is_file()
    assert out.final_text == "all fine" and len(model.requests) == 2
    (pause,) = notes(out.entries, "agent_await_resumption")
    assert w.parse_resume_conditions(pause["conditions"]) is not None
    kinds = [event["kind"] for event in out.transcript["events"]]
    assert "agent_await_resumption" in kinds
    out.raise_for_status()
    await kept(out, model)


async def test_limit_on_turns_counts_from_each_wake():
    async def story() -> w.LoopResult:
        look_again = [call("look", what="a"), call("look", what="b"), call("look", what="c")]
        model = scripted(*look_again[:2], "one", *look_again[:2], "two", *look_again)
        return await w.agent_loop(
            "Watch.",
            model=model,
            tools=[look],
            daemon=True,
            wake_interval_ms=60_000,
            max_iterations=3,
        )

    out = await asyncio.to_thread(run_virtual, story())
    assert (out.status, out.stop_reason) == ("budget_exhausted", "max_iterations")
    assert wakes(out) == ["timer", "timer"] and out.llm.iterations == 9


async def test_limit_on_turns_of_a_wake_holds_after_a_resume(tmp_path: Path):
    """Turns before the last wake do not count, in the process that goes on either."""
    both = [call("look", what="it"), "done"]
    model = scripted("ready", *both, *both, *[call("look", what=one) for one in "abcd"])
    options: dict[str, Any] = {"model": model, "tools": [look], "max_iterations": 3}
    daemon = await w.daemon_spawn(name="limited", task="Wait.", **options)
    await w.daemon_trigger(daemon, {"kind": "first"})
    await settle(daemon)
    await w.daemon_stop(daemon)
    resumed = await w.daemon_resume("limited", **options)
    await w.daemon_trigger(resumed, {"kind": "second"})
    await settle(resumed)
    assert len(model.requests) == 5
    await w.daemon_trigger(resumed, {"kind": "third"})
    out = await resumed.result()
    assert (out.status, out.stop_reason) == ("budget_exhausted", "max_iterations")
    assert len(model.requests) == 8


async def test_daemon_wakes_by_its_timer():
    async def story() -> tuple[list[str], float]:
        began, model = seams.now(), scripted("one", "two", "three")
        async with w.Runtime() as runtime:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(130):
                    await w.agent_loop(
                        "Watch.", model=model, session_id="t", daemon=True, wake_interval_ms=60_000
                    )
            noted = notes(await runtime.store.read("t"), "daemon_wake")
        assert "idle for 60 seconds" in said(model.requests[1])[-1]
        return [data["reason"] for data in noted], seams.now() - began

    woken, took = await asyncio.to_thread(run_virtual, story())
    assert woken == ["timer", "timer"] and took == pytest.approx(130, abs=1)


async def test_daemon_records_what_ends_its_pause(tmp_path: Path):
    async def story() -> list[dict[str, Any]]:
        async with w.Runtime() as runtime:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(30):
                    await w.agent_loop(
                        "Watch.",
                        model=scripted("one"),
                        session_id="p",
                        daemon=True,
                        wake_interval_ms=60_000,
                        watch_paths=[str(tmp_path)],
                    )
            return notes(await runtime.store.read("p"), "agent_await_resumption")

    pause, *_ = await asyncio.to_thread(run_virtual, story())
    assert pause["conditions"]["timeout"] == 60
    assert list(pause["conditions"]["trigger"]["paths"]) == [str(tmp_path)]


async def test_daemon_that_works_until_it_is_done_is_not_nudged():
    model = scripted("I wait", "##DONE##")
    out = await w.agent_loop("Go.", model=model, daemon=True, loop_until_done=True)
    assert (out.status, len(model.requests)) == ("idle", 1)


async def test_daemon_is_not_spawned_as_none():
    with pytest.raises(w.ConfigError, match="leave daemon=False out"):
        await w.daemon_spawn(name="no", model=scripted("x"), daemon=False)
    daemon = await w.daemon_spawn(name="yes", model=scripted("x"), daemon=True)
    await w.daemon_stop(daemon)


@pytest.mark.parametrize(("attempts", "seconds"), [(0, 0), (1, 0.1), (3, 1.6), (6, 7.6)])
async def test_daemon_watchdog_ends_after_waits_without_a_reason(attempts: int, seconds: float):
    async def story() -> tuple[w.LoopResult, float]:
        began = seams.now()
        out = await w.agent_loop(
            "Watch.", model=scripted("one"), daemon=True, idle_watchdog_attempts=attempts
        )
        return out, seams.now() - began

    out, took = await asyncio.to_thread(run_virtual, story())
    assert (out.status, out.daemon_state) == ("watchdog", "watchdog")
    assert took == pytest.approx(seconds)


async def test_daemon_wakes_when_a_watched_file_changes(tmp_path: Path):
    watched = tmp_path / "lib.rs"
    watched.write_text("a")

    async def story() -> w.LoopResult:
        loop = asyncio.get_running_loop()
        loop.call_later(5, lambda: os.utime(watched, ns=(1, 1)))
        return await w.agent_loop(
            "Watch.",
            model=scripted("one", "two"),
            daemon=True,
            watch_paths=str(watched),
            idle_watchdog_attempts=6,
        )

    out = await asyncio.to_thread(run_virtual, story())
    assert out.status == "watchdog" and wakes(out) == ["file"]
    assert out.text == "one\ntwo"


# --------------------------------------------------------------------------- handles


class Echo(w.Model):
    """Answers each message with its text; `gate` holds a reply back."""

    provider, name = "echo", "echo"

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        text = request.messages[-1].text
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        self.heard.append(text)
        return w.Response(
            w.Message("assistant", (w.Text(f"ok {text}"),)), w.Usage(1, 1), "end_turn"
        )


async def settle(
    daemon: w.DaemonHandle, status: str = "idle", pending: int = 0
) -> w.DaemonSnapshot:
    """Wait until the daemon stands so."""
    for _ in range(2000):
        snap = await w.daemon_snapshot(daemon)
        if snap.status == status and snap.pending_event_count == pending and snap.in_flight is None:
            return snap
        await asyncio.sleep(0.001)
    raise AssertionError(f"{snap}")


async def test_daemon_handles_events_in_order_and_one_at_a_time(tmp_path: Path):
    model, path = Echo(), tmp_path / "daemons" / "reviewer"
    daemon = await w.daemon_spawn(name="reviewer", task="Wait.", model=model, persist_path=path)
    numbers = [
        await w.daemon_trigger(daemon, {"kind": "file_changed", "path": f"src/{n}.rs"})
        for n in range(3)
    ]
    assert numbers == [1, 2, 3]
    await settle(daemon)
    assert [text.split(":")[0] for text in model.heard] == [
        "Wait.",
        "Event 1 (file_changed)",
        "Event 2 (file_changed)",
        "Event 3 (file_changed)",
    ]
    stopped = await w.daemon_stop(daemon)
    assert (stopped.status, stopped.pending_event_count) == ("stopped", 0)
    with pytest.raises(w.DaemonStopped):
        await w.daemon_trigger(daemon, {"kind": "late"})
    out = await daemon.result()
    assert (out.status, out.daemon_state) == ("suspended", "suspended")
    resumed = await w.daemon_resume(path, model=model)
    assert await w.daemon_trigger(resumed, {"kind": "again"}) == 4
    await settle(resumed)
    assert model.heard[-1].startswith("Event 4 (again)")
    await w.daemon_stop("reviewer")


async def test_daemon_stopped_in_an_event_goes_on_with_it_first():
    model = Echo()
    daemon = await w.daemon_spawn(name="busy", model=model)
    await settle(daemon)
    model.gate = asyncio.Event()
    for n in range(3):
        await w.daemon_trigger(daemon, {"kind": "job", "n": n})
    await model.asked.wait()
    snap = await w.daemon_snapshot(daemon)
    assert snap.status == "active" and snap.in_flight["number"] == 1
    assert snap.pending_event_count == 2
    stopped = await w.daemon_stop(daemon, timeout=0.01)
    assert (stopped.status, stopped.pending_event_count) == ("stopped", 3)
    assert [one["number"] for one in stopped.pending_events] == [1, 2, 3]
    model.gate = None
    resumed = await w.daemon_resume(daemon, model=model)
    await settle(resumed)
    assert [text.split(":")[0] for text in model.heard] == [f"Event {n} (job)" for n in (1, 2, 3)]
    await w.daemon_stop(resumed)


async def test_daemon_queue_refuses_what_it_has_no_room_for():
    model = Echo()
    daemon = await w.daemon_spawn(name="small", model=model, event_queue_capacity=3)
    await settle(daemon)
    model.gate = asyncio.Event()
    for n in range(3):
        await w.daemon_trigger(daemon, {"kind": "job", "n": n})
    with pytest.raises(w.DaemonQueueFull) as full:
        await w.daemon_trigger(daemon, {"kind": "job", "n": 3})
    assert (full.value.pending, full.value.capacity) == (3, 3)
    model.gate.set()
    await settle(daemon)
    assert await w.daemon_trigger(daemon, {"kind": "job", "n": 3}) == 4
    await settle(daemon)
    assert len(model.heard) == 4
    await w.daemon_stop(daemon)


async def test_daemon_of_a_cancelled_run_hears_its_event_again_marked_as_a_repeat():
    model = Echo()
    stop = w.Abort()
    daemon = await w.daemon_spawn(name="cut", model=model, abort=stop)
    await settle(daemon)
    model.gate = asyncio.Event()
    await w.daemon_trigger(daemon, {"kind": "first"})
    await w.daemon_trigger(daemon, {"kind": "second"})
    await model.asked.wait()
    stop.abort("enough")
    out = await daemon.result()
    assert out.status == "cancelled" and out.daemon_state == "cancelled"
    with pytest.raises(w.DaemonStopped):
        await w.daemon_trigger(daemon, {"kind": "third"})
    assert (await w.daemon_snapshot(daemon)).pending_event_count == 2
    model.gate = None
    resumed = await w.daemon_resume(daemon, model=model)
    await settle(resumed)
    first, second = model.heard
    assert first.startswith("Event 1 (first)") and "You have seen this event before" in first
    assert second.startswith("Event 2 (second)") and "before" not in second
    await w.daemon_stop(resumed)


async def test_daemon_goes_on_from_its_snapshot_where_its_store_is_not(tmp_path: Path):
    model, path = Echo(), tmp_path / "reviewer"
    daemon = await w.daemon_spawn(
        name="mover", task="Wait.", system="Be careful.", model=model, persist_path=path
    )
    await settle(daemon)
    model.gate = asyncio.Event()
    model.asked.clear()
    for n in range(3):
        await w.daemon_trigger(daemon, {"kind": "job", "n": n})
    await model.asked.wait()
    await w.daemon_stop(daemon, timeout=0.01)
    model.gate = None
    async with w.Runtime(store="memory:", environ={}):
        with pytest.raises(w.ConfigError, match="give model again"):
            await w.daemon_resume(path)
        moved = await w.daemon_resume(path, model=model)
        await settle(moved)
        assert [text.split(":")[0] for text in model.heard] == [
            "Wait.",
            *[f"Event {n} (job)" for n in (1, 2, 3)],
        ]
        assert "You have seen this event before" in model.heard[1]
        assert await w.daemon_trigger("mover", {"kind": "new"}) == 4
        await settle(moved)
        await w.daemon_stop(moved)
    again = await w.daemon_snapshot(daemon)  # the old store knows nothing of it
    assert again.pending_event_count == 3


async def test_daemon_is_found_by_its_name_in_the_store_that_is_given(tmp_path: Path):
    model, store = Echo(), f"sqlite:///{tmp_path / 'daemons.db'}"
    daemon = await w.daemon_spawn(name="elsewhere", model=model, store=store)
    await w.daemon_stop(daemon)
    with pytest.raises(w.ConfigError, match="no daemon of this name"):
        await w.daemon_resume("elsewhere", model=model)
    resumed = await w.daemon_resume("elsewhere", model=model, store=store)
    assert await w.daemon_trigger(resumed, {"kind": "again"}) == 1
    await settle(resumed)
    await w.daemon_stop(resumed)
    assert [text.split(":")[0] for text in model.heard] == ["Event 1 (again)"]


async def test_daemon_goes_on_under_another_session_where_one_is_named(tmp_path: Path):
    model, path = Echo(), tmp_path / "reviewer"
    daemon = await w.daemon_spawn(name="copied", task="Wait.", model=model, persist_path=path)
    await settle(daemon)
    await w.daemon_stop(daemon)
    async with w.Runtime(store="memory:", environ={}):
        resumed = await w.daemon_resume(path, model=model, session_id="copy")
        assert resumed.session_id == "copy"
        await w.daemon_trigger(resumed, {"kind": "new"})
        await settle(resumed)
        await w.daemon_stop(resumed)
        await w.agent_session_read("copy")
        with pytest.raises(w.NoSuchSession):
            await w.agent_session_read(daemon.session_id)
    assert [text.split(":")[0] for text in model.heard] == ["Wait.", "Event 1 (new)"]


async def test_daemon_loop_resumes_from_a_path_and_hears_the_prompt(tmp_path: Path):
    path = str(tmp_path / "snapshot")
    first = await w.agent_loop(
        "Wait.", model=scripted("one"), daemon=True, persist_path=path, session_id="mine"
    )
    assert first.daemon_snapshot_path == path
    model = scripted("two")
    out = await w.agent_loop("And now?", model=model, daemon=True, resume_path=path)
    assert (out.status, out.session_id) == ("idle", "mine")
    assert said(model.requests[0]) == ["Wait.", "one", "And now?"]
    async with w.Runtime(store="memory:", environ={}):
        model = scripted("three")
        out = await w.agent_loop("Here?", model=model, daemon=True, resume_path=path)
        assert said(model.requests[0]) == ["Wait.", "one", "Here?"]
        alone = await w.agent_loop(model=scripted(), daemon=True, resume_path=path)
        assert alone.status == "idle"  # nothing to say: it waits at once


async def test_daemon_wakes_for_messages_and_for_agent_resume(own_world: w.Runtime):
    model = Echo()
    daemon = await w.daemon_spawn(name="listener", model=model)
    await settle(daemon)
    store = own_world.store
    for kind, text in [
        ("steer", "now"),
        ("follow_up", "later"),
        ("resume", "go"),
        ("resume", None),
    ]:
        heard = len(model.heard)
        await store.post(daemon.session_id, kind, text)
        for _ in range(2000):
            if len(model.heard) > heard:
                break
            await asyncio.sleep(0.001)
        await settle(daemon)
    assert model.heard == [
        "now",
        "later",
        "go",
        "You were woken up. Look whether there is something to do.",
    ]
    await w.daemon_stop(daemon)
    out = await daemon.result()
    assert wakes(out) == ["message", "message", "resume", "resume"]


async def test_daemon_is_consolidated_when_it_becomes_idle(tmp_path: Path):
    calls = [call("look", what="x" * 4000) for _ in range(14)]
    model = scripted(*calls, "done", then="a summary of all that")
    out = await w.agent_loop(
        "Go.",
        model=model,
        tools=[look],
        daemon=True,
        consolidate_on_idle=True,
        persist_path=tmp_path / "snapshot",
    )
    assert out.status == "idle"
    assert [event["kind"] for event in out.trace["events"]].count("compaction") == 1
    assert len((tmp_path / "snapshot").read_bytes()) < 4000 * 20


async def test_daemon_ends_at_its_sentinel_and_is_not_nudged_while_it_is_idle():
    model = scripted("I wait", "##DONE##")
    daemon = await w.daemon_spawn(name="until", task="Go.", model=model, loop_until_done=True)
    await settle(daemon)
    await w.daemon_trigger(daemon, {"kind": "last"})
    out = await daemon.result()
    assert (out.status, out.stop_reason) == ("done", "sentinel")
    with pytest.raises(w.DaemonStopped):
        await w.daemon_trigger(daemon, {"kind": "late"})
    assert (await w.daemon_snapshot(daemon)).pending_event_count == 0
    await kept(out, model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wake_interval_ms": 5}, "give daemon=True"),
        ({"watch_paths": ["a"]}, "give daemon=True"),
        ({"resume_path": "a"}, "give daemon=True"),
        ({"event_queue_capacity": 5}, "give daemon=True"),
        ({"daemon": True, "wake_interval_ms": 0}, "wake_interval_ms"),
        ({"daemon": True, "wake_interval_ms": "1s"}, "wake_interval_ms"),
        ({"daemon": True, "idle_watchdog_attempts": -1}, "idle_watchdog_attempts"),
        ({"daemon": True, "event_queue_capacity": 0}, "event_queue_capacity"),
        ({"daemon": True, "persist_path": "."}, "folder"),
        ({"daemon": True, "resume_path": "/nowhere/at/all"}, "no snapshot of a daemon"),
        ({"daemon": True, "watch_paths": [5]}, "watch_paths"),
        ({"daemon": "yes"}, "daemon"),
    ],
)
async def test_daemon_refuses_wrong_options_before_the_first_call(
    options: dict[str, Any], message: str
):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=message):
        await w.agent_loop("Go.", model=model, **options)
    assert not model.requests


async def test_daemon_functions_refuse_what_they_cannot_use(tmp_path: Path):
    broken = tmp_path / "broken"
    broken.write_text("{}")
    daemon = await w.daemon_spawn(name="picky", model=Echo())
    for event in ({}, {"kind": ""}, {"kind": 5}, {"kind": "x", "data": object()}, "x", None):
        with pytest.raises(w.ConfigError):
            await w.daemon_trigger(daemon, event)  # pyright: ignore[reportArgumentType]
    with pytest.raises(w.ConfigError, match="has not ended"):
        await w.daemon_spawn(name="picky", model=Echo())
    with pytest.raises(w.NoSuchSession):
        await w.daemon_trigger("nobody", {"kind": "x"})
    for wrong in (str(broken), "nobody", 5, ""):
        with pytest.raises(w.ConfigError):
            await w.daemon_resume(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(w.ConfigError, match="begins with its task"):
        await w.daemon_spawn(name="other", model=Echo(), messages=["x"])
    with pytest.raises(w.ConfigError, match="task"):
        await w.daemon_spawn(name="other", model=Echo(), task=" ")
    plain = await w.agent_loop("hi", model=scripted("x"), session_id="plain")
    with pytest.raises(w.NoSuchSession, match="no daemon"):
        await w.daemon_trigger(plain.session_id, {"kind": "x"})
    await settle(daemon)
    assert await w.daemon_trigger("picky", {"kind": "fine"}) == 1
    await w.daemon_stop(daemon)


# --------------------------------------------------------------------------- downtime and others


async def test_daemon_is_parked_when_its_runtime_closes_and_goes_on(tmp_path: Path):
    model, store = Echo(), f"sqlite:///{tmp_path}/agents.db"
    async with w.Runtime(store=store, environ={}):
        daemon = await w.daemon_spawn(name="host", model=model)
        await settle(daemon)
    out = await daemon.result()
    assert (out.status, out.stop_reason) == ("suspended", "detached")
    async with w.Runtime(store=store, environ={}):
        assert await w.daemon_trigger("host", {"kind": "meanwhile"}) == 1
        assert (await w.daemon_snapshot("host")).status == "suspended"
        daemon = await w.daemon_resume("host", model=model)
        await settle(daemon)
        with pytest.raises(w.SessionHeld):
            await w.daemon_resume("host", model=model)
        await w.daemon_stop(daemon)
    assert model.heard == ['Event 1 (meanwhile): {"kind": "meanwhile"}']


async def test_daemon_notices_timer_and_files_of_its_downtime(tmp_path: Path):
    watched = tmp_path / "watched"
    watched.write_text("a")

    async def story() -> tuple[list[str], float]:
        model = Echo()
        options: dict[str, Any] = {"model": model, "watch_paths": [watched]}
        daemon = await w.daemon_spawn(name="sleeper", **options)
        await settle(daemon)
        await w.daemon_stop(daemon)
        os.utime(watched, ns=(5, 5))
        daemon = await w.daemon_resume(daemon, **options)
        await settle_after(model, 1, daemon)
        options = {"model": model, "watch_paths": [], "wake_interval_ms": 60_000}
        await w.daemon_stop(daemon)
        await seams.sleep(3600)
        daemon = await w.daemon_resume(daemon, **options)
        began = seams.now()
        await settle_after(model, 2, daemon)
        took = seams.now() - began
        await w.daemon_stop(daemon)
        return model.heard, took

    heard, took = await asyncio.to_thread(run_virtual, story())
    assert heard[0].startswith("These files have changed") and "idle for 60" in heard[1]
    assert len(heard) == 2 and took < 30  # once, however often it was due


async def settle_after(model: Echo, heard: int, daemon: w.DaemonHandle) -> None:
    """Wait until the model has heard so much, and the daemon is idle."""
    for _ in range(2000):
        if len(model.heard) >= heard:
            break
        await asyncio.sleep(0.001)
    await settle(daemon)


async def test_daemon_whose_event_needs_approval_goes_on_when_it_is_given():
    @w.tool(requires_approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        return f"paid {n}"

    model = scripted("ready", call("pay", n=1), "paid the first", "paid the second")
    daemon = await w.daemon_spawn(name="payer", task="Wait.", model=model, tools=[pay])
    await settle(daemon)
    await w.daemon_trigger(daemon, {"kind": "first"})
    out = await daemon.result()
    assert out.status == "suspended" and [one.name for one in out.pending] == ["pay"]
    assert await w.daemon_trigger(daemon, {"kind": "second"}) == 2
    snap = await w.daemon_snapshot(daemon)
    assert (snap.status, snap.pending_event_count) == ("suspended", 2)
    await w.approve((await w.approvals())[0].id)
    daemon = await w.daemon_resume(daemon, model=model, tools=[pay])
    await settle(daemon)
    await w.daemon_stop(daemon)
    out = await daemon.result()
    assert out.text == "ready\npaid the first\npaid the second"


async def test_daemon_cancelled_while_it_is_idle_ends_at_once(own_world: w.Runtime):
    daemon = await w.daemon_spawn(name="gone", model=Echo())
    await settle(daemon)
    await own_world.store.post(daemon.session_id, "cancel", "enough")
    out = await daemon.result()
    assert (out.status, out.stop_reason) == ("cancelled", "enough")
    stopped = await w.daemon_stop(daemon)  # of one that does not run
    assert stopped.status == "stopped"


async def test_daemon_is_parked_when_its_runtime_closes_before_it_has_begun(tmp_path: Path):
    model, store = Echo(), f"sqlite:///{tmp_path}/agents.db"
    async with w.Runtime(store=store, environ={}):
        daemon = await w.daemon_spawn(name="host", task="Wait.", model=model)
    assert (await daemon.result()).status == "suspended"
    async with w.Runtime(store=store, environ={}):
        daemon = await w.daemon_resume("host", model=model)
    assert (await daemon.result()).status == "suspended" and model.heard == []
    async with w.Runtime(store=store, environ={}):
        daemon = await w.daemon_resume("host", model=model)
        await settle(daemon)
        await w.daemon_stop(daemon)
    assert model.heard == ["Wait."]


async def test_daemon_of_another_tenant_is_not_there():
    ann, bob = w.Caller("ann", tenant="acme"), w.Caller("bob", tenant="other")
    model = Echo()
    daemon = await w.daemon_spawn(name="private", model=model, caller=ann)
    await settle(daemon)
    for ask in (w.daemon_snapshot, w.daemon_stop):
        with pytest.raises(w.NoSuchSession):
            await ask("private", caller=bob)
    with pytest.raises(w.NoSuchSession):
        await w.daemon_trigger("private", {"kind": "x"}, caller=bob)
    assert await w.daemon_trigger("private", {"kind": "x"}, caller=ann) == 1
    await settle(daemon)
    await w.daemon_stop("private", caller=ann)
    with pytest.raises(w.ConfigError, match="no daemon of this name"):
        await w.daemon_resume("private", model=model, caller=bob)
    resumed = await w.daemon_resume("private", model=model, caller=ann)
    assert await w.daemon_trigger(resumed, {"kind": "y"}) == 2
    await settle(resumed)
    await w.daemon_stop(resumed)


async def test_daemons_of_two_tenants_may_have_one_name():
    ann, bob = w.Caller("ann", tenant="acme"), w.Caller("bob", tenant="other")
    model, other = Echo(), Echo()
    first = await w.daemon_spawn(name="desk", model=model, caller=ann)
    second = await w.daemon_spawn(name="desk", model=other, caller=bob)
    await w.daemon_trigger(second, {"kind": "x"})
    await settle(second)
    await w.daemon_stop(second)
    resumed = await w.daemon_resume(second, model=other)
    await w.daemon_trigger(resumed, {"kind": "y"})
    await settle(resumed)
    assert model.heard == []
    assert [text.split(":")[0] for text in other.heard] == ["Event 1 (x)", "Event 2 (y)"]
    for daemon in (first, resumed):
        await w.daemon_stop(daemon)


async def test_daemon_writes_no_secret_to_its_snapshot(tmp_path: Path):
    path, model = tmp_path / "snapshot", Echo()
    async with w.Runtime(store="memory:", environ={}, secrets=("hush-hush-1",)):
        daemon = await w.daemon_spawn(
            name="discreet", task="The word is hush-hush-1.", model=model, persist_path=path
        )
        await w.daemon_trigger(daemon, {"kind": "secret", "word": "hush-hush-1"})
        await settle(daemon)
        await w.daemon_stop(daemon)
    text = path.read_text()
    assert "hush" not in text and "Event 1" in text
    assert path.stat().st_mode & 0o777 == 0o600


async def test_daemon_snapshot_file_is_never_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "snapshot"
    first = await w.agent_loop("Go.", model=scripted("one"), daemon=True, persist_path=path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "no space left")))
    again = await w.agent_loop(
        "Go.", model=scripted("two"), daemon=True, persist_path=path, session_id=first.session_id
    )
    assert again.status == "idle"  # the store is the truth
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["snapshot"]


async def test_daemon_is_replayed_from_its_record_and_does_not_wait():
    model = Echo()
    daemon = await w.daemon_spawn(name="seen", task="Wait.", model=model)
    for n in range(2):
        await w.daemon_trigger(daemon, {"kind": "job", "n": n})
    await settle(daemon)
    await w.daemon_stop(daemon)
    out = await daemon.result()
    entries = out._run.journal.entries
    (run,) = recorded_runs(entries)
    done = await replay_run(out.session_id, entries, run, current_environment())
    assert done.difference is None and done.requests == 3
    with pytest.raises(w.ConfigError, match="without a program"):
        await replay_run(out.session_id, entries, run, current_environment(), plan=out._run.plan)


async def test_wrong_time_to_stop_is_refused():
    daemon = await w.daemon_spawn(name="d", task="Wait.", model=scripted("Ready."))
    for timeout in (-1, "x", float("nan")):
        with pytest.raises(w.ConfigError, match="timeout"):
            await w.daemon_stop(daemon, timeout=timeout)
    assert (await w.daemon_snapshot(daemon)).status != "stopped"
    assert (await w.daemon_stop(daemon, timeout=0.5)).status == "stopped"
