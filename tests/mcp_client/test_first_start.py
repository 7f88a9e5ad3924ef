"""The first start of servers in a process: they start while the SDK is loaded, and none is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_client.test_guard import is_alive

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import asyncio, json, os, sys
import windlass as w
from windlass.testing import scripted

FAKE, how = sys.argv[1], sys.argv[2]
seen = {"children": [], "asked": None}

def list_children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(word) for word in file.read().split()]

class Watch:
    \"\"\"Sees the SDK being loaded.\"\"\"

    def find_spec(self, name, path=None, target=None):
        if name == "mcp.client.session" and not seen["children"]:
            seen["children"] = list_children()
            if how == "fails":
                raise RuntimeError("the SDK is broken")
            if how == "cancelled":
                LOOP.call_soon_threadsafe(run.cancel)

sys.meta_path.insert(0, Watch())

def entry(*args):
    return {"command": sys.executable, "args": ["-I", "-S", FAKE, *args]}

async def main():
    global LOOP, run
    LOOP = asyncio.get_running_loop()
    servers = {"a": entry(), "b": entry(), "c": entry()}
    if how == "unset":
        servers["b"] = entry("${NOT_SET_ANYWHERE}")
    calls = [w.ToolCall(name, f"{name}__add", {"a": 1, "b": 2}) for name in "abc"]
    model = scripted(calls, "done")
    run = asyncio.ensure_future(w.Agent(model, mcp_servers=servers).run("go"))
    try:
        out = await run
        seen["status"] = out.status
    except BaseException as error:
        seen["status"] = type(error).__name__
    seen["asked"] = len(model.requests)

assert not any([name in sys.modules for name in ("mcp", "mcp_types")])
asyncio.run(main())
print(json.dumps(seen))
"""


def play(how: str) -> dict[str, Any]:
    """Start a run with three servers in a new process; say what it saw."""
    fake = str(Path(__file__).with_name("fake_server.py"))
    command = [sys.executable, "-c", _PROGRAM, fake, how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_first_start_loads_the_sdk_while_the_servers_start():
    seen = play("works")
    assert len(seen["children"]) == 3
    assert (seen["status"], seen["asked"]) == ("done", 2)
    assert not any([is_alive(pid) for pid in seen["children"]])


@pytest.mark.parametrize(
    ("how", "status", "started"),
    [
        ("fails", "RuntimeError", 3),
        ("cancelled", "CancelledError", 3),
        ("unset", "ConfigError", 2),
    ],
)
def test_first_start_that_does_not_succeed_leaves_no_process(how: str, status: str, started: int):
    seen = play(how)
    assert (seen["status"], seen["asked"], len(seen["children"])) == (status, 0, started)
    assert not any([is_alive(pid) for pid in seen["children"]])
