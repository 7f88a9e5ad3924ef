"""Changes to whole sessions in Postgres, as functions of a connection in a transaction."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass import seams
from windlass.errors import StoreError
from windlass.events import FORMAT, JournalEntry, RunStarted, SessionOpened
from windlass.json_types import JsonObject
from windlass.store import codec as written
from windlass.store import holder as holders
from windlass.store import seals
from windlass.store.answers import CHECKED, check_for
from windlass.store.base import InboxKind
from windlass.store.model_calls import (
    RESERVED,
    ModelCall,
    ReserveAnswer,
    ReservedCall,
    SpendingLimit,
)
from windlass.store.postgres.connection import Connection
from windlass.store.postgres.queries import (
    STANDS,
    SessionRow,
    backwards,
    inbox,
    info,
    mail,
    silences,
    sum_spending,
    unknown,
)
from windlass.store.postgres.queries import entries as read_entries
from windlass.store.postgres.rows import Numbers, plain, share_values
from windlass.store.postgres.schema import CHANNEL, RESERVE_LOCK, TOKEN_SECONDS, VALUES_LOCK
from windlass.store.postgres.sql import read
from windlass.store.sqlite.model_calls import OF_SESSION, Page
from windlass.store.sqlite.queries import split
from windlass.store.threaded.jobs import Line
from windlass.store.threaded.store import Opening
from windlass.store.trigger_rows import list_condition_ids
from windlass.store.wishes import WAKE_TREE, WAKING

# `windlass.store.wishes.WAKE_TREE` in the form of the driver: the time is one value.
_WAKE = WAKE_TREE.replace("WHERE id = ?", "WHERE id = $2").replace("?", "$1")
AT_ONCE = 500  # sessions that are removed in one transaction


async def become_writer(connection: Connection, opening: Opening) -> None:
    """Store the session's first row or its next epoch; safe to repeat."""
    line, opening.entries = opening.line, None
    if opening.claim is not None:
        statement, values = opening.claim
        if await connection.execute(read(statement).text, *values) != "UPDATE 1":
            raise opening.claim_error()
    found = await _next_epoch(connection, opening)
    if found is None:
        if not opening.create:
            raise await unknown(connection, line.session_id)
        root_id = await _root_of(connection, opening.parent_id)
        opened = SessionOpened(
            line.session_id, FORMAT, opening.parent_id, root_id, None, opening.metadata
        )
        found = await _insert(connection, opened, [opened], opening.at, None, line.holder)
        if found is None:  # another process has just created it
            found = await _next_epoch(connection, opening)
        else:
            opening.entries = [opened]
    if found is None:
        raise StoreError(f"session {line.session_id!r} comes and goes; try again")
    line.sid, line.epoch, line.stands = found.sid, found.epoch, found.stands
    opening.mail = (await mail(connection, {line.sid: line.session_id}))[line.sid]
    if opening.entries is None:  # nobody else appends to it now
        opening.entries = await read_entries(connection, line.session_id, found)


async def _next_epoch(connection: Connection, opening: Opening) -> SessionRow | None:
    if opening.take_over:
        await _may_replace(connection, opening)  # for how long its writer has been silent
    row = await connection.fetchrow(
        "UPDATE windlass_sessions SET epoch = epoch + 1,"
        " updated_at = greatest(updated_at, $2), holder = $3"
        f" WHERE id = $1 AND (holder IS NULL OR $4) RETURNING {STANDS}",
        opening.line.session_id,
        opening.at,
        opening.line.holder,
        opening.take_over,
    )
    if row is None and await _may_replace(connection, opening):
        row = await connection.fetchrow(
            "UPDATE windlass_sessions SET epoch = epoch + 1,"
            " updated_at = greatest(updated_at, $2), holder = $3"
            f" WHERE id = $1 RETURNING {STANDS}",
            opening.line.session_id,
            opening.at,
            opening.line.holder,
        )
    return None if row is None else SessionRow(row)


