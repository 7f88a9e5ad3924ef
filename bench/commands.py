"""What the sandbox costs: a command of `bash` over the same command without one.

CPU time of all processes is counted by a control group, which needs root: a command is the work of
five processes that no single process waits for. Without one the rows are left out.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.sampling import REPS, Work, paired, rounds
from bench.table import Row, micro
from windlass.toolbox.options import Level, Sandbox
from windlass.toolbox.sandbox.bubblewrap import build_arguments, find_bubblewrap
from windlass.toolbox.sandbox.levels import find_problem
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.sandbox.session import SandboxSession, SandboxSettings

ALLOWED: dict[str, float] = {"workspace": 5.0, "isolated": 1.3}
TARGET = 0.4  # seconds of CPU in one sample
_GROUPS = (
    (Path("/sys/fs/cgroup/cpuacct"), "cpuacct.usage"),
    (Path("/sys/fs/cgroup"), "cpu.stat"),
    (Path("/sys/fs/cgroup/unified"), "cpu.stat"),
)


def rows(reps: int = REPS, target: float = TARGET) -> list[Row]:
    """The level `workspace` over a bare shell, and `isolated` over bubblewrap alone."""
    found: list[Row] = []
    with count_group() as clock:
        if clock is not None:
            for level in ("workspace", "isolated"):
                if find_problem(level) is None:
                    found.append(asyncio.run(_row(level, clock, reps, target)))
    return found


@contextmanager
def count_group() -> Generator[Callable[[], float] | None]:
    """Count the CPU time of this process and all that it starts; None where it cannot be done."""
    for home, name in _GROUPS:
        group = home / f"windlass-bench-{os.getpid()}"
        try:
            group.mkdir()
            (group / "cgroup.procs").write_text(str(os.getpid()))
            usage = group / name
            _read(usage)
        except (OSError, ValueError):
            if group.exists():
                group.rmdir()
            continue
        try:
            yield partial(_read, usage)
        finally:
            (home / "cgroup.procs").write_text(str(os.getpid()))
            group.rmdir()
        return
    yield None


def _read(usage: Path) -> float:
    """Seconds that the processes of a group have used."""
    text = usage.read_text()
    if text[:1].isdigit():
        return int(text) / 1e9
    return int(text.split()[1]) / 1e6


async def _row(level: Level, clock: Callable[[], float], reps: int, target: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        session = SandboxSession(SandboxSettings(Workspace(folder), Sandbox(level=level)))

        async def held() -> None:
            command = await session.start("true", _ignore)
            assert (await command.wait()).code == 0
            session.forget(command)

        works = {"held": Work(held), "bare": Work(_bare(level, folder))}
        try:
            taken = await rounds(works, reps, target=target, clock=clock)
        finally:
            await session.close()
    pair = paired(taken["held"], taken["bare"])
    other = "a bare shell" if level == "workspace" else "bubblewrap alone"
    name = f"a command in the sandbox, {level}: CPU of all processes, over {other}"
    sides = micro(pair.ours), f"{other}: {micro(pair.bare)}"
    return Row(name, pair.ratio, ALLOWED[level], *sides, (pair.low, pair.high))


def _bare(level: Level, folder: str) -> Callable[[], Any]:
    """Return what runs the same command with as little around it as can be."""
    argv = [shutil.which("bash") or "/bin/sh", "-c", "true"]
    if level == "isolated":
        bwrap = find_bubblewrap()
        assert bwrap is not None
        outer = build_arguments(bwrap, [(folder, "extend")], folder, folder, network=False)
        at = outer.index("--seccomp")
        argv = [*outer[:at], *outer[at + 2 :], *argv]

    def spawn() -> None:
        process = os.posix_spawn(argv[0], argv, {"PATH": os.defpath})
        assert os.waitpid(process, 0)[1] == 0

    async def once() -> None:
        spawn()

    return once


def _ignore(_: bytes) -> None:
    pass
