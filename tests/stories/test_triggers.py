"""Triggers: each occurrence fires once, whoever looks, whatever clocks do."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from windlass import seams
from windlass.conditions.cron import find_zone, parse_cron
from windlass.engine.environment import current_store
from windlass.errors import ConfigError
from windlass.store.sqlite.store import SqliteStore
from windlass.store.wishes import due_wishes
from windlass.testing import call, scripted
from windlass.triggers.file_watch import find_watch

WAKE: Any = {"kind": "wake", "session": "s"}


async def session(name: str = "s") -> Any:
    await w.agent_session_open(name)
    return current_store()


async def posted(name: str = "s", store: Any = None) -> list[Any]:
    return [item.payload for item in await (store or current_store()).inbox(name)]


@pytest.mark.parametrize(
    "spec, path",
    [
        ({"kind": "timer"}, "spec"),
        ({"kind": "timr", "every": 5}, "spec.kind"),
        ({"kind": "timer", "every": 5, "cron": "* * * * *"}, "spec"),
        ({"kind": "timer", "every": 0.5}, "spec.every"),
        ({"kind": "timer", "every": True}, "spec.every"),
        ({"kind": "timer", "every": float("nan")}, "spec.every"),
        ({"kind": "timer", "cron": "61 * * * *"}, "spec.cron"),
        ({"kind": "timer", "cron": "* * * *"}, "spec.cron"),
        ({"kind": "timer", "cron": "* * 31 2,4 *"}, "spec.cron"),
        ({"kind": "timer", "cron": "0 0 * * *", "timezone": "Mars/Base"}, "spec.timezone"),
        ({"kind": "timer", "at": "1999-01-01T00:00:00Z"}, "spec.at"),
        ({"kind": "timer", "at": 5}, "spec.at"),
        ({"kind": "file", "paths": []}, "spec.paths"),
        ({"kind": "file", "paths": ["a", 3]}, "spec.paths[1]"),
        ({"kind": "event", "nam": "x"}, "spec.nam"),
        ({"kind": "webhook", "path": "hook", "secret_env": "S"}, "spec.path"),
        ({"kind": "webhook", "path": "/hook"}, "spec.secret_env"),
    ],
)
async def test_trigger_that_can_never_fire_is_refused(spec: Any, path: str):
    await session()
    with pytest.raises(w.InvalidCondition) as caught:
        await w.trigger_register(spec, WAKE)
    assert caught.value.path == path and await w.trigger_list() == []


@pytest.mark.parametrize("action", [{}, {"kind": "wak"}, {"kind": "start", "agent": "a"}, 3])
async def test_action_that_means_nothing_is_refused(action: Any):
    with pytest.raises(w.InvalidCondition):
        await w.trigger_register({"kind": "timer", "every": 5}, action)


async def test_missed_timer_fires_once_and_says_how_late():
    store, now = await session(), seams.now()
    await w.trigger_register({"kind": "timer", "every": "5m"}, WAKE, id="t")
    assert await posted() == [] and await w.fire_due(store, now + 200) is not None
    again = await w.fire_due(store, now + 300 * 10 + 30)
    [one] = await posted()
    assert one["missed"] == 9 and 2700 < one["late"] < 2740 and one["initiator"] == "triggered"
    assert again is not None and abs(again - (now + 3300)) < 1
    [trigger] = await w.trigger_list()
    assert trigger.fired == 1 and trigger.last is not None and trigger.last["missed"] == 9


@given(steps=st.lists(st.integers(-4000, 4000), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None)
def test_interval_fires_each_occurrence_once_while_clocks_step(steps: list[int]):
    async def story() -> None:
        async with w.Runtime(store="memory:"):
            store, start = await session(), seams.now()
            await w.trigger_register({"kind": "timer", "every": 60}, WAKE, id="t")
            [first] = await w.trigger_list()
            assert first.due is not None
            clock, latest, fired, due = start, start, 0, first.due
            for step in steps:
                clock += step
                latest = max(latest, clock)
                await asyncio.gather(*[w.fire_due(store, clock) for _ in range(3)])
                if clock >= due:
                    fired += 1
                    due += 60 * ((clock - due) // 60 + 1)
                [trigger] = await w.trigger_list()
                assert (trigger.fired, round(trigger.due or 0)) == (fired, round(due))
            assert len(await posted()) == fired

    asyncio.run(story())


async def test_six_stores_on_one_file_fire_each_trigger_once(tmp_path: Path):
    path = str(tmp_path / "s.db")
    async with w.Runtime(store=path):
        store = await session()
        for number in range(40):
            await w.trigger_register({"kind": "timer", "every": 60}, WAKE, id=f"t{number}")
        now = seams.now()
        others = [SqliteStore(path) for _ in range(5)]
        for at in (now + 61, now + 61, now + 125):
            await asyncio.gather(*[w.fire_due(one, at) for one in (store, *others)])
        found = [item["trigger"] for item in await posted()]
        assert sorted(found) == sorted([f"t{number}" for number in range(40)] * 2)
        for one in others:
            await one.aclose()


async def test_event_is_delivered_once_across_a_crash(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("windlass.triggers.fire.CHUNK", 3)
    store = await session()
    for number in range(8):
        await w.trigger_register({"kind": "event", "name": "a.*"}, WAKE, id=f"t{number}")

    class Killed(BaseException):
        pass

    def kill(name: str) -> None:
        if name == "triggers.after_delivery":
            raise Killed

    with seams.watch_points(kill), pytest.raises(Killed):
        await w.publish_event("a.b", {"n": 1})
    assert len(await posted()) == 3
    await asyncio.gather(*[w.fire_due(store) for _ in range(4)])
    assert sorted(item["trigger"] for item in await posted()) == [f"t{n}" for n in range(8)]


async def test_events_that_publish_one_another_end():
    await session()
    await w.trigger_register({"kind": "event", "name": "a"}, {"kind": "publish", "name": "a"})
    await w.publish_event("a")
    [trigger] = await w.trigger_list()
    assert trigger.fired == 9


async def test_events_of_another_tenant_are_not_heard():
    asked = call("agent_await_resumption", reason="x", conditions={"on_event": "*"})
    ann = w.Caller("ann", tenant="acme")
    await w.agent_loop("go", model=scripted(asked), session_id="s", caller=ann)
    [row] = await w.trigger_list()
    key = row.action["session"]
    await w.publish_event("x")
    await w.publish_event("x", tenant="other")
    assert await posted(key) == []
    await w.publish_event("x", tenant="acme")
    assert len(await posted(key)) == 1


async def test_file_trigger_fires_when_a_file_changes(tmp_path: Path):
    store, file = await session(), tmp_path / "a.txt"
    await w.trigger_register({"kind": "file", "paths": [str(file)]}, WAKE, id="t")
    now = seams.now()
    again = await w.fire_due(store, now)
    assert again is not None and await posted() == []
    file.write_text("x")
    assert await w.fire_due(store, now + 1) == again
    await w.fire_due(store, now + 10)
    await w.fire_due(store, now + 20)
    assert len(await posted()) == 1
    os.utime(file, ns=(1, 1))
    await w.fire_due(store, now + 30)
    file.unlink()
    await w.fire_due(store, now + 40)
    assert len(await posted()) == 3 and find_watch(store).rows


async def test_trigger_starts_an_agent():
    store = current_store()
    start = {"kind": "start", "agent": "reporter", "prompt": "Report.", "priority": 3}
    await w.trigger_register({"kind": "timer", "every": 60}, start)
    now = seams.now() + 61
    await w.fire_due(store, now)
    [wish] = await store.consult(lambda tx: due_wishes(tx, now + 9, 10))
    assert (wish.agent, wish.priority) == ("reporter@1", 3)
    assert wish.requests[0]["messages"][0]["content"][0]["text"] == "Report."


async def test_timer_for_a_time_fires_once_and_is_gone():
    store = await session()
    at = dt.datetime.fromtimestamp(seams.now() + 100, dt.UTC).isoformat()
    await w.trigger_register({"kind": "timer", "at": at}, WAKE)
    assert await w.fire_due(store, seams.now() + 200) is None
    assert len(await posted()) == 1 and await w.trigger_list() == []


async def test_caller_registers_timers_for_own_sessions_alone():
    ann, bob = w.Caller("ann", tenant="a"), w.Caller("bob", tenant="b")
    await w.agent_session_open("mine", caller=ann)
    wake: Any = {"kind": "wake", "session": "mine"}
    every: Any = {"kind": "timer", "every": 60}
    with pytest.raises(w.NoSuchSession):
        await w.trigger_register(every, wake, caller=bob)
    with pytest.raises(ConfigError):
        await w.trigger_register({"kind": "event", "name": "*"}, wake, caller=ann)
    made = await w.trigger_register(every, wake, caller=ann)
    assert not await w.trigger_remove(made, caller=bob) and await w.trigger_list(caller=bob) == []
    assert await w.trigger_remove(made, caller=ann)


# --------------------------------------------------------------------------- cron


@given(
    start=st.integers(1_600_000_000, 2_000_000_000),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    text=st.sampled_from(
        ["*/7 * * * *", "30 2 * * *", "0 0 1 * *", "15,45 1-3 * * sun", "0 */6 * * *", "5 0 * 2 1"]
    ),
)
@settings(max_examples=40, deadline=None)
def test_cron_times_rise_and_none_is_left_out(start: int, zone: str, text: str):
    cron, place = parse_cron(text), find_zone(zone)
    at = cron.find_next(float(start), place)
    assert at is not None and at > start
    # from anywhere between, the next time is the same one
    for part in (0.25, 0.5, 0.99):
        assert cron.find_next(start + (at - start) * part - 1e-3, place) == at
    following = cron.find_next(at, place)
    assert following is not None and following > at


@pytest.mark.parametrize(
    "text, after, hours",
    [
        ("30 2 * * *", "2026-03-28T12:00", ["03:30+02:00", "02:30+02:00"]),  # skipped in spring
        ("30 2 * * *", "2026-10-24T12:00", ["02:30+02:00", "02:30+01:00"]),  # repeated in autumn
        ("0 * * * *", "2026-10-25T01:30", ["02:00+02:00", "02:00+01:00", "03:00+01:00"]),
        ("*/30 2 * * *", "2026-03-28T12:00", ["02:00+02:00", "02:30+02:00"]),
    ],
)
def test_cron_where_clocks_change(text: str, after: str, hours: list[str]):
    zone = find_zone("Europe/Berlin")
    at: float | None = dt.datetime.fromisoformat(after).replace(tzinfo=zone).timestamp()
    for hour in hours:
        at = parse_cron(text).find_next(at or 0.0, zone)
        assert at is not None
        assert dt.datetime.fromtimestamp(at, zone).isoformat()[11:16] == hour[:5]
        assert dt.datetime.fromtimestamp(at, zone).isoformat()[-6:] == hour[5:]


# --------------------------------------------------------------------------- webhooks


async def send(
    app: Any, body: bytes, headers: dict[str, str], path: str = "/hook", method: str = "POST"
) -> int:
    status: list[int] = []
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return parts.pop()

    async def answer(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": raw}
    await app(scope, receive, answer)
    return status[0]


def sign(body: bytes, name: str = "m1", at: float | None = None, secret: str = "shh") -> Any:
    stamp = str(int(seams.now() if at is None else at))
    digest = hmac.new(secret.encode(), f"{name}.{stamp}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": name, "webhook-timestamp": stamp, "webhook-signature": signature}


async def test_webhook_fires_for_signed_requests_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOOK_SECRET", "shh")
    await session()
    spec = {"kind": "webhook", "path": "/hook", "secret_env": "HOOK_SECRET"}
    await w.trigger_register(spec, WAKE, id="t")
    app, body = w.webhook_app(max_body=1000), json.dumps({"ref": "main"}).encode()
    assert await send(app, body, sign(body)) == 202
    assert await send(app, body, sign(body)) == 200  # the same delivery again
    assert await send(app, body, sign(body, at=seams.now() - 1000)) == 401
    assert await send(app, body, sign(body, secret="no")) == 401
    assert await send(app, body + b" ", sign(body)) == 401
    assert await send(app, body, {}) == 401
    assert await send(app, b"x" * 1001, sign(b"x" * 1001)) == 413
    assert await send(app, body, sign(body), path="/other") == 404
    assert await send(app, body, sign(body), method="GET") == 405
    hub = "sha256=" + hmac.new(b"shh", body, hashlib.sha256).hexdigest()
    assert await send(app, body, {"x-hub-signature-256": hub}) == 202
    assert await send(app, body, {"x-hub-signature-256": hub}) == 200
    statuses = await asyncio.gather(*[send(app, body, sign(body, f"x{n % 4}")) for n in range(8)])
    assert sorted(statuses) == [200] * 4 + [202] * 4
    heard = await posted()
    assert len(heard) == 6 and '"ref":"main"' in heard[0]["message"]


async def test_webhook_without_its_secret_fires_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    await session()
    spec = {"kind": "webhook", "path": "/hook", "secret_env": "HOOK_SECRET"}
    await w.trigger_register(spec, WAKE)
    assert await send(w.webhook_app(), b"{}", sign(b"{}", secret="")) == 401


async def test_wrong_limits_of_webhooks_and_stores_are_refused():
    for options in ({"max_body": 0}, {"max_body": 1.5}, {"tolerance": -1}, {"tolerance": "x"}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            w.webhook_app(**options)  # pyright: ignore[reportArgumentType]
    assert w.webhook_app(max_body=1, tolerance=0)
    with pytest.raises(ConfigError, match="store is an open store"):
        await w.fire_due("sqlite:///x.db")  # pyright: ignore[reportArgumentType]


# --------------------------------------------------------------------------- snapshots


async def test_snapshot_is_resumed_in_another_store(tmp_path: Path):
    asked = call("agent_await_resumption", reason="the build", conditions={"timeout": 60})
    async with w.Runtime(store="memory:"):
        out = await w.agent_loop("go", model=scripted(asked), session_id="s")
        assert out.handle is not None
        path = await w.save_snapshot(out.handle, tmp_path / "worker.json")
    async with w.Runtime(store="memory:"):
        assert await w.load_snapshot(path) == "s" == await w.load_snapshot(path)
        assert [row.id for row in await w.trigger_list()] == ["resume:timeout:s"]
        done = await w.Agent(scripted("Done.")).resume("s")
        assert done.status == "done" and await w.trigger_list() == []
    path.write_text("{}")
    with pytest.raises(ConfigError):
        await w.load_snapshot(path)


async def test_snapshot_whose_loading_was_killed_is_loaded_whole(tmp_path: Path):
    asked = call("agent_await_resumption", reason="the build", conditions={"timeout": 60})
    async with w.Runtime(store="memory:") as runtime:
        out = await w.agent_loop("go", model=scripted(asked), session_id="s")
        assert out.handle is not None
        path = await w.save_snapshot(out.handle, tmp_path / "worker.json")
        [opened, *_] = await runtime.store.read("s")
    async with w.Runtime(store="memory:") as runtime:
        # what the store has of it, if its process dies between the two transactions
        journal = await runtime.store.open("s", metadata=opened.metadata)
        await journal.close()
        assert await w.load_snapshot(path) == "s"
        assert [row.id for row in await w.trigger_list()] == ["resume:timeout:s"]
        done = await w.Agent(scripted("Done.")).resume("s")
        assert done.status == "done"
    async with w.Runtime(store="memory:") as runtime:
        await w.agent_session_open("s", metadata={"mine": True})
        assert await w.load_snapshot(path) == "s"
        assert len(await runtime.store.read("s")) == 1  # the store is the truth


@pytest.mark.parametrize("form", ["sub_agent", "node"])
async def test_snapshot_has_the_sub_agents_and_nodes_that_wait(form: str, tmp_path: Path):
    asked = call("agent_await_resumption", reason="the build", conditions={"on_event": "built"})
    counted: list[str] = []

    @w.tool
    async def build() -> str:
        """Build."""
        counted.append("built")
        return "begun"

    model = scripted(call("build"), asked, "It is built.")
    inner = w.Agent(model, name="inner", tools=[build], await_resumption=True)
    outer_model = scripted(call("inner", task="Build."), "Done.")
    runner: w.Agent[None, str] | w.WorkflowGraph
    if form == "sub_agent":
        runner = w.Agent(outer_model, name="outer", tools=[inner.as_tool()])
    else:
        nodes = {"inner": {"agent": inner}, "end": {"mode": "llm", "model": scripted("Done.")}}
        edges = [{"from": "inner", "to": "end"}]
        runner = w.workflow_graph({"name": "g", "nodes": nodes, "edges": edges})
    async with w.Runtime(store="memory:") as runtime:
        assert (await runner.run("go", session_id="s")).status == "suspended"
        path = await w.save_snapshot("s", tmp_path / "s.json")
        known = {info.id for info in await runtime.store.sessions()}
    async with w.Runtime(store=tmp_path / "other.db") as runtime:
        assert await w.load_snapshot(path) == "s" == await w.load_snapshot(path)
        assert {info.id for info in await runtime.store.sessions()} == known
        [waits] = await w.trigger_list()
        assert waits.spec["name"] == "built" and waits.id.startswith("resume:on_event:s.")
        await w.publish_event("built")
        done = await runner.resume("s")
        assert (done.status, done.output, counted) == ("done", "Done.", ["built"])
