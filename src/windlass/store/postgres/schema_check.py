"""Checks that the schemas and tables in Postgres can be trusted.

Names without a schema are looked up along the search path. A role that may create there can replace a
table, a function or an operator, which then runs with the rights of Windlass. So every schema of the
path must belong to a trusted role, no other role may create in it, and the tables must be the known ones.

All of it is asked once for each opened store, on a path that holds nothing but the server's own catalogue.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from windlass.errors import StoreError
from windlass.store.postgres.address import Address
from windlass.store.postgres.connection import Connection

# The server looks into pg_catalog first unless it is named, and into pg_temp last only if it is.
SAFE_PATH: Final = "pg_catalog, pg_temp"
_VIEW: Final = "windlass_model_calls"
_VIEW_OF: Final = ("windlass_calls", "windlass_runs")

# The current role, its memberships, superusers and the owner of the database.
_TRUSTED: Final = """
WITH RECURSIVE mine(oid) AS (
    SELECT oid FROM pg_roles WHERE rolname = current_user
    UNION SELECT m.roleid FROM pg_auth_members AS m JOIN mine ON m.member = mine.oid
), trusted(oid) AS (
    SELECT oid FROM mine
    UNION SELECT oid FROM pg_roles WHERE rolsuper OR rolname = 'pg_database_owner'
    UNION SELECT datdba FROM pg_database WHERE datname = current_database()
), place AS (
    SELECT oid, nspname, nspowner, nspacl FROM pg_namespace WHERE nspname = ANY($1::name[])
)"""
# The tables, views and sequences of schemas. pg_class has no index by schema, and a database may have
# thousands of tables: so they are found by what depends on the schemas.
_SCHEMAS: Final = "SELECT oid FROM pg_namespace WHERE nspname = ANY($1::name[])"
_RELATIONS: Final = """
SELECT objid FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = ANY($1::oid[])
    AND classid = 'pg_class'::regclass"""
_STRANGERS: Final = f"""{_TRUSTED}
SELECT 'schema', nspname::text, pg_get_userbyid(nspowner)::text, '' FROM place
    WHERE nspowner NOT IN (SELECT oid FROM trusted)
UNION ALL
SELECT 'create', nspname::text, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE
    pg_get_userbyid(a.grantee)::text END, ''
    FROM place, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) AS a
    WHERE a.privilege_type = 'CREATE' AND a.grantee NOT IN (SELECT oid FROM trusted)
UNION ALL
SELECT 'routine', nspname::text, pg_get_userbyid(proowner)::text, p.oid::regprocedure::text
    FROM place JOIN pg_proc AS p ON p.pronamespace = place.oid
    WHERE proowner NOT IN (SELECT oid FROM trusted)
UNION ALL
SELECT 'operator', nspname::text, pg_get_userbyid(oprowner)::text, o.oid::regoperator::text
    FROM place JOIN pg_operator AS o ON o.oprnamespace = place.oid
    WHERE oprowner NOT IN (SELECT oid FROM trusted)
UNION ALL
SELECT 'relation', nspname::text, pg_get_userbyid(relowner)::text, relname::text
    FROM place JOIN pg_class AS c ON c.relnamespace = place.oid
    WHERE c.oid = ANY($2::oid[]) AND relname LIKE 'windlass\\_%' AND relowner NOT IN (SELECT oid FROM trusted)
"""
_OURS: Final = """
WITH ours AS (
    SELECT c.oid, c.relname::text AS name, c.relkind, c.relpersistence, c.relrowsecurity,
        c.relforcerowsecurity
    FROM pg_class AS c WHERE c.oid = ANY($1::oid[]) AND c.relname LIKE 'windlass\\_%'
)"""
# What would run, or change what is read, when only a plain statement is sent.
_LIVE: Final = f"""{_OURS}
SELECT CASE relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
    ELSE 'table of another kind' END, name, name FROM ours
    WHERE relkind NOT IN ('r', 'i', 'S', 'c') AND NOT (relkind = 'v' AND name = '{_VIEW}')
