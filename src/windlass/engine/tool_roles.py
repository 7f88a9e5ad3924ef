"""Tools of a Runtime that take part in its roles: a call is refused unless a role grants `tool.<name>`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windlass.access.caller import Caller
from windlass.access.roles import TOOL_GRANT, Roles
from windlass.messages import ToolResult
from windlass.resources.service import denial_result
from windlass.tools.middleware.base import ToolWrapper
from windlass.tools.middleware.preview import Rehearsal
from windlass.tools.tool import Parked, Tool, ToolContext


class RoleTool(ToolWrapper):
    """A tool that asks the roles of its Runtime at every call, as a resource's verb does."""

    __slots__ = ("_roles",)

    def __init__(self, inner: Tool, roles: Callable[[], Roles]) -> None:
        super().__init__(inner)
        self._roles = roles

    def refusal(self, caller: Caller) -> str | None:
        """Return why the caller may not call the tool now, or None."""
        return self._roles().refusal(caller, TOOL_GRANT + self.name)

    async def call(self, arguments: dict[str, Any], ctx: ToolContext[Any]) -> ToolResult | Parked:
        """Call the tool, or answer that the caller may not."""
        refused = self.refusal(ctx.caller)
        if refused is not None:
            return denial_result(self.name, refused)
        return await self.inner.call(arguments, ctx)

    async def rehearse(
        self, arguments: dict[str, Any], ctx: ToolContext[Any], earlier: Sequence[Rehearsal]
    ) -> Rehearsal | None:
        """Preview the call, or answer that the caller may not."""
        refused = self.refusal(ctx.caller)
        if refused is not None:
            return Rehearsal(denial_result(self.name, refused))
        return await self.inner.rehearse(arguments, ctx, earlier)
