"""Wishes: rows that say which sessions want to run, on which agent, and since when.

A wish is a desired state and not a queue: whoever drives a session reads its wish, and clears it
only if it is still the one that was driven. All functions take the transaction of a body
(`store.commit(body)`), so that a wish is raised together with what it is about. The same text is
SQL for SQLite and for Postgres.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from windlass.errors import StoreError
from windlass.json_types import JsonObject

TABLE: Final = "windlass_wishes"
# A cleared wish keeps its row, without `due`: its number and its key outlive it.
TABLES: Final = """
CREATE TABLE windlass_wishes (
    session text PRIMARY KEY,
    agent text NOT NULL,
    queue text NOT NULL,
    number bigint NOT NULL,
    due float8,
    priority bigint NOT NULL DEFAULT 0,
    tenant text NOT NULL,
    key text,
    tries bigint NOT NULL DEFAULT 0,
    requests text NOT NULL,
    digest text,
    model text,
    raised_at float8 NOT NULL,
    worker text,
    since float8,
    error text,
    UNIQUE (tenant, key)
);
CREATE INDEX windlass_wishes_due ON windlass_wishes (due);
CREATE TABLE windlass_triggers (
    id text PRIMARY KEY,
    kind text NOT NULL,
    spec text NOT NULL,
    action text NOT NULL,
    tenant text,
    due float8,
    state text,
    created_at float8 NOT NULL,
    fired bigint NOT NULL DEFAULT 0
);
CREATE INDEX windlass_triggers_due ON windlass_triggers (due);
CREATE TABLE windlass_workers (
    id text PRIMARY KEY,
    engine text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    queues text NOT NULL,
    slots bigint NOT NULL,
    started_at float8 NOT NULL,
    seen_at float8 NOT NULL,
    lease float8 NOT NULL,
    state text NOT NULL
);
CREATE TABLE windlass_sweeps (name text PRIMARY KEY, due float8 NOT NULL);
"""
_OWN: Final = "/* windlass */"  # so that no body has the same statement: see `Tx.keep`
#: Mail that a parked session is woken by, if it has had a wish: in the transaction of the post.
WAKING: Final = frozenset({"resume", "decision", "result", "cancel"})
WAKE: Final = (
    f"UPDATE {TABLE} SET number = number + 1, tries = 0, error = NULL,"
    f" due = CASE WHEN due IS NULL OR due > ? THEN ? ELSE due END WHERE session = ? {_OWN}"
)
#: The sessions that wait for a call which a session works for, from the session itself upwards. A
#: fork, or a worker in the background, is no child of a call: its name does not begin with that of
#: its parent.
TREE: Final = (
    "WITH RECURSIVE above(id) AS (SELECT id FROM windlass_sessions WHERE id = ? UNION"
    " SELECT s.parent_id FROM windlass_sessions s JOIN above ON s.id = above.id"
    " WHERE s.branch_at IS NULL AND substr(s.id, 1, length(s.parent_id) + 1) = s.parent_id || '.')"
    " SELECT id FROM above"
)
WAKE_TREE: Final = WAKE.replace("session = ?", f"session IN ({TREE})")
_COLUMNS: Final = (
    "session, agent, queue, number, due, priority, tenant, key, tries, requests, digest, model,"
    " raised_at, worker, since, error"
)


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """Number of changed rows."""
        ...

    def fetchone(self) -> Sequence[object] | None:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> Sequence[Sequence[object]]:
        """Return all remaining rows."""
        ...


class Transaction(Protocol):
    """The transaction of a body, as the statements of Windlass itself use it."""

    dialect: Literal["sqlite", "postgres"]

    def keep(self, sql: str, parameters: object = ()) -> Rows:
        """Run a statement on tables that only Windlass writes."""
        ...

    def read_clock(self) -> float:
        """Return the time in epoch seconds, by the server of a Postgres store."""
        ...


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A session that wants to run, or did: `due` is None while it wants nothing."""

    session: str
    agent: str
    queue: str
    number: int  # raised with every new reason to run
    due: float | None
    priority: int
    tenant: str
    key: str | None
    tries: int  # drives in a row that came to nothing
    requests: tuple[JsonObject, ...]  # prompts that wait, oldest first; none for a wake-up
    digest: str | None  # of the request that came with the key
    model: str | None  # counted by limits
    raised_at: float
    worker: str | None  # that drives it, or did last
    since: float | None  # when it began to; None while nobody drives
    error: str | None  # the last one

    @property
    def is_wanted(self) -> bool:
        """Whether the session wants to run, now or later."""
        return self.due is not None


