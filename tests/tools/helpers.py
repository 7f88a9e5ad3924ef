"""A scope and a context for calling tools without a run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from windlass.tools.tool import ToolContext


class Scope:
    """The part of a run that a tool may reach, and what was done with it."""

    def __init__(self, pool: Executor | None = None) -> None:
        self.pool = pool
        self.cancelled = False
        self.seen: list[Any] = []

    def progress(self, call_id: str, data: Any) -> None:
        self.seen.append((call_id, data))

    def keep_error(self, call_id: str, error: BaseException) -> None:
        self.seen.append((call_id, error))

    async def commit(self, call_id: str, body: Callable[[Any], Any]) -> Any:
        return body("tx")


def context(deps: Any = None, pool: Executor | None = None) -> ToolContext[Any]:
    return ToolContext(deps, "ann", "s1", "r1", "c1", "a tool", Scope(pool))


async def call(tool: Any, /, **arguments: Any) -> Any:
    """Prepare and call a tool as the loop does; assert that it can be prepared."""
    prepared = tool.prepare(arguments)
    assert not prepared.problems, prepared.problems
    return await tool.call(prepared.arguments, context())
