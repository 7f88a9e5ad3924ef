"""One batch of the writer: everything that goes into one transaction.

Rows of many sessions are written together, in a handful of statements. Only when one of them does
not fit (a stale writer, a second result) is the group done again, each session in a savepoint.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from windlass import seams
from windlass.errors import Corrupt, StaleWriter, StoreError
from windlass.store import codec as written
from windlass.store.base import second_result_error
from windlass.store.sqlite import model_calls, schema
from windlass.store.sqlite import queries as sqlite_queries
from windlass.store.threaded.jobs import (
    Append,
    Call,
    Commit,
    Line,
)
from windlass.store.transaction import Guard

_FENCE = """UPDATE windlass_sessions
    SET rows = ?, entries = ?, head = ?, last_key = ?, run = ?,
    created_at = min(created_at, ?), updated_at = max(updated_at, ?)
    WHERE sid = ? AND epoch = ? AND rows = ? AND head = ?"""
# A clock may be set back: the times of a session stay around those of all its rows.
_STANDS = "SELECT 1 FROM windlass_sessions WHERE sid = ? AND epoch = ? AND rows = ? AND head = ?"


_ROWS = model_calls.inserts("windlass_rows", 9)


class Redo(Exception):
    """A session spoils the batch, which is repeated with each in a savepoint."""


class SecondResult(Exception):
    """A call has its result already."""


def fill(
    connection: sqlite3.Connection,
    guard: Guard,
    lines: list[Line],
    calls: list[Call],
    careful: bool,
) -> dict[Line, StoreError]:
    """Write the batch into the open transaction; return the sessions that failed, and why."""
    lost: dict[Line, StoreError] = {}
    alone = lines if careful else [line for line in lines if line.bodies]
    together = [line for line in lines if line not in alone] if alone else lines
    for line in lines:
        line.fresh.clear()
    try:
        if together:
            _append_rows(connection, [(line, line.backlog) for line in together])
    except (sqlite3.IntegrityError, SecondResult) as error:
        raise Redo from error
    for line in alone:
        try:
            with _Savepoint(connection):
                _write_line(connection, guard, line)
        except (StaleWriter, Corrupt, SecondResult, sqlite3.IntegrityError) as error:
            lost[line] = loss(error, line)
    for call in calls:
        if call.context is not None:
            _run_free_body(connection, guard, call)
            continue
        call.error = None
        try:
            with _Savepoint(connection):
                call.value = call.work(connection)
        except sqlite3.OperationalError:
            raise
        except (
            sqlite3.IntegrityError
        ) as error:  # no statement of Windlass does that to a sound file
            call.error = Corrupt(f"the file contradicts itself ({error}); restore it from a backup")
            call.error.__cause__ = error
        except Exception as error:
            call.error = error
    return lost


def _append_rows(
    connection: sqlite3.Connection,
    group: Sequence[tuple[Line, Iterable[Append | Commit]]],
) -> None:
    fences: list[tuple[Any, ...]] = []
    rows: list[Any] = []
    key = sqlite_queries.next_key(connection)
    page: model_calls.Page | None = None
    beside: list[tuple[Line, Append]] = []
    blobs: list[tuple[Line, bytes, bytes]] = []
    for line, appends in group:
        sid, at, earliest, latest = line.sid, 0.0, math.inf, 0.0
        seq, count, head, last, run = line.stands
        for job in appends:
            assert type(job) is Append
            payload, at = job.payload, job.at
            if at < earliest:
                earliest = at
            if at > latest:
                latest = at
            head = written.chain_hash(head, seq, at, payload)
            cuts = None
            if len(payload) > sqlite_queries.BLOB_BYTES:
                payload, cuts, found = sqlite_queries.split(payload)
                blobs += [(line, name, data) for name, data in found]
            rows += (key, sid, seq, last, count, at, payload, cuts, head)
            last, key = key, key + 1
            notes = job.notes
            if notes.results:
                _check_results(line, notes.results)
            if notes.paid:
                if page is None:
                    page = model_calls.Page(connection)
                run = page.enter(line, notes.paid, run, at)
            if notes.status_changed or notes.title is not None or job.takes or job.replaces:
                beside.append((line, job))
            seq += 1
            count += job.count
        line.next = (seq, count, head, last, run)
        before = line.stands
        if seq != before[0]:
            fences.append((*line.next, earliest, latest, sid, line.epoch, before[0], before[2]))
    if not fences:
        return
    if connection.executemany(_FENCE, fences).rowcount != len(fences):
        raise Redo
    model_calls.insert(connection, _ROWS, rows)
    if page is not None:
        page.write()
    for line, name, data in blobs:
        connection.execute("INSERT OR IGNORE INTO windlass_blobs VALUES (?, ?)", (name, data))
        connection.execute(
            "INSERT OR IGNORE INTO windlass_blob_uses VALUES (?, ?)", (name, line.sid)
        )
    for line, job in beside:
        _note(connection, line, job)


def _check_results(line: Line, calls: Sequence[str]) -> None:
    for call_id in calls:
        if call_id in line.results or call_id in line.fresh:
            raise SecondResult
        line.fresh.add(call_id)


def _write_line(connection: sqlite3.Connection, guard: Guard, line: Line) -> None:
    """Write one session on its own: its rows and bodies, in order.

    Rows before a body of Windlass itself, which does not read them, are written together with those behind it.
    """
    standing = line.stands
    where = (line.sid, line.epoch, standing[0], standing[2])
    row = connection.execute(_STANDS, where).fetchone()
    if row is None:
        raise stale(line)
    appends: list[Append] = []
    try:
        for job in line.backlog:
            if isinstance(job, Commit):
                if appends and not getattr(job.body, "on_snapshot", False):
                    _append(connection, line, appends)
                    appends = []
                appends += _run_body(connection, guard, line, job)
            else:
                appends.append(job)
        if appends:
            _append(connection, line, appends)
        line.next = line.stands
    finally:
        line.stands = standing


def _append(connection: sqlite3.Connection, line: Line, appends: list[Append]) -> None:
    try:
        _append_rows(connection, [(line, appends)])
    except Redo:
        raise stale(line) from None
    line.stands = line.next


def _run_body(
    connection: sqlite3.Connection, guard: Guard, line: Line, job: Commit
) -> list[Append]:
    """Run the body; return the row to append: what was pending, and the record on success."""
    pending = [job.pending] if job.pending.count else []
    job.ours = job.ours or job.try_claim()
    if job.error is not None or not job.ours:
        return pending
    try:
        with _Savepoint(connection):
            job.value = guard.run(job.body, job.context.run)
            job.entries = list(job.record(job.value))
            row = with_record(job, line)
            taken = [c for c in row.notes.results if c in line.results or c in line.fresh]
            if taken:
                raise second_result_error(taken, line.session_id)
            return [row] if row.count else []
    except BaseException as error:
        job.entries, job.value = (), None
        if schema.code_of(error) in schema.PASSING and not isinstance(error, StoreError):
            raise
        job.error = error
        if not connection.in_transaction:  # SQLite rolled the whole group back with it
            raise Redo from error
        return pending


def _run_free_body(connection: sqlite3.Connection, guard: Guard, call: Call) -> None:
    """Run a body that belongs to no session; a failed one is not repeated with its batch."""
    if call.error is not None or call.context is None:
        return
    try:
        with _Savepoint(connection):
            call.value = guard.run(call.work, call.context.run)
    except BaseException as error:
        if schema.code_of(error) in schema.PASSING and not isinstance(error, StoreError):
            raise
        call.error = error
        if isinstance(error, StopIteration):  # a future refuses to hold one
            call.error = RuntimeError(f"the body raised {error!r}")
        if not connection.in_transaction:  # SQLite rolled the whole group back with it
            raise Redo from error


class _Savepoint:
    """A savepoint that rolls back on an exception, unless SQLite already has."""

    __slots__ = ("connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __enter__(self) -> None:
        self.connection.execute("SAVEPOINT windlass /* windlass */")

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        if not self.connection.in_transaction:
            return
        if kind is not None:
            self.connection.execute("ROLLBACK TO windlass /* windlass */")
        self.connection.execute("RELEASE windlass /* windlass */")


def _note(connection: sqlite3.Connection, line: Line, job: Append) -> None:
    notes = job.notes
    if notes.status_changed:
        connection.execute(
            "UPDATE windlass_sessions SET status = ?, holder = ? WHERE sid = ?",
            (notes.status, job.holder, line.sid),
        )
    if notes.title is not None:
        connection.execute(
            "UPDATE windlass_sessions SET title = coalesce(title, ?) WHERE sid = ?",
            (notes.title, line.sid),
        )
    if job.replaces:
        model_calls.release(connection, job.replaces)
    for item_id in job.takes:
        connection.execute(
            "DELETE FROM windlass_inbox WHERE sid = ? AND id = ?", (line.sid, item_id)
        )


def with_record(job: Commit, line: Line) -> Append:
    """Build the row of a commit: what was pending, then the record of the body."""
    pending = job.pending
    payload = written.encode(job.entries, line.session_id)
    if pending.count and job.entries:
        payload = pending.payload[:-1] + b"," + payload[1:]
    elif pending.count:
        payload = pending.payload
    return Append(
        line,
        payload,
        pending.count + len(job.entries),
        # the time of the result: the body may have taken long since the row was closed
        max(pending.at, seams.now()) if job.entries else pending.at,
        pending.notes.then(written.notes_of(job.entries)),
        pending.takes,
        pending.holder,
        pending.replaces,
    )


def stale(line: Line) -> StaleWriter:
    """Build the error for a writer whose session has another one."""
    return StaleWriter(
        f"session {line.session_id!r} was taken over by another writer, or deleted; "
        "nothing was written here: open it again to go on from where it stands"
    )


def loss(error: Exception, line: Line) -> StoreError:
    """Build the error for a writer whose rows were refused."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, SecondResult):
        return StoreError(
            f"session {line.session_id!r}: a call was given a second result; nothing of it was "
            "written: open the session again and read the first with result_of"
        )
    return Corrupt(
        f"session {line.session_id!r}: a row stands where the next one belongs ({error})"
    )
