"""The index of runs that queries use beside the journals.

None of it is chained, so that a verification compares it with the journals, which are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from windlass.events import RunStarted

Facts: TypeAlias = tuple[Any, ...]  # of a run: tenant, caller, request, conversation


class JournalIndex:
    """The part of a journal that the index repeats."""

    __slots__ = ("copied", "earliest", "latest", "runs")

    def __init__(self) -> None:
        self.earliest, self.latest = math.inf, -math.inf
        self.runs: dict[str, tuple[int, Facts]] = {}
        self.copied: str | None = None  # the run that stands in a fork's first row

    def add_run(self, row: int, run: RunStarted) -> None:
        """Add a run; of those copied by a fork only the last is its own."""
        if row == 0:
            if self.copied is not None:
                self.runs.pop(self.copied, None)
            self.copied = run.run_id
        facts = (run.tenant, run.caller, run.request_id, run.conversation_id)
        self.runs[run.run_id] = (row, facts)


class Index:
    """The store's tables of sessions and runs."""

    def __init__(
        self, sessions: Mapping[str, tuple[Any, Any, Any]], runs: Mapping[str, Mapping[str, Facts]]
    ) -> None:
        self.sessions, self.runs = sessions, runs

    def problems(self, name: str, said: JournalIndex) -> Iterator[tuple[int, str]]:
        """Yield where the index disagrees with the session's journal: the row, and how."""
        listed = self.sessions.get(name)
        if listed is None:
            return  # deleted meanwhile
        created, updated, last = listed
        known = self.runs.get(name, {})
        if not (type(created) is type(updated) is float and type(last) is int):
            yield 0, f"session {name!r}: its times or its run are not what they were"
            return
        if not (created <= said.earliest and said.latest <= updated):
            yield (
                0,
                f"session {name!r}: was written to at other times than the list of sessions says;"
                " queries go by it",
            )
        for run, (row, facts) in said.runs.items():
            found = known.get(run)
            if found is None and last == 0:
                continue  # the index knows nothing of the session, and queries read it in any case
            if found is None:
                problem = "does not know"
            elif found not in (facts, tuple(map(_plain, facts))):
                problem = "says otherwise of"
            else:
                continue
            yield (
                row,
                f"session {name!r}, row {row}: the index of runs {problem} run {run};"
                " queries go by it",
            )


def times_of(tx: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Return when each session was created and last written, and its last run."""
    rows = tx.execute("SELECT id, created_at, updated_at, run FROM windlass_sessions").fetchall()
    return {row[0]: (row[1], row[2], row[3]) for row in rows if isinstance(row[0], str)}


def _plain(value: Any) -> Any:
    """Replace NUL in text, which Postgres cannot hold."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
