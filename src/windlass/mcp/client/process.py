"""A server process below its guard; it can be started before the SDK is loaded."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.mcp.client.servers import McpServer

_GRACE: Final = 2.0  # seconds for a server to end once its input is closed
_GUARD: Final = str(Path(__file__).with_name("guard.py"))


class Process:
    """A running server: its streams, its guard, and the line whose end ends it."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int) -> None:
        self.process, self._lifeline = process, lifeline
        assert process.stdin is not None and process.stdout is not None
        assert process.stderr is not None
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    @property
    def pid(self) -> int:
        """The process id of the guard."""
        return self.process.pid

    def kill(self) -> None:
        """Let the guard end the server and all that it started; may be called at any time."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    async def end(self) -> None:
        """Close the server's input, wait a moment, then have it ended."""
        try:
            with suppress(OSError):
                self.stdin.close()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.process.wait(), _GRACE)
        finally:
            self.kill()
        await self.process.wait()


async def launch(
    server: McpServer,
    environ: Mapping[str, str],
    folder: str,
    learn: Callable[[McpServer], None] | None = None,
) -> Process:
    """Start the process of an entry as it was written, with the variables of an environment."""
    expanded = server.expand(environ, folder)
    if learn is not None:
        learn(expanded)
    return await start_process(expanded, expanded.build_environment(environ), folder)


async def start_process(server: McpServer, environment: Mapping[str, str], folder: str) -> Process:
    """Start the command of a server below its guard."""
    ours, theirs = os.pipe()[::-1]  # the guard reads, we hold the end that is written to
    os.set_inheritable(theirs, True)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", _GUARD, str(theirs), server.command or "", *server.args),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            cwd=os.path.join(folder, server.cwd or ""),
            start_new_session=True,
            pass_fds=(theirs,),
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Process(process, ours)


async def end_all(starts: Collection[asyncio.Task[Process]]) -> None:
    """End processes that were started and are not used, and wait until they are gone."""
    for start in starts:
        start.add_done_callback(kill_started)
    if starts:
        await asyncio.wait(starts)
    for start in starts:
        if not start.cancelled() and start.exception() is None:
            await start.result().process.wait()


def kill_started(start: asyncio.Task[Process]) -> None:
    """End the process of a start that is over, if there is one."""
    if not start.cancelled() and start.exception() is None:
        start.result().kill()
