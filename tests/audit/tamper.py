"""An attacker who owns the database and changes the record: seven ways, any place."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import windlass as w
from windlass.testing import scripted

ANN = w.Caller("ann", ("clerk",), "acme")
EVE = w.Caller("eve", (), "evil")
KINDS = ("edit", "delete", "insert", "swap", "cut_head", "cut_tail", "restore")
SESSIONS = 4
Run: TypeAlias = Callable[..., list[tuple[Any, ...]]]


class Order(w.Resource):
    """What somebody bought."""

    id: str
    item: str = ""


@w.tool
async def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


async def work(scope: w.Runtime, session: str, caller: w.Caller, turns: int = 3) -> None:
    """Run some turns, each with a call to a resource and a call to a tool."""
    replies: list[Any] = [
        [
            w.ToolCall(f"{session}a{turn}", "create_order", {"id": f"{session}-{turn}"}),
            w.ToolCall(f"{session}b{turn}", "note", {"text": str(turn)}),
        ]
        for turn in range(turns)
    ]
    out = await w.agent_loop(
        "go",
        model=scripted(*replies, "done"),
        tools=[*scope.tools(), note],
        session_id=session,
        caller=caller,
    )
    assert out.status == "done", out


async def history(store: str, anchor: Any) -> None:
    """Run sessions of two tenants, and calls of a host."""
    async with w.Runtime(store, environ={}, resources=[Order], audit_anchor=anchor) as scope:
        for number in range(SESSIONS):
            await work(scope, f"s{number}", EVE if number % 2 else ANN)
        for number in range(4):
            await scope.resources[Order].create(id=f"h{number}", item="cup", caller=ANN)


async def more(store: str, anchor: Any) -> None:
    """Add sessions and rows after a backup was taken."""
    async with w.Runtime(store, environ={}, resources=[Order], audit_anchor=anchor) as scope:
        for number in range(SESSIONS):
            await work(scope, f"s{number}x", EVE if number % 2 else ANN, turns=1)
            await scope.resources[Order].create(id=f"m{number}", item="cup", caller=ANN)


class Database:
    """Statements on a SQLite file, outside of any store; `?` stands for a value."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = sqlite3.connect(path, isolation_level=None)

    def __call__(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, tuple(values)).fetchall()

    def close(self) -> None:
        self._connection.close()


def copied(source: Path, target: Path) -> Path:
    """Copy the file as it stands, with what is still in its log."""
    taken = sqlite3.connect(source)
    made = sqlite3.connect(target)
    taken.backup(made)
    taken.close()
    made.close()
    return target


def swapped_file(source: Path, target: Path) -> None:
    """Put the file in another's place."""
    for suffix in ("-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    shutil.copyfile(source, target)


# --------------------------------------------------------------------------- where and how

# a table, what tells its chains apart, the place in a chain, and what is worth changing
TABLES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "windlass_rows": ("sid", "seq", ("payload", "at", "hash", "first")),
    "windlass_audit": (
        "chain",
        "seq",
        ("caller", "tool", "changes", "at", "outcome", "tenant", "hash", "row"),
    ),
    "windlass_seals": ("tenant", "number", ("ends", "at", "previous", "hash")),
}


def places(run: Run) -> list[tuple[str, Any, int, int]]:
    """List every row of every chain: table, chain, place, and the chain's last place."""
    found: list[tuple[str, Any, int, int]] = []
    for table, (chain, place, _) in TABLES.items():
        rows = run(f"SELECT {chain}, {place} FROM {table} ORDER BY {chain}, {place}")
        last = {name: number for name, number in rows}
        found += [(table, name, number, last[name]) for name, number in rows]
    return found


def tamper(run: Run, kind: str, place: tuple[str, Any, int, int], salt: int) -> None:
    """Tamper with the row at a place in one of the seven ways."""
    table, chain, at, last = place
    by, number, columns = TABLES[table]
    here = f"{by} = ? AND {number}"
    if kind == "edit":
        column = columns[salt % len(columns)]
        (value,) = run(f'SELECT "{column}" FROM {table} WHERE {here} = ?', (chain, at))[0]
        run(f'UPDATE {table} SET "{column}" = ? WHERE {here} = ?', (changed(value), chain, at))
    elif kind == "delete":
        run(f"DELETE FROM {table} WHERE {here} = ?", (chain, at))
    elif kind == "cut_head":
        run(f"DELETE FROM {table} WHERE {here} <= ?", (chain, min(at, last - 1) if last else at))
    elif kind == "cut_tail":
        cut_tail(run, table, chain, at)
    elif kind == "swap":
        other = at + 1 if at < last else at - 1
        names = ", ".join(f'"{name}"' for name in columns)
        query = f"SELECT {names} FROM {table} WHERE {here} = ?"
        (one,), (two,) = run(query, (chain, at)), run(query, (chain, other))
        sets = ", ".join(f'"{name}" = ?' for name in columns)
        run(f"UPDATE {table} SET {sets} WHERE {here} = ?", (*two, chain, at))
        run(f"UPDATE {table} SET {sets} WHERE {here} = ?", (*one, chain, other))
    else:
        insert(run, table, chain, at, last)


