"""Tools with calls that are runs of an agent."""

from __future__ import annotations

from windlass.tools.middleware.base import ToolWrapper
from windlass.tools.tool import Tool


class AgentTool(Tool):
    """A tool whose calls are runs of an agent, in which its effects are decided on."""

    __slots__ = ()


def delegates(tool: Tool) -> bool:
    """Check whether the tool, under any wrappers, hands its work to an agent."""
    while isinstance(tool, ToolWrapper):
        tool = tool.inner
    return isinstance(tool, AgentTool)
