"""Copies of recorded values, which a reader may look at and must not change."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


def detach(value: T) -> T:
    """Copy every dict and list in a value; return it as it is where there is none."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return cast("T", {key: detach(inner) for key, inner in items})
    if isinstance(value, list):
        return cast("T", [detach(inner) for inner in cast("list[Any]", value)])
    if kind is tuple:
        several = cast("tuple[Any, ...]", value)
        made = [detach(inner) for inner in several]
        same = all([new is old for new, old in zip(made, several, strict=True)])
        return value if same else cast("T", tuple(made))
    if isinstance(value, msgspec.Struct):
        return cast("T", _detach_struct(value))
    return value


def _detach_struct(value: msgspec.Struct) -> msgspec.Struct:
    changed: dict[str, Any] = {}
    for name in value.__struct_fields__:
        old = getattr(value, name)
        if type(old) not in _PLAIN and (new := detach(old)) is not old:
            changed[name] = new
    return msgspec.structs.replace(value, **changed) if changed else value