UNION ALL SELECT 'table', name, name FROM ours WHERE relkind = 'r' AND name = '{_VIEW}'
UNION ALL SELECT 'unlogged table', name, name FROM ours WHERE relkind = 'r' AND relpersistence <> 'p'
UNION ALL SELECT 'row level security', name, name FROM ours
    WHERE relrowsecurity OR relforcerowsecurity
UNION ALL SELECT 'policy', polname::text, name FROM ours JOIN pg_policy ON polrelid = ours.oid
UNION ALL SELECT 'trigger', tgname::text, name FROM ours JOIN pg_trigger ON tgrelid = ours.oid
    WHERE NOT tgisinternal
UNION ALL SELECT 'rule', rulename::text, name FROM ours JOIN pg_rewrite ON ev_class = ours.oid
    WHERE NOT (relkind = 'v' AND rulename = '_RETURN')
UNION ALL SELECT 'inheritance', ours.name, ours.name FROM ours JOIN pg_inherits
    ON ours.oid IN (inhparent, inhrelid) WHERE relkind = 'r'
UNION ALL SELECT 'view', name, name FROM ours
    JOIN pg_rewrite AS w ON w.ev_class = ours.oid
    JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
    WHERE relkind = 'v' AND (d.refclassid <> 'pg_class'::regclass
        OR d.refobjid <> ours.oid AND d.refobjid NOT IN (SELECT oid FROM ours WHERE name = ANY($2::text[])))
"""
# Expressions that would run when a row is written.
_EXPRESSIONS: Final = f"""{_OURS}
SELECT CASE contype WHEN 'c' THEN 'check constraint' WHEN 'f' THEN 'foreign key' ELSE 'constraint' END,
    conname::text, name FROM ours JOIN pg_constraint ON conrelid = ours.oid
    WHERE relkind = 'r' AND contype NOT IN ('p', 'u', 'n')
UNION ALL SELECT 'index', i.indexrelid::regclass::text, name FROM ours JOIN pg_index AS i ON i.indrelid = ours.oid
    WHERE indexprs IS NOT NULL
        OR pg_get_expr(indpred, indrelid) NOT IN ('(parent_id IS NOT NULL)', '(sealed = 0)')
        OR EXISTS (SELECT 1 FROM pg_opclass AS o WHERE o.oid = ANY(i.indclass::oid[])
            AND o.opcnamespace <> 'pg_catalog'::regnamespace)
"""
_COLUMNS: Final = f"""{_OURS}
SELECT name, attname::text, format_type(atttypid, atttypmod), attnotnull, attgenerated <> '',
    CASE WHEN attgenerated = '' THEN coalesce(pg_get_expr(adbin, adrelid), '') ELSE '' END
    FROM ours JOIN pg_attribute AS a ON a.attrelid = ours.oid
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE relkind = 'r' AND attnum > 0 AND NOT attisdropped
"""
_CONSTANT: Final = re.compile(r"'?-?[\d.]+'?(::[a-z ]+)?|nextval\('[^']+'::regclass\)")
_TYPES: Final = {"float8": "double precision"}


class Column(NamedTuple):
    """A column as it was declared."""

    type: str
    required: bool


async def find_path(connection: Connection, address: Address) -> list[str]:
    """Return the schemas of the connection's search path, and switch to the safe path."""
    # Qualified, without an operator or a cast: nothing on the path can stand in for it.
    found: Sequence[str] = await connection.fetchval("SELECT pg_catalog.current_schemas(false)")
    await pin(connection, SAFE_PATH)
    names = [name for name in found if not name.startswith("pg_")]
    if not names:
        raise StoreError(
            f"{address}: there is no schema to keep tables in; create the one in search_path"
        )
    home: str | None = await connection.fetchval(
        "SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE c.relname = 'windlass_meta' AND n.nspname = ANY($1::name[])"
        " ORDER BY array_position($1::name[], n.nspname) LIMIT 1",
        names,
    )
    # New tables are made in the first one.
    return names if home is None else [home, *(name for name in names if name != home)]


