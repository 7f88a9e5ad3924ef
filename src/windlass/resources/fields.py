"""Fields of a resource as columns: how values are stored, read and queried.

What a column stores is the same on every database: text, whole numbers, floating-point numbers and
bytes. Times are text in UTC of a fixed width, so that they sort as they should.
"""

from __future__ import annotations

import base64
import enum
import math
import re
import types
import typing
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

import msgspec

from windlass.errors import ConfigError, InvalidValue, safe_repr
from windlass.json_types import JsonObject
from windlass.tools.schema.shape import Unsupported
from windlass.tools.schema.types import Shapes

Kind: TypeAlias = Literal[
    "text",
    "integer",
    "number",
    "boolean",
    "bytes",
    "datetime",
    "date",
    "time",
    "decimal",
    "uuid",
    "json",
]
_ORDER = ("eq", "ne", "lt", "lte", "gt", "gte", "in", "is_null")
_SAME = ("eq", "ne", "in", "is_null")
OPERATORS: dict[Kind, tuple[str, ...]] = {
    "text": (*_ORDER, "contains", "prefix"),
    "integer": _ORDER,
    "number": _ORDER,
    "boolean": ("eq", "ne", "is_null"),
    "bytes": ("eq", "ne", "is_null"),
    "datetime": _ORDER,
    "date": _ORDER,
    "time": _ORDER,
    "decimal": _SAME,  # kept as text, which does not sort like a number
    "uuid": _SAME,
    "json": ("is_null",),
}
SORTED: frozenset[Kind] = frozenset(
    ("text", "integer", "number", "boolean", "datetime", "date", "time")
)
_TYPES: dict[type[Any], Kind] = {
    str: "text",
    bool: "boolean",
    int: "integer",
    float: "number",
    bytes: "bytes",
    datetime: "datetime",
    date: "date",
    time: "time",
    Decimal: "decimal",
    UUID: "uuid",
}
_DIGITS = 60  # of a Decimal on either side of its point: more is an attack, not a price
MOST_INTEGER = 2**63 - 1
MOST_NESTED = 200  # levels of a JSON value; every Python can read so many


class Column(msgspec.Struct, frozen=True):
    """Special properties of a field; made by `w.field`."""

    index: bool = False
    unique: bool = False
    description: str | None = None
    private: bool = False


def field(
    *,
    index: bool = False,
    unique: bool = False,
    description: str | None = None,
    private: bool = False,
) -> Any:
    """Describe a field of a `Resource` beyond its type.

    ```python
    class Product(w.Resource):
        id: str
        sku: Annotated[str, w.field(unique=True, description="as printed on the box")]
        stock: Annotated[int, w.field(index=True)] = 0
    ```
    `unique` is within a tenant. The audit log does not contain values of a `private` field, only
    that they changed.
    """
    for name, value in (("index", index), ("unique", unique), ("private", private)):
        if not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"field({name}=…) is True or False, not {safe_repr(value)}")
    return Column(index, unique, description, private)


class Field(msgspec.Struct, frozen=True):
    """A compiled field: everything about it was looked up once."""

    name: str
    kind: Kind
    nullable: bool
    hint: Any  # as written
    bare: Any  # without None and the annotations of the type
    required: bool
    default: Callable[[], Any] | None
    column: Column
    to_db: Callable[[Any], Any]
    from_db: Callable[[Any], Any] | None  # None: what is stored is what JSON shows

    @property
    def operators(self) -> tuple[str, ...]:
        """The comparison operators that the field allows."""
        return OPERATORS[self.kind]

    def schema(self, shapes: Shapes, *, bare: bool = False) -> JsonObject:
        """Build the field's JSON Schema."""
        try:
            schema = dict(shapes.of(self.bare if bare else self.hint).schema)
        except Unsupported as error:
            fix = (
                error.fix or "use a JSON type, a date, an Enum, a Literal, a dataclass or a struct"
            )
            raise ConfigError(f"field {self.name!r} has no JSON Schema: {fix}") from None
        if self.column.description and not bare:
            schema["description"] = self.column.description
        return schema

    def to_stored(self, value: object) -> Any:
        """Convert the value to its stored form; None stays None."""
        if value is None:
            return None
        try:
            return self.to_db(value)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidValue(f"{self.name}: {error}") from None

    def to_comparable(self, value: object) -> Any:
        """Convert a value of a filter to its stored form: `where={"price": {"lt": 10}}`."""
        try:
            plain = msgspec.to_builtins(value)
            return self.to_stored(msgspec.convert(plain, self.bare, strict=True))
        except InvalidValue:
            raise
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidValue(f"{self.name}: {error}") from None