async def _may_replace(connection: Connection, opening: Opening) -> bool:
    """Check whether the session exists and its holder is dead; raise if it is alive."""
    row = await connection.fetchrow(
        "SELECT holder, updated_at FROM windlass_sessions WHERE id = $1 FOR UPDATE",
        opening.line.session_id,
    )
    if row is None:
        return False
    holder = holders.decode(row[0])
    if holder is not None:
        silent = (await silences(connection)).get(holder.store)
        opening.refuse_if_held(row[0], row[1], silent)
    return True


async def give_up(connection: Connection, line: Line) -> None:
    """Clear the holder of the session, unless it has a new writer."""
    await connection.execute(
        "UPDATE windlass_sessions SET holder = NULL WHERE sid = $1 AND epoch = $2",
        line.sid,
        line.epoch,
    )


async def beat(connection: Connection, store: str) -> None:
    """Record a heartbeat of the store; remove those older than a day."""
    await connection.execute(
        "INSERT INTO windlass_beats VALUES ($1, extract(epoch FROM clock_timestamp()))"
        " ON CONFLICT (store) DO UPDATE SET at = excluded.at",
        store,
    )
    await connection.execute(
        "DELETE FROM windlass_beats WHERE at < extract(epoch FROM clock_timestamp()) - 86400"
    )


async def _insert(
    connection: Connection,
    opened: SessionOpened,
    entries: list[JournalEntry],
    at: float,
    numbers: Numbers | None,
    holder: str | None = None,
) -> SessionRow | None:
    """Insert a session with its first row; None if the id is taken."""
    payload = written.encode(entries, opened.session_id)
    hash_ = written.chain_hash(written.genesis(opened.session_id), 0, at, payload)
    notes = written.notes_of(entries)
    metadata = written.encode_value(opened.metadata, "metadata").decode()
    run = 0 if numbers is None else await _last_run(connection, opened.session_id, entries, numbers)
    row = await connection.fetchrow(
        "INSERT INTO windlass_sessions (id, epoch, rows, entries, head, created_at, updated_at,"
        " parent_id, root_id, branch_at, status, title, metadata, run, holder)"
        " VALUES ($1, 1, 1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
        f" ON CONFLICT DO NOTHING RETURNING {STANDS}",
        opened.session_id,
        len(entries),
        hash_,
        at,
        opened.parent_id,
        opened.root_id,
        opened.branch_at,
        notes.status,
        plain(notes.title),
        metadata if opened.metadata else None,
        run,
        holder,
    )
    if row is None:
        return None
    found = SessionRow(row)
    payload, cuts, blobs = split(payload)
    if blobs:
        await connection.execute(share_values())
    await connection.execute(
        "INSERT INTO windlass_rows VALUES ($1, 0, 0, $2, $3, $4, $5)",
        found.sid,
        at,
        payload,
        cuts,
        hash_,
    )
    for name, data in sorted(blobs):
        await connection.execute(
            "INSERT INTO windlass_blobs VALUES ($1, $2) ON CONFLICT DO NOTHING", name, data
        )
        await connection.execute(
            "INSERT INTO windlass_blob_uses VALUES ($1, $2) ON CONFLICT DO NOTHING", name, found.sid
        )
    return found


async def _last_run(
    connection: Connection, session_id: str, entries: list[JournalEntry], numbers: Numbers
) -> int:
    """Return the number of the last run in a copied history; 0 if there is none."""
    runs = [entry for entry in entries if type(entry) is RunStarted]
    if not runs:
        return 0
    await numbers.refill(connection, 1)
    page = Page(None, numbers.next)
    number = page.begin(session_id, runs[-1])
    numbers.next += 1
    await _enter(connection, page)
    return number


async def record(connection: Connection, calls: Sequence[ModelCall], numbers: Numbers) -> None:
    """Record calls that no journal holds."""
    for at in range(0, len(calls), 128):
        some = calls[at : at + 128]
        await numbers.refill(connection, len(some))
        page = Page(None, numbers.next)
        page.copy(some)
        numbers.next += len(page.runs) // 10
        await _enter(connection, page)


