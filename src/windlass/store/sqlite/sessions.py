"""Changes to whole sessions, given a connection: open, fork, remove."""

from __future__ import annotations

import sqlite3
from typing import Any, cast

from windlass import seams
from windlass.errors import StoreError
from windlass.events import FORMAT, JournalEntry, SessionOpened
from windlass.json_types import JsonObject
from windlass.store import codec as written
from windlass.store import seals
from windlass.store.base import Head
from windlass.store.sqlite import model_calls
from windlass.store.sqlite import queries as sqlite_queries
from windlass.store.threaded.jobs import Line
from windlass.store.threaded.store import Opening
from windlass.store.trigger_rows import DISARM, list_condition_ids


def become_writer(db: sqlite3.Connection, opening: Opening) -> None:
    """Store the session's first row or its next epoch; safe to repeat."""
    line, opening.entries = opening.line, None
    if opening.claim is not None and db.execute(*opening.claim).rowcount != 1:
        raise opening.claim_error()
    row = sqlite_queries.look_up(db, line.session_id)
    if row is None:
        if not opening.create:
            raise sqlite_queries.unknown(db, line.session_id)
        root_id = _root_of(db, opening.parent_id)
        opened = SessionOpened(
            line.session_id, FORMAT, opening.parent_id, root_id, None, opening.metadata
        )
        opening.entries = [opened]
        row = _insert(db, opened, [opened], opening.at, line.holder)
    else:
        holder, last_active = db.execute(
            "SELECT holder, updated_at FROM windlass_sessions WHERE sid = ?", (row[0],)
        ).fetchone()
        if holder is not None:
            opening.refuse_if_held(holder, last_active, sqlite_queries.silent(db, holder))
        db.execute(
            "UPDATE windlass_sessions SET epoch = epoch + 1, updated_at = max(updated_at, ?),"
            " holder = ?"
            " WHERE sid = ?",
            (opening.at, line.holder, row[0]),
        )
        row = (row[0], row[1] + 1, *row[2:])
    line.sid, line.epoch, line.stands = row[0], row[1], row[2:]
    numbered = sqlite_queries.mail_of(db, line.sid, line.session_id)
    line.mail_seen = numbered[-1][0] if numbered else 0
    opening.mail = [item for _n, item in numbered]
    if opening.entries is None and line.stands[0] == 1:  # a longer one is read beside the writer
        rows = sqlite_queries.rows(db, line.session_id)
        head = Head(line.stands[0], line.stands[2])
        opening.entries = written.restore_entries(rows, line.session_id, head, line.stands[1])


def give_up(db: sqlite3.Connection, line: Line) -> None:
    """Clear the holder of the session, unless it has a new writer."""
    db.execute(
        "UPDATE windlass_sessions SET holder = NULL WHERE sid = ? AND epoch = ?",
        (line.sid, line.epoch),
    )


def beat(db: sqlite3.Connection, store: str) -> None:
    """Record a heartbeat of the store; remove those older than a day."""
    now = seams.now()
    db.execute("INSERT OR REPLACE INTO windlass_beats VALUES (?, ?)", (store, now))
    db.execute("DELETE FROM windlass_beats WHERE at < ?", (now - 86_400.0,))


