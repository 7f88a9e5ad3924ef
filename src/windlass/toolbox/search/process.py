"""Searches in processes of their own: the search process, or ripgrep alone where it is enough."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from windlass.errors import WindlassError
from windlass.json_types import JsonObject
from windlass.toolbox.search.ripgrep import build_arguments, parse_paths

SECONDS = 20.0
_TOOLBOX: Final = Path(__file__).resolve().parent.parent
#: Whether a process can begin in a folder that is known by its descriptor.
_HAS_PROC: Final = os.path.isdir("/proc/self/fd")
# The packages around it are not executed: they would take longer than most searches.
_START: Final = """
import sys
for name, path in zip(("windlass", "windlass.toolbox"), sys.argv[1:]):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [path]
from windlass.toolbox.search.worker import main
main()
"""


class SearchFailed(WindlassError):
    """A search that did not end well, and what to do instead."""


async def run_search(request: JsonObject, descriptors: tuple[int, ...]) -> JsonObject:
    """Have the search process answer a request; `SearchFailed` if it was killed at its limit."""
    if not sys.executable:
        raise SearchFailed("a search needs a Python interpreter to start")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-c", _START, str(_TOOLBOX.parent), str(_TOOLBOX)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        # It stays open: that it is closed tells the process that nobody waits any more. In ASCII,
        # because a pattern may hold half of a surrogate pair.
        process.stdin.write(json.dumps(request).encode() + b"\n")
        output = await process.stdout.read()
        code = await process.wait()
    finally:
        await _end(process)
    if code == -signal.SIGALRM:
        raise SearchFailed(
            f"not done after {request['seconds']:g} seconds: a pattern with nested repeats, such as "
            "(a+)+, can take for ever on one line. Write a simpler pattern, or name a smaller path"
        )
    try:
        answer: JsonObject = msgspec.json.decode(output, type=dict[str, object])
    except msgspec.DecodeError:
        raise SearchFailed(
            f"the search stopped with code {code}: write a simpler pattern, or name a smaller path"
        ) from None
    if "error" in answer:
        raise SearchFailed(str(answer["error"]))
    return answer


async def list_files(ripgrep: str, folder: int, glob: str) -> list[str] | None:
    """Ask ripgrep for the files of an open folder that a glob may mean; None if it cannot say."""
    if not _HAS_PROC:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            *(ripgrep, "--files", *build_arguments(glob), "--", "./"),
            cwd=f"/proc/self/fd/{folder}",
            env={},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise SearchFailed(f"not done after {SECONDS:g} seconds: name a smaller path") from None
    finally:
        await _end(process)
    return parse_paths(output if process.returncode in (0, 1, 2) else None)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a process and what it started, and wait until it is gone, also if this is cancelled."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    await asyncio.shield(asyncio.ensure_future(process.wait()))
