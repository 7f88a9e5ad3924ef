"""Names for JSON values: what tool arguments, schemas and requests of providers are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import TypeIs

#: A JSON object: `{"city": "Oslo", "days": 3}`.
JsonObject: TypeAlias = dict[str, Any]
#: Any JSON value. `isinstance(value, dict)` narrows it to an object with JSON values.
JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"


def is_object(value: object) -> TypeIs[JsonObject]:
    """Check whether decoded JSON is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeIs[list[Any]]:
    """Check whether a value is a list."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeIs[list[Any] | tuple[Any, ...]]:
    """Check whether a value is a list or a tuple."""
    return isinstance(value, (list, tuple))


def is_mapping(value: object) -> TypeIs[Mapping[Any, Any]]:
    """Check whether a value is a mapping, with any keys."""
    return isinstance(value, Mapping)


def is_iterable(value: object) -> TypeIs[Iterable[Any]]:
    """Check whether a value can be iterated over."""
    return isinstance(value, Iterable)


def as_object(value: object) -> JsonObject:
    """Return decoded JSON if it is an object, else an empty one."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[Any]:
    """Return decoded JSON if it is a list, else an empty one."""
    return value if is_list(value) else []


def as_given(value: object) -> object:
    """Return a value without its type: a user may pass what the annotation does not allow."""
    return value
