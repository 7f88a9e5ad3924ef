"""Batches of rows for Postgres: one statement stores the rows of several sessions.

The statement fences first: what belongs to a session that does not stand where its writer left it
is left out, and the answer names the sessions that were written. Alone, the statement is its own
transaction, so that a row is durable after one trip to the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any

from windlass.store import codec as written
from windlass.store.model_calls import RESERVED
from windlass.store.postgres.connection import Connection
from windlass.store.postgres.schema import RUNS_AT_ONCE, VALUES_LOCK
from windlass.store.sqlite import queries as sqlite_queries
from windlass.store.sqlite.group import SecondResult
from windlass.store.sqlite.model_calls import Page
from windlass.store.threaded.jobs import (
    Append,
    Commit,
    Line,
    Place,
)

# What is right one after the other, as bodies run on SQLite, is right here: a body that has read what
# another is changing is run again, also where the two write different rows.
SERIALIZABLE = "BEGIN ISOLATION LEVEL SERIALIZABLE"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ"
ROWS = 64  # of a session in one group

_FENCE = (
    "sid bigint, epoch bigint, rows bigint, head bytea, to_rows bigint, to_entries bigint,"
    " to_head bytea, to_run bigint, earliest float8, latest float8, changed bool, status text, title text,"
    " holder text"
)
_ROW = "sid bigint, seq bigint, first bigint, at float8, payload bytea, cuts text, hash bytea"
_RUN = (
    "n bigint, session text, run text, door text, tenant text, caller text, request text,"
    " conversation text, provider text, model text"
)
_CALL = (
    "run bigint, at float8, input_tokens bigint, output_tokens bigint, cost_usd float8,"
    " latency_ms float8, tool_calls bigint, provider text, model text, cache_read_tokens bigint,"
    " cache_write_tokens bigint, reasoning_tokens bigint, gpu_ms float8, attempts bigint,"
    " outcome text, purpose text, via text"
)
_PLAIN = (None, None, 0, 0, 0, 0.0, 1, None, None, None)  # what a plain call leaves out
_TAKE = "sid bigint, id text"
_PLACE = "sid bigint, n bigint, at float8"
_BLOB = "sid bigint, digest bytea, data bytea"


class SessionRows:
    """Rows of one session, and the position of the session after them."""

    def __init__(self, line: Line, appends: Iterable[Append], page: Page) -> None:
        self.seq, self.count, self.head, _, self.run = line.stands
        self.fresh: set[str] = set()
        self.rows: list[tuple[Any, ...]] = []
        self.takes: list[tuple[int, str]] = []
        self.replaced: list[tuple[int, int, float]] = []
        self.blobs: list[tuple[int, bytes, bytes]] = []
        self.status: str | None = None
        self.title: str | None = None
        self.holder: str | None = None
        self.changed = False
        for job in appends:
            self._add(line, job, page)

    def _add(self, line: Line, job: Append, page: Page) -> None:
        notes = job.notes
        for call_id in notes.results:
            if call_id in line.results or call_id in self.fresh:
                raise SecondResult
            self.fresh.add(call_id)
        self.head = written.chain_hash(self.head, self.seq, job.at, job.payload)
        payload, cuts, found = sqlite_queries.split(job.payload)
        self.blobs += [(line.sid, name, data) for name, data in found]
        self.rows.append((line.sid, self.seq, self.count, job.at, payload, cuts, self.head))
        if notes.paid:
            self.run = page.enter(line, notes.paid, self.run, job.at)
        if notes.status_changed:
            self.status, self.changed, self.holder = notes.status, True, job.holder
        if self.title is None:
            self.title = notes.title
        self.takes += [(line.sid, item_id) for item_id in job.takes]
        self.replaced += [(line.sid, place.number, place.at) for place in job.replaces]
        self.seq += 1
        self.count += job.count


class Batch:
    """Rows of several sessions, and the new position of each."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.places: dict[Line, Place] = {}
        self.fresh: dict[Line, set[str]] = {}  # calls that get their result
        self.fences: list[tuple[Any, ...]] = []
        self.rows: list[tuple[Any, ...]] = []
        self.runs: list[tuple[Any, ...]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.takes: list[tuple[int, str]] = []
        self.replaced: list[tuple[int, int, float]] = []
        self.blobs: list[tuple[int, bytes, bytes]] = []

    def add(self, line: Line, appends: Iterable[Append], numbers: Numbers) -> None:
        """Add a session's rows; raise `SecondResult`, adding nothing, for a second result."""
        before = line.stands
        asks = line.asks
        page = Page(None, numbers.next)
        try:
            part = SessionRows(line, appends, page)
        except SecondResult:
            line.asks = asks
            raise
        if not part.rows:
            return
        numbers.next += len(page.runs) // 10
        self.lines.append(line)
        self.places[line] = (part.seq, part.count, part.head, 0, part.run)
        self.fresh[line] = part.fresh
        times = [row[3] for row in part.rows]
        self.fences.append(
            (
                line.sid,
                line.epoch,
                before[0],
                before[2],
                part.seq,
                part.count,
                part.head,
                part.run,
                min(times),
                max(times),
                part.changed,
                part.status,
                plain(part.title),
                part.holder,
            )
        )
        self.rows += part.rows
        self.takes += part.takes
        self.replaced += part.replaced
        self.blobs += part.blobs
        self.runs += [(line.sid, *map(plain, run)) for run in _tuples(page.runs, 10)]
        self.calls += [(line.sid, *call, *_PLAIN) for call in _tuples(page.plain, 7)]
        self.calls += [(line.sid, *map(plain, call)) for call in _tuples(page.full, 17)]

    async def write(self, connection: Connection) -> tuple[set[int], str]:
        """Store the batch; return the sessions that were written, and the transaction id."""
        several = (
            self.runs,
            self.calls,
            self.takes,
            self.replaced,
            sorted(self.blobs, key=_by_digest),
        )
        parts = [bool(some) for some in several]
        values = [*zip(*self.fences, strict=True), *zip(*self.rows, strict=True)]
        for some in several:
            if some:
                values += zip(*some, strict=True)
        found = await connection.fetch(_statement(*parts), *values)
        return {row[0] for row in found}, found[0][1] if found else ""

    async def write_alone(self, connection: Connection) -> set[int]:
        """Store the batch in a transaction of its own."""
        if not self.blobs:
            return (await self.write(connection))[0]
        await connection.execute(f"BEGIN; {share_values()}")
        fenced, _ = await self.write(connection)
        await connection.execute("COMMIT")
        return fenced

    async def stored_before(self, connection: Connection, lines: list[Line]) -> set[Line]:
        """Return the sessions that already stand behind these rows, stored by an earlier try."""
        if not lines:
            return set()
        found = await connection.fetch(
            "SELECT sid, epoch, rows, head FROM windlass_sessions WHERE sid = ANY($1::bigint[])",
            [line.sid for line in lines],
        )
        now = {row[0]: tuple(row)[1:] for row in found}
        ours = {line: (line.epoch, self.places[line][0], self.places[line][2]) for line in lines}
        return {line for line, place in ours.items() if now.get(line.sid) == place}


class Numbers:
    """Numbers for runs, drawn from the server some hundreds at a time."""

    def __init__(self) -> None:
        self.next = self._end = 0

    async def refill(self, connection: Connection, wanted: int) -> None:
        """Draw numbers until at least `wanted` are left."""
        if self._end - self.next >= wanted:
            return
        first = await connection.fetchval("SELECT nextval('windlass_run_numbers')")
        self.next, self._end = first, first + RUNS_AT_ONCE

    @property
    def left(self) -> int:
        """How many there are."""
        return self._end - self.next


def share_values() -> str:
    """Build the statement that keeps large values from being removed in this transaction."""
    return f"SELECT pg_advisory_xact_lock_shared({VALUES_LOCK})"


def plain(value: object) -> Any:
    """Replace NUL in text, which Postgres cannot hold."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


def _by_digest(blob: tuple[int, bytes, bytes]) -> bytes:
    return blob[1]  # two writers of the same values lock them in one order


def _tuples(flat: Sequence[Any], width: int) -> list[tuple[Any, ...]]:
    return [tuple(flat[at : at + width]) for at in range(0, len(flat), width)]


def leading(line: Line) -> list[Append]:
    """Return the rows at the head of the backlog, up to the next body."""
    found: list[Append] = []
    for job in line.backlog:
        if isinstance(job, Commit) or len(found) == ROWS:
            break
        found.append(job)
    return found


def begin(line: Line, level: str = SERIALIZABLE) -> str:
    """Build the statements that begin and check in one trip that the writer is current."""
    return (
        f"{level}; SELECT 1 FROM windlass_sessions WHERE sid = {line.sid}"
        f" AND epoch = {line.epoch} AND rows = {line.stands[0]}"
    )


def build_stored_check(line: Line, place: Place) -> Callable[[Connection], Awaitable[bool]]:
    """Build a function that checks whether the row of this position is in the journal."""

    async def look(connection: Connection) -> bool:
        found = await connection.fetchval(
            "SELECT 1 FROM windlass_rows WHERE sid = $1 AND seq = $2 AND hash = $3",
            line.sid,
            place[0] - 1,
            place[2],
        )
        return found is not None

    return look


def _replace_steps(places: str) -> list[str]:
    """Build the steps that remove reserved calls, and the runs that hold nothing else."""
    return [
        f"replaced AS (DELETE FROM windlass_calls AS c USING {places}, fenced"
        f" WHERE c.n = v.n AND c.at = v.at AND c.outcome = '{RESERVED}'"
        " AND fenced.sid = v.sid RETURNING c.run)",
        "emptied AS (DELETE FROM windlass_runs AS r USING replaced WHERE r.n = replaced.run)",
    ]


def _blob_steps(source: str) -> list[str]:
    """Build the steps that store large values and who uses them."""
    return [
        f"large AS MATERIALIZED (SELECT v.* FROM {source} JOIN fenced ON fenced.sid = v.sid)",
        "kept AS (INSERT INTO windlass_blobs (digest, data) SELECT DISTINCT ON (digest)"
        " digest, data FROM large ORDER BY digest ON CONFLICT DO NOTHING)",
        "used AS (INSERT INTO windlass_blob_uses (digest, sid) SELECT DISTINCT digest, sid"
        " FROM large ON CONFLICT DO NOTHING)",
    ]


@cache
def _statement(runs: bool, calls: bool, takes: bool, replaced: bool, blobs: bool) -> str:
    """Build the statement for a batch with these parts."""
    number = 0

    def table(name: str, columns: str) -> str:
        nonlocal number
        names: list[str] = []
        arrays: list[str] = []
        for column in columns.split(", "):
            column, kind = column.split()
            number += 1
            names.append(column)
            arrays.append(f"${number}::{kind}[]")
        return f"unnest({', '.join(arrays)}) AS {name} ({', '.join(names)})"

    def names(columns: str, prefix: str = "") -> str:
        return ", ".join(prefix + column.split()[0] for column in columns.split(", "))

    def insert_from(into: str, columns: str, more: str = "") -> str:
        source = table("v", columns if columns.startswith("sid ") else f"sid bigint, {columns}")
        return (
            f"INSERT INTO {into} ({names(columns)}) SELECT {names(columns, 'v.')}"
            f" FROM {source} JOIN fenced ON fenced.sid = v.sid{more}"
        )

    steps = [
        "fenced AS (UPDATE windlass_sessions AS s SET rows = w.to_rows, entries = w.to_entries,"
        " head = w.to_head, run = w.to_run, created_at = least(s.created_at, w.earliest),"
        " updated_at = greatest(s.updated_at, w.latest),"
        " status = CASE WHEN w.changed THEN w.status ELSE s.status END,"
        " holder = CASE WHEN w.changed THEN w.holder ELSE s.holder END,"
        f" title = coalesce(s.title, w.title) FROM {table('w', _FENCE)}"
        " WHERE s.sid = w.sid AND s.epoch = w.epoch AND s.rows = w.rows AND s.head = w.head"
        " RETURNING s.sid)",
        f"added AS ({insert_from('windlass_rows', _ROW)})",
    ]
    if runs:
        steps.append(f"begun AS ({insert_from('windlass_runs', _RUN)})")
    if calls:
        steps.append(f"paid AS ({insert_from('windlass_calls', _CALL)})")
    if takes:
        steps.append(
            f"taken AS (DELETE FROM windlass_inbox AS i USING {table('v', _TAKE)}, fenced"
            " WHERE i.sid = v.sid AND i.id = v.id AND fenced.sid = v.sid)"
        )
    if replaced:
        steps += _replace_steps(table("v", _PLACE))
    if blobs:
        steps += _blob_steps(table("v", _BLOB))
    return f"WITH {', '.join(steps)} SELECT sid, pg_current_xact_id()::text FROM fenced"
