"""Seals: the heads of a tenant's chains at one moment, each seal chained to the one before it.

A chain shows every change but one: that its end is missing. A seal holds the ends: its hash, kept
elsewhere, distinguishes a store from an older copy of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.store.codec import digest

TABLE = "windlass_seals"
GRAVES = "windlass_tombstones"
ANCHORED = "windlass_anchored"
MOST = 1_000  # ends in one seal; more make several
_OWN = "/* windlass */"  # so that no body has the same statement: see `Tx.keep`
_MAKING = 0x77696E647365616C  # the number of a lock that nothing else uses
_LOCK = f"SELECT pg_advisory_xact_lock(?) {_OWN}"
_SOME = 200  # names in one question

Kind: TypeAlias = Literal["deleted", "journal", "audit"]


class End(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The end of a chain: its number of rows, and the hash of the last (hex).

    The chain is a session's journal, by its id; or one of the audit log, by its own name. `deleted`
    says that the session was removed by those who may, and where its journal ended then.
    """

    kind: Kind
    name: str
    rows: int
    hash: str
    at: float = 0.0  # of a deletion


class Seal(msgspec.Struct, frozen=True):
    """The ends of a tenant's hash chains, sealed together; `hash` covers all other fields."""

    tenant: str  # "" where none was named
    number: int  # from 1, by tenant
    at: float
    ends: tuple[End, ...]
    previous: str
    hash: str

    @property
    def sound(self) -> bool:
        """Whether the hash fits the content."""
        return self.hash == _hash(self.tenant, self.number, self.at, self.ends, self.previous)


def genesis(tenant: str) -> str:
    """Return the hash that the first seal of a tenant follows."""
    return digest(b"windlass seal\0" + tenant.encode()).hex()


def follow(tenant: str, number: int, previous: str, at: float, ends: Iterable[End]) -> Seal:
    """Build the next seal of a tenant."""
    kept = tuple(sorted(ends))
    return Seal(tenant, number, at, kept, previous, _hash(tenant, number, at, kept, previous))


def _hash(tenant: str, number: int, at: float, ends: tuple[End, ...], previous: str) -> str:
    return digest(msgspec.json.encode([previous, tenant, number, at, ends])).hex()


# --------------------------------------------------------------------------- in the store


def ensure(tx: Any) -> None:
    """Create the tables."""
    text, whole, real = "TEXT NOT NULL", "BIGINT NOT NULL", "DOUBLE PRECISION NOT NULL"
    if tx.dialect == "postgres":  # which finds a table that is just being made twice over
        tx.keep(_LOCK, (_MAKING,))
    tables = {
        TABLE: f"tenant {text}, number {whole}, at {real}, ends {text}, previous {text},"
        f" hash {text}, PRIMARY KEY (tenant, number)",
        GRAVES: f"session {text}, rows {whole}, hash {text}, tenant {text}, at {real},"
        f" sealed {whole}, PRIMARY KEY (session, hash)",
        ANCHORED: f"tenant {text}, number {whole}, PRIMARY KEY (tenant)",
    }
    for name, columns in tables.items():
        tx.keep(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) {_OWN}")
    for index in (
        f"{TABLE}_at ON {TABLE} (at)",
        f"{GRAVES}_fresh ON {GRAVES} (sealed) WHERE sealed = 0",
    ):
        tx.keep(f"CREATE INDEX IF NOT EXISTS {index} {_OWN}")


def there(tx: Any, table: str = TABLE) -> bool:
    """Check whether a table exists."""
    if tx.dialect == "sqlite":
        sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
    else:
        sql = (
            "SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE c.relname = ? AND n.nspname = ANY(current_schemas(false))"
        )
    return tx.execute(sql, (table,)).fetchone() is not None


_LAST = f"SELECT number, hash FROM {TABLE} WHERE tenant = ? ORDER BY number DESC LIMIT 1 {_OWN}"
_INSERT = f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?) {_OWN}"
_FRESH = f"SELECT session, rows, hash, tenant, at FROM {GRAVES} WHERE sealed = 0 {_OWN}"
_SEALED = f"UPDATE {GRAVES} SET sealed = 1 WHERE sealed = 0 {_OWN}"
_REACHED = (
    f"INSERT INTO {ANCHORED} VALUES (?, ?)"
    f" ON CONFLICT (tenant) DO UPDATE SET number = excluded.number {_OWN}"
)


def write(
    tx: Any, found: Mapping[str, Sequence[End]], at: float, anchored: Mapping[str, int]
) -> list[Seal]:
    """Seal these ends by tenant, and the deletions that are not yet sealed.

    `anchored` is how far an earlier seal of each tenant got: put down here, as it costs no commit.
    """
    if tx.dialect == "postgres":  # one at a time: each seal names the one before it
        tx.keep(_LOCK, (_MAKING,))
    ends = {tenant: list(some) for tenant, some in found.items() if some}
    for session, rows, hash_, tenant, when in tx.keep(_FRESH).fetchall():
        ends.setdefault(tenant, []).append(End("deleted", session, rows, hash_, when))
    made: list[Seal] = []
    for tenant, some in sorted(ends.items()):
        last = tx.keep(_LAST, (tenant,)).fetchone()
        number, previous = (0, genesis(tenant)) if last is None else last
        some.sort()
        for start in range(0, len(some), MOST):
            number += 1
            seal = follow(tenant, number, previous, at, some[start : start + MOST])
            packed = msgspec.json.encode(seal.ends).decode()
            tx.keep(_INSERT, (tenant, number, at, packed, previous, seal.hash))
            previous = seal.hash
            made.append(seal)
    tx.keep(_SEALED)
    for tenant, number in anchored.items():
        tx.keep(_REACHED, (tenant, number))
    return made