def _insert(
    db: sqlite3.Connection,
    opened: SessionOpened,
    entries: list[JournalEntry],
    at: float,
    holder: str | None = None,
) -> sqlite_queries.Found:
    """Insert a session with its first row."""
    payload = written.encode(entries, opened.session_id)
    genesis = written.genesis(opened.session_id)
    hash_ = written.link(genesis, 0, at, written.digest(payload))
    notes = written.notes_of(entries)
    metadata = written.encode_value(opened.metadata, "metadata").decode()
    key, run = sqlite_queries.next_key(db), model_calls.begin(db, opened.session_id, entries)
    cursor = db.execute(
        "INSERT INTO windlass_sessions (id, epoch, rows, entries, head, created_at, updated_at,"
        " parent_id, root_id, branch_at, status, title, metadata, last_key, run, holder)"
        " VALUES (?, 1, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            opened.session_id,
            len(entries),
            hash_,
            at,
            at,
            opened.parent_id,
            opened.root_id,
            opened.branch_at,
            notes.status,
            notes.title,
            metadata if opened.metadata else None,
            key,
            run,
            holder,
        ),
    )
    sid = cast(int, cursor.lastrowid)
    payload, cuts, blobs = sqlite_queries.split(payload)
    db.execute(
        "INSERT INTO windlass_rows VALUES (?, ?, 0, 0, 0, ?, ?, ?, ?)",
        (key, sid, at, payload, cuts, hash_),
    )
    db.executemany("INSERT OR IGNORE INTO windlass_blobs VALUES (?, ?)", blobs)
    db.executemany(
        "INSERT OR IGNORE INTO windlass_blob_uses VALUES (?, ?)", [(name, sid) for name, _ in blobs]
    )
    return sid, 1, 1, len(entries), hash_, key, run


def fork(
    db: sqlite3.Connection,
    session_id: str,
    new_id: str,
    entries: list[JournalEntry],
    branch_at: int | None,
    metadata: JsonObject | None,
) -> None:
    """Copy a session under a new id, up to where the entries end."""
    info = sqlite_queries.info(db, session_id)
    if db.execute("SELECT 1 FROM windlass_sessions WHERE id = ?", (new_id,)).fetchone():
        raise StoreError(f"session {new_id!r} exists already; fork under another id")
    opened = SessionOpened(
        new_id,
        FORMAT,
        session_id,
        info.root_id,
        branch_at,
        {**info.metadata, **(metadata or {})} or None,
    )
    _insert(db, opened, [opened, *entries], seams.now())


def _root_of(db: sqlite3.Connection, parent_id: str | None) -> str | None:
    if parent_id is None:
        return None
    row = db.execute("SELECT root_id FROM windlass_sessions WHERE id = ?", (parent_id,)).fetchone()
    return parent_id if row is None or row[0] is None else row[0]


def remove(db: sqlite3.Connection, where: str, values: tuple[Any, ...], but: set[str]) -> list[str]:
    """Remove the sessions that a condition finds, but for some; return their ids."""
    found = db.execute(f"SELECT sid, id FROM windlass_sessions WHERE {where}", values).fetchall()
    gone = [(sid, id_) for sid, id_ in found if id_ not in but]
    seals.bury(db, [sid for sid, _id in gone], seams.now())
    for sid, session_id in gone:
        _remove_rows(db, sid)
        for table in ("windlass_inbox", "windlass_sessions"):
            db.execute(f"DELETE FROM {table} WHERE sid = ?", (sid,))
        db.execute("DELETE FROM windlass_wishes WHERE session = ?", (session_id,))
        db.execute(DISARM, list_condition_ids([session_id]))
        used = db.execute("SELECT digest FROM windlass_blob_uses WHERE sid = ?", (sid,)).fetchall()
        db.execute("DELETE FROM windlass_blob_uses WHERE sid = ?", (sid,))
        db.executemany(
            "DELETE FROM windlass_blobs WHERE digest = ? AND NOT EXISTS"
            " (SELECT 1 FROM windlass_blob_uses AS u WHERE u.digest = windlass_blobs.digest)",
            used,
        )
    return [id_ for _sid, id_ in gone]


def _remove_rows(db: sqlite3.Connection, sid: int) -> None:
    rows, last = db.execute(
        "SELECT rows, last_key FROM windlass_sessions WHERE sid = ?", (sid,)
    ).fetchone()
    gone = db.execute(
        "WITH RECURSIVE chain (key) AS (VALUES (?) UNION SELECT before"
        " FROM chain JOIN windlass_rows USING (key) WHERE sid = ?)"
        " DELETE FROM windlass_rows WHERE sid = ? AND key IN (SELECT key FROM chain)",
        (last, sid, sid),
    ).rowcount
    if gone != rows:  # the chain is broken: look at every row there is
        db.execute("DELETE FROM windlass_rows WHERE sid = ?", (sid,))