def write_path(names: Sequence[str]) -> str:
    """Build the search path; temporary tables come last, so that they hide nothing."""
    return ", ".join([*map(quote, names), "pg_temp"])


async def pin(connection: Connection, path: str) -> None:
    """Set the search path of the connection."""
    await connection.execute("SELECT pg_catalog.set_config('search_path', $1, false)", path)


def quote(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


async def check_owners(connection: Connection, address: Address, names: Sequence[str]) -> None:
    """Raise `StoreError` if an untrusted role can change these schemas."""
    relations = await _find_relations(connection, names)
    for what, schema, role, name in await connection.fetch(_STRANGERS, list(names), relations):
        raise _distrust(address, what, schema, role, name)
    for kind, name, table in await connection.fetch(_LIVE, relations, list(_VIEW_OF)):
        raise _unknown(address, kind, name, table)


async def check_tables(
    connection: Connection, address: Address, home: str, known: str, newer: bool
) -> None:
    """Raise `StoreError` unless the tables are as `known` declares them.

    Those of a `newer` version may have more columns, which a row need not fill.
    """
    relations = await _find_relations(connection, [home])
    for kind, name, table in await connection.fetch(_EXPRESSIONS, relations):
        raise _unknown(address, kind, name, table)
    tables = _parse(known)
    for table, name, type_, required, generated, default in await connection.fetch(
        _COLUMNS, relations
    ):
        declared = tables.get(table)
        plain = not generated and (not default or _CONSTANT.fullmatch(default) is not None)
        if newer and declared is not None and name not in declared:
            plain, declared = plain and (not required or bool(default)), None
        if not plain or (declared is not None and declared.get(name) != Column(type_, required)):
            raise _unknown(address, "column", name, table)


async def _find_relations(connection: Connection, schemas: Sequence[str]) -> list[int]:
    """Find the tables, views and sequences of these schemas."""
    found = await connection.fetch(_SCHEMAS, list(schemas))
    return [row[0] for row in await connection.fetch(_RELATIONS, [row[0] for row in found])]


def _distrust(address: Address, what: str, schema: str, role: str, name: str) -> StoreError:
    other = "or name a schema of your own in the address: ?search_path=…"
    if what == "schema":
        return StoreError(
            f"{address}: schema {schema!r} belongs to role {role!r}, who can put tables in the place of "
            f"ours; ALTER SCHEMA {quote(schema)} OWNER TO this store's role, {other}"
        )
    if what == "create":
        grantee = role if role == "PUBLIC" else quote(role)
        return StoreError(
            f"{address}: role {role!r} may create in schema {schema!r}, and put tables and functions "
            f"in the place of ours; REVOKE CREATE ON SCHEMA {quote(schema)} FROM {grantee}, {other}"
        )
    return StoreError(
        f"{address}: {what} {name!r} in schema {schema!r} belongs to role {role!r}, and would run or be "
        f"read with our statements; drop it or give it to this store's role, {other}"
    )


def _unknown(address: Address, kind: str, name: str, table: str) -> StoreError:
    on = "" if name == table else f" on {table!r}"
    return StoreError(
        f"{address}: {kind} {name!r}{on} is none of ours, and would run or be read with our statements; "
        "nothing was changed. Drop it if you know who made it, or restore the tables from a backup"
    )


@functools.lru_cache(4)
def _parse(known: str) -> dict[str, dict[str, Column]]:
    """Parse the columns of Windlass's tables, by table."""
    tables: dict[str, dict[str, Column]] = {}
    for name, body in re.findall(
        r"CREATE TABLE (\w+) \((.*?)\)(?: WITH [^;]*)?;", known, re.DOTALL
    ):
        columns: dict[str, Column] = {}
        for line in re.split(r",(?![^(]*\))", body):
            parts = line.split()
            if parts[0] in ("PRIMARY", "UNIQUE"):
                continue
            required = "NOT NULL" in line or "PRIMARY KEY" in line
            columns[parts[0]] = Column(_TYPES.get(parts[1], parts[1]), required)
        tables[name] = columns
    return tables
