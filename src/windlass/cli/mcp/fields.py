"""The fields that an MCP server asks for, put to a person at a terminal."""

from __future__ import annotations

from collections.abc import Mapping

import click
import msgspec

from windlass.cli.text import clean
from windlass.json_types import JsonObject, is_object


def ask_fields(schema: Mapping[str, object] | None) -> JsonObject:
    """Ask for each field of a form; numbers and booleans are read as JSON."""
    fields = (schema or {}).get("properties")
    content: JsonObject = {}
    for name, field in fields.items() if is_object(fields) else ():
        about = field if is_object(field) else {}
        title = clean(f"    {about.get('title', name)}")
        given = click.prompt(title, default=about.get("default"), err=True)
        content[name] = given
        if about.get("type") in ("integer", "number", "boolean"):
            try:
                content[name] = msgspec.json.decode(str(given).lower())
            except msgspec.DecodeError:
                pass  # the server says what is wrong with it
    return content
