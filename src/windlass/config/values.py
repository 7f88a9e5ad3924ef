"""Nested tables: merge them, look a path up, and walk over their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from windlass.json_types import JsonObject, is_object


def merge(weaker: JsonObject, stronger: JsonObject) -> JsonObject:
    """Merge two tables and the tables in them; values of the second win."""
    merged = dict(weaker)
    for key, value in stronger.items():
        below = merged.get(key)
        if is_object(below) and is_object(value):
            value = merge(below, value)
        merged[key] = value
    return merged


def holds(data: object, path: tuple[str, ...]) -> bool:
    """Check whether there is a value at this path, or above it one that is no table."""
    for key in path:
        if not is_object(data):
            return True
        if key not in data:
            return False
        data = data[key]
    return True


def leaves(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value that is no table, with its path."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        for name, encoded in names:
            yield from leaves(getattr(value, name), (*path, encoded))
    elif is_object(value) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    else:
        yield path, value
