"""Tools on OpenAI's two wires, and the provider's search among deferred tools.

A deferred tool is sent along, and the model does not see it until a search finds it. With `hosted`
the provider searches. With `client` it asks the client: the first tool of the frame is the one that searches,
its calls come as `tool_search_call` and its results go back as `tool_search_output`. Such a call is
known by its id, which carries a mark, so that call and result are recognised independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.messages import ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.json_values import (
    as_dict,
    as_list,
    as_text,
    dumps,
    safe_name,
    schema,
)
from windlass.models.wires.schema import can_be_strict

SEARCH_ID: Final = "toolsearch-"  # prefix of the provider's id of a search that the client runs
_SHOWN: Final = 400  # characters of a namespace's description


def chat_tools(frame: Frame, caps: Capabilities) -> list[JsonObject]:
    """Build the tools of a Chat Completions request; routers pass a tool search on."""
    search = _search(frame, ("hosted",))
    tools: list[JsonObject] = [
        {
            "type": "function",
            "function": {
                "name": safe_name(tool.name),
                "description": tool.description,
                "parameters": (parameters := schema(tool.parameters)),
                **({"strict": True} if _strict(tool, parameters, caps) else {}),
            },
            **({"defer_loading": True} if search and tool.defer_loading else {}),
        }
        for tool in frame.tools
    ]
    if search:
        spaces = list(dict.fromkeys(tool.namespace for tool in frame.tools if tool.namespace))
        meta = {"type": "tool_search", "execution": "server"}
        tools.insert(0, {**meta, "namespaces": spaces} if spaces else meta)
    return tools


def responses_tools(frame: Frame, caps: Capabilities) -> list[JsonObject]:
    """Build the tools of a Responses request: the search first, then tools by namespace."""
    search = _search(frame, ("hosted", "client"))
    if search == "client":
        first, *others = frame.tools
        meta = {
            "type": "tool_search",
            "execution": "client",
            "description": first.description,
            "parameters": schema(first.parameters),
        }
        # what is held back comes with the answers of the search
        return [meta, *(function(tool, caps) for tool in others if not tool.defer_loading)]
    if search == "hosted":
        meta = {"type": "tool_search", "execution": "server"}
        return [meta, *_group_by_namespace(frame.tools, caps)]
    return [function(tool, caps) for tool in frame.tools]


def function(tool: ToolSpec, caps: Capabilities, *, deferred: bool = False) -> JsonObject:
    """Build a tool definition of the Responses wire."""
    parameters = schema(tool.parameters)
    return {
        "type": "function",
        "name": safe_name(tool.name),
        "description": tool.description,
        "parameters": parameters,
        # left out it means yes, which few schemas are written for
        "strict": _strict(tool, parameters, caps),
        **({"defer_loading": True} if deferred else {}),
    }


def _strict(tool: ToolSpec, parameters: JsonObject, caps: Capabilities) -> bool:
    return bool(tool.strict) and caps.strict_tools and can_be_strict(parameters)


def _group_by_namespace(tools: Sequence[ToolSpec], caps: Capabilities) -> list[JsonObject]:
    """Group deferred tools by namespace, at the place of its first tool."""
    out: list[JsonObject] = []
    spaces: dict[str, JsonObject] = {}
    for tool in tools:
        written = function(tool, caps, deferred=tool.defer_loading)
        if not (tool.defer_loading and tool.namespace):
            out.append(written)
            continue
        if (space := spaces.get(tool.namespace)) is None:
            same = [t.name for t in tools if t.defer_loading and t.namespace == tool.namespace]
            space = spaces[tool.namespace] = {
                "type": "namespace",
                "name": safe_name(tool.namespace),
                "description": f"{tool.namespace}: {', '.join(same)}"[:_SHOWN],
                "tools": [],
            }
            out.append(space)
        space["tools"].append(written)
    return out


def _search(frame: Frame, known: tuple[str, ...]) -> str | None:
    asked = frame.settings.tool_search
    if asked is None or asked in known:
        return asked
    raise ConfigError(f"tool_search is {' or '.join(map(repr, known))} here, not {asked!r}")


# --------------------------------------------------------------------------- searches that we run


def searches_here(caps: Capabilities) -> bool:
    """Check whether the model supports tool searches that the client runs."""
    return "client" in caps.tool_search


def is_search(id: str) -> bool:
    """Check whether an id belongs to a tool search that the client runs, or to its result."""
    return id.startswith(SEARCH_ID)


def search_call(call: ToolCall) -> JsonObject:
    """Build the item of the model's tool search."""
    return {
        "type": "tool_search_call",
        "call_id": call.id.removeprefix(SEARCH_ID),
        "execution": "client",
        "arguments": call.arguments,
        "status": "completed",
    }


def search_output(result: ToolResult, caps: Capabilities) -> JsonObject:
    """Build the item with the tools found, from what `searches.answer` wrote in the result."""
    try:
        found = as_list(as_dict(msgspec.json.decode(result.text)).get("tools"))
    except (ValueError, RecursionError):
        found = []
    specs = [
        ToolSpec(
            as_text(tool.get("name")),
            as_text(tool.get("description")),
            as_dict(tool.get("parameters")),
            strict=bool(tool.get("strict")),
            defer_loading=True,
            namespace=as_text(tool.get("namespace")) or None,
        )
        for tool in map(as_dict, found)
        if as_text(tool.get("name"))
    ]
    return {
        "type": "tool_search_output",
        "call_id": result.id.removeprefix(SEARCH_ID),
        "execution": "client",
        "status": "completed",
        "tools": _group_by_namespace(specs, caps),
    }


def arguments_text(call: ToolCall) -> str:
    """Encode a call's arguments as both OpenAI wires write them."""
    return dumps(call.arguments).decode()
