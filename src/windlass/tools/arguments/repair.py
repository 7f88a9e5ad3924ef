"""Lenient arguments: repair what is safe to repair, and note what was repaired.

Safe is: a number written as a string where only a number fits, one value where a list is wanted,
and keys nobody knows where the schema forbids them. Whatever is left must still fit the schema.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, cast

from windlass.json_types import JsonObject, is_list, is_object
from windlass.tools.arguments.patterns import may_match

_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_INTEGER = r"-?(?:0|[1-9][0-9]*)"
_MOST_DIGITS = 1000


def mend(arguments: object, schema: JsonObject) -> tuple[Any, tuple[str, ...]]:
    """Return a repaired copy, and a line for each thing that was repaired."""
    notes: list[str] = []
    return _Mender(schema, notes).value(arguments, schema, ()), tuple(notes)


class _Mender:
    def __init__(self, root: JsonObject, notes: list[str]) -> None:
        self.root, self.notes = root, notes

    def value(self, value: object, schema: object, path: tuple[str | int, ...]) -> Any:
        schema = self._resolve_schema(schema, value)
        kinds = _kinds(schema)
        if not kinds and "properties" not in schema:
            return value
        if is_object(value):
            if "object" in kinds or not kinds:
                return self._object(value, schema, path)
        elif is_list(value):
            if "array" in kinds:
                return self._array(value, schema, path)
        elif isinstance(value, str) and "string" not in kinds:
            number = _number(value, kinds)
            if number is not None:
                self._note(path, f"{value!r} was read as {number!r}")
                return number
        if kinds == ["array"] and value is not None and not is_list(value):
            self._note(path, "one value was put in a list")
            return self._array([cast("Any", value)], schema, path)
        return cast("Any", value)

    def _object(
        self, value: JsonObject, schema: JsonObject, path: tuple[str | int, ...]
    ) -> JsonObject:
        properties: JsonObject = schema.get("properties") or {}
        others: Any = schema.get("additionalProperties", True)
        patterns: JsonObject = schema.get("patternProperties") or {}
        mended: JsonObject = {}
        for key, item in value.items():
            if key in properties:
                mended[key] = self.value(item, properties[key], (*path, key))
            elif others is False and not any(may_match(one, key) for one in patterns):
                self._note((*path, key), "was left out: nobody knows it")
            else:
                mended[key] = self.value(item, others, (*path, key))
        return mended

    def _array(
        self, value: list[Any], schema: JsonObject, path: tuple[str | int, ...]
    ) -> list[Any]:
        first: list[Any] = schema.get("prefixItems") or []
        rest: Any = schema.get("items", True)
        return [
            self.value(item, first[index] if index < len(first) else rest, (*path, index))
            for index, item in enumerate(value)
        ]

    def _resolve_schema(self, schema: object, value: object) -> JsonObject:
        """Return the schema behind references, and the only non-null member of a union."""
        for _ in range(32):
            if not is_object(schema):
                return {}
            found = schema
            ref = found.get("$ref")
            choices = found.get("anyOf") or found.get("oneOf")
            if isinstance(ref, str) and ref.startswith("#/"):
                schema = self._target(ref)
            elif is_list(choices) and value is not None:
                open_to = [one for one in choices if one != {"type": "null"}]
                if len(open_to) != 1:
                    return {}  # which was meant is a guess, and a guess is not safe
                schema = open_to[0]
            else:
                return found
        return {}

    def _target(self, ref: str) -> Any:
        node: Any = self.root
        try:
            for step in ref[2:].split("/"):
                node = node[step.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError):
            return {}
        return node

    def _note(self, path: tuple[str | int, ...], what: str) -> None:
        where = "/".join(map(str, path)) or "arguments"
        self.notes.append(f"{where}: {what}" if len(what) < 200 else f"{where}: {what[:200]}…")


def _kinds(schema: JsonObject) -> list[str]:
    kinds: Any = schema.get("type")
    if isinstance(kinds, str):
        return [kinds]
    if not is_list(kinds):
        return []
    return [kind for kind in kinds if kind != "null"]


def _number(text: str, kinds: list[str]) -> int | float | None:
    text = text.strip()
    if len(text) > _MOST_DIGITS:
        return None
    if ("integer" in kinds or "number" in kinds) and re.fullmatch(_INTEGER, text):
        return int(text)
    if "number" in kinds and re.fullmatch(_NUMBER, text):
        number = float(text)
        return number if isfinite(number) else None
    return None
