"""The diff of a call that changes a file, found by the tool's own preview and kept for people.

A tool with the annotation `shows_diff` answers a preview with a text that ends with a unified diff.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from windlass.loop.run import Run
from windlass.messages import ToolCall
from windlass.tools.tool import Tool, ToolContext

SHOWS_DIFF: Final = "shows_diff"
LONGEST: Final = 20_000  # characters of a diff that is kept with a question
_SECONDS: Final = 20.0


async def find_diff(run: Run, tool: Tool, call: ToolCall) -> str | None:
    """Return what a call would change as a unified diff, or why it would fail; None if unknown."""
    if not tool.annotations.get(SHOWS_DIFF):
        return None
    ctx: ToolContext[Any] = ToolContext(
        run.deps, run.caller, run.session_id, run.run_id, call.id, tool.name, run
    )
    try:
        async with asyncio.timeout(_SECONDS):
            seen = await tool.rehearse(call.arguments, ctx, ())
    except TimeoutError:
        return f"no diff: it was not there after {_SECONDS:g} s"
    if seen is None:
        return None
    text = seen.result.text
    return cut_diff(f"no diff: {text}" if seen.result.is_error else extract_diff(text))


def extract_diff(text: str) -> str:
    """Return the unified diff at the end of a tool's answer; "" if it has none."""
    before, mark, rest = text.partition("\n--- ")
    return f"--- {rest}" if mark and before else ""


def cut_diff(diff: str, most: int = LONGEST) -> str | None:
    """Cut a diff after a whole line, with a note of what is missing; None for an empty one."""
    if len(diff) <= most:
        return diff.rstrip("\n") or None
    kept = diff[:most].rpartition("\n")[0] or diff[:most]
    left = diff[len(kept) :].strip("\n").count("\n") + 1
    return f"{kept}\n[… {left:,} more lines]"
