"""The guard of a server process: nothing outlives its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_OWNER = """
import asyncio, os, sys
from windlass.mcp.client.servers import McpServer
from windlass.mcp.client.process import start_process

async def main():
    line = "trap '' TERM HUP; (setsid sleep 300 & echo $!); sleep 300 & echo $!; wait"
    server = McpServer(name="s", command="/bin/sh", args=("-c", line))
    process = await start_process(server, {"PATH": os.environ["PATH"]}, "/")
    for _ in range(2):
        print((await process.stdout.readline()).decode().strip(), flush=True)
    print("ready", flush=True)
    if sys.argv[1] == "end":
        await process.end()
    elif sys.argv[1] == "kill":
        process.kill()
        await process.process.wait()
    else:
        await asyncio.sleep(300)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["end", "kill", "owner is killed"])
def test_guard_ends_a_server_and_all_that_it_started(how: str):
    command = [sys.executable, "-c", _OWNER, how.split()[0]]
    owner = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    started = [int(owner.stdout.readline()) for _ in range(2)]
    assert owner.stdout.readline() == "ready\n"
    if how == "owner is killed":
        assert all([is_alive(pid) for pid in started])  # a control: they run
        owner.send_signal(signal.SIGKILL)
    owner.wait(20)
    owner.stdout.close()
    until = time.monotonic() + 10
    while any([is_alive(pid) for pid in started]) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any([is_alive(pid) for pid in started])


def is_alive(pid: int) -> bool:
    """Check whether a process runs: neither gone nor a zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
