"""Queries of the audit log: every recorded tool call, from journals and the resource log.

There is no separate index of calls, because it would be written with every turn and would not be
part of a hash chain. The index of runs, which the cost records keep, says which journals to read.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, Unpack, cast

import msgspec

from windlass.errors import ConfigError, NoSuchSession, nearest, safe_repr
from windlass.events import JournalEntry, RunStarted, ToolDecided, ToolIntended, ToolResulted
from windlass.events.policy import UndoBegun, UndoEnded
from windlass.json_types import JsonObject
from windlass.resources import audit
from windlass.store import codec as written
from windlass.store import seals
from windlass.store.base import Row, Store
from windlass.store.memory import MemoryStore
from windlass.store.memory_archive import ArchivedSession

LIMIT = 100
_PAGE = 500
_AT_ONCE = 16  # sessions whose journals are read together
_COLUMNS = ", ".join(f'"{name}"' for name in audit.COLUMNS)


Key: TypeAlias = tuple[float, str, int, str, str]


class AuditEntry(msgspec.Struct, frozen=True):
    """One recorded tool call: caller, rule, digest of the arguments, outcome.

    A call to a resource also has `resource`, `verb`, `row` and `changes`: for each changed row its
    id, versions, digests and `{field: [before, after]}`. A call of the host has no session. An undo
    has the verb `undo` and the caller who made it.
    """

    at: float
    tool: str
    tenant: str | None = None
    caller: str = ""
    roles: tuple[str, ...] = ()
    request: str | None = None
    conversation: str | None = None
    session: str | None = None
    run: str | None = None
    call: str | None = None
    action: str | None = None  # allow, deny, answer, ask; None: never asked about
    rule: str | None = None
    digest: str | None = None  # of the arguments
    reason: str | None = None
    outcome: str | None = None  # as in the result; None: there is none yet
    duration_ms: float = 0.0
    resource: str | None = None
    verb: str | None = None
    row: str | None = None
    changes: tuple[JsonObject, ...] = ()
    asker: str | None = None  # the policies that asked a person
    answered_by: str | None = None  # the people who answered them
    policy_decision: JsonObject | None = None  # which rule and why, what was asked and answered
    seq: int = 0  # of the row of its chain where it begins
    placed_at: float = 0.0  # `at`, or that of an earlier row where a clock was set back

    @property
    def key(self) -> Key:
        """The sort key, the newest first: within a chain by its sequence."""
        return (-self.placed_at, self.session or "", -self.seq, self.call or "", self.digest or "")


class AuditPage(msgspec.Struct, frozen=True):
    """A page of entries, newest first; pass `cursor` to the same query for the next page."""

    entries: tuple[AuditEntry, ...]
    cursor: str | None = None


class AuditQuery(TypedDict, total=False):
    """The filters of an audit query; all that are given must match."""

    tenant: str | None
    caller: str
    request: str
    conversation: str
    session: str
    tool: str
    resource: str
    since: float
    until: float
    limit: int
    cursor: str


async def query(store: Store, **which: Unpack[AuditQuery]) -> AuditPage:
    """Return the entries that match, newest first, one page at a time."""
    asked = _Query(which)
    found = [
        *await _query_log(store, asked),
        *await _query_journals(store, asked),
    ]
    found.sort(key=lambda entry: entry.key)
    page = tuple(found[: asked.limit])
    cursor = msgspec.json.encode(page[-1].key).decode() if len(found) > asked.limit else None
    return AuditPage(page, cursor)


class _Query:
    """A checked query."""

    def __init__(self, which: AuditQuery) -> None:
        for name in which:
            if name not in AuditQuery.__annotations__:
                raise ConfigError(
                    f"audit.query has no filter {name!r}{nearest(name, AuditQuery.__annotations__)}"
                )
        given = cast("JsonObject", which)
        for name, value in given.items():
            _check(name, value)
        self.limit: int = which.get("limit", LIMIT)
        self.since, self.until = which.get("since"), which.get("until")
        self.after = _place(which["cursor"]) if "cursor" in which else None
        names = ("tenant", "request", "conversation", "session", "tool", "resource")
        self.exactly = {name: given[name] for name in names if name in given}
        self.caller = which.get("caller")

    @property
    def latest(self) -> float | None:
        """The latest time of any matching call."""
        ends = [
            end for end in (self.until, -self.after[0] if self.after else None) if end is not None
        ]
        return min(ends, default=None)

    def fits(self, entry: AuditEntry) -> bool:
        """Check whether an entry matches, and comes after the last page."""
        if self.since is not None and entry.at < self.since:
            return False
        if self.until is not None and entry.at >= self.until:
            return False
        if self.after is not None and entry.key <= self.after:
            return False
        if self.caller is not None and self.caller not in (
            entry.caller,
            f"{entry.tenant}/{entry.caller}",
        ):
            return False
        return all(getattr(entry, name) == value for name, value in self.exactly.items())


def _check(name: str, value: Any) -> None:
    if name == "limit":
        good = type(value) is int and value > 0
    elif name in ("since", "until"):
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
    else:
        good = isinstance(value, str) or (value is None and name == "tenant")
    if not good:
        kind = {"limit": "a number above 0", "since": "seconds", "until": "seconds"}
        raise ConfigError(
            f"audit.query: {name} is {kind.get(name, 'text')}, not {safe_repr(value)}"
        )


def _place(cursor: str) -> Key:
    try:
        return msgspec.json.decode(cursor, type=Key)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ConfigError(
            f"audit.query: {safe_repr(cursor)} is no cursor; pass on that of the page before"
        ) from error


# --------------------------------------------------------------------------- journals


async def _query_journals(store: Store, asked: _Query) -> list[AuditEntry]:
    """Find the calls of sessions, from the latest journal on, as far as a page needs."""
    found: list[AuditEntry] = []
    newest: list[
        float
    ] = []  # the places in time of the best so far, as many as a page and one more
    sessions = await _sessions(store, asked)
    for start in range(0, len(sessions), _AT_ONCE):
        some = sessions[start : start + _AT_ONCE]
        if len(newest) > asked.limit and newest[0] > some[0][0]:
            break  # all that follow are older than the page
        for entry in await _of_sessions(store, [name for _, name in some]):
            if asked.fits(entry):
                found.append(entry)
                heapq.heappush(newest, entry.placed_at)
                if len(newest) > asked.limit + 1:
                    heapq.heappop(newest)
    if isinstance(store, MemoryStore):
        found += filter(asked.fits, await _of_gone(store, asked))
    return found


async def _of_gone(store: MemoryStore, asked: _Query) -> list[AuditEntry]:
    """Find the calls of unnamed sessions, which the memory store keeps for the audit."""
    only = asked.exactly.get("session")
    gone = [one for one in store.archived_sessions() if only is None or one.session_id == only]
    if not gone:
        return []
    chains = tuple([f"session:{one.session_id}" for one in gone])
    marks = ", ".join("?" * len(chains))
    by_session: dict[str | None, list[audit.AuditRow]] = {}
    for row in await _log(store, f"chain IN ({marks})", chains):
        by_session.setdefault(row.session, []).append(row)
    return [
        entry for one in gone for entry in _entries_of_gone(one, by_session.get(one.session_id, ()))
    ]


async def _sessions(store: Store, asked: _Query) -> list[tuple[float, str]]:
    """List the sessions that may hold matches, the latest first."""
    if isinstance(store, MemoryStore):
        only = asked.exactly.get("session")
        return [
            (math.inf, info.id)
            for info in await store.sessions()
            if only is None or info.id == only
        ]
    wheres: list[str] = []
    values: list[Any] = []
    runs: list[str] = []
    if "session" in asked.exactly:
        wheres.append("s.id = ?")
        values.append(asked.exactly["session"])
    if asked.since is not None:
        wheres.append("s.updated_at >= ?")
        values.append(float(asked.since))
    if (latest := asked.latest) is not None:
        wheres.append("s.created_at <= ?")
        values.append(float(latest))
    for name in ("tenant", "request", "conversation"):
        if name in asked.exactly:
            value = asked.exactly[name]
            runs.append(f"r.{name} IS NULL" if value is None else f"r.{name} = ?")
            values += [] if value is None else [value]
    if asked.caller is not None:
        runs.append("(r.caller = ? OR r.caller LIKE ? ESCAPE '!')")
        escaped = asked.caller.replace("!", "!!").replace("%", "!%").replace("_", "!_")
        values += [asked.caller, f"%/{escaped}"]
    if runs:  # a session that the index does not know is looked at in any case
        fits = f"SELECT session FROM windlass_runs AS r WHERE {' AND '.join(runs)}"
        wheres.append(f"(s.run = 0 OR s.id IN ({fits}))")
    where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    sql = f"SELECT s.updated_at, s.id FROM windlass_sessions AS s{where} ORDER BY 1 DESC, 2"
    rows = await store.consult(lambda tx: tx.execute(sql, tuple(values)).fetchall())
    return [(row[0], row[1]) for row in rows]


async def _of_sessions(store: Store, names: Sequence[str]) -> list[AuditEntry]:
    """Read the calls of several sessions at once, which is faster than one by one."""
    chains = tuple(f"session:{name}" for name in names)
    marks = ", ".join("?" * len(chains))
    rows, logged = await asyncio.gather(
        asyncio.gather(*(_rows(store, name) for name in names)),
        _log(store, f"chain IN ({marks})", chains),
    )
    by_session: dict[str | None, list[audit.AuditRow]] = {}
    for row in logged:
        by_session.setdefault(row.session, []).append(row)
    return [
        entry
        for name, some in zip(names, rows, strict=True)
        for entry in entries_of(name, some, by_session.get(name, ()))
    ]


async def _rows(store: Store, name: str) -> list[Row]:
    try:
        return await store.rows(name)
    except NoSuchSession:  # deleted meanwhile
        return []


def entries_of(
    session: str, rows: Sequence[Row], logged: Sequence[audit.AuditRow]
) -> list[AuditEntry]:
    """Build the entries of a session's journal, joined with the resource log."""
    calls: dict[tuple[str, bool], _Call] = {}
    run: RunStarted | None = None
    placed_at = 0.0
    for row in rows:
        placed_at = max(placed_at, row.at)
        for entry in written.decode(row.payload, session, row.seq):
            if isinstance(entry, RunStarted):
                run = entry
            elif isinstance(entry, _KINDS):
                key = (entry.call_id, isinstance(entry, (UndoBegun, UndoEnded)))
                call = calls.setdefault(key, _Call(row.at, placed_at, row.seq, run))
                call.hear(entry)
                # What a fork was given stands in its first row, and is its parent's doing.
                call.own = call.own or row.seq > 0
    return _join(session, calls, logged)


