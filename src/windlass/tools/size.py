"""How large a value is once it is written out, each part as often as it is written.

A list that holds one list a thousand times, which holds one list a thousand times, is small in memory
and has no end on paper. What shares nothing is measured level by level, which is quick; the rest part
by part, each of them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, cast

LARGEST = 16 * 1024 * 1024  # characters, about

_NUMBERS = frozenset({int, float, bool, type(None)})
_WORDS = frozenset({str, bytes, bytearray})
_SCALARS = _NUMBERS | _WORDS
_LISTS = frozenset({list, tuple, set, frozenset})
_values = cast("Any", dict).values
_EACH = 4  # characters beside the words of a part


def charge(value: Any, room: int) -> int:
    """The room that is left after the value is written; `OverflowError` when there is none."""
    kind: type = cast("Any", type(value))
    if kind in _NUMBERS:
        left = room - _EACH
    elif kind in _WORDS:
        left = room - len(value)
    else:
        left = _by_levels(value, room)
        if left is None:
            left = room - _by_parts(value, room)
    if left < 0:
        raise OverflowError("too large to be written out")
    return left


def _by_levels(value: Any, room: int) -> int | None:
    """The room left, or None where a container stands in more than one place."""
    level: list[Any] = [value]
    seen: set[int] = set()
    while level:
        items = _items(level)
        room -= _EACH * (len(items) + len(level))
        kinds = set(map(type, items))
        if not kinds.isdisjoint(_WORDS):
            room -= sum([len(item) for item in items if type(item) in _WORDS])
        if room < 0 or kinds <= _SCALARS:
            return room
        level = [item for item in items if type(item) not in _SCALARS]
        ids = set(map(id, level))
        if len(ids) < len(level) or not ids.isdisjoint(seen):
            return None
        seen |= ids
    return room


def _items(level: list[Any]) -> list[Any]:
    """What is directly inside these containers."""
    if len(level) == 1:
        return _inside(level[0])
    kinds = set(map(type, level))
    if kinds == {dict}:
        values: Iterable[Any] = chain.from_iterable(map(_values, level))
        return [*chain.from_iterable(level), *values]
    if kinds <= _LISTS:
        return list(chain.from_iterable(level))
    return list(chain.from_iterable(map(_inside, level)))


def _inside(value: Any) -> list[Any]:
    kind: type = cast("Any", type(value))
    if kind is dict:
        fields = cast("dict[Any, Any]", value)
        return [*fields, *fields.values()]
    if kind in _LISTS:
        return list(cast("Iterable[Any]", value))
    names = fields_of(value)
    return [] if names is None else [*names, *(getattr(value, name, None) for name in names)]


def _by_parts(value: Any, room: int) -> int:
    """The size; more than the room for what holds itself. Each container is measured once."""
    known: dict[int, int] = {}
    stack = [_Measuring(value)]
    while stack:
        top = stack[-1]
        part = next(top.rest, top)
        if part is top:
            stack.pop()
            known[id(top.container)] = top.size
            if stack:
                stack[-1].size += top.size
        elif (size := known.get(id(part))) is not None:
            top.size += size
        else:
            known[id(part)] = room + 1  # until it is measured: inside itself it has no end
            stack.append(_Measuring(part))
        if stack and stack[-1].size > room:
            return room + 1
    return known[id(value)]


class _Measuring:
    __slots__ = ("container", "rest", "size")

    def __init__(self, container: Any) -> None:
        items = _inside(container)
        self.container = container
        self.size = _EACH * (len(items) + 1)
        self.size += sum([len(item) for item in items if type(item) in _WORDS])
        self.rest: Iterator[Any] = iter([item for item in items if type(item) not in _SCALARS])


def fields_of(value: Any) -> list[str] | None:
    """The names of a struct's or dataclass's fields; None for what has none."""
    kind = cast("object", type(value))
    fields = getattr(kind, "__struct_fields__", None)
    if fields is None:
        fields = getattr(kind, "__dataclass_fields__", None)
    return None if fields is None else list(fields)
