"""A limit in seconds over deaths: the time of what was lost with a process counts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass import seams
from windlass.events import IterationStart, Replied, RunResumed, RunStarted
from windlass.store.base import Store
from windlass.store.holder import BEAT_SECONDS
from windlass.store.memory import MemoryStore
from windlass.testing import call, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server

from .helpers import kept

KILLED = """
import asyncio, os, sys
import windlass as w
from windlass.testing import call, scripted
from windlass.testing.script import ScriptedModel

@w.tool(side_effect_level="none")
async def stay() -> str:
    "Stay until the end."
    await asyncio.sleep(0.5)
    os._exit(9)

class Deadly(ScriptedModel):
    async def respond(self, request, emit):
        if sys.argv[2] == "model":
            await asyncio.sleep(0.5)  # until what is recorded is stored
            os._exit(9)
        return await super().respond(request, emit)

async def main(url):
    model = scripted(call("stay"), "never")
    model.__class__ = Deadly
    async with w.Runtime(store=url, environ={}):
        agent = w.Agent(model, tools=[stay], budget=w.Budget(seconds=float(sys.argv[3])))
        await agent.run("go", session_id="s")

asyncio.run(main(sys.argv[1]))
"""


async def die(url: str, where: str, seconds: float) -> None:
    line = [sys.executable, "-c", KILLED, url, where, str(seconds)]
    assert await (await asyncio.create_subprocess_exec(*line)).wait() == 9


@w.tool(side_effect_level="none")
async def stay() -> str:
    """Stay until the end."""
    return "stayed"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'a.db'}"
    if find_binaries() is None:
        pytest.skip(MISSING)
    return shared_server().schema()


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = seams.now
    monkeypatch.setattr(seams, "now", lambda: now() + seconds)


@pytest.mark.parametrize("where", ["model", "tool"])
@pytest.mark.parametrize("enough", [False, True])
async def test_time_of_a_lost_call_counts(
    url: str, where: str, enough: bool, monkeypatch: pytest.MonkeyPatch
):
    """It lived at most until its next sign of life was due; how long it was dead does not count."""
    await die(url, where, 500)
    limit = 0.2  # it lived for half a second after what is on record
    if url.startswith("sqlite"):  # signs of life in Postgres are by the server's clock
        later(monkeypatch, 3600.0)
        limit = 5.0
    model = scripted("ok")
    async with w.Runtime(store=url, environ={}):
        budget = w.Budget(seconds=500 if enough else limit)
        out = await w.Agent(model, tools=[stay]).resume("s", budget=budget)
    if enough:
        assert out.status == "done"
    else:
        assert (out.status, out.stop_reason) == ("budget_exhausted", "seconds")
        assert model.requests == []
    [resumed] = [e for e in out.entries if isinstance(e, RunResumed)]
    assert 0 < resumed.lost_ms <= (BEAT_SECONDS + 30) * 1000


async def test_deaths_add_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store: Store = MemoryStore()
    now = [1_000_000.0]
    monkeypatch.setattr(seams, "now", lambda: now[0])
    journal = await store.open("s")
    metadata = {"limits": {"seconds": 10.0}}
    journal.append(RunStarted("r", "agent", "local", "scripted", "scripted", metadata=metadata))
    journal.append(IterationStart(1))
    journal.flush()
    for attempt, lost in enumerate((4.0, 5.0), start=1):
        now[0] += lost  # and nothing is on record of it
        journal = await store.open("s", take_over=True)
        assert journal.lost_seconds == lost
        journal.append(RunResumed("r", "ask", attempt, 0, None, round(journal.lost_seconds * 1000)))
        journal.flush()
    agent = w.Agent(scripted("ok"), budget=w.Budget(seconds=10))
    async with w.Runtime(store=store, environ={}):
        now[0] += 0.5
        out = await agent.resume("s", take_over=True)
        assert out.status == "done" and out._run.ledger.seconds == 9.5
        await kept(out)


async def test_session_that_was_given_up_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ask: Any = {"rules": [{"ask": "stay"}]}
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with w.Runtime(store=url, environ={}):
        agent = w.Agent(
            scripted(call("stay"), "ok"),
            tools=[stay],
            approval_policy=ask,
            budget=w.Budget(seconds=5),
        )
        out = await agent.run("go", session_id="s")
        assert out.status == "suspended"
        later(monkeypatch, 3600.0)
        out = await agent.resume("s", decisions={out.pending[0].id: True})
        assert out.status == "done"
        [resumed] = [e for e in out.entries if isinstance(e, RunResumed)]
        assert resumed.lost_ms == 0
        assert [e for e in out.entries if isinstance(e, Replied)]
