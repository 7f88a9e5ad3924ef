"""Queries on the SQLite file: sessions, rows and mail, given a connection."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from windlass import seams
from windlass.errors import Corrupt, NoSuchSession, nearest
from windlass.json_types import JsonObject
from windlass.store import codec as written
from windlass.store import holder as holders
from windlass.store.base import Head, InboxItem, Row, SessionInfo
from windlass.store.threaded.store import is_alive

T = TypeVar("T")
Found: TypeAlias = tuple[int, int, int, int, bytes, int, int]
BLOB_BYTES = 64 * 1024
_LITERAL = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


def snapshot(connection: sqlite3.Connection, look: Callable[[sqlite3.Connection], T]) -> T:
    """Read several things in one snapshot."""
    connection.execute("BEGIN")
    try:
        return look(connection)
    finally:
        connection.execute("ROLLBACK")


# --------------------------------------------------------------------------- sessions

INFO = """SELECT id, created_at, updated_at, entries, parent_id, root_id, branch_at,
    status, title, metadata, holder FROM windlass_sessions"""


def find(connection: sqlite3.Connection, session_id: str) -> Found:
    """Find a session's number, epoch, counts, head, last key and run, or raise."""
    found = look_up(connection, session_id)
    if found is None:
        raise unknown(connection, session_id)
    return found


def look_up(connection: sqlite3.Connection, session_id: str) -> Found | None:
    """Find a session, or return None."""
    found = connection.execute(
        "SELECT sid, epoch, rows, entries, head, last_key, run FROM windlass_sessions WHERE id = ?",
        (session_id,),
    ).fetchone()
    if found is not None and tuple(map(type, found)) != (int, int, int, int, bytes, int, int):
        raise Corrupt(f"session {session_id!r}: its head is not what it was")
    return found


def unknown(connection: sqlite3.Connection, session_id: str) -> NoSuchSession:
    """Build the error for an unknown id, with the nearest one."""
    latest = connection.execute(
        "SELECT id FROM windlass_sessions ORDER BY updated_at DESC LIMIT 1000"
    )
    return NoSuchSession(
        f"no session {session_id!r}{nearest(session_id, (row[0] for row in latest))}"
    )


def head(connection: sqlite3.Connection, session_id: str) -> Head:
    """Return the end of the journal."""
    found = find(connection, session_id)
    return Head(found[2], found[4])


