"""Definitions inlined where they are used: models read schemas best without references.

A definition that is used once stands where it was referred to; one that is used more often, or
that refers to itself, stays in `$defs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

from windlass.json_types import is_list, is_object
from windlass.tools.schema.shape import Json

PREFIX = "#/$defs/"
_DATA = ("enum", "const", "default", "examples")  # values, not schemas
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")


def inline(schema: Json, defs: dict[str, Json]) -> Json:
    """Copy the schema so that it is complete in itself."""
    if not defs:
        return cast("Json", _copy(schema, lambda _: None))
    uses = Counter(_refs(schema))
    seen: set[str] = set()
    todo = list(uses)
    while todo:  # only what can be reached counts
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            inner = list(_refs(defs[name]))
            uses.update(inner)
            todo += inner
    kept = {name for name in seen if uses[name] > 1 or _reaches(name, name, defs)}
    if schema.get("$ref", "")[len(PREFIX) :] in kept:
        # a top-level reference is always written out: providers want an object there
        top = defs[schema["$ref"][len(PREFIX) :]]
        schema = {**top, **{key: value for key, value in schema.items() if key != "$ref"}}

    def replacement(name: str) -> Json | None:
        return None if name in kept else defs[name]

    whole = cast("Json", _copy(schema, replacement))
    still = {name for name in kept if name in set(_all_refs(whole, defs))}
    if still:
        whole["$defs"] = {name: _copy(defs[name], replacement) for name in sorted(still)}
    return whole


def rename(node: object, names: dict[str, str]) -> Any:
    """Copy a schema with references renamed."""
    if is_object(node):
        items = node.items()
        return {key: rename(value, names) for key, value in items}
    if is_list(node):
        return [rename(item, names) for item in node]
    if isinstance(node, str) and node.startswith(PREFIX):
        return PREFIX + names.get(node[len(PREFIX) :], node[len(PREFIX) :])
    return node


def _refs(node: object) -> Iterator[str]:
    if is_object(node):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str) and value.startswith(PREFIX):
                yield value[len(PREFIX) :]
            elif key in _MAPS and is_object(value):  # names of the user's choice
                for one in value.values():
                    yield from _refs(one)
            elif key == "discriminator":  # its mapping names definitions, so they must stay
                yield from (name for _ in range(2) for name in _mapped_definitions(value))
            elif key not in _DATA:
                yield from _refs(value)
    elif is_list(node):
        for item in node:
            yield from _refs(item)


def _mapped_definitions(discriminator: object) -> Iterator[str]:
    if is_object(discriminator):
        mapping = discriminator.get("mapping")
        if is_object(mapping):
            for value in mapping.values():
                if isinstance(value, str) and value.startswith(PREFIX):
                    yield value[len(PREFIX) :]


def _all_refs(schema: Json, defs: dict[str, Json]) -> set[str]:
    found: set[str] = set()
    todo = list(_refs(schema))
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _refs(defs[name])
    return found


def _reaches(start: str, goal: str, defs: dict[str, Json]) -> bool:
    return goal in _all_refs(defs[start], defs)


def _copy(node: object, replacement: Callable[[str], Json | None]) -> Any:
    if is_object(node):
        schema = node
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref.startswith(PREFIX):
            target = replacement(ref[len(PREFIX) :])
            if target is not None:
                beside = {key: value for key, value in schema.items() if key != "$ref"}
                return _copy({**target, **beside}, replacement)
        return {key: _copy(value, replacement) for key, value in schema.items()}
    if is_list(node):
        return [_copy(item, replacement) for item in node]
    return node
