"""Records of model calls in a SQLite file.

What all calls of a run share stands once, in `windlass_runs`; a call names its run by number. The
view `windlass_model_calls` joins them for readers with their own SQL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from windlass.errors import Corrupt
from windlass.events import JournalEntry, Replied, ReplyFailed, RunStarted
from windlass.json_types import JsonObject
from windlass.store.model_calls import (
    RESERVED,
    ModelCall,
    ReserveAnswer,
    ReservedCall,
    SpendingLimit,
    Which,
    check_filters,
    via_of,
)
from windlass.store.threaded.jobs import Line

# A statement binds as few values as it can: most calls are as their run says, and what was not
# cached, not thought and not asked twice is as the table says.
_SHARED = "run, at, input_tokens, output_tokens, cost_usd, latency_ms, tool_calls"
_OTHERS = (
    "provider, model, cache_read_tokens, cache_write_tokens, reasoning_tokens, gpu_ms, attempts,"
    " outcome, purpose, via"
)
VIEW = """
CREATE VIEW windlass_model_calls AS
    SELECT c.n AS n, c.at AS at, r.tenant AS tenant, r.caller AS caller, r.request AS request,
        r.conversation AS conversation, r.session AS session, r.run AS run, r.door AS door,
        coalesce(c.provider, r.provider, '') AS provider, coalesce(c.model, r.model, '') AS model,
        c.purpose AS purpose, c.input_tokens AS input_tokens, c.output_tokens AS output_tokens,
        c.cache_read_tokens AS cache_read_tokens, c.cache_write_tokens AS cache_write_tokens,
        c.reasoning_tokens AS reasoning_tokens, c.gpu_ms AS gpu_ms, c.cost_usd AS cost_usd,
        c.latency_ms AS latency_ms, c.attempts AS attempts, c.tool_calls AS tool_calls,
        coalesce(c.outcome, 'ok') AS outcome, c.via AS via
    FROM windlass_calls AS c LEFT JOIN windlass_runs AS r ON r.n = c.run;
"""
_MOST = 2**53  # a higher count is invalid


def inserts(into: str, width: int) -> list[tuple[int, str]]:
    """Build statements for many rows at once, the largest first: (values, statement)."""
    row = f"({', '.join('?' * width)})"
    return [
        (rows * width, f"INSERT INTO {into} VALUES {', '.join([row] * rows)}")
        for rows in (64, 16, 4, 1)
    ]


def insert(
    connection: sqlite3.Connection, statements: list[tuple[int, str]], values: list[Any]
) -> None:
    """Insert rows in few statements: each of them releases Python's lock."""
    done = 0
    for size, statement in statements:
        while len(values) - done >= size:
            connection.execute(statement, values[done : done + size])
            done += size


_RUNS = inserts("windlass_runs", 10)
_PLAIN = inserts(f"windlass_calls ({_SHARED})", 7)
_FULL = inserts(f"windlass_calls ({_SHARED}, {_OTHERS})", 17)