def cut_tail(run: Run, table: str, chain: Any, at: int) -> None:
    """Cut the end off so that a sound chain is left, as an expert would."""
    by, number, _ = TABLES[table]
    if table != "windlass_rows":
        run(f"DELETE FROM {table} WHERE {by} = ? AND {number} >= ?", (chain, at))
        return
    at = max(at, 1)  # a session without any row would be none
    hash_, first = run(
        "SELECT hash, (SELECT first FROM windlass_rows WHERE sid = r.sid AND seq = ?)"
        " FROM windlass_rows AS r WHERE sid = ? AND seq = ?",
        (at, chain, at - 1),
    )[0]
    columns = {"rows": at, "entries": first, "head": hash_}
    if keyed(run):
        key = run("SELECT key FROM windlass_rows WHERE sid = ? AND seq = ?", (chain, at - 1))
        columns["last_key"] = key[0][0]
    run("DELETE FROM windlass_rows WHERE sid = ? AND seq >= ?", (chain, at))
    sets = ", ".join(f"{name} = ?" for name in columns)
    run(f"UPDATE windlass_sessions SET {sets} WHERE sid = ?", (*columns.values(), chain))


def insert(run: Run, table: str, chain: Any, at: int, last: int) -> None:
    """Insert a copy of the row, one place further on; those that follow make room."""
    by, number, _ = TABLES[table]
    for place in range(last, at, -1):  # one by one, as they are unique
        run(
            f"UPDATE {table} SET {number} = ? WHERE {by} = ? AND {number} = ?",
            (place + 1, chain, place),
        )
    names = columns_of(run, table)
    values = run(
        f"SELECT {', '.join(names)} FROM {table} WHERE {by} = ? AND {number} = ?", (chain, at)
    )[0]
    row = dict(zip(names, values, strict=True))
    row[f'"{number}"'] = at + 1
    if '"key"' in row:
        row['"key"'] = run("SELECT max(key) + 1 FROM windlass_rows")[0][0]
    row.pop('"n"', None)
    marks = ", ".join("?" * len(row))
    run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def keyed(run: Run) -> bool:
    """Check whether rows have keys, as in a SQLite file."""
    return '"key"' in columns_of(run, "windlass_rows")


def columns_of(run: Run, table: str) -> list[str]:
    """Return the quoted names of the columns."""
    if isinstance(run, Database):
        return [f'"{row[1]}"' for row in run(f"SELECT * FROM pragma_table_info('{table}')")]
    rows = run(
        "SELECT column_name FROM information_schema.columns WHERE table_name = ?"
        " AND table_schema = current_schema() ORDER BY ordinal_position",
        (table,),
    )
    return [f'"{row[0]}"' for row in rows]


class Backup:
    """All that a store in Postgres holds, to be restored."""

    tables = (
        "windlass_sessions",
        "windlass_rows",
        "windlass_runs",
        "windlass_audit",
        "windlass_seals",
        "windlass_tombstones",
        "windlass_anchored",
    )

    def __init__(self, run: Run) -> None:
        self._kept = {
            table: (columns_of(run, table), run(f"SELECT * FROM {table}")) for table in self.tables
        }

    def put_back(self, run: Run) -> None:
        for table, (names, rows) in self._kept.items():
            run(f"DELETE FROM {table}")
            marks = f"({', '.join('?' * len(names))})"
            over = " OVERRIDING SYSTEM VALUE" if table == "windlass_sessions" else ""
            for start in range(0, len(rows), 100):  # a body has little time
                some = rows[start : start + 100]
                run(
                    f"INSERT INTO {table} ({', '.join(names)}){over}"
                    f" VALUES {', '.join([marks] * len(some))}",
                    [value for row in some for value in row],
                )


def changed(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    if isinstance(value, str):
        return value + "x"
    if value is None:
        return "x"
    return value + 1
