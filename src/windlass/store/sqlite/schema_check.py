"""Checks that a SQLite file can be trusted: the files beside it, and its tables.

A file can come from somewhere else. A rollback journal beside it makes SQLite write, and remove
files; a trigger, a view or a generated column in it runs with Windlass's statements.
"""

from __future__ import annotations

import functools
import os
import re
import sqlite3
import stat
import sys
import threading
from pathlib import Path
from typing import Final, NamedTuple

from windlass import seams
from windlass.errors import StoreError
from windlass.files import read_regular
from windlass.store.transaction import OWN_TABLES

JOURNAL_SECONDS: Final = 2.0  # how long a process that makes a store may have a journal beside it
_FIRST_PAGE: Final = 4096  # bytes: a file before its first table
_LARGEST_JOURNAL: Final = 65_536  # bytes of a journal of such a file
_NAMES_A_FILE: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # at the end of a journal
_pause = threading.Event()  # never set


class Layout(NamedTuple):
    """A declared table: its columns and constraints in any order, and its options."""

    lines: frozenset[str]
    tail: str


# --------------------------------------------------------------------------- the files


def check_files(path: Path) -> None:
    """Raise `StoreError` unless SQLite may safely open the file.

    A descriptor of the file is never opened here: closing it would drop SQLite's locks.
    """
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise StoreError(f"{path}: it is not a regular file; check the path")
    for ending in ("-wal", "-shm"):
        beside = f"{path}{ending}"
        if os.path.lexists(beside) and not stat.S_ISREG(os.lstat(beside).st_mode):
            raise StoreError(f"{beside}: it is not a regular file; remove it")
    journal = f"{path}-journal"
    until = seams.monotonic() + JOURNAL_SECONDS
    while os.path.lexists(journal) and not _is_of_a_store_being_made(path, journal):
        if seams.monotonic() > until:
            raise StoreError(
                f"{journal}: a rollback journal lies beside this store, which has none of its own; "
                "SQLite would undo what it says. Remove it, or let its program open the database"
            )
        _pause.wait(0.01)


def _is_of_a_store_being_made(path: Path, journal: str) -> bool:
    """Check whether a journal was left by a process killed while it created the store.

    SQLite removes the file that the end of a journal names; such a journal is not a store's.
    """
    try:
        if path.stat().st_size > _FIRST_PAGE or not stat.S_ISREG(os.lstat(journal).st_mode):
            return False
        return not read_regular(journal, _LARGEST_JOURNAL).rstrip(b"\0").endswith(_NAMES_A_FILE)
    except FileNotFoundError:
        return not os.path.lexists(journal)
    except OSError:
        return False


def harden(connection: sqlite3.Connection) -> None:
    """Forbid functions with side effects in the schema, and damage to the file."""
    connection.execute("PRAGMA trusted_schema = OFF")
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)


# --------------------------------------------------------------------------- the tables


def check_schema(
    connection: sqlite3.Connection, path: Path, known: str, version: int, *, add_tables: bool
) -> bool:
    """Check that the database holds the tables as `known` declares; raise on any other.

    A store of the version after `version` may have more columns. False: it is empty, or the tables
    may be added to what others keep in it.
    """
    found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    ours = [row for row in found if _is_ours(row[1]) or _is_ours(row[2])]
    for kind, name, table, sql in found:
        if kind == "trigger" and (_is_ours(table) or OWN_TABLES in str(sql).lower()):
            raise _strange(path, f"trigger {name!r}")
    exists, newer = False, False
    for kind, name, table, sql in sorted(ours, key=lambda row: row[1] != "windlass_meta"):
        if not _is_known(kind, name, table, sql, known, newer):
            raise _strange(path, f"{kind} {name!r}")
        if (kind, name) == ("table", "windlass_meta"):  # checked, and so it can be read
            exists, newer = True, _is_newer(connection, version)
    if exists:
        return True
    if found and not add_tables:
        raise StoreError(
            f"{path}: this database holds tables of others and no sessions; it was not changed. "
            "Name another file, or add ours to it from code: SqliteStore(path, add_tables=True)"
        )
    return False


def _is_newer(connection: sqlite3.Connection, version: int) -> bool:
    """Check whether the store has the version after this one."""
    row = connection.execute("SELECT value FROM windlass_meta WHERE key = 'schema'").fetchone()
    return row is not None and row[0] == str(version + 1)


def _is_known(kind: str, name: str, table: str, sql: str | None, known: str, newer: bool) -> bool:
    layouts, others = _parse(known)
    if kind == "table" and sql is not None:
        layout = _layout(sql)
        declared = layouts.get(name)
        if declared is None:  # one that is made when it is needed
            return layout is not None and all(map(_is_plain, layout.lines))
        if layout is None or layout.tail != declared.tail:
            return False
        more = layout.lines - declared.lines
        return not more or (newer and all(map(_is_plain, more)))
    if kind == "index":
        if sql is None:  # of a constraint
            return True
        text = _normal(sql)
        return _is_ours(table) and (text in others or _PLAIN_INDEX.fullmatch(text) is not None)
    return kind == "view" and sql is not None and _normal(sql) in others


_TABLE: Final = re.compile(r'create table "?(\w+)"? ?\((.*)\)( without rowid)?', re.DOTALL)
_PLAIN: Final = re.compile(r'[\w ".(),]*')
_PLAIN_INDEX: Final = re.compile(
    r'create index "?\w+"? on "?windlass_\w+"? ?\("?\w+"?(, ?"?\w+"?)*\)( where sealed = 0)?'
)
_LIVE_WORDS: Final = frozenset({"as", "generated", "check", "collate", "references", "conflict"})


def _is_plain(line: str) -> bool:
    """Check that a column or constraint has no expression."""
    return _PLAIN.fullmatch(line) is not None and _LIVE_WORDS.isdisjoint(line.split())


def _is_ours(name: object) -> bool:
    return str(name).lower().startswith(OWN_TABLES)


def _strange(path: Path, what: str) -> StoreError:
    return StoreError(
        f"{path}: {what} is none of ours, and would run with every statement; it was not opened. "
        "Do not use this file unless you know who made it; drop it with another program, or remove the file"
    )


@functools.lru_cache(4)
def _parse(known: str) -> tuple[dict[str, Layout], frozenset[str]]:
    """Parse the tables by name, and every other statement."""
    layouts: dict[str, Layout] = {}
    others: set[str] = set()
    for statement in filter(None, map(_normal, known.split(";"))):
        layout, named = _layout(statement), _TABLE.fullmatch(statement)
        if layout is None or named is None:
            others.add(statement)
        else:
            layouts[named[1]] = layout
    return layouts, frozenset(others)


def _layout(sql: str) -> Layout | None:
    found = _TABLE.fullmatch(_normal(sql))
    if found is None:
        return None
    lines: list[str] = []
    depth = start = 0
    body = found[2] + ","
    for place, sign in enumerate(body):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            lines.append(body[start:place].strip())
            start = place + 1
    return Layout(frozenset(lines), found[3] or "")


def _normal(sql: str) -> str:
    return " ".join(sql.replace("/* windlass */", " ").lower().split()).replace("( ", "(")