def _entries_of_gone(gone: ArchivedSession, logged: Sequence[audit.AuditRow]) -> list[AuditEntry]:
    """Build the entries of a session that the memory store dropped, with the resource log."""
    at = gone.ended_at
    calls: dict[tuple[str, bool], _Call] = {}
    run: RunStarted | None = None
    for place, entry in enumerate(gone.calls):
        if isinstance(entry, RunStarted):
            run = entry
        elif isinstance(entry, _KINDS):
            call = calls.setdefault((entry.call_id, False), _Call(at, at, place, run))
            call.own = True
            call.hear(entry)
    return _join(gone.session_id, calls, logged)


def _join(
    session: str, calls: Mapping[tuple[str, bool], _Call], logged: Sequence[audit.AuditRow]
) -> list[AuditEntry]:
    logged_by_call: dict[tuple[str | None, bool], audit.AuditRow] = {}
    rest: list[audit.AuditRow] = []
    for row in logged:  # a read that a crash interrupted was done, and logged, twice
        key = (row.call, row.verb == UNDO)
        if key in calls and key not in logged_by_call:
            logged_by_call[key] = row
        else:
            rest.append(row)
    found = [
        call.entry(session, key[0], logged_by_call.get(key))
        for key, call in calls.items()
        if call.own
    ]
    return [*found, *map(_entry, rest)]


