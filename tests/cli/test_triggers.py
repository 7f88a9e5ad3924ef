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
