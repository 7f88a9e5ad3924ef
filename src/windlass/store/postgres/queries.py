"""Queries on Postgres: sessions, rows, mail and model calls, given a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from windlass.errors import Corrupt, NoSuchSession, nearest
from windlass.events import JournalEntry
from windlass.store import codec as written
from windlass.store.base import Head, InboxItem, Row, SessionInfo
from windlass.store.model_calls import ModelCall, Which, check_filters
from windlass.store.postgres.connection import Connection
from windlass.store.postgres.rows import plain
from windlass.store.sqlite import model_calls as books
from windlass.store.sqlite.queries import (
    INFO,
    info_of,
    item_of,
    join_row,
    places_of,
)
from windlass.store.threaded.jobs import Place

_BACKWARDS = 32  # rows at a time


# --------------------------------------------------------------------------- sessions


class SessionRow:
    """A session's row: its number, its writer's epoch, and its position."""

    __slots__ = ("epoch", "sid", "stands")

    def __init__(self, row: Any) -> None:
        self.sid: int = row[0]
        self.epoch: int = row[1]
        self.stands: Place = (row[2], row[3], bytes(row[4]), 0, row[5])


STANDS = "sid, epoch, rows, entries, head, run"


async def find(connection: Connection, session_id: str) -> SessionRow:
    """Find the session, or raise `NoSuchSession` with the nearest id."""
    row = await connection.fetchrow(
        f"SELECT {STANDS} FROM windlass_sessions WHERE id = $1", plain(session_id)
    )
    if row is None:
        raise await unknown(connection, session_id)
    return SessionRow(row)


async def unknown(connection: Connection, session_id: str) -> NoSuchSession:
    """Build the error for an unknown id, with the nearest one."""
    latest = await connection.fetch(
        "SELECT id FROM windlass_sessions ORDER BY updated_at DESC LIMIT 1000"
    )
    return NoSuchSession(f"no session {session_id!r}{nearest(session_id, (r[0] for r in latest))}")


async def head(connection: Connection, session_id: str) -> Head:
    """Return the end of the journal."""
    stands = (await find(connection, session_id)).stands
    return Head(stands[0], stands[2])


async def info(connection: Connection, session_id: str) -> SessionInfo:
    """Describe one session."""
    row = await connection.fetchrow(f"{INFO} WHERE id = $1", plain(session_id))
    if row is None:
        raise await unknown(connection, session_id)
    children = await connection.fetch(
        "SELECT id FROM windlass_sessions WHERE parent_id = $1 ORDER BY sid", session_id
    )
    silent = await silences(connection)
    return info_of(tuple(row), tuple(child[0] for child in children), silent)


async def infos(connection: Connection) -> list[SessionInfo]:
    """List all sessions, the latest first."""
    children: dict[str, list[str]] = {}
    for parent, child in await connection.fetch(
        "SELECT parent_id, id FROM windlass_sessions WHERE parent_id IS NOT NULL ORDER BY sid"
    ):
        children.setdefault(parent, []).append(child)
    rows = await connection.fetch(f"{INFO} ORDER BY updated_at DESC, sid DESC")
    silent = await silences(connection)
    return [info_of(tuple(row), tuple(children.get(row[0], ())), silent) for row in rows]


async def silences(connection: Connection) -> dict[str, float]:
    """Return the seconds since the last heartbeat of each store, by the server's clock."""
    found = await connection.fetch(
        "SELECT store, extract(epoch FROM clock_timestamp())::float8 - at FROM windlass_beats"
    )
    return {row[0]: row[1] for row in found}


# --------------------------------------------------------------------------- rows

_ROWS = "SELECT seq, first, at, payload, cuts, hash FROM windlass_rows WHERE sid = $1"


