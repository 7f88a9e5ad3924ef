"""Sessions that are created, and mail that is posted, inside the transaction of a body.

`Store.open` and `Store.post` have a transaction of their own; here they share the one of a body, so
that a session and the wish to run it come into being together.
"""

from __future__ import annotations

from windlass import seams
from windlass.errors import NoSuchSession
from windlass.events import FORMAT, SessionOpened
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject
from windlass.store import codec as written
from windlass.store.base import InboxItem, InboxKind
from windlass.store.memory_database import MemoryTx
from windlass.store.postgres.schema import CHANNEL
from windlass.store.wishes import WAKE, WAKING, Transaction

_OWN = "/* windlass */"  # so that no body has the same statement: see `Tx.keep`


def create_session(tx: Transaction, session_id: str, *, metadata: JsonObject | None = None) -> bool:
    """Create an empty session that nobody holds; False if it exists."""
    check_identifier(session_id, "session_id")
    opened = SessionOpened(session_id, FORMAT, None, None, None, metadata)
    if isinstance(tx, MemoryTx):
        return tx.effects.create(opened)
    known = tx.keep(f"SELECT 1 FROM windlass_sessions WHERE id = ? {_OWN}", (session_id,))
    if known.fetchone() is not None:
        return False
    at, payload = seams.now(), written.encode([opened], session_id)
    hash_ = written.chain_hash(written.genesis(session_id), 0, at, payload)
    packed = written.encode_value(metadata, "metadata").decode() if metadata else None
    if tx.dialect == "sqlite":
        row = tx.keep(f"SELECT coalesce(max(key), 0) + 1 FROM windlass_rows {_OWN}").fetchone()
        assert row is not None
        key = row[0]
        found = tx.keep(
            "INSERT INTO windlass_sessions (id, epoch, rows, entries, head, created_at, updated_at,"
            f" metadata, last_key) VALUES (?, 1, 1, 1, ?, ?, ?, ?, ?) RETURNING sid {_OWN}",
            (session_id, hash_, at, at, packed, key),
        ).fetchone()
        assert found is not None
        tx.keep(
            f"INSERT INTO windlass_rows VALUES (?, ?, 0, 0, 0, ?, ?, NULL, ?) {_OWN}",
            (key, found[0], at, payload, hash_),
        )
        return True
    found = tx.keep(
        "INSERT INTO windlass_sessions (id, epoch, rows, entries, head, created_at, updated_at,"
        f" metadata) VALUES (?, 1, 1, 1, ?, ?, ?, ?) RETURNING sid {_OWN}",
        (session_id, hash_, at, at, packed),
    ).fetchone()
    assert found is not None
    tx.keep(
        f"INSERT INTO windlass_rows VALUES (?, 0, 0, ?, ?, NULL, ?) {_OWN}",
        (found[0], at, payload, hash_),
    )
    return True


def post_item(tx: Transaction, session_id: str, kind: InboxKind, payload: object = None) -> str:
    """Post an item to the inbox of a session when the transaction commits; return its id.

    Not for decisions: `Store.post` checks that a question was not answered before.
    """
    item = InboxItem(seams.new_id("mail"), kind, payload, seams.now())
    data = written.encode_value(payload, "a posted item")
    if kind in WAKING:
        tx.keep(WAKE, (item.posted_at, item.posted_at, session_id))
    if isinstance(tx, MemoryTx):
        tx.effects.post(session_id, item)
        return item.id
    found = tx.keep(
        f"SELECT sid FROM windlass_sessions WHERE id = ? {_OWN}", (session_id,)
    ).fetchone()
    if found is None:
        raise NoSuchSession(f"no session {session_id!r}")
    tx.keep(
        f"INSERT INTO windlass_inbox (sid, id, kind, payload, at) VALUES (?, ?, ?, ?, ?) {_OWN}",
        (found[0], item.id, kind, data, item.posted_at),
    )
    if tx.dialect == "postgres":
        tx.keep(f"SELECT pg_notify({CHANNEL}, ?) {_OWN}", (str(found[0]),))
    return item.id
