"""Interceptors of a run's model and tool calls: a tracer, or a recorded replay.

A run has one at most, and mostly none: then nothing of this is looked at but that it is not there.
"""

from __future__ import annotations

from typing import Any, Protocol

from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.models.base import Emit, Model, Request, Response
from windlass.tools.tool import Parked, Tool, ToolContext


class Around(Protocol):
    """Makes the calls of a run in its place."""

    async def respond(
        self, model: Model, request: Request, emit: Emit, purpose: str | None
    ) -> Response:
        """Answer for the model: `return await model.respond(request, emit)`, or otherwise."""
        ...

    async def call(
        self, tool: Tool, arguments: JsonObject, context: ToolContext[Any]
    ) -> ToolResult | Parked:
        """Answer for the tool: `return await tool.call(arguments, context)`, or otherwise."""
        ...

    def now(self) -> float:
        """Return the time that the model is shown: `seams.now()`, or as recorded."""
        ...