class Page:
    """The records of runs and calls that a batch adds."""

    __slots__ = ("_connection", "_next", "full", "plain", "runs")

    def __init__(self, connection: sqlite3.Connection | None, number: int = 0) -> None:
        self._connection = connection
        self._next = number  # of the next run, once it is known
        self.runs: list[Any] = []  # ten values each
        self.plain: list[Any] = []  # calls as most are: seven values each
        self.full: list[Any] = []  # and the others: seventeen

    def enter(
        self,
        line: Line,
        paid: Sequence[RunStarted | Replied | ReplyFailed],
        run: int,
        at: float,
    ) -> int:
        """Add the runs and calls of a session's row; return the number of its last run."""
        for entry in paid:
            if type(entry) is RunStarted:
                run = self.begin(line.session_id, entry)
                line.asks = (run, entry.provider, entry.model)
                continue
            if not run:  # the run is unknown
                run = self.begin(line.session_id, None)
            assert not isinstance(entry, RunStarted)
            self._call(entry, run, at, line.asks == (run, entry.provider, entry.model))
        return run

    def _call(self, entry: Replied | ReplyFailed, run: int, at: float, usual: bool) -> None:
        usage = entry.usage
        inputs, outputs = usage.input_tokens, usage.output_tokens
        if isinstance(entry, Replied):
            calls, outcome, via = len(entry.message.tool_calls), None, via_of(entry.via, usage)
            seldom = (
                usage.cache_read_tokens
                or usage.cache_write_tokens
                or usage.reasoning_tokens
                or usage.gpu_ms
                or entry.attempts != 1
                or inputs + outputs > _MOST
            )
            if usual and entry.purpose is via is None and not seldom:
                self.plain += (run, at, inputs, outputs, entry.cost_usd, entry.duration_ms, calls)
                return
        else:
            calls, outcome, via = 0, entry.category, via_of(None, usage)
        self.full += (
            run,
            at,
            _count(inputs),
            _count(outputs),
            entry.cost_usd,
            entry.duration_ms,
            calls,
            None if usual else entry.provider,
            None if usual else entry.model,
            _count(usage.cache_read_tokens),
            _count(usage.cache_write_tokens),
            _count(usage.reasoning_tokens),
            usage.gpu_ms,
            _count(entry.attempts),
            outcome,
            entry.purpose,
            via,
        )

    def begin(self, session: str | None, run: RunStarted | None) -> int:
        """Add a run; return its number."""
        facts: tuple[Any, ...] = (None,) * 8
        if run is not None:
            facts = (
                run.run_id,
                run.door,
                run.tenant,
                run.caller,
                run.request_id,
                run.conversation_id,
                run.provider,
                run.model,
            )
        return self._run(session, facts)

    def _run(self, session: str | None, facts: tuple[Any, ...]) -> int:
        if not self._next and self._connection is not None:
            last = self._connection.execute("SELECT coalesce(max(n), 0) FROM windlass_runs")
            self._next = last.fetchone()[0] + 1
        number = self._next
        self._next += 1
        self.runs += (number, session, *facts)
        return number

    def copy(self, calls: Iterable[ModelCall]) -> None:
        """Add calls that no journal holds."""
        known: dict[tuple[Any, ...], int] = {}
        for call in calls:
            facts = (
                call.session,
                call.run,
                call.door,
                call.tenant,
                call.caller,
                call.request,
                call.conversation,
                call.provider,
                call.model,
            )
            if facts not in known:
                known[facts] = self._run(facts[0], facts[1:])
            self.full += (
                known[facts],
                call.at,
                _count(call.input_tokens),
                _count(call.output_tokens),
                call.cost_usd,
                call.latency_ms,
                _count(call.tool_calls),
                None,
                None,
                _count(call.cache_read_tokens),
                _count(call.cache_write_tokens),
                _count(call.reasoning_tokens),
                call.gpu_ms,
                _count(call.attempts),
                None if call.outcome == "ok" else call.outcome,
                call.purpose,
                call.via,
            )

    def write(self) -> None:
        """Write the records into the open transaction."""
        for statements, values in ((_RUNS, self.runs), (_PLAIN, self.plain), (_FULL, self.full)):
            if values:
                assert self._connection is not None
                insert(self._connection, statements, values)


def _count(number: int) -> int:
    return max(0, min(number, _MOST))


def record(connection: sqlite3.Connection, calls: Iterable[ModelCall]) -> None:
    """Record calls that no journal holds."""
    page = Page(connection)
    page.copy(calls)
    page.write()


def begin(connection: sqlite3.Connection, session: str, entries: Iterable[JournalEntry]) -> int:
    """Return the number of the last run in a copied history; 0 if there is none."""
    runs = [entry for entry in entries if type(entry) is RunStarted]
    if not runs:
        return 0
    page = Page(connection)
    number = page.begin(session, runs[-1])
    page.write()
    return number


# --------------------------------------------------------------------------- calls under way

MADE = f" AND coalesce(outcome, '') <> '{RESERVED}'"  # calls that are not only reserved
MOST_RESERVED = 1000  # that are read again by number; SQLite takes no more than some 30,000

_HELD = (
    "SELECT input_tokens + output_tokens, cost_usd FROM windlass_calls"
    f" WHERE n = ? AND at = ? AND outcome = '{RESERVED}'"
)
_OWN_RUN = (
    "DELETE FROM windlass_runs WHERE n IN (SELECT run FROM windlass_calls"
    f" WHERE n = ? AND at = ? AND outcome = '{RESERVED}')"
)
_OWN_CALL = f"DELETE FROM windlass_calls WHERE n = ? AND at = ? AND outcome = '{RESERVED}'"
OF_SESSION = (
    f"SELECT n, at FROM windlass_calls WHERE outcome = '{RESERVED}'"
    " AND run IN (SELECT n FROM windlass_runs WHERE session = "
)


def release(connection: sqlite3.Connection, places: Iterable[ReservedCall]) -> None:
    """Remove reserved calls; those that are gone already stay so."""
    for place in places:
        connection.execute(_OWN_RUN, place)
        connection.execute(_OWN_CALL, place)


