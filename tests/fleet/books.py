"""What a store says about runs that were hurt, beside what the runs had to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fleet import shop
from windlass.events import ToolResulted
from windlass.store.base import Store
from windlass.store.codec import decode


@dataclass
class Books:
    """Counts and problems; no problem: nothing was lost, and nothing done twice."""

    runs: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    effects: int = 0
    lost: int = 0
    twice: int = 0
    unknown: int = 0  # plain calls that are marked so
    problems: list[str] = field(default_factory=list)

    def complain(self, text: str) -> None:
        """Note a problem."""
        self.problems.append(text)


def read_lines(folder: Path, name: str) -> list[list[str]]:
    """Read what tools have written to a file."""
    path = folder / name
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def audit(
    store: Store,
    connection: Any,
    folder: Path,
    jobs: dict[str, str],
    *,
    ends: Sequence[str] = ("done",),
) -> Books:
    """Compare effects, journals and wishes with the jobs, by session, that were submitted."""
    books = Books(runs=len(jobs))
    known = {
        row["id"]: row["status"]
        for row in await connection.fetch("SELECT id, status FROM windlass_sessions")
    }
    for session, job in jobs.items():
        status = known.get(session)
        books.ended[str(status)] += 1
        if status not in ends:
            books.lost += 1
            books.complain(f"{job} ({session}) is {status}")
    wanted = await connection.fetch(
        "SELECT session, due FROM windlass_wishes WHERE due IS NOT NULL"
    )
    for row in wanted:
        books.complain(f"{row['session']} still wants to run")
    await _count_effects(connection, folder, jobs, books)
    await _look_at_writers(connection, books)
    await _look_at_mails(store, folder, jobs, books)
    for session in jobs:
        await store.verify(session)
    return books


async def _count_effects(connection: Any, folder: Path, jobs: dict[str, str], books: Books) -> None:
    """Every transactional and keyed effect is there once."""
    rows = await connection.fetch("SELECT job, n, count(*) AS c FROM effects GROUP BY job, n")
    paid = {(row["job"], row["n"]): int(row["c"]) for row in rows}
    keys: dict[tuple[str, int], set[str]] = {}
    for kind, number, n, key in read_lines(folder, "charges"):
        keys.setdefault((f"{kind} {number}", int(n)), set()).add(key)
    for job in jobs.values():
        for tool, name, n in shop.list_effects(job):
            if tool == "mail":
                continue
            books.effects += 1
            times = paid.get((name, n), 0) if tool == "pay" else len(keys.get((name, n), ()))
            if times == 0:
                books.lost += 1
                books.complain(f"{tool} {n} of {name} is missing")
            elif times > 1:
                books.twice += 1
                books.complain(f"{tool} {n} of {name} was done {times} times")


async def _look_at_writers(connection: Any, books: Books) -> None:
    """A writer that was replaced has written nothing: each number belongs to one process."""
    last: dict[str, tuple[int, int]] = {}
    for row in await connection.fetch("SELECT session, epoch, pid FROM effects ORDER BY no"):
        epoch, pid = last.get(row["session"], (0, 0))
        if row["epoch"] < epoch or (row["epoch"] == epoch and row["pid"] != pid):
            books.complain(f"{row['session']}: process {row['pid']} wrote after it was replaced")
        last[row["session"]] = (row["epoch"], row["pid"])


async def _look_at_mails(store: Store, folder: Path, jobs: dict[str, str], books: Books) -> None:
    """A plain effect happens at most once; where nobody knows, the journal says so."""
    sent = Counter(
        [(f"{kind} {number}", int(n)) for kind, number, n in read_lines(folder, "mails")]
    )
    for session, job in jobs.items():
        numbers = [n for tool, _, n in shop.list_effects(job) if tool == "mail"]
        if not numbers:
            continue
        results = [
            entry
            for row in await store.rows(session)
            for entry in decode(row.payload, session, row.seq)
            if type(entry) is ToolResulted and entry.tool == "mail"
        ]
        for n, result in zip(numbers, results, strict=False):
            times = sent[(job, n)]
            books.unknown += result.outcome == "interrupted"
            if times > 1:
                books.twice += 1
                books.complain(f"mail {n} of {job} was sent {times} times")
            if result.outcome == "ok" and times != 1:
                books.complain(f"mail {n} of {job} is on record, and was sent {times} times")
            if result.outcome not in ("ok", "interrupted"):
                books.complain(f"mail {n} of {job} is {result.outcome}: {result.result.text}")
        if len(results) < len(numbers):
            books.complain(f"{job} has {len(results)} of {len(numbers)} mails on record")
