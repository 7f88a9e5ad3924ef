"""The base of tools around a tool: the same for a model and for the gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.tools.middleware.preview import Rehearsal
from windlass.tools.tool import (
    Parked,
    PreparedArguments,
    Tool,
    ToolContext,
    Validation,
)

_SAME = tuple(name for name in Tool.__slots__ if not name.startswith("__"))


class ToolWrapper(Tool):
    """A tool that holds another; what it does not change is the other's."""

    __slots__ = ("inner",)

    def __init__(self, inner: Tool) -> None:
        for name in _SAME:
            setattr(self, name, getattr(inner, name))
        self.inner = inner

    def prepare(self, arguments: JsonObject, mode: Validation = "strict") -> PreparedArguments:
        """Prepare the arguments with the held tool: what is approved is what it gets."""
        return self.inner.prepare(arguments, mode)

    async def call(self, arguments: JsonObject, ctx: ToolContext[Any]) -> ToolResult | Parked:
        """Call the held tool."""
        return await self.inner.call(arguments, ctx)

    async def rehearse(
        self, arguments: JsonObject, ctx: ToolContext[Any], earlier: Sequence[Rehearsal]
    ) -> Rehearsal | None:
        """Preview the call with the held tool."""
        return await self.inner.rehearse(arguments, ctx, earlier)
