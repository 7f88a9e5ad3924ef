"""Strict schemas: which ones a provider can enforce, and how an answer's is requested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from windlass.json_types import JsonObject, is_object
from windlass.models.base import Settings
from windlass.models.wires.json_values import as_dict, as_list, safe_name

# keywords that OpenAI can enforce; any other makes it refuse the whole request
_WORDS: Final = frozenset(
    "type properties required additionalProperties items anyOf $ref $defs definitions enum const"
    " title description pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"
    " minItems maxItems".split()
)
_SHAPES: Final = ("type", "anyOf", "$ref", "enum", "const")
_DEEPEST: Final = 32


def can_be_strict(schema: Mapping[str, Any]) -> bool:
    """Check whether every object in the schema is closed and requires all its properties.

    `can_be_strict({"type": "object", "properties": {}, "additionalProperties": False})`
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _holds(schema, 0)


def _holds(schema: object, depth: int) -> bool:
    if not is_object(schema) or depth > _DEEPEST:
        return False
    keywords = schema
    if not keywords.keys() <= _WORDS or not any(shape in keywords for shape in _SHAPES):
        return False
    kind: object = keywords.get("type")
    kinds = as_list(kind) or [kind]
    if "object" in kinds or "properties" in keywords:
        named = as_dict(keywords.get("properties"))
        if keywords.get("additionalProperties") is not False:
            return False
        if set(map(str, as_list(keywords.get("required")))) != set(named):
            return False
    if "array" in kinds and "items" not in keywords:
        return False
    inner = [
        *as_dict(keywords.get("properties")).values(),
        *as_dict(keywords.get("$defs")).values(),
        *as_dict(keywords.get("definitions")).values(),
        *as_list(keywords.get("anyOf")),
        *([keywords["items"]] if "items" in keywords else []),
    ]
    return all(_holds(part, depth + 1) for part in inner)


def answer_format(settings: Settings) -> JsonObject | None:
    """Build the Responses format of an answer; Chat Completions wraps the schema again."""
    if settings.schema is not None:
        title = settings.schema.get("title")
        return {
            "type": "json_schema",
            "name": safe_name(title) if isinstance(title, str) and title else "answer",
            "schema": settings.schema,
            "strict": can_be_strict(settings.schema),
        }
    return {"type": "json_object"} if settings.response_format == "json" else None