def info(connection: sqlite3.Connection, session_id: str) -> SessionInfo:
    """Describe one session."""
    row = connection.execute(f"{INFO} WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise unknown(connection, session_id)
    children = connection.execute(
        "SELECT id FROM windlass_sessions WHERE parent_id = ? ORDER BY sid", (session_id,)
    )
    return info_of(row, tuple(child[0] for child in children), silences(connection))


def infos(connection: sqlite3.Connection) -> list[SessionInfo]:
    """List all sessions, the latest first."""
    children: dict[str, list[str]] = {}
    for parent, child in connection.execute(
        "SELECT parent_id, id FROM windlass_sessions WHERE parent_id IS NOT NULL ORDER BY sid"
    ):
        children.setdefault(parent, []).append(child)
    rows = connection.execute(f"{INFO} ORDER BY updated_at DESC, sid DESC")
    silent = silences(connection)
    return [info_of(row, tuple(children.get(row[0], ())), silent) for row in rows]


def silences(connection: sqlite3.Connection) -> dict[str, float]:
    """Return the seconds since the last heartbeat of each store."""
    now = seams.now()
    return {store: now - at for store, at in connection.execute("SELECT * FROM windlass_beats")}


def silent(connection: sqlite3.Connection, stored: str) -> float | None:
    """Return the seconds since the last heartbeat of a holder's store, or None."""
    holder = holders.decode(stored)
    if holder is None:
        return None
    found = connection.execute("SELECT at FROM windlass_beats WHERE store = ?", (holder.store,))
    row = found.fetchone()
    return None if row is None else seams.now() - row[0]


def info_of(
    row: tuple[Any, ...], child_ids: tuple[str, ...], silent: Mapping[str, float]
) -> SessionInfo:
    """Build a session's description from the columns of `INFO`.

    `silent` has the seconds since the last heartbeat of each store.
    """
    holder = holders.decode(row[10])
    alive = holder is not None and is_alive(holder, row[0], silent.get(holder.store))
    return SessionInfo(
        id=row[0],
        created_at=row[1],
        updated_at=row[2],
        entries=row[3],
        parent_id=row[4],
        root_id=row[5] or row[0],
        branch_at=row[6],
        child_ids=child_ids,
        status=row[7],
        title=row[8],
        metadata=_plain(row[9], row[0], JsonObject) if row[9] is not None else {},
        holder=holder,
        alive=alive,
    )


def _plain(text: Any, session_id: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise Corrupt(f"session {session_id!r}: what was stored beside it is damaged") from error


# --------------------------------------------------------------------------- rows


def next_key(connection: sqlite3.Connection) -> int:
    """Return the key of the next row; the caller holds the write lock."""
    return connection.execute("SELECT coalesce(max(key), 0) + 1 FROM windlass_rows").fetchone()[0]


def rows(connection: sqlite3.Connection, session_id: str) -> list[Row]:
    """Return the session's rows, with their large values restored."""
    found = list(backwards(connection, session_id))
    found.reverse()
    return found


def backwards(connection: sqlite3.Connection, session_id: str) -> Iterator[Row]:
    """Yield the rows from the last to the first: each names the one before it."""
    sid, _epoch, seq, _entries, _head, key, _run = find(connection, session_id)
    while seq or key:
        seq -= 1
        fields = connection.execute(
            "SELECT before, first, at, payload, cuts, hash FROM windlass_rows"
            " WHERE key = ? AND sid = ? AND seq = ?",
            (key, sid, seq),
        ).fetchone()
        if fields is None or type(fields[0]) is not int:
            raise Corrupt(f"session {session_id!r}: row {max(seq, 0)} is missing or out of place")
        key = fields[0]
        yield _row(connection, session_id, seq, *fields[1:])


def _row(
    connection: sqlite3.Connection,
    session_id: str,
    seq: int,
    first: int,
    at: float,
    payload: bytes,
    cuts: str | None,
    hash_: bytes,
) -> Row:
    if not (type(first) is int and type(at) is float and _bytes(payload) and _bytes(hash_)):
        raise Corrupt(f"session {session_id!r}, row {seq}: its columns are not what they were")
    if cuts is not None:
        payload = _join_row(connection, session_id, seq, payload, cuts)
    return Row(seq, first, at, payload, hash_)


def _bytes(value: object) -> bool:
    return type(value) is bytes


def split(payload: bytes) -> tuple[bytes, str | None, list[tuple[bytes, bytes]]]:
    """Cut large strings out of a row; return the rest, their places, and them by digest.

    A cut is a place in the bytes that are left and the digest of what stood there, so that joining
    gives back the very bytes the chain covers.
    """
    if len(payload) <= BLOB_BYTES:
        return payload, None, []
    kept: list[bytes] = []
    cuts: list[tuple[int, str]] = []
    blobs: list[tuple[bytes, bytes]] = []
    done = size = 0
    for match in _LITERAL.finditer(payload):
        start, end = match.span()
        if end - start > BLOB_BYTES:
            literal = payload[start:end]
            name = written.digest(literal)
            kept.append(payload[done:start])
            size += start - done
            done = end
            cuts.append((size, name.hex()))
            blobs.append((name, literal))
    if not cuts:
        return payload, None, []
    kept.append(payload[done:])
    return b"".join(kept), msgspec.json.encode(cuts).decode(), blobs


def _join_row(
    connection: sqlite3.Connection, session_id: str, seq: int, payload: bytes, cuts: str
) -> bytes:
    def data(name: bytes) -> object:
        found = connection.execute(
            "SELECT data FROM windlass_blobs WHERE digest = ?", (name,)
        ).fetchone()
        return None if found is None else found[0]

    return join_row(session_id, seq, payload, places_of(session_id, seq, cuts), data)


def places_of(session_id: str, seq: int, cuts: str) -> list[tuple[int, bytes]]:
    """Parse the places and digests of the large values cut out of a row."""
    try:
        places = msgspec.json.decode(cuts, type=list[tuple[int, str]])
        return [(place, bytes.fromhex(name)) for place, name in places]
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise Corrupt(
            f"session {session_id!r}, row {seq}: its list of values is damaged"
        ) from error


def join_row(
    session_id: str,
    seq: int,
    payload: bytes,
    places: Iterable[tuple[int, bytes]],
    data: Callable[[bytes], object],
) -> bytes:
    """Restore the large values of a row; `data` finds one by its digest."""
    pieces: list[bytes] = []
    done = 0
    for place, name in places:
        found = data(name)
        if not isinstance(found, bytes) or written.digest(found) != name:
            raise Corrupt(f"session {session_id!r}, row {seq}: a large value is gone or damaged")
        pieces += (payload[done:place], found)
        done = place
    return b"".join([*pieces, payload[done:]])


# --------------------------------------------------------------------------- mail


def inbox(connection: sqlite3.Connection, session_id: str) -> list[InboxItem]:
    """Return the items posted to the session and not taken."""
    sid = find(connection, session_id)[0]
    return [item for _n, item in mail_of(connection, sid, session_id)]


def mail_of(
    connection: sqlite3.Connection, sid: int, session_id: str
) -> list[tuple[int, InboxItem]]:
    """Return the items posted to the session with their numbers."""
    found = connection.execute(
        "SELECT n, id, kind, payload, at FROM windlass_inbox WHERE sid = ? ORDER BY n", (sid,)
    )
    return [(n, item_of(session_id, rest)) for n, *rest in found]


def mail_after(
    connection: sqlite3.Connection, seen: int, sessions: Callable[[int], str | None]
) -> Iterable[tuple[int, int, InboxItem | None]]:
    """Yield everything posted since: its number, session, and item if `sessions` knows it."""
    found = connection.execute(
        "SELECT n, sid, id, kind, payload, at FROM windlass_inbox WHERE n > ? ORDER BY n", (seen,)
    )
    for n, sid, *rest in found:
        session_id = sessions(sid)
        yield n, sid, None if session_id is None else item_of(session_id, rest)


def item_of(session_id: str, fields: Sequence[Any]) -> InboxItem:
    """Build an item from its id, kind, payload and time."""
    id_, kind, payload, at = fields
    return InboxItem(id_, kind, _plain(payload, session_id, object), at)
