"""A JSON Schema as Claude's structured output takes it: closed objects, and few words of the language.

What the wire has no word for (a smallest number, a longest text) is told in the description, and
whoever asked for the schema checks the answer against the whole of it.
"""

from __future__ import annotations

from typing import Any, Final, cast

from windlass.errors import ConfigError
from windlass.models.wires.values import dumps

_KEPT: Final = ("title", "enum", "const", "type", "required", "$ref", "default")
_FORMATS: Final = frozenset(
    "date-time time date duration email hostname uri ipv4 ipv6 uuid".split()
)
_SILENT: Final = frozenset({"$schema", "$id", "$comment", "examples", "additionalProperties"})


def closed(schema: dict[str, Any], path: str = "the schema") -> dict[str, Any]:
    """The schema with every object closed: `closed({"type": "object", "properties": {…}})`.

    Raises `ConfigError` for an object whose keys the schema does not name: closed, it could only be
    empty.
    """
    if (problem := open_object(schema, path)) is not None:
        raise ConfigError(
            f"{problem} has keys that the schema does not name, which Claude's structured output"
            " cannot say: name its properties, or make it a list of pairs"
        )
    return _closed(schema)


def open_object(schema: dict[str, Any], path: str = "the schema") -> str | None:
    """Where an object stands that cannot be closed, or None."""
    if _is_object(schema) and not schema.get("properties"):
        free = schema.get("additionalProperties", True)
        if free is not False and not any(word in schema for word in ("$ref", "anyOf", "allOf")):
            if free is True and path == "the schema" and "additionalProperties" not in schema:
                return None  # a tool without arguments says no more than that it takes an object
            return path
    elif isinstance(schema.get("additionalProperties"), dict):
        return path
    for where, part in _parts(schema):
        if (found := open_object(part, f"{path}.{where}")) is not None:
            return found
    return None


def _is_object(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _parts(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The schemas inside, each with where it stands."""
    found: list[tuple[str, object]] = []
    for word in ("properties", "$defs", "definitions"):
        inner = schema.get(word)
        if isinstance(inner, dict):
            found += cast("dict[str, object]", inner).items()
    for word in ("anyOf", "oneOf", "allOf", "prefixItems"):
        inner = schema.get(word)
        if isinstance(inner, list):
            found += [(f"{word}[{at}]", one) for at, one in enumerate(cast("list[object]", inner))]
    found.append(("items", schema.get("items")))
    return [(at, cast("dict[str, Any]", one)) for at, one in found if isinstance(one, dict)]


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    untold: list[str] = []
    for word, value in schema.items():
        match word:
            case "properties" | "$defs" | "definitions":
                inner = cast("dict[str, Any]", value)
                out[word] = {
                    name: _closed(cast("dict[str, Any]", part)) if isinstance(part, dict) else part
                    for name, part in inner.items()
                }
            case "anyOf" | "oneOf" | "allOf":
                inner = [_closed(part) for part in cast("list[dict[str, Any]]", value)]
                out["anyOf" if word == "oneOf" else word] = inner
            case "items" if isinstance(value, dict):
                out[word] = _closed(cast("dict[str, Any]", value))
            case "format" if value in _FORMATS:
                out[word] = value
            case "minItems" if value in (0, 1):
                out[word] = value
            case "description":
                pass
            case _ if word in _KEPT:
                out[word] = value
            case _ if word in _SILENT:
                pass
            case _:
                untold.append(f"{word}: {dumps(value).decode()}")
    told = [str(schema["description"])] if schema.get("description") else []
    if untold:
        told.append(f"({', '.join(untold)})")
    if told:
        out["description"] = " ".join(told)
    if _is_object(schema):
        out.setdefault("properties", {})
        out["additionalProperties"] = False
    return out
