"""Requests for an answer of a known shape, by the best means that a model has.

The means, the best first: the provider's own schema, a tool that takes the answer as its arguments,
the provider's JSON mode, and instructions. Single calls and judges use this.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from windlass.json_types import JsonObject
from windlass.messages import ToolSpec
from windlass.models.base import Frame
from windlass.models.registry.capabilities import Capabilities, Means
from windlass.models.wrappers.adapt import IN_WORDS, takes_schema

TOOL: Final = "give_answer"
_ANY_JSON: Final = "Answer with JSON and with nothing else: no words around it, no code fence."
_BY_TOOL: Final = "When you have the answer, give it by calling the tool {tool}, not in words."


def means_of(caps: Capabilities, frame: Frame, schema: JsonObject) -> Means:
    """Choose the best means to an answer of this schema, given the rest of the frame."""
    for means in caps.structured:
        if means == "schema" and not takes_schema(caps, schema, bool(frame.tools)):
            continue
        if means == "tool" and not caps.native_tools:
            continue
        return means
    return "prompt"


def can_force_call(caps: Capabilities, frame: Frame) -> bool:
    """Check whether the model can be forced to call a tool; Claude cannot while it thinks."""
    asked = frame.settings.thinking
    off = asked is None or asked is False
    if isinstance(asked, dict):
        off = "disabled" in (asked.get("mode"), asked.get("type"))
    return not (caps.lowering == "claude" and (caps.always_thinks or not off))


def free_name(frame: Frame, name: str = TOOL) -> str:
    """Return a tool name that no other tool has."""
    names = {tool.name for tool in frame.tools}
    while name in names:
        name += "_"
    return name


def asking(
    frame: Frame, means: Means, schema: JsonObject | None, tool: str = TOOL, *, force: bool
) -> Frame:
    """Build the frame that asks for an answer of this schema, or for any JSON if None."""
    settings = frame.settings
    match means:
        case "schema":
            settings = msgspec.structs.replace(settings, schema=schema)
            return msgspec.structs.replace(frame, settings=settings)
        case "tool":
            return _by_tool(frame, schema or {}, tool, force)
        case "json":
            settings = msgspec.structs.replace(settings, response_format="json")
        case "prompt":
            pass
    instruction = _ANY_JSON
    if schema is not None:
        instruction = IN_WORDS.format(schema=msgspec.json.encode(schema).decode())
    return Frame(_also(frame.system, instruction), frame.tools, settings)


def _by_tool(frame: Frame, schema: JsonObject, tool: str, force: bool) -> Frame:
    spec = ToolSpec(tool, "Give the answer to what was asked.", schema)
    choice: Any = "required" if frame.tools else {"name": tool}
    if frame.settings.tool_choice == "none":
        choice = {"name": tool}
    system = frame.system
    if not force:
        choice, system = "auto", _also(system, _BY_TOOL.format(tool=tool))
    settings = msgspec.structs.replace(frame.settings, tool_choice=choice)
    return Frame(system, (*frame.tools, spec), settings)


def _also(system: str | None, text: str) -> str:
    return f"{system}\n\n{text}" if system else text
