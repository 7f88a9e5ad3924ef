"""The tools `bash`, `bash_output` and `bash_stop`: shell commands in the sandbox of the run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final
from weakref import WeakKeyDictionary

import msgspec

from windlass import seams
from windlass.messages import ToolResult
from windlass.toolbox.options import Sandbox
from windlass.toolbox.output import CappedOutput
from windlass.toolbox.sandbox.launcher import Command, Ended, SandboxFailed
from windlass.toolbox.sandbox.levels import check_level
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.sandbox.session import SandboxSession, SandboxSettings, session_of
from windlass.tools.function import FunctionTool
from windlass.tools.result import refusal
from windlass.tools.roles import Content
from windlass.tools.tool import Retry, Tool, ToolContext

LONGEST_SECONDS: Final = 3600.0
MOST_BACKGROUND: Final = 16  # commands at a time in one run
#: An annotation: the tool runs commands, so that the run ends its sandbox with itself.
USES_SANDBOX: Final = "uses_sandbox"

Seconds = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_SECONDS)]


class _Background(msgspec.Struct, eq=False):
    """A command in the background, and what it wrote."""

    command: Command
    output: CappedOutput
    text: str


class BashTools:
    """The three tools of one agent, which share the background commands of each run."""

    def __init__(self, workspace: Workspace, sandbox: Sandbox) -> None:
        check_level(sandbox.level)
        self.settings = SandboxSettings(workspace, sandbox)
        self._background: WeakKeyDictionary[object, dict[str, _Background]] = WeakKeyDictionary()

    def build(self) -> dict[str, Tool]:
        """Return the tools, by name."""
        sandbox = self.settings.sandbox
        # With a network, or unheld, a command may tell anybody what it reads.
        held = sandbox.level != "none" and not sandbox.network
        annotations = {USES_SANDBOX: True, "result": "untrusted"}
        annotations |= {"contained": True} if held else {"sends_out": True}
        run = FunctionTool(
            self.bash,
            name="bash",
            description=self._describe(),
            kind="execute",
            side_effect_level="process_exec",
            timeout=LONGEST_SECONDS + 60,
            annotations={**annotations, "command_args": ["command"], "path_args": ["cwd"]},
            preview=_preview,
        )
        read = FunctionTool(
            self.bash_output,
            name="bash_output",
            kind="read",
            side_effect_level="read_only",
            annotations={
                USES_SANDBOX: True,
                "result": "untrusted",
                "tool_class": "result_polling",
            },
        )
        stop = FunctionTool(
            self.bash_stop,
            name="bash_stop",
            kind="session_control",
            side_effect_level="process_exec",
            annotations={USES_SANDBOX: True, "result": "untrusted"},
            preview=_preview_stop,
        )
        return {one.name: one for one in (run, read, stop)}

    def _describe(self) -> str:
        sandbox = self.settings.sandbox
        held = {
            "workspace": "It can write in the workspace and in $TMPDIR only.",
            "isolated": "It sees the workspace and the system's programs only.",
            "none": "",
        }[sandbox.level]
        net = "" if sandbox.network or sandbox.level == "none" else " There is no network."
        words = inspect.getdoc(type(self).bash) or ""
        return f"{words.partition(chr(10))[0]} {held}{net}".strip()

    async def bash(
        self,
        ctx: ToolContext[Any],
        command: Annotated[str, Content, "the command line, for bash"],
        timeout: Annotated[Seconds, Content, "seconds until it is killed"] = 30,
        cwd: Annotated[str | None, Content, "a folder of the workspace to run in"] = None,
        background: Annotated[
            bool, Content, "return a handle at once; see bash_output, bash_stop"
        ] = False,
    ) -> ToolResult | str:
        """Run a shell command in the workspace and return its output and exit code."""
        session = session_of(ctx.scope, self.settings)
        if background:
            return await self._start_in_background(session, ctx.scope, command, cwd)
        output = CappedOutput(lambda text: ctx.progress({"output": text}))
        try:
            started = await session.start(command, output.hear, cwd)
        except SandboxFailed as error:
            raise Retry(str(error)) from None
        seams.point("bash.started")
        try:
            ended = await wait_until(started, timeout)
        finally:
            session.forget(started)
        output.end()
        if ended is None:
            return refusal(
                f"{output.text}\n[killed with all its children: not done after {timeout:g} seconds; "
                "give a longer timeout, or background=true]".lstrip()
            )
        return describe_end(ended, output.text)

    async def _start_in_background(
        self, session: SandboxSession, scope: object, command: str, cwd: str | None
    ) -> str:
        mine = self._background.setdefault(scope, {})
        running = [handle for handle, one in mine.items() if one.command.outcome is None]
        if len(running) >= MOST_BACKGROUND:
            raise Retry(f"{MOST_BACKGROUND} commands run already; stop one with bash_stop")
        output = CappedOutput()
        try:
            started = await session.start(command, output.hear, cwd)
        except SandboxFailed as error:
            raise Retry(str(error)) from None
        handle = f"bash_{len(mine) + 1}"
        mine[handle] = _Background(started, output, command)
        return (
            f"Started as {handle}. bash_output(handle={handle!r}) shows what it writes, "
            f"bash_stop(handle={handle!r}) ends it; it ends with this run."
        )

    async def bash_output(
        self,
        ctx: ToolContext[Any],
        handle: Annotated[str, Content, "what bash returned"],
        since: Annotated[int, Content, msgspec.Meta(ge=0), "characters that are known already"] = 0,
    ) -> str:
        """Show the output of a background command, and whether it still runs."""
        one = self._find(ctx.scope, handle)
        state = "it runs" if one.command.outcome is None else _name_end(one.command.outcome)
        text = one.output.since(since)
        return f"{text}\n[{handle}: {state}; since={one.output.total}]".lstrip("\n")

    async def bash_stop(
        self, ctx: ToolContext[Any], handle: Annotated[str, Content, "what bash returned"]
    ) -> str:
        """Stop a background command and all that it started."""
        one = self._find(ctx.scope, handle)
        was_running = one.command.outcome is None
        one.command.kill()
        ended = await one.command.wait()
        state = "stopped" if was_running else f"ended before: {_name_end(ended)}"
        return f"{one.output.text}\n[{handle}: {state}]".lstrip("\n")

    def _find(self, scope: object, handle: str) -> _Background:
        mine = self._background.get(scope, {})
        found = mine.get(handle)
        if found is None:
            known = ", ".join(mine) or "none was started; commands end with the run that began them"
            raise Retry(
                f"there is no background command {handle[:80]!r} in this run; known: {known}"
            )
        return found


async def wait_until(command: Command, seconds: float) -> Ended | None:
    """Wait for a command; kill it after so many seconds (None), or when this is cancelled."""
    try:
        async with asyncio.timeout(seconds):
            return await command.wait()
    except TimeoutError:
        await _kill(command)
        return None
    except asyncio.CancelledError:
        await _kill(command)
        raise


async def _kill(command: Command) -> None:
    """Kill a command and wait until nothing of it is left, also if this is cancelled again."""
    command.kill()
    gone = asyncio.ensure_future(command.wait())
    cancelled = False
    while not gone.done():
        try:
            await asyncio.shield(gone)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


def describe_end(ended: Ended, text: str) -> ToolResult | str:
    """Return the result of a command that ended by itself."""
    if ended.problem is not None:
        return refusal(f"{text}\n[not executed: {ended.problem}]".lstrip())
    if ended.code == 0:
        return text or "[no output]"
    return f"{text}\n[{_name_end(ended)}]".lstrip("\n")


def _name_end(ended: Ended) -> str:
    if ended.problem is not None:
        return f"not executed: {ended.problem}"
    if ended.code is None:
        return "killed"
    return f"exit code {ended.code}" if ended.code >= 0 else f"killed by signal {-ended.code}"


def _preview(args: dict[str, object]) -> str:
    return f"would run: {args.get('command')}"


def _preview_stop(args: dict[str, object]) -> str:
    return f"would stop {args.get('handle')}"


async def run_check(
    settings: SandboxSettings, run: object, command: str, seconds: float
) -> str | None:
    """Run a command that looks at finished work; return what it wrote if it failed, else None."""
    output = CappedOutput(head=2_000, tail=4_000)
    session = session_of(run, settings)
    started = await session.start(command, output.hear)
    try:
        ended = await wait_until(started, seconds)
    finally:
        session.forget(started)
    output.end()
    if ended is None:
        return f"{output.text}\n[not done after {seconds:g} seconds]"
    if ended.code == 0 and ended.problem is None:
        return None
    return f"{output.text}\n[{_name_end(ended)}]".lstrip("\n")


BuildTools = Callable[[Workspace, Sandbox], dict[str, Tool]]


def build_bash_tools(workspace: Workspace, sandbox: Sandbox) -> dict[str, Tool]:
    """Return the tools of commands for an agent, by name; `ConfigError` if the level cannot be had."""
    return BashTools(workspace, sandbox).build()
