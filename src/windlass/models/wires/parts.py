"""Parts of a request that several wires share."""

from __future__ import annotations

import base64
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from windlass.errors import ConfigError
from windlass.json_types import JsonObject, is_list, is_object, is_sequence
from windlass.messages import Document, Image, ToolResult
from windlass.models.base import Frame, Settings

Choice: TypeAlias = Literal["auto", "none", "required", "tool"]
_TEXT_LIKE: Final = ("text/", "application/json", "application/xml")


def set_given(body: JsonObject, **values: Any) -> None:
    """Set the values that are not None."""
    body.update({key: value for key, value in values.items() if value is not None})


_GROW: Final = ("tools", "include")
_MEET: Final = ("reasoning", "thinking", "chat_template_kwargs", "stream_options", "text")


def join(body: JsonObject, extra: JsonObject) -> None:
    """Merge the user's own fields: extend tool lists, merge some objects, replace the rest."""
    for key, value in extra.items():
        known = body.get(key)
        if key in _GROW and is_list(known) and is_sequence(value):
            before = known
            more = [item for item in value if item not in before]
            body[key] = [*before, *more]
        elif key in _MEET and is_object(known) and is_object(value):
            body[key] = {**known, **value}
        else:
            body[key] = value


def schema(parameters: JsonObject) -> JsonObject:
    """Return a tool's schema as an object schema, which providers require."""
    if parameters.get("type") == "object":
        return parameters
    return {"type": "object", "properties": {}, **parameters}


def said_error(result: ToolResult) -> str:
    """Return a result's text, marked as an error for wires without an error field."""
    text = result.text
    if result.is_error and not text.lower().startswith("error"):
        return f"Error: {text}"
    return text


def inline(file: Image | Document) -> tuple[str, str] | None:
    """Return media type and base64 of a file held inline, also in a `data:` URL."""
    if file.url is None:
        return file.media_type, file.data or ""
    if not file.url.startswith("data:"):
        return None
    head, _, data = file.url[5:].partition(",")
    if not head.endswith(";base64"):
        data = base64.b64encode(unquote_to_bytes(data)).decode()
    return head.partition(";")[0] or file.media_type, data


def readable(document: Document) -> str | None:
    """Return the text of a text document under its title; None for any other."""
    if document.url is not None or not document.media_type.startswith(_TEXT_LIKE):
        return None
    text = base64.b64decode(document.data or "").decode("utf-8", "replace")
    return f"{document.title}:\n{text}" if document.title else text


def wanted_tool(settings: Settings, frame: Frame) -> tuple[Choice | None, str]:
    """Return what `tool_choice` asks for, and the name where it asks for one tool."""
    match asked := settings.tool_choice:
        case None | "auto" | "none" | "required":
            return asked, ""
        case "any":
            return "required", ""
        case {"name": str(name)}:
            return "tool", name
        case str(name) if any(tool.name == name for tool in frame.tools):
            return "tool", name
        case _:
            raise ConfigError(
                f"tool_choice is 'auto', 'none', 'required' or {{'name': …}}, not {asked!r}"
            )