async def reserve(
    connection: Connection,
    call: ModelCall,
    limit: SpendingLimit | None,
    replaces: ReservedCall | None,
    numbers: Numbers,
) -> ReserveAnswer:
    """Record a call before it is made, if the limit leaves room for it.

    Whoever reserves holds a lock, and then sees what the one before has reserved.
    """
    tokens, usd = 0, 0.0
    if limit is not None:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", RESERVE_LOCK)
        tokens, usd = await sum_spending(connection, limit.since, reserved=True)
        if replaces is not None and replaces.at >= limit.since:
            for own in await connection.fetch(
                "SELECT input_tokens + output_tokens, cost_usd FROM windlass_calls"
                " WHERE n = $1 AND at = $2 AND outcome = $3",
                *replaces,
                RESERVED,
            ):
                tokens, usd = tokens - int(own[0]), usd - float(own[1])
        if not limit.allows(tokens, usd, call):
            return ReserveAnswer(None, tokens, usd)
    if replaces is not None:
        await release(connection, (replaces,))
    await record(connection, (call,), numbers)
    number = await connection.fetchval(
        "SELECT currval(pg_get_serial_sequence('windlass_calls', 'n'))"
    )
    return ReserveAnswer(ReservedCall(int(number), call.at), tokens, usd)


async def release(connection: Connection, places: Sequence[ReservedCall]) -> None:
    """Remove reserved calls; those that are gone already stay so."""
    for place in places:
        await connection.execute(
            "DELETE FROM windlass_runs WHERE n IN (SELECT run FROM windlass_calls"
            " WHERE n = $1 AND at = $2 AND outcome = $3)",
            *place,
            RESERVED,
        )
        await connection.execute(
            "DELETE FROM windlass_calls WHERE n = $1 AND at = $2 AND outcome = $3", *place, RESERVED
        )


async def release_session(connection: Connection, session_id: str) -> None:
    """Remove what is reserved for the calls of a session."""
    found = await connection.fetch(f"{OF_SESSION}$1)", session_id)
    await release(connection, [ReservedCall(int(row[0]), float(row[1])) for row in found])


async def _enter(connection: Connection, page: Page) -> None:
    for at in range(0, len(page.runs), 10):
        values = [plain(value) for value in page.runs[at : at + 10]]
        await connection.execute(
            "INSERT INTO windlass_runs VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", *values
        )
    for at in range(0, len(page.full), 17):
        values = [plain(value) for value in page.full[at : at + 17]]
        await connection.execute(
            "INSERT INTO windlass_calls (run, at, input_tokens, output_tokens, cost_usd, latency_ms,"
            " tool_calls, provider, model, cache_read_tokens, cache_write_tokens, reasoning_tokens,"
            " gpu_ms, attempts, outcome, purpose, via) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
            " $10, $11, $12, $13, $14, $15, $16, $17)",
            *values,
        )


async def fork(
    connection: Connection,
    session_id: str,
    new_id: str,
    entries: list[JournalEntry],
    branch_at: int | None,
    metadata: JsonObject | None,
    numbers: Numbers,
) -> None:
    """Create a session with these entries and its parent's lineage."""
    parent = await info(connection, session_id)
    check_id(new_id)
    opened = SessionOpened(
        new_id,
        FORMAT,
        session_id,
        parent.root_id,
        branch_at,
        {**parent.metadata, **(metadata or {})} or None,
    )
    if await _insert(connection, opened, [opened, *entries], seams.now(), numbers) is None:
        raise StoreError(f"session {new_id!r} exists already; fork under another id")


def check_id(session_id: str) -> None:
    """Refuse what Postgres cannot hold as text."""
    if "\0" in session_id:
        raise StoreError(f"session {session_id!r}: an id is text without NUL")


async def _root_of(connection: Connection, parent_id: str | None) -> str | None:
    if parent_id is None:
        return None
    root = await connection.fetchval(
        "SELECT root_id FROM windlass_sessions WHERE id = $1", parent_id
    )
    return parent_id if root is None else root


