"""The tables in Postgres, created safely also when many processes start at once."""

from __future__ import annotations

import asyncio

from windlass.errors import Corrupt, StoreError
from windlass.store.allotments import TABLES as ALLOTMENTS
from windlass.store.postgres.address import Address
from windlass.store.postgres.connection import Connection
from windlass.store.postgres.schema_check import (
    SAFE_PATH,
    check_owners,
    check_tables,
    find_path,
    pin,
    write_path,
)
from windlass.store.sqlite.model_calls import VIEW
from windlass.store.wishes import TABLES as WISHES

SCHEMA = 4  # of the tables; the journal's own format is `events.FORMAT`
LOCK = 0x77696E646C617373  # "windlass": held while tables are created or changed
VALUES_LOCK = LOCK + 1  # shared while large values are stored, exclusive while they are removed
RESERVE_LOCK = LOCK + 2  # held while a model call is reserved
TOKEN_SECONDS = 86_400.0  # after which no token is looked up any more
# The channel of notifications: each schema has its own sessions.
CHANNEL = "'windlass_mail_' || left(encode(convert_to(current_schema()::text, 'UTF8'), 'hex'), 40)"
RUNS_AT_ONCE = 256  # numbers that a process draws for its runs in one go

# A session's row is written over with every append: half a page free, and no index on what changes,
# keep the new version beside the old one and every index as it is.
TABLES = f"""
CREATE TABLE windlass_meta (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE windlass_sessions (
    sid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    epoch bigint NOT NULL,
    rows bigint NOT NULL,
    entries bigint NOT NULL,
    head bytea NOT NULL,
    run bigint NOT NULL DEFAULT 0,
    created_at float8 NOT NULL,
    updated_at float8 NOT NULL,
    parent_id text COLLATE "C",
    root_id text,
    branch_at bigint,
    status text,
    title text,
    metadata text,
    holder text
) WITH (fillfactor = 50);
CREATE INDEX windlass_children ON windlass_sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE TABLE windlass_rows (
    sid bigint NOT NULL,
    seq bigint NOT NULL,
    first bigint NOT NULL,
    at float8 NOT NULL,
    payload bytea NOT NULL,
    cuts text,
    hash bytea NOT NULL,
    PRIMARY KEY (sid, seq)
);
CREATE TABLE windlass_blobs (digest bytea PRIMARY KEY, data bytea NOT NULL);
CREATE TABLE windlass_blob_uses (
    digest bytea NOT NULL, sid bigint NOT NULL, PRIMARY KEY (digest, sid)
);
CREATE INDEX windlass_blob_uses_of ON windlass_blob_uses (sid);
CREATE TABLE windlass_inbox (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sid bigint NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    payload bytea NOT NULL,
    at float8 NOT NULL
);
CREATE INDEX windlass_inbox_of ON windlass_inbox (sid);
CREATE TABLE windlass_tokens (token text PRIMARY KEY, at float8 NOT NULL);
CREATE SEQUENCE windlass_run_numbers INCREMENT BY {RUNS_AT_ONCE};
CREATE TABLE windlass_runs (
    n bigint PRIMARY KEY,
    session text,
    run text,
    door text,
    tenant text,
    caller text,
    request text,
    conversation text,
    provider text,
    model text
);
CREATE TABLE windlass_calls (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run bigint NOT NULL,
    at float8 NOT NULL,
    input_tokens bigint,
    output_tokens bigint,
    cost_usd float8,
    latency_ms float8,
    tool_calls bigint,
    provider text,
    model text,
    cache_read_tokens bigint DEFAULT 0,
    cache_write_tokens bigint DEFAULT 0,
    reasoning_tokens bigint DEFAULT 0,
    gpu_ms float8 DEFAULT 0.0,
    attempts bigint DEFAULT 1,
    outcome text,
    purpose text,
    via text
);
{VIEW}"""
# Heartbeats of stores that hold sessions, by the server's clock.
BEATS = """
CREATE TABLE windlass_beats (store text PRIMARY KEY, at float8 NOT NULL);
"""

UPGRADES: dict[int, str] = {
    1: "ALTER TABLE windlass_sessions ADD COLUMN holder text;" + BEATS,
    # There is no version 3 here: from 4 on both dialects have the same numbers.
    2: WISHES + ALLOTMENTS,
}  # from a version to the next: statements, run by the first process


KNOWN = TABLES + BEATS + WISHES + ALLOTMENTS


class Schema:
    """The schema of a store: chosen, checked and created by its first connection."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._path: str | None = None
        self._making = asyncio.Lock()

    async def use(self, connection: Connection) -> None:
        """Set the search path of a new connection to Windlass's tables."""
        async with self._making:
            if self._path is None:
                names = await find_path(connection, self._address)
                await check_owners(connection, self._address, names)
                path = write_path(names)
                await pin(connection, path)
                found = await prepare(connection, self._address)
                await pin(connection, SAFE_PATH)
                newer = found > SCHEMA
                await check_tables(connection, self._address, names[0], KNOWN, newer)
                self._path = path
        await pin(connection, self._path)


async def prepare(connection: Connection, address: Address) -> int:
    """Create or upgrade the tables; return their version, and refuse one that is too new."""
    found = _number(await _version(connection), address)
    if found >= SCHEMA:
        return found
    await connection.execute("BEGIN")
    try:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        found = _number(await _version(connection), address)  # another process may have been faster
        if found == 0:
            await connection.execute(KNOWN)
            await connection.execute("INSERT INTO windlass_meta VALUES ('schema', $1)", str(SCHEMA))
        for version in range(found or SCHEMA, SCHEMA):
            if version in UPGRADES:
                await connection.execute(UPGRADES[version])
        if found < SCHEMA:
            await connection.execute(
                "UPDATE windlass_meta SET value = $1 WHERE key = 'schema'", str(SCHEMA)
            )
        await connection.execute("COMMIT")
        return max(found, SCHEMA)
    except BaseException:
        if not connection.is_closed() and connection.is_in_transaction():
            await connection.execute("ROLLBACK")
        raise


def _number(found: str | None, address: Address) -> int:
    if found is None:
        return 0
    if not found.isdecimal() or int(found) < 1:
        raise Corrupt(f"{address} says schema {found!r}; restore it from a backup")
    if int(found) > SCHEMA + 1:  # the next version only adds: its stores serve both
        raise StoreError(
            f"{address} has schema {found}; this version knows up to {SCHEMA + 1}: upgrade windlass"
        )
    return int(found)


async def _version(connection: Connection) -> str | None:
    # Not by to_regclass: a server process may remember for a while that there was no such table.
    exists = await connection.fetchval(
        "SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE c.relname = 'windlass_meta' AND n.nspname = ANY(current_schemas(false))"
    )
    if exists is None:
        return None
    found = await connection.fetchval("SELECT value FROM windlass_meta WHERE key = 'schema'")
    return "" if found is None else str(found)
