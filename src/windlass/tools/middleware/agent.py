"""A tool whose calls are runs of an agent, and how it is recognised."""

from __future__ import annotations

from windlass.tools.middleware.base import ToolWrapper
from windlass.tools.tool import Tool


class AgentTool(Tool):
    """A tool whose calls are runs of an agent: what they do is asked about there."""

    __slots__ = ()


def delegates(tool: Tool) -> bool:
    """Does the tool, whatever is around it, hand its work to an agent?"""
    while isinstance(tool, ToolWrapper):
        tool = tool.inner
    return isinstance(tool, AgentTool)
