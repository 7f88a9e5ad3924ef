"""A run with commands that is cancelled, aborted, killed or timed out at each step of its event loop.

`sweep("cancel", folder, every=1)` does it at every step. Afterwards no process, no descriptor and no
temporary file may be left.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import windlass as w
from windlass.testing import call, scripted

How: TypeAlias = Literal["cancel", "abort", "kill", "timeout"]
SECONDS = 5.0  # that processes of a killed owner may take to go
_HOSTILE = "(setsid sleep {mark} &); trap '' TERM; nohup sleep {mark} & echo begun; "


async def run_scene(workspace: str, mark: str, abort: w.Abort, timeout: float = 20) -> str:
    """Run commands in the foreground and the background, and one that looks at the work."""
    act = _HOSTILE.format(mark=mark)
    model = scripted(
        call("bash", command=act + "sleep 0.02", timeout=timeout),
        call("bash", command=act + f"sleep {mark}", background=True),
        call("bash_output", handle="bash_1"),
        call("bash", command=act + "sleep 0.05; touch done", timeout=timeout),
        call("bash_stop", handle="bash_1"),
        "done",
    )
    out = await w.agent_loop(
        "go",
        model=model,
        tools=["bash", "bash_output", "bash_stop"],
        workspace=workspace,
        verify_completion=["true"],
        abort=abort,
    )
    return out.status


class StepLoop(asyncio.SelectorEventLoop):
    """An event loop that does something at one of its steps."""

    def __init__(self, at: int, act: Callable[[], object]) -> None:
        super().__init__()
        self.steps, self._at, self._act = 0, at, act

    def _run_once(self) -> None:
        self.steps += 1
        if self.steps == self._at:
            self._act()
        super()._run_once()  # type: ignore[misc]


def run_until(how: How, at: int, workspace: str, mark: str) -> int:
    """Run the scene and end it at a step; return how many steps there were."""
    abort = w.Abort()
    tasks: list[asyncio.Task[Any]] = []

    def act() -> None:
        if how == "kill":
            os.kill(os.getpid(), 9)
        elif how == "abort":
            abort.abort("enough")
        else:
            tasks[0].cancel()

    loop = StepLoop(at if how != "timeout" else -1, act)
    try:
        timeout = 0.004 * at if how == "timeout" else 20
        tasks.append(loop.create_task(run_scene(workspace, mark, abort, timeout)))
        try:
            loop.run_until_complete(tasks[0])
        except (asyncio.CancelledError, w.Aborted):
            pass
        # The end of a run may outlast a cancelled call by a moment, as it would in a server.
        if rest := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(rest, timeout=SECONDS))
        for thread in threading.enumerate():
            if thread.name == "windlass-warden":
                thread.join(SECONDS)
        loop.run_until_complete(loop.shutdown_default_executor())
        return loop.steps
    finally:
        loop.close()


def find_left(mark: str) -> list[str]:
    """Return the processes that sleep for `mark` seconds."""
    found: list[str] = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", mark.encode()]:
                found.append(f"process {name}")
    return found


def sweep(how: How, folder: Path, every: int, most: int = 10_000) -> tuple[int, list[str]]:
    """End the scene at every so many steps; return how often, and what was left of it."""
    private = folder / "private"
    private.mkdir(parents=True)
    workspace = folder / "ws"
    workspace.mkdir()
    before_tmp, tempfile.tempdir = tempfile.tempdir, str(private)
    found: list[str] = []
    try:
        last = run_until("cancel", -1, str(workspace), "977000000")  # the whole of it
        if how == "timeout":
            last = 30
        steps = list(range(1, last + 1, every))[:most]
        for at in steps:
            mark = str(977_000_000 + 1000 * (os.getpid() % 1000) + at)
            found += [
                f"{how} at step {at}: {one}" for one in _try(how, at, workspace, private, mark)
            ]
    finally:
        tempfile.tempdir = before_tmp
    return len(steps), found


def _try(how: How, at: int, workspace: Path, private: Path, mark: str) -> list[str]:
    if how == "kill":
        env = {**os.environ, "TMPDIR": str(private)}
        command = [
            sys.executable,
            "-m",
            "tests.toolbox.sandbox_sweep",
            str(at),
            str(workspace),
            mark,
        ]
        root = Path(__file__).parents[2]
        subprocess.run(command, env=env, check=False, cwd=root)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and (find_left(mark) or os.listdir(private)):
            time.sleep(0.01)
        return [*find_left(mark), *[f"file {one}" for one in os.listdir(private)]]
    gc.collect()  # what earlier runs held is theirs
    before, children = len(os.listdir("/proc/self/fd")), list_children()
    run_until(how, at, str(workspace), mark)
    gc.collect()  # a workspace is closed with the agent that holds it
    left = [*find_left(mark), *[f"file {one}" for one in os.listdir(private)]]
    if list_children() != children:
        left.append(f"children {list_children()}")
    after = len(os.listdir("/proc/self/fd"))
    # Fewer are no leak: what an earlier test left may be collected meanwhile.
    return left if after <= before else [*left, f"{after - before} descriptors"]


def list_children() -> list[str]:
    """Return the child processes of this process."""
    found: list[str] = []
    for thread in os.listdir("/proc/self/task"):
        try:
            found += Path(f"/proc/self/task/{thread}/children").read_text().split()
        except OSError:
            continue
    return sorted(found)


if __name__ == "__main__":
    run_until("kill", int(sys.argv[1]), sys.argv[2], sys.argv[3])