async def post(
    connection: Connection, session_id: str, item: tuple[str, InboxKind, bytes, float]
) -> int:
    """Post an item and notify listeners; return the session's number."""
    if item[1] in CHECKED:
        await _check_post(connection, session_id, item[1], item[2])
    sid = await connection.fetchval(
        # the session stays as long as this takes, and its writer is not held up
        "WITH s AS (SELECT sid FROM windlass_sessions WHERE id = $1 FOR KEY SHARE)"
        " INSERT INTO windlass_inbox (sid, id, kind, payload, at)"
        " SELECT sid, $2, $3, $4, $5 FROM s RETURNING sid",
        plain(session_id),
        *item,
    )
    if sid is None:
        raise await unknown(connection, session_id)
    if item[1] in WAKING:
        await connection.execute(_WAKE, item[3], plain(session_id))
    await connection.execute(f"SELECT pg_notify({CHANNEL}, $1)", str(sid))
    return sid


async def _check_post(
    connection: Connection, session_id: str, kind: InboxKind, data: bytes
) -> None:
    """Refuse a second answer to a question, or an event for a full queue.

    Whoever posts one, and the writer who takes an answer, change or lock the session's row: one after
    the other, and each statement sees what was committed before it.
    """
    await connection.execute(
        "SELECT 1 FROM windlass_sessions WHERE id = $1 FOR UPDATE", plain(session_id)
    )
    waiting = await inbox(connection, session_id)
    check = check_for(kind, msgspec.json.decode(data), waiting)
    if check is None:
        return
    async for row in backwards(connection, session_id):
        if check.read(written.decode(row.payload, session_id, row.seq)):
            return
    check.finish()


async def remove(connection: Connection, where: str, value: object, but: set[str]) -> list[str]:
    """Delete up to `AT_ONCE` sessions with their mail and values; return their ids."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", VALUES_LOCK)
    gone = await connection.fetch(
        "DELETE FROM windlass_sessions WHERE sid = ANY(ARRAY(SELECT sid FROM windlass_sessions"
        f" WHERE {where} AND id <> ALL($2::text[]) ORDER BY sid LIMIT {AT_ONCE}))"
        f" AND {where} RETURNING sid, id, rows, encode(head, 'hex'),"
        " coalesce((SELECT tenant FROM windlass_runs WHERE n = windlass_sessions.run), '')",
        value,
        list(but),
    )
    await connection.execute(  # of processes that were killed before they tidied up
        "DELETE FROM windlass_tokens WHERE at < $1", seams.now() - TOKEN_SECONDS
    )
    sids = [row[0] for row in gone]
    if not sids:
        return []
    if await connection.fetchval(seals.GRAVES_POSTGRES) is not None:
        columns = [[row[at] for row in gone] for at in (1, 2, 3, 4)]
        await connection.execute(seals.BURY_POSTGRES, *columns, seams.now())
    for table in ("windlass_rows", "windlass_inbox"):
        await connection.execute(f"DELETE FROM {table} WHERE sid = ANY($1::bigint[])", sids)
    await connection.execute(
        "DELETE FROM windlass_wishes WHERE session = ANY($1::text[])", [row[1] for row in gone]
    )
    await connection.execute(
        "DELETE FROM windlass_triggers WHERE id = ANY($1::text[])",
        list_condition_ids([row[1] for row in gone]),
    )
    await connection.execute(
        "WITH freed AS (DELETE FROM windlass_blob_uses WHERE sid = ANY($1::bigint[])"
        " RETURNING digest)"
        " DELETE FROM windlass_blobs AS b USING (SELECT DISTINCT digest FROM freed) AS f"
        " WHERE b.digest = f.digest AND NOT EXISTS (SELECT 1 FROM windlass_blob_uses AS u"
        " WHERE u.digest = b.digest AND u.sid <> ALL($1::bigint[]))",
        sids,
    )
    return [row[1] for row in sorted(gone, key=lambda row: row[0])]
