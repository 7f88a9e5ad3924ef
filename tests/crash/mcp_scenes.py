"""A run with an MCP server, to be killed anywhere: no call twice against the rules, no process left."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import windlass as w
from windlass.errors import NoSuchSession
from windlass.events import ToolResulted
from windlass.mcp.client import connection  # loaded before the fork
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.testing.kill import Scene, Seen

assert sqlite_store.SqliteStore and connection.Connection
SESSION = "s"
SERVER = str(Path(__file__).parents[1] / "mcp_client" / "fake_server.py")
SECONDS = 10.0  # that the processes of a server have to end


class Caller(w.Model):
    """Calls a tool with an effect, one that only reads, and ends."""

    provider, name = "caller", "caller"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        turn = sum(message.role == "assistant" for message in request.messages)
        calls = [("calc__note", {}), ("calc__add", {"a": 2, "b": 3})]
        content: Any = "The end."
        if turn < len(calls):
            content = (w.ToolCall(f"c{turn}", *calls[turn]),)
        reason: Any = "tool_use" if turn < len(calls) else "end_turn"
        return w.Response(w.Message("assistant", content), w.Usage(10, 5), reason)


def build_agent(scene: Scene) -> w.Agent[Any, str]:
    """Build the agent, whose server logs its processes and calls."""
    arguments = ["-I", "-S", SERVER, "--log", str(scene.folder / "server.log")]
    entry = {"command": sys.executable, "args": arguments, "trust": "trusted"}
    return w.Agent(Caller(), mcp_servers={"calc": entry}, name="agent")


def scenario(scene: Scene) -> None:
    """Run, or go on with what a killed process left."""

    async def play() -> None:
        async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}"):
            agent = build_agent(scene)
            try:
                out = await agent.resume(SESSION)
            except NoSuchSession:
                out = await agent.run("go", session_id=SESSION)
            assert out.output == "The end.", out

    asyncio.run(play())


def check(scene: Scene) -> Seen:
    """Look at the calls that the server got, at the record, and for processes."""

    async def look() -> dict[str, str]:
        store = open_store(f"sqlite:///{scene.folder / 'runs.db'}")
        entries = await store.read(SESSION)
        await store.aclose()
        return {entry.tool: entry.outcome for entry in entries if type(entry) is ToolResulted}

    outcomes = asyncio.run(look())
    lines = (scene.folder / "server.log").read_text().splitlines()
    notes, problems = lines.count("call note"), list[str]()
    if notes > 1 or (notes == 0 and outcomes["calc__note"] == "ok"):
        problems.append(f"note was called {notes} times, and is {outcomes['calc__note']}")
    if outcomes["calc__add"] != "ok" or not lines.count("call add"):
        problems.append(f"add is {outcomes['calc__add']}")
    pids = [int(line.split()[1]) for line in lines if line.startswith("started")]
    until = time.monotonic() + SECONDS
    while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < until:
        time.sleep(0.01)
    if alive:
        problems.append(f"processes of the server are alive: {alive}")
    return Seen(state=sorted(outcomes), problems=tuple(problems))


def is_alive(pid: int) -> bool:
    """Check whether a process runs: neither gone nor a zombie."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