def read(tx: Any, after: Mapping[str, int] | None = None) -> list[Seal]:
    """Read the seals, by tenant and number; only those `after` these numbers if given.

    What cannot be read is a seal without ends that is not `sound`.
    """
    if not there(tx):
        return []
    found: list[Seal] = []
    tenants = [row[0] for row in tx.execute(f"SELECT DISTINCT tenant FROM {TABLE}").fetchall()]
    for tenant in sorted(tenants, key=str):
        rows = tx.execute(
            f"SELECT number, at, ends, previous, hash FROM {TABLE}"
            " WHERE tenant = ? AND number > ? ORDER BY number",
            (tenant, (after or {}).get(tenant, 0)),
        )
        found += (_seal(tenant, *row) for row in rows.fetchall())
    return found


def latest(tx: Any, count: int) -> list[End]:
    """Return the ends in the last `count` seals, the oldest first."""
    rows = tx.execute(
        f"SELECT tenant, number, at, ends, previous, hash FROM {TABLE}"
        f" ORDER BY at DESC, number DESC LIMIT {count}"
    )
    return [end for row in reversed(rows.fetchall()) for end in _seal(*row).ends]


def _seal(tenant: Any, number: Any, at: Any, ends: Any, previous: Any, hash_: Any) -> Seal:
    """Build a seal from its columns; one that was damaged is not sound."""
    try:
        columns = (tenant, number, at, msgspec.json.decode(ends), previous, hash_)
        return msgspec.convert(dict(zip(Seal.__struct_fields__, columns, strict=True)), Seal)
    except (msgspec.DecodeError, TypeError, UnicodeDecodeError):
        return Seal(str(tenant), number if type(number) is int else 0, 0.0, (), "", "")


def read_anchored(tx: Any) -> dict[str, int]:
    """Return the last anchored seal number of each tenant."""
    if not there(tx):
        return {}
    rows = tx.execute(f"SELECT tenant, number FROM {ANCHORED}").fetchall()
    return {tenant: number for tenant, number in rows if type(number) is int}


# --------------------------------------------------------------------------- what there is to seal


def journals(tx: Any, sessions: Sequence[str]) -> dict[str, list[End]]:
    """Return the ends of these sessions' journals by tenant, in SQLite or Postgres."""
    found: dict[str, list[End]] = {}
    for start in range(0, len(sessions), _SOME):
        some = sessions[start : start + _SOME]
        marks = ", ".join("?" * len(some))
        rows = tx.keep(
            "SELECT s.id, s.rows, s.head, coalesce(r.tenant, '') FROM windlass_sessions AS s"
            f" LEFT JOIN windlass_runs AS r ON r.n = s.run WHERE s.id IN ({marks}) {_OWN}",
            tuple(some),
        )
        for session, count, head, tenant in rows.fetchall():
            end = End("journal", session, count, bytes(head).hex())
            found.setdefault(tenant, []).append(end)
    return found


# --------------------------------------------------------------------------- deletions

_HAS_GRAVES = "SELECT 1 FROM sqlite_master WHERE name = 'windlass_tombstones'"
_BURY = f"""INSERT OR IGNORE INTO {GRAVES}
    SELECT s.id, s.rows, lower(hex(s.head)), coalesce(r.tenant, ''), ?, 0
    FROM windlass_sessions AS s LEFT JOIN windlass_runs AS r ON r.n = s.run WHERE s.sid = ?"""
BURY_POSTGRES = f"""INSERT INTO {GRAVES}
    SELECT *, $5::float8, 0 FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[])
    ON CONFLICT DO NOTHING"""
GRAVES_POSTGRES = (
    "SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE c.relname = 'windlass_tombstones' AND n.nspname = ANY(current_schemas(false))"
)


def bury(connection: Any, sids: Sequence[int], at: float) -> None:
    """Record that these sessions of a SQLite file will be deleted, if it has seals."""
    if sids and connection.execute(_HAS_GRAVES).fetchone() is not None:
        connection.executemany(_BURY, [(at, sid) for sid in sids])


def bury_one(tx: Any, grave: tuple[str, int, str, str, float]) -> None:
    """Record the deletion of one session: its id, rows, hash, tenant, and when."""
    tx.keep(f"INSERT OR IGNORE INTO {GRAVES} VALUES (?, ?, ?, ?, ?, 0) {_OWN}", grave)


def graves(tx: Any) -> list[tuple[End, bool]]:
    """List the recorded deletions, and whether each is sealed."""
    if not there(tx):
        return []
    rows = tx.execute(f"SELECT session, rows, hash, at, sealed FROM {GRAVES} ORDER BY at, session")
    sound = (str, int, str, float)
    return [
        (End("deleted", *row[:4]), bool(row[4]))
        for row in rows.fetchall()
        if tuple(map(type, row[:4])) == sound
    ]
