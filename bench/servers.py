"""What an MCP call costs beside the bare SDK's, and what it takes to start three servers."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters

import windlass as w
from bench.sampling import REPS, Work, paired, rounds
from bench.table import Row, micro
from windlass.cli.mcp.client import ConsoleSide
from windlass.mcp.client.pool import McpPool
from windlass.mcp.client.servers import McpServer

ALLOWED_CALL, ALLOWED_START = 1.3, 1.1
_SAMPLE_SECONDS = 0.4  # a call takes milliseconds: a short sample has too few of them
_FAKE = Path(__file__).parents[1] / "tests" / "mcp_client" / "fake_server.py"
_ARGUMENTS = {"a": 2, "b": 3}
_HTTP = """
import sys
from mcp.server import MCPServer
app = MCPServer("calc", log_level="ERROR")
@app.tool()
def add(a: int, b: int) -> int:
    return a + b
app.run("streamable-http", port=int(sys.argv[1]))
"""


def rows(reps: int = REPS) -> list[Row]:
    """A call over stdio and over HTTP, and the start of a run with three servers."""
    return [asyncio.run(_stdio_row(reps)), _http_row(reps), asyncio.run(_start_row(reps))]


async def _stdio_row(reps: int) -> Row:
    args = ["-I", "-S", str(_FAKE)]
    server = McpServer(name="calc", command=sys.executable, args=tuple(args))
    bare = Client(StdioServerParameters(command=sys.executable, args=args))
    return await _call_row(server, bare, "stdio", reps)


def _http_row(reps: int) -> Row:
    with start_http() as url:
        return asyncio.run(_call_row(McpServer(name="calc", url=url), Client(url), "HTTP", reps))


async def _call_row(server: McpServer, bare: Client, over: str, reps: int) -> Row:
    pool = McpPool(os.environ, str)
    side = ConsoleSide()
    try:
        connected = await pool.connect([server], os.getcwd())
        (connection,) = connected.connections
        async with bare as client:
            await client.list_tools()

            async def ours() -> None:
                assert (await connection.call("add", dict(_ARGUMENTS), side)).text == "5"

            async def theirs() -> None:
                assert not (await client.call_tool("add", dict(_ARGUMENTS))).is_error

            works = {"ours": Work(ours), "bare": Work(theirs)}
            taken = await rounds(works, reps, target=_SAMPLE_SECONDS)
    finally:
        await pool.aclose()
    pair = paired(taken["ours"], taken["bare"])
    name = f"an MCP call over {over}, over the bare SDK's"
    sides = micro(pair.ours), f"the SDK: {micro(pair.bare)}"
    return Row(name, pair.ratio, ALLOWED_CALL, *sides, (pair.low, pair.high))


async def _start_row(reps: int) -> Row:
    """Start a run with three servers that take a second each, beside one with the bare SDK."""
    args = ["-I", "-S", str(_FAKE), "--wait", "1"]
    servers = [
        McpServer(name=name, command=sys.executable, args=tuple(args)) for name in ("a", "b", "c")
    ]

    async def ours() -> float:
        model = _Clock()
        began = time.perf_counter()
        await w.Agent(model, mcp_servers=servers).run("go")
        return model.asked - began

    async def theirs() -> float:
        began = time.perf_counter()
        async with Client(StdioServerParameters(command=sys.executable, args=args)) as client:
            await client.list_tools()
            return time.perf_counter() - began

    times = [(await ours(), await theirs()) for _ in range(max(3, reps // 3))]
    times.sort(key=lambda each: each[0] / each[1])
    mine, other = times[len(times) // 2]
    ratios = [one / two for one, two in times]
    name = "the start of a run with three MCP servers, over the slowest one's own"
    sides = f"{mine * 1000:.0f} ms", f"one, by the SDK: {other * 1000:.0f} ms"
    return Row(name, mine / other, ALLOWED_START, *sides, (ratios[0], ratios[-1]))


class _Clock(w.Model):
    """A model that notes when it is asked."""

    provider, name, asked = "fake", "fake", 0.0

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        """Answer at once; the tools of all servers are there."""
        self.asked = time.perf_counter()
        assert {tool.name.partition("__")[0] for tool in request.tools} >= {"a", "b", "c"}
        done = w.Message("assistant", (w.Text("done"),))
        return w.Response(done, w.Usage(input_tokens=1, output_tokens=1), "end_turn")


@contextmanager
def start_http() -> Generator[str]:
    """Start a server of the SDK over HTTP and return its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", _HTTP, str(port)], **quiet)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()
