"""`windlass mcp serve` in a project of its own: the official SDK as client, kills, and wrong arguments."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import windlass as w
from windlass.cli.mcp.serve import build_service
from windlass.mcp.server import McpService

SHOP = '''
import asyncio, os, pathlib
import windlass as w

@w.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    print("this is no message of the protocol")
    return a + b

@w.tool
async def charge(order: int) -> str:
    """Charge once."""
    with open("charged", "a") as file:
        file.write(f"{order}\\n")
    pathlib.Path("pid").write_text(str(os.getpid()))
    await asyncio.Event().wait()

@w.tool(keyed=True)
async def send(order: int, ctx: w.ToolContext[None]) -> str:
    """Send under a key."""
    with open("sent", "a") as file:
        file.write(f"{ctx.idempotency_key}\\n")
    if pathlib.Path("pid").exists():
        return f"sent {order}"
    pathlib.Path("pid").write_text(str(os.getpid()))
    await asyncio.Event().wait()

tools = [add, charge, send]
helper = w.Agent("mock", tools=[add], name="helper")
scope = w.Runtime(tools=tools)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def serve(folder: Path, *args: str) -> Any:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "windlass", "mcp", "serve", "shop:tools", *args],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(folder)},
    )
    return stdio_client(parameters)


def read_pid(file: Path) -> int:
    """Wait for the number that a tool of another process writes."""
    while not file.exists() or not file.read_text():
        time.sleep(0.02)
    return int(file.read_text())


def text(result: types.CallToolResult) -> str:
    return "".join(one.text for one in result.content if isinstance(one, types.TextContent))


@pytest.mark.parametrize("era", ("legacy", "2026-07-28"))
async def test_mcp_serve_speaks_both_eras_over_stdio(folder: Path, era: str) -> None:
    """What tools print does not reach the client; sessions are in the project's store."""
    async with Client(serve(folder, "--caller", "ann"), mode=era) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["add", "charge", "send"]
        assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
    async with w.Runtime(store=f"sqlite:///{folder}/.windlass/sessions.db") as scope:
        (session,) = await scope.store.sessions()
        assert session.status == "done"


@pytest.mark.parametrize("tool", ("charge", "send"))
async def test_mcp_serve_resumes_a_call_whose_server_was_killed(folder: Path, tool: str) -> None:
    """SIGKILL in the middle of a call: a plain tool is not run again, a keyed one under its key."""
    place = f"sqlite:///{folder}/a.db"
    with pytest.raises(BaseException):  # noqa: B017 - whatever the SDK makes of a dead server
        async with Client(serve(folder, "--store", place), mode="2026-07-28") as client:
            asking = asyncio.create_task(client.call_tool(tool, {"order": 7}))
            os.kill(await asyncio.to_thread(read_pid, folder / "pid"), signal.SIGKILL)
            await asking
    async with w.Runtime(store=place) as scope:
        (session,) = await scope.store.sessions()
    async with Client(serve(folder, "--store", place), mode="2026-07-28") as client:
        arguments = {"session_id": session.id}
        resumed = await client.call_tool("windlass_resume", arguments)
        again = await client.call_tool("windlass_resume", arguments)
    assert text(again) == text(resumed)
    if tool == "send":
        assert text(resumed) == "sent 7"
        assert len(set((folder / "sent").read_text().split())) == 1
    else:
        assert resumed.is_error and "outcome is unknown" in text(resumed)
        assert (folder / "charged").read_text() == "7\n"


def test_mcp_serve_takes_services_runtimes_agents_and_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an option names becomes a service; what it has of its own is not given twice."""
    monkeypatch.chdir(tmp_path)
    scope = w.Runtime()

    @w.tool
    def add(a: int) -> int:
        """Add."""
        return a

    agent = w.Agent("mock", name="helper")
    ann = w.Caller("ann")
    whole = McpService(scope)
    assert build_service(whole, None, ann, None) is whole and whole.caller == ann
    assert build_service(scope, None, None, None).runtime is scope
    tools = [
        [tool.name for tool in build_service(thing, None, None, None).catalog.all_tools()]
        for thing in (agent, add, [add], w.tool_registry([add]))
    ]
    assert tools == [["helper"], ["add"], ["add"], ["add"]]
    for thing in (whole, scope):
        with pytest.raises(w.ConfigError, match="--store"):
            build_service(thing, None, None, "memory:")


@pytest.mark.parametrize(
    ("args", "said"),
    (
        (["nothing:here"], "there is no module 'nothing'"),
        (["shop:nothing"], "has no 'nothing'"),
        (["shop"], "write it as module:function"),
        (["shop:tools", "--role", "x"], "--caller NAME"),
        (["shop:tools", "--origin", "https://x"], "are for --http"),
        (["shop:tools", "--http"], "who asks"),
        (["shop:tools", "--http", "--host", "0.0.0.0", "--caller", "ann"], "--identify"),
        (["shop:tools", "--http", "--allow-host", "x.org", "--caller", "ann"], "identify=fn"),
        (["shop:SHOP"], "has no 'SHOP'"),
    ),
)
def test_mcp_serve_refuses_wrong_arguments(
    windlass: Any, project: Path, args: list[str], said: str
) -> None:
    """Each mistake is one line, before anything listens."""
    (project / "shop.py").write_text(SHOP)
    done = windlass("mcp", "serve", *args, code=2)
    assert said in done.stderr, done.stderr
    assert done.stdout == ""


def test_mcp_serve_fits_the_form_that_editors_use() -> None:
    """The example of the guide names the command as it is."""
    page = Path(__file__).parents[2] / "docs" / "guides" / "mcp-server.md"
    block = page.read_text("utf-8").split("```json\n")[1].split("```")[0]
    (entry,) = json.loads(block)["mcpServers"].values()
    assert [entry["command"], *entry["args"][:2]] == ["windlass", "mcp", "serve"]