def raise_wish(
    tx: Transaction,
    session: str,
    *,
    agent: str | None = None,
    queue: str | None = None,
    due: float | None = None,
    priority: int = 0,
    key: str | None = None,
    tenant: str = "",
    model: str | None = None,
    digest: str | None = None,
    request: JsonObject | None = None,
    is_new: bool = False,
) -> int:
    """Say that a session wants to run from `due` (now) on; return the number of the wish.

    `agent` may be left out for a session that has had a wish; one that has none and names no agent
    is run by hand, and stays so: nothing is raised and the answer is 0. A `request` is put behind
    those that wait already. A wish that is due earlier stays so. A session that `is_new` in this
    transaction has had none.
    """
    known = None if is_new else read_wish(tx, session)
    now = tx.read_clock()
    when = now if due is None else due
    if known is None:
        if agent is None:
            return 0
        waiting = [] if request is None else [request]
        tx.keep(
            f"INSERT INTO {TABLE} (session, agent, queue, number, due, priority, tenant, key,"
            " requests, digest, model, raised_at) VALUES"
            f" (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?) {_OWN}",
            (session, agent, queue or agent, when, priority, tenant, key, _pack(waiting))
            + (digest, model, now),
        )
        return 1
    if agent is not None and known.is_wanted and known.agent != agent:
        raise StoreError(
            f"session {session!r} waits for agent {known.agent!r}; submit to {agent!r} when it has ended"
        )
    if key is not None and known.key is not None and known.key != key:
        raise StoreError(f"session {session!r} was submitted with key {known.key!r}, not {key!r}")
    waiting = list(known.requests)
    if request is not None and not _holds_request(waiting, request):
        waiting.append(request)
    if known.due is not None:
        when, priority = min(when, known.due), max(priority, known.priority)
    elif request is None and priority == 0:
        priority = known.priority
    tx.keep(
        f"UPDATE {TABLE} SET agent = ?, queue = ?, number = ?, due = ?, priority = ?, key = ?,"
        f" requests = ?, digest = ?, model = ?, tries = 0, error = NULL, raised_at = ?"
        f" WHERE session = ? {_OWN}",
        (agent or known.agent, queue or (known.queue if agent in (None, known.agent) else agent))
        + (known.number + 1, when, priority, key or known.key, _pack(waiting))
        + (digest or known.digest, model or known.model, now, session),
    )
    return known.number + 1


def _holds_request(waiting: Sequence[JsonObject], request: JsonObject) -> bool:
    """Check whether a request waits already, by a submission that is repeated."""
    number = request.get("id")
    return number is not None and any([one.get("id") == number for one in waiting])


def clear_wish(
    tx: Transaction,
    session: str,
    number: int,
    worker: str | None = None,
    requests: Sequence[JsonObject] | None = None,
) -> bool:
    """Say that the session wants nothing more; False if another wish was raised meanwhile.

    With a `worker` only if nobody has taken it over from this one: who was replaced clears nothing.
    With `requests` only if these and no others wait.
    """
    own, values = _of_worker(worker)
    if requests is not None:
        own, values = f"{own} AND requests = ?", (*values, _pack(requests))
    changed = tx.keep(
        f"UPDATE {TABLE} SET due = NULL, tries = 0, requests = ?, error = NULL, since = NULL"
        f" WHERE session = ? AND number = ?{own} {_OWN}",
        (_pack([]), session, number, *values),
    )
    return changed.rowcount == 1


def begin_drive(tx: Transaction, wish: Wish, worker: str, tries: int) -> bool:
    """Put on record who drives a wish; False if it was raised or cleared meanwhile."""
    changed = tx.keep(
        f"UPDATE {TABLE} SET worker = ?, since = ?, tries = ?, model = ?"
        f" WHERE session = ? AND number = ? AND due IS NOT NULL {_OWN}",
        (worker, tx.read_clock(), tries, wish.model, wish.session, wish.number),
    )
    return changed.rowcount == 1


class Claim(NamedTuple):
    """A statement that must change one row when a session is opened, or else it is not opened."""

    sql: str
    parameters: tuple[object, ...]


class ClaimRefused(StoreError):
    """A session was not opened: its wish was raised, cleared, or taken by another worker."""


def build_claim(wish: Wish, worker: str, tries: int, now: float, *, exclusive: bool) -> Claim:
    """Return what `begin_drive` does, for the transaction that opens the session.

    Without an `exclusive` engine it is refused while another worker drives the wish.
    """
    free, values = "", tuple[object, ...]()
    if not exclusive:
        free = (
            " AND (since IS NULL OR worker = ? OR NOT EXISTS (SELECT 1 FROM windlass_workers AS w"
            f" WHERE w.id = {TABLE}.worker AND w.seen_at + w.lease >= ?))"
        )
        values = (worker, now)
    return Claim(
        f"UPDATE {TABLE} SET worker = ?, since = ?, tries = ?, model = ?"
        f" WHERE session = ? AND number = ? AND due <= ?{free} {_OWN}",
        (worker, now, tries, wish.model, wish.session, wish.number, now, *values),
    )


