"""Two tools, and what stories about tool calls ask of a run."""

from __future__ import annotations

from typing import Any

import windlass as w
from tests.stories.helpers import kept
from windlass.events import ToolDecided
from windlass.testing import call, scripted


@w.tool(kind="read", side_effect_level="read_only")
async def look(path: str) -> str:
    """Look at a file."""
    return f"contents of {path}"


@w.tool(kind="edit")
async def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


def decisions(out: Any) -> list[tuple[str, str, str]]:
    """List every decision about a call: the tool, the action, the rule."""
    return [(e.tool, e.action, e.rule) for e in out.entries if type(e) is ToolDecided]


async def both(**options: Any) -> Any:
    """Run one turn that looks and writes."""
    model = scripted([call("look", path="a"), call("write", path="b")], "ok")
    out = await w.agent_loop("go", model=model, tools=[look, write], **options)
    assert out.status == "done", out.error
    await kept(out, model)
    return out


def flaky(fails: int, **options: Any) -> tuple[w.Tool, list[int]]:
    """Build a tool that fails some times; the list has the attempts it saw."""
    attempts: list[int] = []

    @w.tool(name="flaky", **options)
    async def flaky_tool(ctx: w.ToolContext[None]) -> str:
        """Works sometimes."""
        attempts.append(ctx.attempt)
        if len(attempts) <= fails:
            raise OSError("try later")
        return "worked"

    return flaky_tool, attempts
