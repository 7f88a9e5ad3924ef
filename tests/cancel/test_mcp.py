"""Runs with an MCP server, ended at each of their events: no process, file handle or task stays."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.crash.mcp_scenes import is_alive
from tests.sizes import pick_size
from windlass.testing import scripted

SERVER = str(Path(__file__).parents[1] / "mcp_client" / "fake_server.py")
WAYS = ("cancel", "abort", "leave")


def build_agent(log: Path) -> w.Agent[Any, str]:
    """Build an agent that makes three calls; the last one is never answered."""
    entry = {
        "command": sys.executable,
        "args": ["-I", "-S", SERVER, "--log", str(log)],
        "trust": "trusted",
    }
    model = scripted(
        w.ToolCall("1", "calc__add", {"a": 1, "b": 1}),
        w.ToolCall("2", "calc__slow", {}),
        w.ToolCall("3", "calc__hang", {}),
    )
    return w.Agent(model, mcp_servers={"calc": entry})


async def end_at(agent: w.Agent[Any, str], way: str, at: int) -> int:
    """Run the agent and end it at its event of this number; return how many there were."""
    count, reached, abort = 0, asyncio.Event(), w.Abort()

    def see(event: object) -> None:
        nonlocal count
        count += 1
        if count == at:
            reached.set()
            if way == "abort":
                abort.abort("enough")

    async def read() -> None:
        async with agent.stream("go", abort=abort) as run:
            async for event in run:
                see(event)
                if reached.is_set() and way == "leave":
                    return

    if way == "leave":
        await asyncio.wait_for(read(), 30)
        return count
    run = asyncio.ensure_future(agent.run("go", abort=abort, on_event=see))
    await asyncio.wait_for(reached.wait(), 30)
    if way == "cancel":
        run.cancel()
    await asyncio.wait({run}, timeout=30)
    assert run.done()
    return count


def list_handles() -> set[str]:
    """List what the open file handles of this process lead to, without its event loop's own."""
    found: set[str] = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number}:{os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize("way", WAYS)
async def test_mcp_run_that_ends_anywhere_leaves_nothing(way: str, tmp_path: Path):
    """Events 1 to 30 are those before the call that hangs."""
    await asyncio.to_thread(int)  # the threads of the loop are there before anything is counted
    before = None
    step = pick_size(14, 1)
    for at in range(1 + WAYS.index(way), 31, step):
        log = tmp_path / f"{at}.log"
        async with w.Runtime(store="memory:"):
            await end_at(build_agent(log), way, at)
        pids = [int(line.split()[1]) for line in log.read_text().splitlines() if "started" in line]
        assert pids and not [pid for pid in pids if is_alive(pid)], at
        assert asyncio.all_tasks() == {asyncio.current_task()}, at
        handles = list_handles()
        assert before is None or len(handles) <= len(before), (at, handles - before)
        before = handles