def end_request(tx: Transaction, session: str, request_id: str) -> Wish | None:
    """Remove a request that is done; return the wish with those that are left."""
    wish = read_wish(tx, session)
    if wish is None:
        return None
    left = [request for request in wish.requests if request.get("id") != request_id]
    if len(left) != len(wish.requests):
        keep_requests(tx, session, left)
    return msgspec.structs.replace(wish, requests=tuple(left))


def keep_requests(tx: Transaction, session: str, requests: Sequence[JsonObject]) -> None:
    """Let a wish have these requests and no others."""
    tx.keep(f"UPDATE {TABLE} SET requests = ? WHERE session = ? {_OWN}", (_pack(requests), session))


def park_wish(tx: Transaction, session: str, number: int, worker: str | None = None) -> bool:
    """Say that a session waits to be woken; its requests stay. False if it was woken meanwhile."""
    own, values = _of_worker(worker)
    changed = tx.keep(
        f"UPDATE {TABLE} SET due = NULL, tries = 0, error = NULL, since = NULL"
        f" WHERE session = ? AND number = ?{own} {_OWN}",
        (session, number, *values),
    )
    return changed.rowcount == 1


def postpone_wish(
    tx: Transaction,
    session: str,
    number: int,
    due: float,
    error: str | None = None,
    worker: str | None = None,
    *,
    tries: int | None = None,
) -> bool:
    """Let a wish be due later, and say why; False if it was raised meanwhile.

    `tries` takes back the count of a drive that was none, such as of a session that is held.
    """
    own, values = _of_worker(worker)
    changed = tx.keep(
        f"UPDATE {TABLE} SET due = ?, error = ?, since = NULL"
        f"{'' if tries is None else f', tries = {tries:d}'}"
        f" WHERE session = ? AND number = ? AND due IS NOT NULL{own} {_OWN}",
        (due, error, session, number, *values),
    )
    return changed.rowcount == 1


def _of_worker(worker: str | None) -> tuple[str, tuple[str, ...]]:
    """Return a condition, and its values, for wishes that this worker drives."""
    return ("", ()) if worker is None else (" AND worker = ?", (worker,))


def read_wish(tx: Transaction, session: str) -> Wish | None:
    """Return the wish of a session, also a cleared one; None if it never had one."""
    row = tx.keep(f"SELECT {_COLUMNS} FROM {TABLE} WHERE session = ? {_OWN}", (session,)).fetchone()
    return None if row is None else to_wish(row)


def find_key(tx: Transaction, key: str, tenant: str = "") -> Wish | None:
    """Return the wish that was submitted under a key."""
    row = tx.keep(
        f"SELECT {_COLUMNS} FROM {TABLE} WHERE tenant = ? AND key = ? {_OWN}", (tenant, key)
    ).fetchone()
    return None if row is None else to_wish(row)


def due_wishes(
    tx: Transaction, now: float, limit: int, queues: Sequence[str] | None = None
) -> list[Wish]:
    """Return wishes that are due, the highest priority first, then the earliest."""
    some, values = "", tuple[str, ...]()
    if queues is not None:
        if not queues:
            return []
        some, values = f" AND queue IN ({', '.join('?' * len(queues))})", tuple(queues)
    rows = tx.keep(
        f"SELECT {_COLUMNS} FROM {TABLE} WHERE due <= ?{some}"
        f" ORDER BY priority DESC, due, raised_at, session LIMIT ? {_OWN}",
        (now, *values, limit),
    )
    return [to_wish(row) for row in rows.fetchall()]


def next_due(tx: Transaction, now: float) -> float | None:
    """Return when the next wish after `now` is due; None if none waits."""
    row = tx.keep(f"SELECT min(due) FROM {TABLE} WHERE due > ? {_OWN}", (now,)).fetchone()
    found = None if row is None else row[0]
    return found if isinstance(found, float) else None


def remove_wishes(tx: Transaction, sessions: Sequence[str]) -> None:
    """Remove the wishes of sessions that are deleted."""
    for session in sessions:
        tx.keep(f"DELETE FROM {TABLE} WHERE session = ? {_OWN}", (session,))


def _pack(requests: Sequence[JsonObject]) -> str:
    return msgspec.json.encode(requests).decode()


def to_wish(row: Sequence[object]) -> Wish:
    """Return a wish from its columns."""
    names = Wish.__struct_fields__
    values = dict(zip(names, row, strict=True))
    values["requests"] = msgspec.json.decode(str(values["requests"]))
    return msgspec.convert(values, Wish)
