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
from windlass.store.wishes import TABLE as WISHES
from windlass.store.wishes import (
    TREE,
    WAKE,
    WAKE_TREE,
    WAKING,
    Transaction,
    Wish,
    read_wish,
    remove_wishes,
    to_wish,
)

_OWN = "/* windlass */"  # so that no body has the same statement: see `Tx.keep`


def create_session(
    tx: Transaction,
    session_id: str,
    *,
    metadata: JsonObject | None = None,
    parent_id: str | None = None,
) -> bool:
    """Create an empty session that nobody holds; False if it exists."""
    check_identifier(session_id, "session_id")
    if isinstance(tx, MemoryTx):
        return tx.effects.create(session_id, metadata, parent_id)
    root_id = None if parent_id is None else _find_root(tx, parent_id)
    opened = SessionOpened(session_id, FORMAT, parent_id, root_id, None, metadata)
    at, payload = seams.now(), written.encode([opened], session_id)
    hash_ = written.chain_hash(written.genesis(session_id), 0, at, payload)
    packed = written.encode_value(metadata, "metadata").decode() if metadata else None
    if tx.dialect == "sqlite":
        found = tx.keep(
            "INSERT INTO windlass_sessions (id, epoch, rows, entries, head, created_at, updated_at,"
            " parent_id, root_id, metadata, last_key)"
            " VALUES (?, 1, 1, 1, ?, ?, ?, ?, ?, ?,"
            " (SELECT coalesce(max(key), 0) + 1 FROM windlass_rows))"
            f" ON CONFLICT (id) DO NOTHING RETURNING last_key, sid {_OWN}",
            (session_id, hash_, at, at, parent_id, root_id, packed),
        ).fetchone()
        if found is None:
            return False
        tx.keep(
            f"INSERT INTO windlass_rows VALUES (?, ?, 0, 0, 0, ?, ?, NULL, ?) {_OWN}",
            (*found, at, payload, hash_),
        )
        return True
    found = tx.keep(
        "WITH new AS (INSERT INTO windlass_sessions (id, epoch, rows, entries, head, created_at,"
        " updated_at, parent_id, root_id, metadata) VALUES (?1, 1, 1, 1, ?2, ?3, ?3, ?4, ?5, ?6)"
        " ON CONFLICT (id) DO NOTHING RETURNING sid)"
        f" INSERT INTO windlass_rows SELECT sid, 0, 0, ?3, ?7, NULL, ?2 FROM new RETURNING 1 {_OWN}",
        (session_id, hash_, at, parent_id, root_id, packed, payload),
    ).fetchone()
    return found is not None


def read_wish_and_size(tx: Transaction, session_id: str) -> tuple[Wish | None, int]:
    """Return the wish of a session, and its number of entries: 0 if that is not known here."""
    if isinstance(tx, MemoryTx):
        return read_wish(tx, session_id), 0
    columns = ", ".join([f"w.{name}" for name in Wish.__struct_fields__])
    row = tx.keep(
        f"SELECT {columns}, s.entries FROM {WISHES} w LEFT JOIN windlass_sessions s"
        f" ON s.id = w.session WHERE w.session = ? {_OWN}",
        (session_id,),
    ).fetchone()
    if row is None:
        return None, 0
    return to_wish(row[:-1]), row[-1] if isinstance(row[-1], int) else 0


def remove_stray_wish(tx: Transaction, session_id: str) -> None:
    """Remove the wish of a session that was not found, unless it is here.

    A server that has failed over may have been asked before, which does not know the latest sessions.
    """
    if not isinstance(tx, MemoryTx):
        found = tx.keep(f"SELECT 1 FROM windlass_sessions WHERE id = ? {_OWN}", (session_id,))
        if found.fetchone() is not None:
            return
    remove_wishes(tx, [session_id])


def find_wish_above(tx: Transaction, session_id: str) -> Wish | None:
    """Return the wish of a session, or of the nearest one above it that waits for what it does."""
    if isinstance(tx, MemoryTx):
        known = [read_wish(tx, one) for one in tx.effects.list_waiting(session_id)]
    else:
        rows = tx.keep(f"{TREE} {_OWN}", (session_id,)).fetchall()
        # The name of a session begins with the names of those above it.
        known = [read_wish(tx, one) for one in sorted([str(row[0]) for row in rows], key=len)[::-1]]
    return next((wish for wish in known if wish is not None), None)


def _find_root(tx: Transaction, parent_id: str) -> str:
    """Return the session at the top of the one that this is a child of."""
    row = tx.keep(
        f"SELECT root_id FROM windlass_sessions WHERE id = ? {_OWN}", (parent_id,)
    ).fetchone()
    return parent_id if row is None or row[0] is None else str(row[0])


def post_item(tx: Transaction, session_id: str, kind: InboxKind, payload: object = None) -> str:
    """Post an item to the inbox of a session when the transaction commits; return its id.

    Not for decisions: `Store.post` checks that a question was not answered before.
    """
    item = InboxItem(seams.new_id("mail"), kind, payload, tx.read_clock())
    data = written.encode_value(payload, "a posted item")
    if isinstance(tx, MemoryTx):
        tx.effects.post(session_id, item)
        for one in tx.effects.list_waiting(session_id) if kind in WAKING else ():
            tx.keep(WAKE, (item.posted_at, item.posted_at, one))
        return item.id
    if kind in WAKING:
        tx.keep(WAKE_TREE, (item.posted_at, item.posted_at, session_id))
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
