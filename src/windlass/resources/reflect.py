"""Existing tables as resources: read-only unless configured otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject
from windlass.resources.resource import Resource, new_class
from windlass.resources.row import VERBS, Layout, identifier, path_to_name
from windlass.resources.schema import ColumnInfo, columns_of

READS = ("get", "search")
_TYPES: JsonObject = {
    "TEXT": str,
    "VARCHAR": str,
    "CHAR": str,
    "CHARACTER VARYING": str,
    "CHARACTER": str,
    "INTEGER": int,
    "INT": int,
    "BIGINT": int,
    "SMALLINT": int,
    "REAL": float,
    "FLOAT": float,
    "DOUBLE": float,
    "DOUBLE PRECISION": float,
    "BLOB": bytes,
    "BYTEA": bytes,
}


async def reflect(
    table: str,
    scope: Any,
    *,
    tenant: str | None = None,
    shared: bool = False,
    version: str | None = None,
    columns: Sequence[str] | None = None,
    writable: bool = False,
    name: str | None = None,
    verbs: Sequence[str] | None = None,
) -> type[Resource]:
    """Make a resource from an existing table of the Runtime's store, and export it.

    ```python
    Order = await w.reflect("orders", scope, tenant="shop", columns=["total", "status"])
    ```
    `tenant` names the column with the tenant of a row; a table without one needs `shared=True`, and
    then every tenant sees every row. Columns are text, numbers and bytes; others are left out. The
    resource is read-only unless `writable=True`.
    """
    if (tenant is None) == (not shared):
        raise ConfigError(
            f"reflect({table!r}): say whose the rows are: tenant='column', or shared=True when every "
            "tenant may see them all"
        )
    plain = path_to_name(name or table, "reflect")
    named = identifier(table, "reflect: the table")

    def look(tx: object) -> list[ColumnInfo]:
        return columns_of(tx, named)

    found_columns = await scope.store.consult(look)
    if not found_columns:
        raise ConfigError(f"reflect: the store has no table {safe_repr(table)}")
    known = {one.name: one for one in found_columns}
    for column in ("id", tenant, version, *(columns or ())):
        if column is not None and column not in known:
            raise ConfigError(f"reflect: {table} has no column {column!r}{nearest(column, known)}")
    chosen = [
        one
        for one in found_columns
        if one.name not in (tenant, version) and _is_wanted(one, columns)
    ]
    _all_filled(found_columns, chosen, table, writable, tenant, version)
    optional = {one.name: None for one in chosen if one.nullable and one.name != "id"}
    made = new_class(
        "".join(part.title() for part in plain.split("_")),
        {one.name: _type(one) | None if one.name in optional else _type(one) for one in chosen},
        optional,
        path=plain,
        table=table,
        verbs=tuple(verbs if verbs is not None else VERBS if writable else READS),
        __windlass_layout__=Layout(tenant, version),
        __module__=f"windlass reflection of {table}",
    )
    if not writable and not set(made.verbs) <= set(READS):
        raise ConfigError(f"reflect: {table} is read-only; say writable=True for other verbs")
    scope.resources.add(made)
    return made


def _is_wanted(one: ColumnInfo, columns: Sequence[str] | None) -> bool:
    if _type(one) is None:
        if columns is not None and one.name in columns:
            raise ConfigError(f"reflect: column {one.name!r} is {one.type}, which has no JSON form")
        return False
    return columns is None or one.name in columns or one.name == "id"


def _type(one: ColumnInfo) -> Any:
    return _TYPES.get(one.type.partition("(")[0].strip())


def _all_filled(
    there: Sequence[ColumnInfo],
    chosen: Sequence[ColumnInfo],
    table: str,
    writable: bool,
    tenant: str | None,
    version: str | None,
) -> None:
    if "id" not in [one.name for one in chosen]:
        raise ConfigError(f"reflect: {table} has no column 'id' of text or whole numbers")
    if not writable:
        return
    names = [one.name for one in chosen]
    for one in there:
        if one.required and one.name not in names and one.name not in (tenant, version):
            raise ConfigError(
                f"reflect: {table}.{one.name} must be filled and is left out; name it in columns, "
                "or leave out writable"
            )