def compile_field(
    name: str, hint: object, required: bool, default: Callable[[], Any] | None, label: str
) -> Field:
    """Compile the field of an annotation."""
    column, bare, nullable = _split_hint(hint)
    kind = _kind(bare, name, label)
    to_db, from_db = _WAYS[kind]
    if isinstance(bare, type) and issubclass(bare, enum.Enum):
        to_db = _of_member(to_db)
    return Field(
        name, kind, nullable, hint, bare, required, default, column or Column(), to_db, from_db
    )


def _of_member(to_db: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def to_stored_member(member: enum.Enum) -> Any:
        return to_db(member.value)

    return to_stored_member


def _split_hint(hint: Any) -> tuple[Column | None, Any, bool]:
    """Split a type hint into its column options, the bare type, and whether None is allowed."""
    column: Column | None = None
    nullable = False
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated:
            hint, *beside = typing.get_args(hint)
            column = next((one for one in beside if isinstance(one, Column)), column)
        elif origin is typing.Union or origin is types.UnionType:
            args = typing.get_args(hint)
            left = [arg for arg in args if arg is not type(None)]
            if len(left) == len(args):
                return column, hint, nullable
            nullable = True
            if len(left) > 1:
                return column, typing.Union[tuple(left)], nullable
            hint = left[0]
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            return column, hint, nullable


def _kind(bare: object, name: str, label: str) -> Kind:
    if isinstance(bare, type):
        if bare in _TYPES:
            return _TYPES[bare]
        if issubclass(bare, enum.Enum):
            return _choices([member.value for member in bare], name, label)
    if typing.get_origin(bare) is Literal:
        return _choices(list(typing.get_args(bare)), name, label)
    return "json"


def _choices(values: list[Any], name: str, label: str) -> Kind:
    found: set[type] = set(map(type, values))
    if found == {str}:
        return "text"
    if found == {int}:
        return "integer"
    raise ConfigError(
        f"{label}.{name}: its choices are of several types; use texts only, or whole numbers only"
    )


# --------------------------------------------------------------------------- values


def text(value: str) -> str:
    """Check that every database can hold the text, and return it."""
    if "\0" in value:
        raise ValueError("the text holds a NUL character; leave it out")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("the text holds half a character (a lone surrogate)") from None
    return value


def integer(value: int) -> int:
    """Check that a whole number fits 64 bits, and return it."""
    if not -MOST_INTEGER - 1 <= value <= MOST_INTEGER:
        raise ValueError(f"{safe_repr(value, 40)} does not fit 64 bits")
    return value


def _number(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a number that can be stored")
    return float(value)


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError("give the time zone too, as in 2025-01-31T09:30:00Z")
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _time(value: time) -> str:
    if value.tzinfo is not None:
        raise ValueError("a time of day has no time zone; leave it out")
    return value.isoformat(timespec="microseconds")


def _decimal(value: Decimal) -> str:
    if (
        not value.is_finite()
        or abs(value.adjusted()) > _DIGITS
        or len(value.as_tuple()[1]) > _DIGITS
    ):
        raise ValueError(
            f"{safe_repr(str(value), 40)} is not a decimal number of up to {_DIGITS} digits"
        )
    return format(value.normalize() if value else Decimal(0), "f")


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    if text.count("[") + text.count("{") > MOST_NESTED and _depth(text) > MOST_NESTED:
        raise ValueError(f"is nested too deeply: more than {MOST_NESTED} levels")
    return text


def _depth(text: str) -> int:
    """Compute the nesting depth of a JSON text."""
    depth = most = 0
    for mark in _MARKS.finditer(text):
        if mark[0] in "[{":
            depth += 1
            most = max(most, depth)
        elif mark[0] in "]}":
            depth -= 1
    return most


_MARKS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')


def _base64(value: Any) -> str:
    return base64.b64encode(bytes(value)).decode()


_WAYS: dict[Kind, tuple[Callable[[Any], Any], Callable[[Any], Any] | None]] = {
    "text": (text, None),
    "integer": (integer, None),
    "number": (_number, None),
    "boolean": (int, bool),
    "bytes": (bytes, _base64),
    "datetime": (_moment, None),
    "date": (date.isoformat, None),
    "time": (_time, None),
    "decimal": (_decimal, None),
    "uuid": (str, None),
    "json": (_json, msgspec.json.decode),
}
