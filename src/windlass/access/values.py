"""Every value in the arguments of a call, and the spellings of those that are no text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, cast

from windlass.json_types import is_mapping

MANY: Final = 200  # values; a path among them is followed in some 30 µs


def iterate_values(value: object) -> Iterator[object]:
    """Yield every value in a value at any depth, with the keys of objects."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if is_mapping(one):
            for key, inner in one.items():
                waiting += (inner, key)
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting += one
        else:
            yield one


def has_many_values(value: object) -> bool:
    """Check whether comparing all values would block the event loop."""
    return next(islice(iterate_values(value), MANY, None), None) is not None


def spell_scalar(value: object) -> tuple[str, ...]:
    """Return the spellings of a value that is no text, in JSON and in Python."""
    if value is None:
        return ("null", "None")
    if isinstance(value, bool):
        return ("true", "True") if value else ("false", "False")
    if isinstance(value, float) and value.is_integer():
        return (repr(value), str(int(value)))
    if isinstance(value, bytes):
        return (value.decode(errors="replace"),)
    try:
        return (str(value),)
    except ValueError:  # more digits than Python writes
        return (hex(cast("int", value)),)
