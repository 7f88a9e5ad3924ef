"""The schema of an answer, from JSON Schema, OpenAPI, the shorthand, or a type.

OpenAPI's own words become JSON Schema's (`nullable`, `example`, `#/components/schemas/…`), and so do
the short names of types (`int`, `bool`, `list`, `dict`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject
from windlass.tools.schema.shape import Convert, Json, Unsupported
from windlass.tools.schema.shorthand import as_schema
from windlass.tools.schema.types import Shapes

WRAPPED: Final = "value"  # the key of an answer that is no object, where only an object will do
_SHORT: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "nil": "null",
}
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_DATA: Final = ("enum", "const", "default", "examples", "required", "type")
_DROPPED: Final = ("discriminator", "xml", "externalDocs", "components", "example", "nullable")
_COMPONENTS: Final = "#/components/schemas/"


def answer_schema(given: Any, option: str = "schema") -> tuple[Json, Convert | None]:
    """Return the JSON Schema, and the conversion of a valid value; None keeps it plain.

    ```python
    answer_schema({"name": "string", "age": "int"})
    answer_schema(list[Invoice])
    ```
    """
    if isinstance(given, Mapping):
        try:
            schema = as_schema(_expand_shorthand(cast("Mapping[str, Any]", given)), option)
            as_object(plain := from_openapi(schema))
        except RecursionError:
            raise ConfigError(f"{option} is nested too deeply") from None
        return plain, None
    shapes = Shapes()
    try:
        if given is None or isinstance(given, (str, bytes, int, float)):
            raise Unsupported(given)
        shape = shapes.of(given)
        return shapes.finish(shape.schema), shape.convert
    except Unsupported as error:
        fix = f"; {error.fix}" if error.fix else ""
        raise ConfigError(
            f"{option} is a JSON Schema, a dict of fields, or a type that has one, "
            f"not {safe_repr(given)}{fix}"
        ) from None
    except ConfigError:
        raise
    except Exception as error:  # an object may raise when it is inspected
        raise ConfigError(f"{option} is a type or a JSON Schema, not {safe_repr(given)}") from error


def _expand_shorthand(given: Mapping[str, Any]) -> JsonObject:
    """Expand the short type names: `{"age": "int"}`."""
    return {
        name: _SHORT.get(value, value) if isinstance(value, str) else value
        for name, value in given.items()
    }


# --------------------------------------------------------------------------- OpenAPI


def from_openapi(schema: Json) -> Json:
    """Convert an OpenAPI schema to JSON Schema."""
    plain = _plain(schema)
    components: Any = schema.get("components")
    named: Any = cast("Json", components).get("schemas") if isinstance(components, dict) else None
    if isinstance(named, dict):
        defs = {name: _plain(one) for name, one in cast("Json", named).items()}
        plain["$defs"] = {**defs, **cast("Json", plain.get("$defs") or {})}
    return plain


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Json", node)
    plain: Json = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            plain[key] = {name: _plain(one) for name, one in cast("Json", value).items()}
        elif key == "$ref" and isinstance(value, str) and value.startswith(_COMPONENTS):
            plain[key] = f"#/$defs/{value.removeprefix(_COMPONENTS)}"
        elif key == "union" and isinstance(value, list):
            plain["anyOf"] = _plain(value)
        elif key in _DATA:
            plain[key] = value
        elif key not in _DROPPED:
            plain[key] = _plain(value)
    _name_types(plain)
    _exclusive(plain)
    if "example" in schema and "examples" not in plain:
        plain["examples"] = [schema["example"]]
    return _nullable(plain) if schema.get("nullable") is True else plain


def _name_types(schema: Json) -> None:
    kind: Any = schema.get("type")
    if isinstance(kind, str):
        schema["type"] = _SHORT.get(kind, kind)
    elif isinstance(kind, list):
        kinds = cast("list[Any]", kind)
        schema["type"] = [_SHORT.get(one, one) if isinstance(one, str) else one for one in kinds]


def _exclusive(schema: Json) -> None:
    """Convert OpenAPI 3.0's boolean for exclusive bounds to JSON Schema's keyword."""
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(flag), bool):
            if schema.pop(flag) and bound in schema:
                schema[flag] = schema.pop(bound)


def _nullable(schema: Json) -> Json:
    kind: Any = schema.get("type")
    if kind is None:
        return {"anyOf": [schema, {"type": "null"}]}
    kinds: list[Any] = [kind] if isinstance(kind, str) else list(kind)
    if "null" not in kinds:
        kinds.append("null")
    schema["type"] = kinds
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


# --------------------------------------------------------------------------- objects only


def as_object(schema: Json) -> tuple[Json, bool]:
    """Return the schema as that of an object, and whether the answer is wrapped in it."""
    top = _written_out(schema)
    if top.get("type") == "object":
        return top, False
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}
    moved = _move_references(inner, lambda ref: _within(ref))
    whole: Json = {
        "type": "object",
        "properties": {WRAPPED: moved},
        "required": [WRAPPED],
        "additionalProperties": False,
    }
    for key in ("$defs", "definitions"):
        if key in schema:
            whole[key] = _move_references(schema[key], lambda ref: _within(ref))
    return whole, True


def _written_out(schema: Json) -> Json:
    """Follow a reference at the top of a schema, and name its obvious type."""
    for _ in range(8):
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith(("#/$defs/", "#/definitions/")):
            break
        _, place, name = ref.split("/", 2)
        target: Any = cast("Json", schema.get(place) or {}).get(name)
        if not isinstance(target, dict):
            break
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**cast("Json", target), **rest}
    if "type" not in schema and isinstance(schema.get("properties"), dict):
        schema = {"type": "object", **schema}
    return schema


def _within(ref: str) -> str:
    """Rewrite a reference for a schema that stands inside another."""
    if not ref.startswith("#") or ref.startswith(("#/$defs/", "#/definitions/")):
        return ref
    return f"#/properties/{WRAPPED}{ref[1:]}"


def _move_references(node: Any, move: Callable[[str], str]) -> Any:
    if isinstance(node, list):
        return [_move_references(item, move) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    return {
        key: move(value)
        if key == "$ref" and isinstance(value, str)
        else value
        if key in ("enum", "const", "default", "examples")
        else _move_references(value, move)
        for key, value in cast("Json", node).items()
    }
