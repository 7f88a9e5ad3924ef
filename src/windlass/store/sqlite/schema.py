"""The SQLite file: its tables, connections to it, and its errors."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from windlass import seams
from windlass.errors import Corrupt, Full, Locked, StoreError
from windlass.store.allotments import TABLES as ALLOTMENTS
from windlass.store.sqlite.model_calls import VIEW
from windlass.store.sqlite.schema_check import check_files, check_schema, harden
from windlass.store.wishes import TABLES as WISHES

SCHEMA = 4  # of the tables; the journal's own format is `events.FORMAT`

log = logging.getLogger("windlass.store")

# Rows lie in the order they came, whosever they are, so that a group of many sessions fills a few
# pages. A session knows its last row and each row the one before it: an index by session would be
# written to in as many places as there are sessions at work.
TABLES = """
CREATE TABLE windlass_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE windlass_sessions (
    sid INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    head BLOB NOT NULL,
    last_key INTEGER NOT NULL,
    run INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    parent_id TEXT,
    root_id TEXT,
    branch_at INTEGER,
    status TEXT,
    title TEXT,
    metadata TEXT,
    holder TEXT
);
CREATE INDEX windlass_children ON windlass_sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE TABLE windlass_rows (
    key INTEGER PRIMARY KEY,
    sid INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    before INTEGER NOT NULL,
    first INTEGER NOT NULL,
    at REAL NOT NULL,
    payload BLOB NOT NULL,
    cuts TEXT,
    hash BLOB NOT NULL
);
CREATE TABLE windlass_blobs (digest BLOB PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE windlass_blob_uses (
    digest BLOB NOT NULL, sid INTEGER NOT NULL, PRIMARY KEY (digest, sid)
) WITHOUT ROWID;
CREATE TABLE windlass_inbox (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    sid INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload BLOB NOT NULL,
    at REAL NOT NULL
);
CREATE INDEX windlass_inbox_of ON windlass_inbox (sid);
"""
BOOKS = """
CREATE TABLE windlass_runs (
    n INTEGER PRIMARY KEY,
    session TEXT,
    run TEXT,
    door TEXT,
    tenant TEXT,
    caller TEXT,
    request TEXT,
    conversation TEXT,
    provider TEXT,
    model TEXT
);
CREATE TABLE windlass_calls (
    n INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    at REAL NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cost_usd REAL,
    latency_ms REAL,
    tool_calls INTEGER,
    cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0,
    gpu_ms REAL DEFAULT 0.0,
    attempts INTEGER DEFAULT 1,
    provider TEXT,
    model TEXT,
    outcome TEXT,
    purpose TEXT,
    via TEXT
);
"""

# Heartbeats of stores that hold sessions: for processes on other machines.
BEATS = """
CREATE TABLE windlass_beats (store TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
"""

KNOWN = TABLES + BOOKS + VIEW + BEATS + WISHES + ALLOTMENTS

# The comment keeps these out of reach of a body: a cached statement is not asked about again.
BEGIN = "BEGIN IMMEDIATE /* windlass */"
COMMIT = "COMMIT /* windlass */"
ROLLBACK = "ROLLBACK /* windlass */"


def commit(connection: sqlite3.Connection) -> None:
    """Commit the transaction; every transaction ends here."""
    seams.point("journal.before_commit")
    connection.execute(COMMIT)
    seams.point("journal.after_commit")


def connect(
    path: Path,
    busy_timeout: float,
    *,
    add_tables: bool = False,
    identify: Callable[[Path], str] | None = None,
) -> sqlite3.Connection:
    """Connect the writer; create the file, its folder and its tables when missing.

    `add_tables`: also in a database of others. `identify`: the id that the store must have.
    """
    store_id = None if identify is None else identify(path)
    check_files(path)
    _make_file(path)
    connection = sqlite3.connect(
        path, timeout=busy_timeout, isolation_level=None, check_same_thread=False
    )
    try:
        harden(connection)
        if check_schema(connection, path, KNOWN, SCHEMA, add_tables=add_tables):
            _check_id(connection, path, store_id)
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != "wal":
            mode = _to_wal(connection, busy_timeout)
        if mode != "wal":
            log.warning("%s cannot use a write-ahead log (mode %s): readers will wait", path, mode)
        connection.execute("PRAGMA synchronous = FULL")
        _make_tables(connection, path, store_id)
        _check_id(connection, path, store_id)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_id(connection: sqlite3.Connection, path: Path, store_id: str | None) -> None:
    if store_id is None:
        return
    row = connection.execute("SELECT value FROM windlass_meta WHERE key = 'id'").fetchone()
    if row is None or row[0] != store_id:
        raise StoreError(
            f"{path}: this is not the store that was made here; name it with --store if you know "
            "who made it, or remove it"
        )


def _to_wal(connection: sqlite3.Connection, busy_timeout: float) -> str:
    """Switch to a write-ahead log, with retries while another process does so."""
    until = seams.monotonic() + busy_timeout
    while True:
        try:
            return connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or seams.monotonic() > until:
                raise
            _pause.wait(0.002)


_pause = threading.Event()  # never set


def connect_reader(
    path: Path,
    busy_timeout: float,
    *,
    beside_writer: bool = True,
    identify: Callable[[Path], str] | None = None,
) -> sqlite3.Connection | None:
    """Connect read-only, beside the writer or alone.

    Alone, it checks the file as the writer does; None: an older version made the file, and only a
    writer can bring it up to this one.
    """
    store_id = None if identify is None or beside_writer else identify(path)
    if not beside_writer:
        check_files(path)
        if not path.exists():
            raise StoreError(f"{path}: there is no such file; check the path")
    connection = sqlite3.connect(
        path if beside_writer else f"{path.absolute().as_uri()}?mode=ro",
        uri=not beside_writer,
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        harden(connection)
        connection.execute("PRAGMA query_only = ON")
        if not beside_writer and not _is_current(connection, path, store_id):
            connection.close()
            return None
    except BaseException:
        connection.close()
        raise
    return connection


def _is_current(connection: sqlite3.Connection, path: Path, store_id: str | None) -> bool:
    """Check that the tables are Windlass's and current; False if a writer must update them."""
    if not check_schema(connection, path, KNOWN, SCHEMA, add_tables=False):
        return False
    _check_id(connection, path, store_id)
    return _version(connection) in (str(SCHEMA), str(SCHEMA + 1))


def _make_file(path: Path) -> None:
    if path.exists():
        return
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # Only its maker may close a descriptor of the file: closing one drops SQLite's locks on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass


def _make_tables(connection: sqlite3.Connection, path: Path, store_id: str | None) -> None:
    if _version(connection) is None:
        connection.execute(BEGIN)
        try:
            if _version(connection) is None:  # another process may have been faster
                _run_all(connection, KNOWN)
                connection.execute("INSERT INTO windlass_meta VALUES ('schema', ?)", (str(SCHEMA),))
                if store_id is not None:
                    connection.execute("INSERT INTO windlass_meta VALUES ('id', ?)", (store_id,))
            commit(connection)
        except BaseException:
            if connection.in_transaction:
                connection.execute(ROLLBACK)
            raise
    found = _version(connection)
    if found is None or not found.isdecimal():
        raise Corrupt(f"{path} says schema {found!r}; restore it from a backup")
    if int(found) < SCHEMA:
        _upgrade(connection, path)
    if int(found) > SCHEMA + 1:  # the next version only adds: its stores serve both
        raise StoreError(
            f"{path} has schema {found}; this version knows up to {SCHEMA + 1}: upgrade windlass"
        )


def _run_all(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):
        if statement.strip():
            connection.execute(statement)


# From a version to the next: statements, run by the first process.
UPGRADES: dict[int, str] = {
    1: "ALTER TABLE windlass_sessions ADD COLUMN run INTEGER NOT NULL DEFAULT 0;" + BOOKS + VIEW,
    2: "ALTER TABLE windlass_sessions ADD COLUMN holder TEXT;" + BEATS,
    3: WISHES + ALLOTMENTS,
}


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Upgrade a file of an older version."""
    connection.execute(BEGIN)
    try:
        found = int(_version(connection) or SCHEMA)  # another process may have been faster
        for version in range(found, SCHEMA):
            _run_all(connection, UPGRADES[version])
        connection.execute(
            "UPDATE windlass_meta SET value = ? WHERE key = 'schema'", (str(SCHEMA),)
        )
        commit(connection)
    except BaseException:
        if connection.in_transaction:
            connection.execute(ROLLBACK)
        raise
    if found == 1:  # from before there were books: they begin now
        log.warning("%s was upgraded: model calls made before now are not in its cost table", path)


def _version(connection: sqlite3.Connection) -> str | None:
    tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'windlass_meta'")
    if tables.fetchone() is None:
        return None
    row = connection.execute("SELECT value FROM windlass_meta WHERE key = 'schema'").fetchone()
    return "" if row is None else str(row[0])


# --------------------------------------------------------------------------- errors

_MEANING: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_BUSY: (Locked, "another process holds the database; let it finish and resume"),
    sqlite3.SQLITE_LOCKED: (Locked, "another process holds the database; let it finish and resume"),
    sqlite3.SQLITE_FULL: (Full, "the disk is full; nothing was lost: make room and resume"),
    sqlite3.SQLITE_READONLY: (StoreError, "the file or its folder is read-only; allow writing"),
    sqlite3.SQLITE_PERM: (StoreError, "no permission; check who owns the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: (StoreError, "cannot be opened; check the path and its permissions"),
    sqlite3.SQLITE_CORRUPT: (Corrupt, "the file is damaged; restore it from a backup"),
    sqlite3.SQLITE_NOTADB: (Corrupt, "this is not a SQLite database; name another file"),
    sqlite3.SQLITE_IOERR: (StoreError, "the disk reports an error; check it and resume"),
    sqlite3.SQLITE_TOOBIG: (StoreError, "a value is larger than SQLite can hold"),
}
PASSING = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
}


def code_of(error: BaseException) -> int:
    """Return SQLite's primary result code, or 0."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def meaning(error: BaseException, path: Path) -> StoreError:
    """Build the `StoreError` that explains SQLite's error."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError):
        return StoreError(f"{path}: {error.strerror or error}; check the path and its permissions")
    kind, advice = _MEANING.get(code_of(error), (StoreError, "see the cause"))
    return kind(f"{path}: {advice} ({error})")
