"""JSON values of replies and requests that wires share, and names that every provider takes.

A reply may hold anything anywhere; what reads it takes it for what it should be, or for nothing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit

import msgspec

from windlass import seams
from windlass.errors import ConfigError
from windlass.json_types import JsonObject, is_list, is_object, is_sequence
from windlass.messages import Document, Image, ToolResult
from windlass.models.base import Frame, Settings

_read: Callable[[bytes], Any] = msgspec.json.Decoder().decode


def loads(data: bytes) -> Any:
    """Parse JSON, also where the bytes are no valid Unicode; raise `ValueError` otherwise.

    `RecursionError` is one of the ways in which a reply is no JSON.
    """
    try:
        return _read(data)
    except (ValueError, RecursionError):
        return _valid(json.loads(data.decode("utf-8", "replace"), strict=False))


def arguments(raw: object) -> tuple[JsonObject, str | None]:
    """Parse a call's arguments; return also their text where they are no JSON object.

    Nothing, `null`, `""` and `"{}"` all mean no arguments; an object that was encoded twice is
    decoded twice.
    """
    if is_object(raw):
        return raw, None
    if raw is None:
        return {}, None
    if not isinstance(raw, str):
        return {}, dumps(raw).decode()
    value: object = raw
    for _ in range(2):
        if isinstance(value, str):
            if not value.strip():
                return {}, None
            value = _parse_json(value)
    if is_object(value):
        return value, None
    return ({}, None) if value is None else ({}, raw)


def _parse_json(text: str) -> object:
    """Parse JSON text; return `NotImplemented` where it is none."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):  # half a surrogate pair is a ValueError too
        pass
    try:
        # models forget to escape line breaks inside strings; NaN is no value for a tool
        return _valid(json.loads(text, strict=False, parse_constant=_no_constant))
    except (ValueError, RecursionError):
        return NotImplemented


def _no_constant(name: str) -> object:
    raise ValueError(name)


def call_id(given: object) -> str:
    """Return the provider's id of a call, or a new id where it gave none."""
    return given if isinstance(given, str) and given else seams.new_id("call")


def as_dict(value: object) -> JsonObject:
    """Return the object, or an empty one."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[Any]:
    """Return the array, or an empty one."""
    return value if is_list(value) else []


def as_text(value: object) -> str:
    """Return the text, or an empty one."""
    return value if isinstance(value, str) else ""


def amount(value: object) -> float | None:
    """Return an amount in dollars, or None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        return None
    return float(value)


def whole(value: object) -> int:
    """Return a positive count, or 0 for any other value."""
    return value if type(value) is int and value > 0 else 0


def dumps(value: object) -> bytes:
    """Encode anything as JSON, also invalid Unicode and very large numbers."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        plain = msgspec.to_builtins(value)
        return json.dumps(_valid(plain), ensure_ascii=False, separators=(",", ":")).encode()


def _valid(value: object) -> Any:
    """Replace halves of surrogate pairs, which no journal and no wire could carry."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if is_object(value):
        return {_valid(k): _valid(v) for k, v in value.items()}
    if is_sequence(value):
        return [_valid(item) for item in value]
    return value


_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_MARKED: Final = re.compile(r"-x[0-9a-f]{10}\Z")


@lru_cache(maxsize=8192)
def safe_name(name: str, limit: int = 64) -> str:
    """Return a name that every provider takes: itself, or a stem with a hash of the name.

    A function of the name alone, so that a message reads the same in every request. A name that
    already looks marked is marked again, so that two names never meet.
    """
    if len(name) <= limit and _NAME.match(name) and not _MARKED.search(name):
        return name
    mark = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    stem = re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[: limit - 12].strip("_-") or "tool"
    return f"{stem}-x{mark}"


def join_url(base: str, path: str, *, when: Callable[[str], str]) -> str:
    """Join `path` to the URL `base`, whose own path `when` adapts; a query stays last."""
    parts = urlsplit(base)
    own = parts.path.rstrip("/")
    if not own.endswith(path):
        own = when(own) + path
    return urlunsplit((parts.scheme, parts.netloc, own, parts.query, ""))


# --------------------------------------------------------------------------- parts of a request

Choice: TypeAlias = Literal["auto", "none", "required", "tool"]
_TEXT_LIKE: Final = ("text/", "application/json", "application/xml")
_GROW: Final = ("tools", "include")
_MEET: Final = ("reasoning", "thinking", "chat_template_kwargs", "stream_options", "text")


def set_given(body: JsonObject, **values: Any) -> None:
    """Set the values that are not None."""
    body.update({key: value for key, value in values.items() if value is not None})


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
