"""The time of a commit's record is that of its result, and not of when the body began."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import windlass as w
from windlass import seams
from windlass.cli import timeline
from windlass.events import ToolResulted
from windlass.testing import call, scripted
from windlass.testing.postgres import MISSING, find_binaries, shared_server


async def find_times(url: str, clock: list[float]) -> list[float]:
    @w.tool(transactional=True)
    async def put(ctx: w.ToolContext[None]) -> str:
        """Put a row."""

        def body(tx: Any) -> str:
            clock[0] += 60  # the body takes a minute
            return "put"

        return await ctx.commit(body)

    async with w.Runtime(store=url) as runtime:
        out = await w.Agent(scripted(call("put"), "ok"), tools=[put]).run("go", session_id="s")
        assert out.output == "ok"
        rows = await timeline.read(runtime.store, "s")
    return [at for at, entry in rows if isinstance(entry, ToolResulted)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [1_700_000_000.0]
    monkeypatch.setattr(seams, "now", lambda: at[0])
    return at


async def test_commit_on_sqlite_has_the_time_of_its_result(tmp_path: Path, clock: list[float]):
    assert await find_times(f"sqlite:///{tmp_path / 's.db'}", clock) == [1_700_000_060.0]


@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
async def test_commit_on_postgres_has_the_time_of_its_result(clock: list[float]):
    url = shared_server().schema(f"times{uuid4().hex[:12]}")
    assert await find_times(url, clock) == [1_700_000_060.0]
