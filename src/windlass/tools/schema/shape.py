"""The shape of a type: a JSON Schema, and the conversion from JSON to the type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from windlass.json_types import JsonObject

Json: TypeAlias = JsonObject
Convert: TypeAlias = Callable[[Any], Any]


class Unsupported(Exception):
    """A type without a JSON Schema. `fix` tells what to write instead."""

    def __init__(self, hint: object, fix: str = "") -> None:
        super().__init__(hint, fix)
        self.hint, self.fix = hint, fix


class Mismatch(ValueError):
    """A value that fits the schema but not the type: where, and why."""

    def __init__(self, found: Iterable[tuple[tuple[Any, ...], str]]) -> None:
        self.found = list(found)
        super().__init__("; ".join(message for _, message in self.found))

    @classmethod
    def at(cls, key: object, error: Exception) -> Mismatch:
        """Prefix the paths of an error with a key."""
        inner = error.found if isinstance(error, Mismatch) else [((), str(error) or repr(error))]
        return cls([((key, *path), message) for path, message in inner])


class Shape:
    """`schema` is what a model sees; `convert` turns JSON into the type, None: it is one."""

    __slots__ = ("convert", "schema")

    def __init__(self, schema: Json, convert: Convert | None = None) -> None:
        self.schema, self.convert = schema, convert

    def described(self, words: str) -> Shape:
        """Return the shape with a description."""
        return Shape({**self.schema, "description": words}, self.convert)