UNDO = "undo"
_KINDS = (ToolDecided, ToolIntended, ToolResulted, UndoBegun, UndoEnded)


class _Call:
    """The record of one call, or of its undo."""

    __slots__ = (
        "at",
        "by",
        "decided",
        "detail",
        "outcome",
        "own",
        "placed_at",
        "run",
        "seq",
        "took",
        "tool",
    )

    def __init__(self, at: float, placed_at: float, seq: int, run: RunStarted | None) -> None:
        self.at, self.placed_at, self.seq, self.run = at, placed_at, seq, run
        self.own, self.tool, self.took = False, "", 0.0
        self.decided: ToolDecided | None = None
        self.by: str | None = None  # who has undone it
        self.outcome: str | None = None
        self.detail: str | None = None

    def hear(self, entry: JournalEntry) -> None:
        """Read one more entry about the call."""
        match entry:
            case ToolDecided():
                self.decided, self.detail = entry, entry.reason
            case ToolResulted():
                self.outcome, self.took = entry.outcome, entry.duration_ms
            case UndoBegun():
                self.by, self.detail = entry.by, entry.what
            case UndoEnded():
                self.by, self.outcome = entry.by, entry.outcome
                self.detail = entry.detail or self.detail
            case _:
                pass
        self.tool = cast("Any", entry).tool

    def entry(self, session: str, name: str, logged: audit.AuditRow | None) -> AuditEntry:
        """Build the audit entry, with what the resource log has on the call."""
        run, decided = self.run, self.decided
        reason = self.detail
        if logged is not None and logged.reason is not None:
            reason = logged.reason
        verb = UNDO if self.by is not None else None
        decision = None if decided is None else decided.policy_decision
        return AuditEntry(
            at=self.at,
            tool=self.tool,
            tenant=None if run is None else run.tenant,
            caller=self.by if self.by is not None else "" if run is None else _user(run),
            roles=() if run is None or self.by is not None else run.roles,
            request=None if run is None else run.request_id,
            conversation=None if run is None else run.conversation_id,
            session=session,
            run=None if run is None else run.run_id,
            call=name,
            action=None if decided is None else decided.action,
            rule=None if decided is None else decided.rule,
            digest=None if decided is None else decided.digest,
            reason=reason,
            outcome=self.outcome,
            duration_ms=self.took,
            resource=None if logged is None else logged.resource,
            verb=verb if logged is None else logged.verb,
            row=None if logged is None else logged.row,
            changes=() if logged is None else _changes(logged),
            asker=None if decision is None else decision.get("asker"),
            answered_by=None if decided is None else decided.answered_by,
            policy_decision=decision,
            seq=self.seq,
            placed_at=self.placed_at,
        )


