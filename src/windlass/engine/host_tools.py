"""What an environment offers to its callers: resources, conversations, and the host's own tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from windlass.access.caller import Caller
from windlass.access.roles import TOOL_GRANT, Roles
from windlass.errors import ConfigError
from windlass.messages import ToolResult
from windlass.redaction.redactor import Redactor
from windlass.resources.conversation_rows import ConversationResource, ConversationTurn
from windlass.resources.registry import Resources
from windlass.resources.resource import Resource
from windlass.resources.service import ResourceService, denial_result
from windlass.store.base import Store
from windlass.tools.function import as_tools
from windlass.tools.middleware.base import ToolWrapper
from windlass.tools.middleware.preview import Rehearsal
from windlass.tools.tool import Parked, Tool, ToolContext


class HostScope(NamedTuple):
    """Values that the tools of a host look up at each call, since they may change."""

    store: Callable[[], Store]
    roles: Callable[[], Roles]
    redactor: Callable[[], Redactor | None]


class HostTools:
    """The resources and tools of one environment, under its roles and in its store."""

    def __init__(
        self,
        scope: HostScope,
        resources: Sequence[type[Resource]] | None,
        tools: Sequence[object] | None,
    ) -> None:
        self._scope, self._classes = scope, resources
        self._tools = [RoleTool(one, scope.roles) for one in as_tools(tools)]
        self._server_tools: list[RoleTool] = []

    @cached_property
    def resources(self) -> Resources:
        """The resources that the roles of the environment govern."""
        return Resources(self._service(self._scope.roles), self._classes)

    @cached_property
    def conversations(self) -> Resources:
        """Conversations and their turns, which belong to whoever began them."""
        return Resources(self._service(Roles), (ConversationResource, ConversationTurn))

    def tools_for(self, caller: Caller | None) -> list[Tool]:
        """Return the verbs of resources and the tools that the caller may call; None may call all."""
        found: list[Tool] = list(self.resources.tools(caller))
        # Also without roles: what is granted during a run holds for its next call.
        for one in (*self._tools, *self._server_tools):
            if caller is None or one.refusal(caller) is None:
                found.append(one)
        names = [tool.name for tool in found]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"two tools of this Runtime are called {twice!r}; rename one")
        return found

    def set_server_tools(self, tools: Sequence[Tool]) -> None:
        """Take over what the MCP servers of the environment offer now."""
        self._server_tools = [RoleTool(one, self._scope.roles) for one in tools]

    def _service(self, roles: Callable[[], Roles]) -> ResourceService:
        return ResourceService(self._scope.store, roles, self._scope.redactor)


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
