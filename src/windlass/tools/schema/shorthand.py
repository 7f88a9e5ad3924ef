"""Parameters written by hand: JSON Schema, or the shorthand `{name: {"type": …}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.errors import ConfigError
from windlass.json_types import is_mapping, is_object
from windlass.tools.schema.shape import Json, Unsupported
from windlass.tools.schema.types import Shapes

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


def as_parameters(given: object, label: str) -> Json:
    """Build a complete object schema from either form.

    In the shorthand every parameter is required, unless it has a default or says
    `"required": False`; `{"path": "string"}` is short for `{"path": {"type": "string"}}`.
    """
    if given is None:
        given = {}
    if not is_mapping(given):
        raise ConfigError(
            f"{label}: parameters is a JSON Schema or {{name: {{'type': …}}}}, "
            f"not {type(given).__name__}"
        )
    copy = _copy_schema(given, label)
    return _whole(copy, label) if _is_schema(copy) else _from_shorthand(copy, label)


def as_returns(given: object, label: str) -> Json | None:
    """Build the schema of the answer from JSON Schema or a type."""
    if given is None:
        return None
    if is_mapping(given):
        return _copy_schema(given, label)
    shapes = Shapes()
    try:
        return shapes.finish(shapes.of(given).schema)
    except Unsupported as error:
        raise ConfigError(
            f"{label}: returns is a JSON Schema or a type that has one, not {given!r}"
            + (f"; {error.fix}" if error.fix else "")
        ) from None


def as_schema(given: Mapping[str, Any], label: str) -> Json:
    """Copy a JSON Schema; the shorthand stands for an object."""
    copy = _copy_schema(given, label)
    plain = not copy or isinstance(copy.get("enum"), list) or isinstance(copy.get("not"), dict)
    if plain or ("const" in copy and not isinstance(copy["const"], dict)):
        return copy
    return copy if _is_schema(copy) else _from_shorthand(copy, label)


def _copy_schema(given: Mapping[str, Any], label: str) -> Json:
    try:
        return msgspec.json.decode(msgspec.json.encode(dict(given)))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ConfigError(f"{label}: its JSON Schema is not JSON: {error}") from None


def _is_schema(given: Json) -> bool:
    if isinstance(given.get("type"), (str, list)) and not _only_type_names(given):
        return True
    if any(isinstance(given.get(key), str) for key in ("$ref", "$schema", "$id")):
        return True
    if any(isinstance(given.get(key), list) for key in ("anyOf", "oneOf", "allOf", "required")):
        return True
    if isinstance(given.get("additionalProperties"), bool):
        return True
    properties = given.get("properties")
    return is_object(properties) and all(
        isinstance(value, (dict, bool)) for value in properties.values()
    )


def _only_type_names(given: Json) -> bool:
    """Check for `{"type": "string", "path": "string"}`: two parameters, one called type."""
    return len(given) > 1 and all(
        isinstance(value, str) and value in _TYPES for value in given.values()
    )


def _whole(schema: Json, label: str) -> Json:
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/"):
        node: Any = schema
        for step in ref[2:].split("/"):
            node = node.get(step) if is_object(node) else None
        if is_object(node):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**node, **rest}
    kind = schema.setdefault("type", "object")
    if kind != "object":
        raise ConfigError(
            f"{label}: arguments are always an object, so its parameters cannot have type {kind!r}"
        )
    schema.setdefault("properties", {})
    return schema


def _from_shorthand(given: Json, label: str) -> Json:
    properties: Json = {}
    required: list[str] = []
    for name, one in given.items():
        if isinstance(one, str) and one in _TYPES:
            one = {"type": one}
        if not is_object(one):
            raise ConfigError(
                f"{label}: parameter {name!r} is {one!r}; write a JSON Schema, "
                f"such as {{{name!r}: {{'type': 'string'}}}}"
            )
        schema = one
        needed = schema.get("required")
        if isinstance(needed, bool):
            schema = {key: value for key, value in schema.items() if key != "required"}
        if needed if isinstance(needed, bool) else "default" not in schema:
            required.append(name)
        properties[name] = schema
    whole: Json = {"type": "object", "properties": properties}
    if required:
        whole["required"] = required
    whole["additionalProperties"] = False
    return whole