def _user(run: RunStarted) -> str:
    if run.user is not None:
        return run.user
    prefix = f"{run.tenant}/" if run.tenant else ""
    return run.caller.removeprefix(prefix)


# --------------------------------------------------------------------------- the log of resources


async def _query_log(store: Store, asked: _Query) -> list[AuditEntry]:
    """Find calls that no journal holds: a host's own, and those of deleted sessions."""
    wheres: list[str] = []
    values: list[Any] = []
    for name, value in asked.exactly.items():
        wheres.append(f'"{name}" IS NULL' if value is None else f'"{name}" = ?')
        values += [] if value is None else [value]
    for sign, value in ((">=", asked.since), ("<=", asked.latest)):
        if value is not None:
            wheres.append(f"at {sign} ?")
            values.append(float(value))
    if isinstance(store, MemoryStore):
        names = [info.id for info in await store.sessions()]
        names += [one.session_id for one in store.archived_sessions()]
        wheres.append(f"(session IS NULL OR session NOT IN ({', '.join('?' * len(names))}))")
        values += names
    else:
        wheres.append(
            "(session IS NULL OR NOT EXISTS"
            " (SELECT 1 FROM windlass_sessions AS s WHERE s.id = session))"
        )
    found: list[AuditEntry] = []
    start = 0
    while len(found) <= asked.limit:
        more = f"{' AND '.join(wheres)} ORDER BY at DESC, n DESC LIMIT {_PAGE} OFFSET {start}"
        rows = await _log(store, more, tuple(values))
        found += filter(asked.fits, map(_entry, rows))
        start += _PAGE
        if len(rows) < _PAGE:
            break
    return found


async def _log(store: Store, where: str, values: tuple[Any, ...]) -> list[audit.AuditRow]:
    def look(tx: Any) -> list[Any]:
        if not seals.there(tx, audit.TABLE):
            return []
        return tx.execute(f"SELECT {_COLUMNS} FROM {audit.TABLE} WHERE {where}", values).fetchall()

    return [audit.AuditRow(*row) for row in await store.consult(look)]


def _entry(row: audit.AuditRow) -> AuditEntry:
    denied = row.outcome == "denied"
    return AuditEntry(
        at=row.at,
        tool=row.tool,
        tenant=row.tenant,
        caller=row.caller,
        roles=tuple(row.roles.split(",")) if row.roles else (),
        request=row.request,
        conversation=row.conversation,
        session=row.session,
        run=row.run,
        call=row.call if row.call is not None else f"{row.chain}#{row.seq}",
        action="deny" if denied else "allow",
        rule="roles",
        reason=row.reason,
        outcome=row.outcome,
        resource=row.resource,
        verb=row.verb,
        row=row.row,
        changes=_changes(row),
        seq=row.seq,
        placed_at=row.at,
    )


def _changes(row: audit.AuditRow) -> tuple[JsonObject, ...]:
    try:
        return msgspec.json.decode(row.changes, type=tuple[JsonObject, ...])
    except msgspec.DecodeError:
        return ()
