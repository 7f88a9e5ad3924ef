"""Searches: typed filters, a sort, a limit and a cursor, turned into a statement.

Every name in the statement comes from the class and every value is a parameter. A cursor says where
a page ended; it holds nothing that its caller has not seen, and it is good for the same search of
the same tenant only.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Generic, TypeVar, cast

import msgspec

from windlass.errors import InvalidValue, nearest, safe_repr
from windlass.json_types import JsonObject, is_list, is_mapping, is_sequence
from windlass.resources.fields import MOST_INTEGER, SORTED, Field
from windlass.resources.row import ResourcePlan, quote_identifier

R = TypeVar("R")
LIMIT = 20
MOST_CHOICES = 100  # in one `in`
MOST_SORTS = 4
_MOST_CURSOR = 8192
_SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


class Query(msgspec.Struct, frozen=True):
    """A search: `Query(where={"price": {"lt": 10}}, sort=("-price",), limit=5)`.

    A filter is a value that the field must equal, or operators: `eq ne lt lte gt gte in is_null`,
    and for text `contains` and `prefix`. `-price` sorts in descending order; rows without a value
    come last.
    """

    where: JsonObject = {}
    sort: tuple[str, ...] = ()
    limit: int = LIMIT
    cursor: str | None = None


class Page(msgspec.Struct, Generic[R], frozen=True):
    """A page of rows of a search, and the `cursor` of the next page, if any."""

    rows: list[R]
    cursor: str | None = None

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class Search:
    """A parsed query: statements for its first page and for those after a row."""

    def __init__(self, plan: ResourcePlan, query: Query, tenant: str) -> None:
        self.plan, self.tenant = plan, tenant
        self.limit = _limit(plan, query.limit)
        self._terms, self._values = _filters(plan, query.where)
        self._sorts = _sorts(plan, query.sort)
        self._bound = self._digest()
        self.after = None if query.cursor is None else self._read(query.cursor)

    def statement(self, after: Sequence[Any] | None, rows: int) -> tuple[str, tuple[Any, ...]]:
        """Build the statement for `rows` rows after this one, and its parameters."""
        plan = self.plan
        terms, values = [plan.mine, *self._terms], [*plan.mine_of(self.tenant), *self._values]
        if after is not None:
            term, more = _later(self._sorts, after)
            terms.append(term)
            values += more
        order = ", ".join(
            f"({quote_identifier(one.name)} IS NULL), {quote_identifier(one.name)}{' DESC' if down else ''}"
            if one.nullable
            else f"{quote_identifier(one.name)}{' DESC' if down else ''}"
            for one, down in self._sorts
        )
        sql = f"{plan.select} WHERE {' AND '.join(terms)} ORDER BY {order} LIMIT ?"
        return sql, (*values, rows)

    def place(self, stored: Sequence[Any]) -> tuple[Any, ...]:
        """Return the sort key of a stored row."""
        fields = self.plan.fields
        return tuple(stored[fields.index(one)] for one, _ in self._sorts)

    def cursor(self, place: Sequence[Any]) -> str:
        """Encode the cursor for what follows this sort key."""
        data = msgspec.json.encode([self._bound, list(place)])
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    def _digest(self) -> str:
        about = [
            self.plan.name,
            self.tenant,
            self._terms,
            self._values,
            [(one.name, down) for one, down in self._sorts],
        ]
        return blake2b(msgspec.json.encode(about), digest_size=12).hexdigest()

    def _read(self, cursor: object) -> tuple[Any, ...]:
        wrong = InvalidValue("cursor: it is not one of this search; begin again without a cursor")
        if not isinstance(cursor, str) or len(cursor) > _MOST_CURSOR:
            raise wrong
        try:
            data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
            found: Any = msgspec.json.decode(data)
            bound, place = found
        except (ValueError, TypeError, binascii.Error, RecursionError):
            raise wrong from None
        if bound != self._bound or not is_list(place):
            raise wrong
        values = place
        if len(values) != len(self._sorts):
            raise wrong
        for (one, _), value in zip(self._sorts, values, strict=True):
            if not _stands(one, value):
                raise wrong
        return tuple(values)


def _stands(one: Field, value: object) -> bool:
    """Check whether this could be a stored value of the field."""
    if value is None:
        return one.nullable
    if one.kind in ("integer", "boolean"):
        return type(value) is int and -MOST_INTEGER - 1 <= value <= MOST_INTEGER
    if one.kind == "number":
        return type(value) in (int, float)
    if type(value) is not str or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _limit(plan: ResourcePlan, limit: object) -> int:
    if type(limit) is not int or not 1 <= limit <= plan.limit:
        raise InvalidValue(f"limit: is a number from 1 to {plan.limit}, not {safe_repr(limit, 40)}")
    return limit


def _field(plan: ResourcePlan, name: object, what: str) -> Field:
    found = plan.by_name.get(name) if isinstance(name, str) else None
    if found is None:
        hint = nearest(name, plan.by_name) if isinstance(name, str) else ""
        raise InvalidValue(f"{what}: {plan.name} has no field {safe_repr(name)}{hint}")
    return found


def _sorts(plan: ResourcePlan, sort: object) -> list[tuple[Field, bool]]:
    given = [sort] if isinstance(sort, str) else sort
    if not is_sequence(given) or len(given) > MOST_SORTS:
        raise InvalidValue(f"sort: is a list of up to {MOST_SORTS} fields, not {safe_repr(sort)}")
    sorts: list[tuple[Field, bool]] = []
    for name in given:
        down = isinstance(name, str) and name.startswith("-")
        one = _field(plan, name[1:] if down else name, "sort")
        if one.kind not in SORTED:
            raise InvalidValue(f"sort: {one.name} has no order; sort by another field")
        if one in [known for known, _ in sorts]:
            raise InvalidValue(f"sort: {one.name} is named twice")
        sorts.append((one, down))
    if plan.id not in [known for known, _ in sorts]:
        sorts.append((plan.id, False))  # so that no two rows stand in the same place
    return sorts


def _later(sorts: Sequence[tuple[Field, bool]], after: Sequence[Any]) -> tuple[str, list[Any]]:
    """Build the condition for rows after a sort key, field by field."""
    ways: list[str] = []
    values: list[Any] = []
    for depth, (one, down) in enumerate(sorts):
        terms: list[str] = []
        own_values: list[Any] = []
        for (known, _), value in zip(sorts[:depth], after, strict=False):
            if value is None:
                terms.append(f"{quote_identifier(known.name)} IS NULL")
            else:
                terms.append(f"{quote_identifier(known.name)} = ?")
                own_values.append(value)
        value = after[depth]
        if value is None:
            continue  # nothing comes after the rows without a value, but among themselves
        further = f"{quote_identifier(one.name)} {'<' if down else '>'} ?"
        terms.append(
            f"({further} OR {quote_identifier(one.name)} IS NULL)" if one.nullable else further
        )
        own_values.append(value)
        ways.append(f"({' AND '.join(terms)})")
        values += own_values
    return f"({' OR '.join(ways) or '1 = 0'})", values


# --------------------------------------------------------------------------- filters


def _filters(plan: ResourcePlan, where: object) -> tuple[list[str], list[Any]]:
    if not is_mapping(where):
        raise InvalidValue(f"where: is an object of fields, not {safe_repr(where)}")
    terms: list[str] = []
    values: list[Any] = []
    for name, asked in where.items():
        one = _field(plan, name, "where")
        tests = cast("Any", asked) if isinstance(asked, Mapping) else {"eq": asked}
        for operator, value in cast("Mapping[Any, Any]", tests).items():
            if operator not in one.operators:
                hint = nearest(operator, one.operators) if isinstance(operator, str) else ""
                raise InvalidValue(
                    f"where: {one.name} has no operator {safe_repr(operator)}{hint}; "
                    f"it has {', '.join(one.operators)}"
                )
            term, given = _term(one, cast("str", operator), value)
            terms.append(term)
            values += given
    return terms, values


def _term(one: Field, operator: str, value: object) -> tuple[str, list[Any]]:
    column = quote_identifier(one.name)
    if operator == "is_null":
        if not isinstance(value, bool):
            raise InvalidValue(
                f"where: {one.name}.is_null is true or false, not {safe_repr(value)}"
            )
        return f"{column} IS {'' if value else 'NOT '}NULL", []
    if value is None:
        if operator in ("eq", "ne"):
            return f"{column} IS {'' if operator == 'eq' else 'NOT '}NULL", []
        raise InvalidValue(f"where: {one.name}.{operator} needs a value, not null")
    if operator == "in":
        if not is_sequence(value) or len(value) > MOST_CHOICES:
            raise InvalidValue(f"where: {one.name}.in is a list of up to {MOST_CHOICES} values")
        choices = [one.to_comparable(each) for each in value]
        if None in choices:
            raise InvalidValue(f"where: {one.name}.in has no place for null; use is_null")
        return (
            (f"{column} IN ({', '.join('?' * len(choices))})", choices)
            if choices
            else ("1 = 0", [])
        )
    stored = one.to_comparable(value)
    if operator == "contains":
        return f"{{within}}({column}, ?) > 0", [stored]
    if operator == "prefix":
        return f"({column} >= ? AND substr({column}, 1, ?) = ?)", [stored, len(stored), stored]
    if operator == "ne" and one.nullable:
        return f"({column} <> ? OR {column} IS NULL)", [stored]
    return f"{column} {_SIGNS[operator]} ?", [stored]