def release_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove what is reserved for the calls of a session."""
    found = connection.execute(f"{OF_SESSION}?)", (session_id,)).fetchall()
    release(connection, [ReservedCall(*row) for row in found])


class RunningSum(NamedTuple):
    """The sum of the calls from a time on up to one of them, so that later ones are added to it.

    Calls that were made stay as they are. Reserved ones come and go: of those only the numbers are
    known, and they are read again.
    """

    since: float
    number: int = 0  # of the last call in it
    tokens: int = 0
    usd: float = 0.0
    reserved: tuple[int, ...] = ()  # up to that one


def sum_further(connection: sqlite3.Connection, known: RunningSum) -> tuple[RunningSum, int, float]:
    """Add what came since; with it, the tokens and dollars of all calls, also of reserved ones."""
    since, number = known.since, known.number
    last, tokens, usd = connection.execute(
        "SELECT coalesce(max(n), ?), coalesce(sum(input_tokens + output_tokens), 0),"
        f" coalesce(sum(cost_usd), 0) FROM windlass_calls WHERE n > ? AND at >= ?{MADE}",
        (number, number, since),
    ).fetchone()
    # Without a number that no call has, SQLite would look at all calls where none is reserved.
    again = (0, *known.reserved)
    marks = ", ".join("?" * len(again))
    reserved = connection.execute(
        "SELECT n, input_tokens + output_tokens, cost_usd FROM windlass_calls"
        f" WHERE (n > ? OR n IN ({marks})) AND at >= ? AND outcome = '{RESERVED}'",
        (number, *again, since),
    ).fetchall()
    numbers = tuple([row[0] for row in reserved if row[0] < last])
    tokens, usd = tokens + known.tokens, usd + known.usd
    further = RunningSum(since, last, tokens, usd, numbers)
    if len(numbers) > MOST_RESERVED:
        further = RunningSum(since)
    held = sum([row[1] for row in reserved]), sum([row[2] for row in reserved])
    return further, int(tokens + held[0]), float(usd + held[1])


def reserve(
    connection: sqlite3.Connection,
    call: ModelCall,
    limit: SpendingLimit | None,
    replaces: ReservedCall | None,
    known: RunningSum,
) -> tuple[ReserveAnswer, RunningSum]:
    """Record a call before it is made, if the limit leaves room for it."""
    tokens, usd = 0, 0.0
    if limit is not None:
        known, tokens, usd = sum_further(connection, known)
    if replaces is not None and limit is not None and replaces.at >= limit.since:
        own = connection.execute(_HELD, replaces).fetchone()
        if own is not None:
            tokens, usd = tokens - own[0], usd - own[1]
    if limit is not None and not limit.allows(tokens, usd, call):
        return ReserveAnswer(None, tokens, usd), known
    if replaces is not None:
        release(connection, (replaces,))
    record(connection, (call,))
    [number] = connection.execute("SELECT last_insert_rowid()").fetchone()
    return ReserveAnswer(ReservedCall(number, call.at), tokens, usd), known


# --------------------------------------------------------------------------- reading

_COLUMNS = tuple(ModelCall.__struct_fields__)
SELECT = f"SELECT {', '.join(_COLUMNS)} FROM windlass_model_calls"
_TEXTS = frozenset(
    "provider model outcome purpose via door tenant caller request conversation session run".split()
)
_REALS = frozenset({"at", "gpu_ms", "cost_usd", "latency_ms"})


def calls(connection: sqlite3.Connection, which: Which) -> list[ModelCall]:
    """List the calls that match, the oldest first."""
    wheres: list[str] = []
    values: list[Any] = []
    for name, value in check_filters(which).items():
        test = {"since": "at >= ?", "until": "at < ?"}.get(name, f"{name} = ?")
        wheres.append(test)
        values.append(value)
    where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    found = connection.execute(f"{SELECT}{where} ORDER BY at, n", values)
    return [call_of(row) for row in found]


SPENT = (
    "SELECT coalesce(sum(input_tokens + output_tokens), 0), coalesce(sum(cost_usd), 0)"
    " FROM windlass_calls WHERE at >= "
)
OF_TENANT = " AND run IN (SELECT n FROM windlass_runs WHERE coalesce(tenant, '') = "


def sum_spending(
    connection: sqlite3.Connection, since: float, tenant: str | None = None
) -> tuple[int, float]:
    """Sum the tokens and dollars of the calls made from this time on, by all or by a tenant."""
    text, values = f"{SPENT}?{MADE}", tuple[object, ...]((since,))
    if tenant is not None:
        text, values = f"{text}{OF_TENANT}?)", (since, tenant)
    tokens, usd = connection.execute(text, values).fetchone()
    return int(tokens), float(usd)


def call_of(row: Sequence[Any]) -> ModelCall:
    """Build a call from the columns of `SELECT`."""
    fields: JsonObject = {}
    for name, value in zip(_COLUMNS, row, strict=True):
        kind = str if name in _TEXTS else float if name in _REALS else int
        if value is None and name not in ("provider", "model"):
            if kind is str:
                continue
            value = kind()
        if type(value) is not kind:
            raise Corrupt(f"the books: {name} of a call is not what it was; restore a backup")
        fields[name] = value
    return ModelCall(**fields)
