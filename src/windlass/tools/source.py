"""The types of what may stand in a list of tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from windlass.tools.tool import Tool


class ToolSource(Protocol):
    """An object that can become a tool, as an agent does."""

    def as_tool(self) -> Tool:
        """Return the tool."""
        ...


#: A function, a tool, `"module:function"`, a dict of a tool's fields, an agent, or a registry.
ToolLike: TypeAlias = (
    Tool | Callable[..., object] | str | Mapping[str, object] | ToolSource | Iterable[Tool]
)
