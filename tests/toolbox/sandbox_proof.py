"""The full-size proof of the sandbox: `make prove-sandbox` writes it to bench/SANDBOX.md."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.toolbox import edit_kills, hostile_addresses, hostile_commands, hostile_paths
from tests.toolbox.sandbox_sweep import How, sweep
from tests.toolbox.test_hostile_commands import run_all
from windlass.toolbox.options import Level, Sandbox
from windlass.toolbox.sandbox import launcher
from windlass.toolbox.sandbox.landlock import landlock_abi
from windlass.toolbox.sandbox.levels import find_problem
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.sandbox.session import SandboxSession, SandboxSettings

PATHS = 10_000
CALLS = 1_000
_BAD = ("escape", "blocked", "mount for reading")


def main() -> int:
    """Prove all of it; exit code 1 if anything got out or was left."""
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    print("# What the sandbox was tried with\n")
    print(
        "Written by `make prove-sandbox`; what each level stops is in [the guide](../docs/guides/sandbox.md)."
    )
    print(
        f"Linux {platform.release()} on {platform.machine()}, Landlock ABI {landlock_abi()}, Python ",
        end="",
    )
    print(f"{platform.python_version()}, as {user}. {datetime.now(UTC):%Y-%m-%d}.\n")
    print("| tried | how often | got out, or was left | seconds |\n|---|---|---|---|")
    failed = 0
    for walk in (False, True):
        failed += _prove_paths(walk=walk)
    for level in ("workspace", "isolated"):
        failed += _prove_commands(level)
    for how in ("cancel", "abort", "kill", "timeout"):
        failed += _prove_ends(how)
    failed += _prove_descriptors()
    failed += _prove_edits()
    failed += _prove_addresses()
    return 1 if failed else 0


def _line(name: str, count: int, bad: list[str], began: float) -> int:
    found = "nothing" if not bad else "; ".join(bad)[:2000]
    print(f"| {name} | {count:,} | {found} | {time.monotonic() - began:.0f} |", flush=True)
    return len(bad)


def _prove_paths(*, walk: bool) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        happened: Counter[str] = hostile_paths.run(Path(folder), PATHS, walk=walk)
    bad = [f"{key}: {happened[key]}" for key in happened if any(word in key for word in _BAD)]
    way = "walked" if walk else "openat2"
    name = (
        f"hostile paths ({way}), half of them while a folder is swapped for a link: "
        f"{happened['read']:,} read, {happened['written']:,} written, the rest refused"
    )
    return _line(name, happened["paths"], bad, began)


def _prove_commands(level: Level) -> int:
    began = time.monotonic()
    problem = find_problem(level)
    if problem is not None:
        return _line(f"hostile commands, `{level}`: {problem}", 0, [], began)
    with tempfile.TemporaryDirectory() as folder:
        count, escaped = asyncio.run(run_all(Path(folder), level, everything=True))
    return _line(f"hostile commands, `{level}`", count, [str(one) for one in escaped], began)


def _prove_ends(how: How) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        count, left = sweep(how, Path(folder), every=1)
    word = {"timeout": "time limits of 4 to 120 ms"}.get(how, f"{how} at every step of a run")
    return _line(f"{word} with commands in the foreground and background", count, left, began)


def _prove_descriptors() -> int:
    async def run() -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            session = SandboxSession(SandboxSettings(Workspace(folder), Sandbox()))
            await (await session.start("true", lambda _: None)).wait()
            assert launcher._shared is not None
            watched = ("self", str(launcher._shared.pid))
            before = [len(os.listdir(f"/proc/{one}/fd")) for one in watched]
            for _ in range(CALLS):
                command = await session.start(
                    f"setsid sleep {hostile_commands.MARK} & true", lambda _: None
                )
                await command.wait()
                session.forget(command)
            after = [len(os.listdir(f"/proc/{one}/fd")) for one in watched]
            await session.close()
        left = hostile_commands.left_processes()
        return left if after == before else [*left, f"descriptors {before} -> {after}"]

    began = time.monotonic()
    name = "commands that each leave a process behind: descriptors before and after"
    return _line(name, CALLS, asyncio.run(run()), began)


def _prove_edits() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        count, wrong = edit_kills.sweep(Path(folder), every=1)
    name = "kill at every point of a run that writes and edits files: a file half written, or left"
    return _line(name, count, wrong, began)


def _prove_addresses() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        count, wrong = asyncio.run(hostile_addresses.try_all(Path(folder)))
    return _line("hostile addresses for `fetch_url`: contacted", count, wrong, began)


if __name__ == "__main__":
    sys.exit(main())
