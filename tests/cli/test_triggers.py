"""`windlass triggers`, `windlass sessions wake`, and `windlass run --resume FILE`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.engine.environment import current_store
from windlass.testing import call, scripted

MOCK = ("--provider", "mock")
EVERY = '{"kind": "timer", "every": "1h"}'


async def park(path: Path, snapshot: Path | None = None, *, fires: bool = True) -> None:
    """Make a session that is parked, whose condition holds."""
    async with w.Runtime(store=str(path)):
        asked = call("agent_await_resumption", reason="the build", conditions={"timeout": 60})
        out = await w.agent_loop("go", model=scripted(asked), session_id="s1")
        if snapshot is not None and out.handle is not None:
            await w.save_snapshot(out.handle, snapshot)
        if fires:
            await w.fire_due(current_store(), seams.now() + 100)


def test_triggers_are_added_listed_fired_and_removed(windlass: Any):
    windlass("run", "hi", *MOCK, "--session", "s1")
    wake = '{"kind": "wake", "session": "s1"}'
    added = windlass("triggers", "add", EVERY, wake, "--id", "hourly")
    assert added.exit_code == 0 and added.stdout.strip() == "hourly"
    listed = json.loads(windlass("triggers", "list", "--json").stdout)
    assert [(one["id"], one["fired"]) for one in listed] == [("hourly", 0)]
    assert "hourly" in windlass("triggers", "list").stdout
    assert windlass("triggers", "fire").exit_code == 0
    refused = windlass("triggers", "add", '{"kind": "timer", "evry": 5}', wake, code=2)
    assert "did you mean 'every'" in refused.stderr
    windlass("triggers", "add", "5m", wake, code=2)
    windlass("triggers", "remove", "hourly")
    windlass("triggers", "remove", "hourly", code=2)


def test_sessions_wake_goes_on_with_what_is_due(windlass: Any, project: Path):
    assert windlass("sessions", "wake", *MOCK).exit_code == 0
    windlass("run", "hi", *MOCK, "--session", "other")
    asyncio.run(park(project / ".windlass" / "sessions.db"))
    shown = windlass("sessions", "wake", "--dry-run", *MOCK)
    assert shown.stdout.split() == ["s1"]
    woken = windlass("sessions", "wake", *MOCK)
    assert woken.exit_code == 0 and "s1" in woken.stdout
    [info] = [
        one
        for one in json.loads(windlass("sessions", "list", "--json").stdout)
        if one["id"] == "s1"
    ]
    assert info["status"] == "done"
    assert "no parked session" in windlass("sessions", "wake", *MOCK).stderr


FLOWS = """
    from windlass.testing import call, scripted

    def wait():
        return call("agent_await_resumption", reason="not yet", conditions={"on_event": "go"})

    def build(first):
        nodes = {
            "wait": {"await_resumption": True, "model": scripted(*first, "waited")},
            "last": {"mode": "llm"},
        }
        return {"name": "desk", "nodes": nodes, "edges": [{"from": "wait", "to": "last"}]}

    graph = build([wait()])
    later = build([])      # as another process has it: the model has asked to wait before
    other = {"name": "other", "nodes": {"last": {"mode": "llm"}}}

    def agent(*first):
        return w.Agent(scripted(*first, "waited"), name="a", await_resumption=True)

    @w.workflow(name="plain")
    async def plain(wf, task):
        return (await wf.run(agent(wait()), task)).output

    @w.workflow(name="plain")
    async def plain_later(wf, task):
        return (await wf.run(agent(), task)).output
"""


async def publish(path: Path) -> None:
    async with w.Runtime(store=str(path)):
        await w.publish_event("go")


def find_status(windlass: Any, session_id: str) -> str:
    listed = json.loads(windlass("sessions", "list", "--json").stdout)
    [found] = [one["status"] for one in listed if one["id"] == session_id]
    return found


@pytest.mark.parametrize("form", ["graph", "function"])
def test_sessions_wake_goes_on_with_the_workflow_of_a_node(
    windlass: Any, module: Any, project: Path, form: str
):
    module("flows", FLOWS)
    begun, later = ("graph", "later") if form == "graph" else ("plain", "plain_later")
    mock = MOCK if form == "graph" else ()
    windlass("workflow", "run", f"flows:{begun}", "go", "--session", "s", *mock, code=1)
    asyncio.run(publish(project / ".windlass" / "sessions.db"))
    assert windlass("sessions", "wake", "--dry-run").stdout.split() == ["s"]
    # its program must be named: code is not loaded because a store says so
    refused = windlass("sessions", "wake", "--workflow", "flows:other", *MOCK, code=2)
    name = "desk" if form == "graph" else "plain"
    assert f"the workflow {name!r}" in refused.stderr and "--workflow" in refused.stderr
    assert find_status(windlass, "s.w1.1") == "suspended"
    named = ("--workflow", "flows:other", "--workflow", f"flows:{later}")
    woken = windlass("sessions", "wake", *named, *MOCK)
    assert woken.stdout.splitlines()[0] == "s"
    assert [find_status(windlass, one) for one in ("s", "s.w1.1")] == ["done", "done"]
    assert "no parked session" in windlass("sessions", "wake", *named, *MOCK).stderr


def test_run_resume_of_a_node_names_the_workflow(windlass: Any, module: Any):
    module("flows", FLOWS)
    windlass("workflow", "run", "flows:graph", "go", "--session", "s", *MOCK, code=1)
    for command in ("run", "--resume", "s.w1.1"), ("sessions", "resume", "s"):
        refused = windlass(*command, *MOCK, code=2)
        assert "windlass workflow resume MODULE:OBJECT s" in refused.stderr
    assert find_status(windlass, "s.w1.1") == "suspended"
    assert "Result of wait" in windlass("workflow", "resume", "flows:later", "s", *MOCK).stdout


async def park_helper(path: Path) -> None:
    """Make an agent that waits for a sub-agent, whose condition holds."""
    async with w.Runtime(store=str(path)):
        asked = call("agent_await_resumption", reason="not yet", conditions={"timeout": 60})
        helper = w.Agent(scripted(asked), name="helper", await_resumption=True)
        boss = w.Agent(scripted(call("helper", task="help")), agents=[helper])
        assert (await boss.run("go", session_id="boss")).status == "suspended"
        await w.fire_due(current_store(), seams.now() + 100)


def test_sessions_wake_goes_on_with_the_agent_that_waits_for_a_sub_agent(
    windlass: Any, project: Path
):
    windlass("run", "hi", *MOCK, "--session", "other")
    asyncio.run(park_helper(project / ".windlass" / "sessions.db"))
    assert windlass("sessions", "wake", "--dry-run").stdout.split() == ["boss"]


def test_run_resumes_a_snapshot_file(windlass: Any, project: Path, tmp_path: Path):
    file = tmp_path / "worker_s1.json"
    asyncio.run(park(tmp_path / "elsewhere.db", file))
    done = windlass("run", "--resume", str(file), *MOCK)
    assert done.exit_code == 0, done.stderr
    windlass("run", "--resume", str(tmp_path / "none.json"), *MOCK, code=2)


def test_sessions_list_says_that_something_is_due(
    windlass: Any, project: Path, monkeypatch: pytest.MonkeyPatch
):
    windlass("run", "hi", *MOCK, "--session", "other")
    asyncio.run(park(project / ".windlass" / "sessions.db", fires=False))
    assert "is due" not in windlass("sessions", "list").stdout
    later = seams.now() + 100
    monkeypatch.setattr(seams, "now", lambda: later)
    assert "1 trigger is due" in windlass("sessions", "list").stdout
