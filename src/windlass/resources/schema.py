"""The table of a resource: created when missing, extended when the class has grown.

Only what loses nothing is done: new columns that may be empty or have a default, new indexes. For
anything else a `ConfigError` says what to do by hand.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.errors import ConfigError
from windlass.resources.fields import Field, Kind
from windlass.resources.row import TENANT, VERSION, ResourcePlan, quote_identifier

_TYPES: dict[str, dict[Kind, str]] = {
    "sqlite": {"integer": "INTEGER", "boolean": "INTEGER", "number": "REAL", "bytes": "BLOB"},
    "postgres": {
        "integer": "BIGINT",
        "boolean": "BIGINT",
        "number": "DOUBLE PRECISION",
        "bytes": "BYTEA",
    },
}
_TEXT = {"sqlite": "TEXT", "postgres": "TEXT"}
_ORDERED = {"sqlite": "", "postgres": ' COLLATE "C"'}  # text sorts the same everywhere


class ColumnInfo(msgspec.Struct, frozen=True):
    """A column as the database describes it."""

    name: str
    type: str
    required: bool  # NOT NULL, and nothing fills it by itself
    nullable: bool
    key: bool = False


def ensure(tx: object, plan: ResourcePlan) -> None:
    """Create or extend the table for the class."""
    if plan.layout is not None:
        return  # the table belongs to another program
    present = columns_of(tx, plan.table)
    if not present:
        _create(tx, plan)
    else:
        _compare(tx, plan, {one.name: one for one in present})
    for one in plan.fields:
        if one.column.unique or one.column.index:
            _index(tx, plan, one)


def columns_of(tx: Any, table: str) -> list[ColumnInfo]:
    """List the columns of a table; none when there is no such table."""
    if tx.dialect == "postgres":
        rows = tx.execute(
            "SELECT column_name, data_type, is_nullable, column_default "
            "FROM information_schema.columns WHERE table_schema = current_schema() "
            "AND table_name = ? ORDER BY ordinal_position",
            (table,),
        ).fetchall()
        return [
            ColumnInfo(name, kind.upper(), null == "NO" and filled is None, null == "YES")
            for name, kind, null, filled in rows
        ]
    rows = tx.execute(f"PRAGMA table_info({quote_identifier(table)})").fetchall()
    return [
        ColumnInfo(
            name, kind.upper(), bool(strict) and filled is None and not key, not strict, bool(key)
        )
        for _, name, kind, strict, filled, key in rows
    ]


def type_of(one: Field, dialect: str) -> str:
    """Return the column's type."""
    return _TYPES[dialect].get(one.kind, _TEXT[dialect])


def _column(one: Field, dialect: str) -> str:
    kind = type_of(one, dialect)
    ordered = _ORDERED[dialect] if kind == "TEXT" else ""
    return f"{quote_identifier(one.name)} {kind}{ordered}{'' if one.nullable else ' NOT NULL'}"


def _create(tx: Any, plan: ResourcePlan) -> None:
    dialect = tx.dialect
    lines = [f"{quote_identifier(TENANT)} {_TEXT[dialect]}{_ORDERED[dialect]} NOT NULL"]
    lines += [_column(one, dialect) for one in plan.fields]
    lines.append(f"{quote_identifier(VERSION)} {_TYPES[dialect]['integer']} NOT NULL")
    lines.append(f"PRIMARY KEY ({quote_identifier(TENANT)}, {quote_identifier('id')})")
    without = " WITHOUT ROWID" if dialect == "sqlite" else ""
    tx.execute(f"CREATE TABLE IF NOT EXISTS {plan.quoted} ({', '.join(lines)}){without}")


def _compare(tx: Any, plan: ResourcePlan, there: dict[str, ColumnInfo]) -> None:
    if TENANT not in there or VERSION not in there:
        raise ConfigError(
            f"{plan.label}: a table {plan.table!r} is there and no resource made it; "
            f"expose it with w.reflect({plan.table!r}, …), or give the class another `table`"
        )
    for one in plan.fields:
        found = there.get(one.name)
        if found is None:
            _add(tx, plan, one)
            continue
        wanted = type_of(one, tx.dialect)
        if found.type != wanted:
            raise ConfigError(
                f"{plan.label}.{one.name} would be {wanted}, and its column is {found.type}; "
                "give the field a new name, and move the values over with SQL"
            )
        if one.nullable != found.nullable:
            raise ConfigError(
                f"{plan.label}.{one.name} {'may' if one.nullable else 'may not'} be None, and its "
                f"column {'may' if found.nullable else 'may not'}; change the type of the field back, "
                "or rebuild the table with SQL"
            )
    for name, found in there.items():
        if found.required and name not in plan.by_name and name not in (TENANT, VERSION):
            raise ConfigError(
                f"{plan.label} has no field {name!r} any more, and its column must be filled; put the "
                f"field back, or drop the column: ALTER TABLE {plan.table} DROP COLUMN {name}"
            )


def _add(tx: Any, plan: ResourcePlan, one: Field) -> None:
    column = _column(one, tx.dialect)
    if one.default is not None:
        made: Any = msgspec.convert(msgspec.to_builtins(one.default()), one.hint)
        stored = one.to_stored(made)
        if stored is not None:
            column += f" DEFAULT {_literal(stored, tx.dialect)}"
    if one.default is None and not one.nullable:
        raise ConfigError(
            f"{plan.label}.{one.name} is new, and the rows of table {plan.table!r} have no value for "
            "it; give the field a default, or let it be None"
        )
    tx.execute(f"ALTER TABLE {plan.quoted} ADD COLUMN {column}")


def _literal(value: object, dialect: str) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'" if dialect == "sqlite" else f"'\\x{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _index(tx: Any, plan: ResourcePlan, one: Field) -> None:
    kind, mark = ("UNIQUE INDEX", "ux") if one.column.unique else ("INDEX", "ix")
    name = f"{mark}_{plan.table}_{one.name}"
    try:
        tx.execute(
            f"CREATE {kind} IF NOT EXISTS {quote_identifier(name)} "
            f"ON {plan.quoted} ({quote_identifier(TENANT)}, {quote_identifier(one.name)})"
        )
    except Exception as error:
        if not one.column.unique:
            raise
        raise ConfigError(
            f"{plan.label}.{one.name} is to be unique, and some rows share a value; "
            f"make them differ first ({error})"
        ) from error
