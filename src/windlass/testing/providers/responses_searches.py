"""Searches among deferred tools, as the Responses API reports them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from windlass.json_types import JsonObject, as_list
from windlass.testing.providers.frames import Data

NAME = "tool_search"  # of the call, in a script, that asks the client to search


def before(body: Data, name: str, arguments: JsonObject, mark: str) -> list[Data]:
    """Build the items of a search that must come before a call of this tool."""
    if name == NAME:
        asks = {"type": "tool_search_call", "execution": "client", "status": "completed"}
        return [{"id": f"tsc_{mark}", **asks, "call_id": f"call_{mark}", "arguments": arguments}]
    found = [(tool, space) for tool, space in _tools(body) if tool.get("name") == name]
    if not found or not found[0][0].get("defer_loading") or name in _found_tools(body):
        return []
    tool, space = found[0]
    shared = {"execution": "server", "call_id": None, "status": "completed"}
    path = f"{space['name']}.{name}" if space else name
    tools = [{**space, "tools": [tool]} if space else tool]
    return [
        {"id": f"tsc_{mark}", "type": "tool_search_call", **shared, "arguments": {"paths": [path]}},
        {"id": f"tso_{mark}", "type": "tool_search_output", **shared, "tools": tools},
    ]


def namespace(body: Data, name: str) -> dict[str, str]:
    """Return the namespace field of a call to a found tool."""
    for tool, space in _tools(body):
        if tool.get("name") == name and tool.get("defer_loading"):
            return {"namespace": space["name"] if space else name}
    return {}


def _tools(body: Data) -> Iterator[tuple[Data, Data | None]]:
    for tool in as_list(body.get("tools")):
        if tool.get("type") == "namespace":
            yield from ((inner, tool) for inner in tool["tools"])
        else:
            yield tool, None


def _found_tools(body: Data) -> set[str]:
    """Return the tools that earlier searches have found."""
    names: set[str] = set()
    for item in cast("list[Data]", body["input"]):
        if item.get("type") == "tool_search_output":
            names |= {tool["name"] for tool, _ in _tools(item)}
    return names
