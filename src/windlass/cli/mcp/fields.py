"""The fields that an MCP server asks for, put to a person at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click
import msgspec

from windlass.cli.text import clean
from windlass.json_types import JsonObject, is_list, is_object
from windlass.loop.form_answer import list_choices

_WORDS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


def ask_fields(schema: Mapping[str, Any] | None) -> JsonObject:
    """Ask for each field of a form; what is not required may be left out with Enter."""
    fields: object = (schema or {}).get("properties")
    needed: object = (schema or {}).get("required")
    content: JsonObject = {}
    for name, field in fields.items() if is_object(fields) else ():
        about = field if is_object(field) else {}
        given = _ask(name, about, is_needed=is_list(needed) and name in needed)
        if given != "":
            content[name] = _read(given, about)
    return content


def _ask(name: str, about: Mapping[str, Any], *, is_needed: bool) -> str:
    title = f"    {about.get('title') or name}"
    if chosen := list_choices(about):
        title += f" ({', '.join(map(str, chosen))})"
    default: object = about.get("default")
    if default is None:
        shown = None if is_needed else ""
    else:
        shown = ", ".join(map(str, default)) if is_list(default) else _write(default)
    return str(click.prompt(clean(title), default=shown, show_default=bool(shown), err=True))


def _write(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _read(given: str, about: Mapping[str, Any]) -> object:
    """Read what was typed as the field wants it; what cannot be read stays a text."""
    kind = about.get("type")
    if kind == "array":
        return [one.strip() for one in given.split(",") if one.strip()]
    if kind == "boolean":
        return _WORDS.get(given.strip().lower(), given)
    if kind in ("integer", "number"):
        try:
            return msgspec.json.decode(given)
        except msgspec.DecodeError:
            return given
    return given
