"""Unions: one schema for several shapes, and the choice among them for a value.

The first member in the order written that the value fits is the one: `datetime | str` reads a
date where it can, `str | datetime` never does.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from windlass.tools.arguments.validate import Checker
from windlass.tools.schema.shape import (
    Convert,
    Json,
    Mismatch,
    Shape,
)

_KINDS: dict[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number", "integer"),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}


def union(members: list[Shape], defs: dict[str, Json]) -> Shape:
    """Build the shape of `A | B | None`."""
    return Shape(_schema([member.schema for member in members]), _convert(members, defs))


def nullable(schema: Json) -> bool:
    """Check whether null fits already."""
    kinds = schema.get("type", ())
    if not schema or "null" in ([kinds] if isinstance(kinds, str) else kinds):
        return True
    if None in schema.get("enum", ()):
        return True
    return any(nullable(one) for one in schema.get("anyOf", ()))


def _schema(schemas: list[Json]) -> Json:
    different: list[Json] = []
    for schema in schemas:
        if schema not in different:
            different.append(schema)
    if {} in different:
        return {}
    if len(different) == 1:
        return different[0]
    if all(list(schema) == ["type"] and type(schema["type"]) is str for schema in different):
        return {"type": [schema["type"] for schema in different]}
    others = [schema for schema in different if schema != {"type": "null"}]
    if len(others) == 1 and isinstance(others[0].get("type"), str):  # Optional[X]
        [one] = others
        nullable = {**one, "type": [one["type"], "null"]}
        if "enum" in one:
            nullable["enum"] = [*one["enum"], None]
        return nullable
    return {"anyOf": different}


def _convert(members: list[Shape], defs: dict[str, Json]) -> Convert | None:
    if all(member.convert is None for member in members):
        return None
    choices = [_Choice(member, defs) for member in members]

    def convert(value: object) -> Any:
        kinds = _KINDS.get(cast("Any", type(value)), ())
        open_to = [choice for choice in choices if choice.takes(kinds)]
        if len(open_to) == 1:
            return open_to[0].convert(value)
        first: Exception | None = None
        for choice in open_to:
            try:
                if choice.fits(value):
                    return choice.convert(value)
            except Exception as error:
                first = first or error
        raise first or Mismatch([((), "does not fit any of the types allowed here")])

    return convert


class _Choice:
    def __init__(self, shape: Shape, defs: dict[str, Json]) -> None:
        self.shape, self.defs = shape, defs

    def convert(self, value: object) -> Any:
        return self.shape.convert(value) if self.shape.convert else value

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        schema = self.shape.schema
        while isinstance(schema.get("$ref"), str):
            schema = self.defs[schema["$ref"].rpartition("/")[2]]
        kinds = schema.get("type", ())
        return (kinds,) if isinstance(kinds, str) else tuple(cast("list[str]", kinds))

    def takes(self, kinds: tuple[str, ...]) -> bool:
        """Check whether a value of this JSON kind may be meant; no kinds means any."""
        return not self.kinds or not kinds or any(kind in self.kinds for kind in kinds)

    @cached_property
    def _checker(self) -> Checker:
        return Checker({**self.shape.schema, "$defs": self.defs}, "a union")

    def fits(self, value: object) -> bool:
        return self._checker.is_valid(value)
