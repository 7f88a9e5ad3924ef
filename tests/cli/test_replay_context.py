"""`windlass replay` and `windlass context` of a run of sixty turns with all of context at work."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import windlass as w
from tests.crash import context_scenes as scenes
from windlass import seams

STORE = ("--store", "sqlite:///runs.db")


@pytest.fixture
def errand() -> list[bytes]:
    """What was sent in a run that is now in the folder's store."""
    sent: list[bytes] = []
    clock = scenes.Clock()

    async def work() -> None:
        async with w.Runtime(store="sqlite:///runs.db", environ={}):
            agent = scenes.agent_of(clock, sent.append, lambda *asked: None)
            out = await agent.run(scenes.TASK, session_id=scenes.SESSION)
            assert out.status == "done", out.error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seams, "now", clock)
        asyncio.run(work())
    return sent


def test_the_replay_of_it_finds_no_difference(windlass: Any, errand: list[bytes]):
    told = json.loads(windlass("replay", scenes.SESSION, *STORE, "--json").stdout)
    assert told["identical"] is True
    [run] = told["runs"]
    assert run["requests"] + run["left_out"] == len(errand) and run["status"] == "done"
    again = windlass(
        "replay", scenes.SESSION, *STORE, "--json", "--agent", "tests.crash.context_scenes:AGENT"
    )
    assert json.loads(again.stdout)["requests"] == len(errand)


def test_every_turn_of_it_can_be_looked_at(windlass: Any, errand: list[bytes]):
    for turn in ("1", "4", "31", "60"):
        shown = windlass("context", scenes.SESSION, *STORE, "--turn", turn).stdout
        assert "scratchpad" in shown and "tokens" in shown