async def rows(
    connection: Connection, session_id: str, known: SessionRow | None = None
) -> tuple[list[Row], SessionRow]:
    """Return the session's rows with their large values restored, and its own row."""
    found = await find(connection, session_id) if known is None else known
    rows = await connection.fetch(f"{_ROWS} ORDER BY seq", found.sid)
    for place, row in enumerate(rows):
        if row[0] != place:
            raise _missing(session_id, place)
    if len(rows) != found.stands[0]:
        raise _missing(session_id, min(len(rows), found.stands[0]))
    return await _whole(connection, session_id, rows), found


def _missing(session_id: str, seq: int) -> Corrupt:
    return Corrupt(f"session {session_id!r}: row {seq} is missing or out of place")


async def entries(connection: Connection, session_id: str, known: SessionRow) -> list[JournalEntry]:
    """Read the entries for a new writer, which has the session's own row."""
    found, session = await rows(connection, session_id, known)
    stands = session.stands
    return written.restore_entries(found, session_id, Head(stands[0], stands[2]), stands[1])


async def backwards(connection: Connection, session_id: str) -> AsyncIterator[Row]:
    """Yield the rows from the last to the first."""
    found = await find(connection, session_id)
    end = found.stands[0]
    while end > 0:
        some = await connection.fetch(
            f"{_ROWS} AND seq < $2 ORDER BY seq DESC LIMIT {_BACKWARDS}", found.sid, end
        )
        if not some:
            return
        for row in await _whole(connection, session_id, some):
            yield row
        end = some[-1][0]


async def _whole(connection: Connection, session_id: str, found: list[Any]) -> list[Row]:
    cuts = {row[0]: places_of(session_id, row[0], row[4]) for row in found if row[4] is not None}
    names = list({name for places in cuts.values() for _place, name in places})
    blobs: dict[bytes, bytes] = {}
    if names:
        blobs = dict(
            await connection.fetch(
                "SELECT digest, data FROM windlass_blobs WHERE digest = ANY($1::bytea[])", names
            )
        )
    whole: list[Row] = []
    for seq, first, at, payload, _cuts, hash_ in found:
        if seq in cuts:
            payload = join_row(session_id, seq, payload, cuts[seq], blobs.get)
        whole.append(Row(seq, first, at, payload, hash_))
    return whole


# --------------------------------------------------------------------------- mail and books


async def mail(connection: Connection, sessions: dict[int, str]) -> dict[int, list[InboxItem]]:
    """Return the items posted to these sessions and not taken, the oldest first."""
    found: dict[int, list[InboxItem]] = {sid: [] for sid in sessions}
    for sid, *rest in await connection.fetch(
        "SELECT sid, id, kind, payload, at FROM windlass_inbox"
        " WHERE sid = ANY($1::bigint[]) ORDER BY n",
        list(sessions),
    ):
        found[sid].append(item_of(sessions[sid], rest))
    return found


async def inbox(connection: Connection, session_id: str) -> list[InboxItem]:
    """Return the items posted to the session and not taken."""
    sid = (await find(connection, session_id)).sid
    return (await mail(connection, {sid: session_id}))[sid]


async def sum_spending(
    connection: Connection, since: float, *, reserved: bool = False, tenant: str | None = None
) -> tuple[int, float]:
    """Sum the tokens and dollars of the calls from this time on, or also of those reserved."""
    which = "" if reserved else books.MADE
    if tenant is not None:
        text = f"{books.SPENT}$1{which}{books.OF_TENANT}$2)"
        [row] = await connection.fetch(text, plain(since), tenant)
        return int(row[0]), float(row[1])
    [row] = await connection.fetch(f"{books.SPENT}$1{which}", plain(since))
    return int(row[0]), float(row[1])


async def calls(connection: Connection, which: Which) -> list[ModelCall]:
    """List the calls that match, the oldest first."""
    wheres: list[str] = []
    values: list[Any] = []
    for name, value in check_filters(which).items():
        test = {"since": "at >= ", "until": "at < "}.get(name, f"{name} = ")
        values.append(plain(value))
        wheres.append(f"{test}${len(values)}")
    where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    found = await connection.fetch(f"{books.SELECT}{where} ORDER BY at, n", *values)
    return [books.call_of(tuple(row)) for row in found]
