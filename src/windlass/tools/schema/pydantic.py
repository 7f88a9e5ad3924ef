"""Schemas of pydantic's models, fields and types, built by pydantic itself.

Loaded only when a tool's types are pydantic's, so after the user has imported it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from windlass.json_types import is_list, is_object
from windlass.tools.schema.inline import PREFIX, rename
from windlass.tools.schema.shape import (
    Json,
    Mismatch,
    Shape,
    Unsupported,
)


def pydantic_shape(hint: Any, defs: dict[str, Json], free_name: Callable[[str], str]) -> Shape:
    """Build the shape of a pydantic type; its definitions are added to `defs`."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        schema = adapter.json_schema(ref_template=PREFIX + "{model}")
    except (PydanticUserError, NameError) as error:
        first = str(error).splitlines()[0]
        raise Unsupported(hint, f"pydantic cannot make a schema of it: {first}") from None
    definitions: dict[str, Json] = {
        name: _strip_titles(definition) for name, definition in schema.pop("$defs", {}).items()
    }
    names = {
        name: name if defs.get(name, definition) == definition else free_name(name)
        for name, definition in definitions.items()
    }
    for name, definition in definitions.items():
        defs[names[name]] = rename(definition, names)
    return Shape(rename(_strip_titles(schema), names), _converter(adapter))


def _converter(adapter: TypeAdapter[Any]) -> Callable[[Any], Any]:
    def convert(value: object) -> Any:
        # as JSON, because in pydantic's strict mode only JSON may hold a date as a string
        try:
            return adapter.validate_json(msgspec.json.encode(value))
        except ValidationError as error:
            raise Mismatch(
                (tuple(one["loc"]), one["msg"]) for one in error.errors(include_url=False)
            ) from None

    return convert


def _strip_titles(schema: object) -> Any:
    """Remove the titles that pydantic derives from names, which only cost tokens."""
    if is_list(schema):
        return [_strip_titles(item) for item in schema]
    if not is_object(schema):
        return schema
    plain: Json = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs") and is_object(value):
            plain[key] = {name: _strip_titles(one) for name, one in value.items()}
        elif key in ("default", "enum", "const", "examples"):
            plain[key] = value
        else:
            plain[key] = _strip_titles(value)
    return plain
