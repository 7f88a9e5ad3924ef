"""Registries of tools: define tools one by one, select them by name.

`tool_define` adds to the registry and returns it. `tool_select` makes a new registry and does not
change the old one. An agent takes the tools that a registry has when the agent is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject
from windlass.tools.function import as_tool, tool_from_dict
from windlass.tools.tool import Tool


class ToolRegistry:
    """Tools by name, in order of definition: `for tool in registry`, `registry["add"]`."""

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._added_later: set[str] = set()
        for one in tools:
            self.add(one)

    def add(self, tool: object, *, runtime: bool = False) -> Tool:
        """Add a tool or a function; each name may be used once.

        `runtime` marks a tool that was added while an agent was running: denylists apply to it,
        presets and allowlists do not.
        """
        made = as_tool(tool)
        if made.name in self._tools:
            raise ConfigError(
                f"the registry has a tool {made.name!r} already; give this a new name"
            )
        self._tools[made.name] = made
        if runtime:
            self._added_later.add(made.name)
        return made

    def get(self, name: str) -> Tool | None:
        """Return the tool with this name, or None."""
        return self._tools.get(name)

    def names(self) -> list[str]:
        """List the names, in the order they were defined."""
        return list(self._tools)

    def to_tool_defs(self) -> list[JsonObject]:
        """Describe every tool as a model sees it: name, description, parameters."""
        return [msgspec.to_builtins(one.spec) for one in self._tools.values()]

    def to_runtime_tool_defs(self) -> list[JsonObject]:
        """Describe the tools that were added at run time."""
        return [one for one in self.to_tool_defs() if one["name"] in self._added_later]

    def __getitem__(self, name: str) -> Tool:
        if name not in self._tools:
            raise ConfigError(f"the registry has no tool {name!r}{nearest(name, self._tools)}")
        return self._tools[name]

    def __iter__(self) -> Iterator[Tool]:
        return iter(tuple(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools or any(one is name for one in self._tools.values())

    def __repr__(self) -> str:
        return f"<ToolRegistry {', '.join(self._tools) or 'empty'}>"


def tool_registry(tools: Iterable[Any] = ()) -> ToolRegistry:
    """Create an empty registry of tools: `tools = tool_registry()`."""
    return ToolRegistry(tools)


def tool_define(
    registry: ToolRegistry,
    name: str,
    description: str,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> ToolRegistry:
    """Define a tool in the registry, and return the registry.

    ```python
    tool_define(tools, "deploy", "Deploy to production", parameters={"env": {"type": "string"}},
                returns={"type": "string"}, handler=lambda args: deploy(args["env"]))
    ```
    Options are those of `Tool`: parameters, returns, handler, annotations, timeout, keyed,
    defer_loading, namespace, …. A tool without a handler is run by the host.
    """
    registry.add(
        tool_from_dict({**(options or {}), **more, "name": name, "description": description})
    )
    return registry


def tool_select(registry: ToolRegistry, names: Iterable[str]) -> ToolRegistry:
    """Create a registry with some of the tools: `tool_select(tools, ["run"])`."""
    if isinstance(names, str):
        names = [names]
    chosen = ToolRegistry()
    for name in names:
        found = registry[name]
        chosen.add(found, runtime=found.name in registry._added_later)  # pyright: ignore[reportPrivateUsage]
    return chosen
