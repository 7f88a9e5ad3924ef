"""Many parked sessions with timers, events and files: what they cost, and what happens when some are due.

One session of each kind is parked by a real run. The others are copies of its journal under names of
their own, each with its chain, its wish and its condition, written in bulk.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from tests.fleet import shop
from tests.fleet.crew import Member
from tests.fleet.takeover import Play, Size, open_play
from windlass.conditions.files import describe_files
from windlass.events import JournalEntry, Said, SessionOpened
from windlass.store import codec

KINDS = ("timer", "event", "watch")
BULK = 2000
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sleep:
    """How many sleep, how many are due at once, and how long the idle time is measured."""

    engine: str
    sleepers: int
    due: int
    idle_seconds: float
    lease: float = 3.0
    slots: int = 50
    kill: bool = True
    patience: float = 600.0


@dataclass
class SleepReport:
    """What was seen."""

    sleep: Sleep
    worker_cpu: float = 0.0  # seconds of CPU, of the idle time
    server_cpu: float = 0.0
    transactions: int = 0
    seconds: float = 0.0
    woken: int = 0
    twice: int = 0
    forgotten: int = 0
    waking_seconds: float = 0.0
    killed_after: int = 0
    problems: list[str] = field(default_factory=list)


# --------------------------------------------------------------------------- copies


async def park_templates(play: Play, folder: Path) -> dict[str, str]:
    """Park one session of each kind by a real run; return their names by kind."""
    names: dict[str, str] = {}
    serving = asyncio.create_task(play.runtime.serve(shop.clerk))
    for kind in KINDS:
        job = f"{kind} 0 {folder / 'file-of-template'}"
        names[kind] = (await play.runtime.submit("clerk@1", job)).session_id

    async def are_parked() -> bool:
        infos = [await play.runtime.store.info(name) for name in names.values()]
        wanted = await play.ask("SELECT 1 FROM windlass_wishes WHERE due IS NOT NULL")
        return all([info.status == "suspended" for info in infos]) and not wanted

    await _wait_until(are_parked)
    serving.cancel()
    await asyncio.wait({serving})
    return names


def copy_journal(
    entries: Sequence[JournalEntry], session: str, at: float
) -> tuple[list[tuple[int, int, float, bytes, None, bytes]], bytes]:
    """Return the rows of a journal under another name, and the head of its chain."""
    opened = entries[0]
    assert isinstance(opened, SessionOpened)
    parts = [[msgspec.structs.replace(opened, session_id=session)], list(entries[1:])]
    head, first = codec.genesis(session), 0
    rows: list[tuple[int, int, float, bytes, None, bytes]] = []
    for seq, part in enumerate(parts):
        payload = codec.encode(part, session)
        head = codec.chain_hash(head, seq, at, payload)
        rows.append((seq, first, at, payload, None, head))
        first += len(part)
    return rows, head


class Copies:
    """Copies of a parked session, in bulk."""

    def __init__(self, connection: Any, folder: Path) -> None:
        self._connection, self._folder = connection, folder

    async def make(
        self, template: str, kind: str, entries: Sequence[JournalEntry], count: int
    ) -> None:
        """Copy a template."""
        for begin in range(0, count, BULK):
            numbers = range(begin, min(count, begin + BULK))
            async with self._connection.transaction():
                await self._copy(template, kind, entries, numbers)

    async def _copy(
        self, template: str, kind: str, entries: Sequence[JournalEntry], numbers: range
    ) -> None:
        at, ask = time.time(), self._connection
        names = [f"{kind}-{n}" for n in numbers]
        journals = [copy_journal(entries, name, at) for name in names]
        held = await ask.fetchrow("SELECT * FROM windlass_sessions WHERE id = $1", template)
        sids = await ask.fetch(
            "INSERT INTO windlass_sessions (id, epoch, rows, entries, head, run, created_at, updated_at,"
            " status, title) SELECT * , $3::bigint, $4::float8, $4::float8, 'suspended', $5 FROM"
            " unnest($1::text[], $6::bigint[], $7::bigint[], $8::bigint[], $2::bytea[]) RETURNING sid",
            names,
            [head for _, head in journals],
            held["run"],
            at,
            held["title"],
            [1] * len(names),
            [2] * len(names),
            [len(entries)] * len(names),
        )
        await ask.copy_records_to_table(
            "windlass_rows",
            records=_number_rows([row["sid"] for row in sids], [rows for rows, _ in journals]),
        )
        wish = dict(
            await ask.fetchrow("SELECT * FROM windlass_wishes WHERE session = $1", template)
        )
        await ask.copy_records_to_table(
            "windlass_wishes",
            records=[tuple({**wish, "session": name, "key": None}.values()) for name in names],
            columns=list(wish),
        )
        row = dict(
            await ask.fetchrow("SELECT * FROM windlass_triggers WHERE id LIKE $1", f"%:{template}")
        )
        await ask.copy_records_to_table(
            "windlass_triggers",
            records=[tuple(self._copy_trigger(row, template, n, kind).values()) for n in numbers],
            columns=list(row),
        )

    def _copy_trigger(
        self, row: dict[str, Any], template: str, n: int, kind: str
    ) -> dict[str, Any]:
        name = f"{kind}-{n}"
        copy = {**row, "id": row["id"].replace(template, name)}
        copy["action"] = row["action"].replace(template, name)
        if kind == "watch":
            path = str(self._folder / f"file-{n}")
            Path(path).touch()
            copy["spec"] = row["spec"].replace("file-of-template", f"file-{n}")
            copy["state"] = msgspec.json.encode(describe_files((path,))).decode()
        return copy


def _number_rows(
    sids: Sequence[int], journals: Sequence[Sequence[tuple[Any, ...]]]
) -> Iterator[tuple[Any, ...]]:
    for sid, rows in zip(sids, journals, strict=True):
        for row in rows:
            yield (sid, *row)


# --------------------------------------------------------------------------- measure


def read_cpu(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def read_server_cpu(parent: int) -> float:
    """Return the seconds of CPU of a server and its children, also of those that have ended."""
    total = 0.0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if folder.name == str(parent):
                total += sum([int(one) for one in fields[11:15]]) / TICKS
            elif int(fields[1]) == parent:
                total += (int(fields[11]) + int(fields[12])) / TICKS
        except OSError:
            continue
    return total


async def count_transactions(connection: Any) -> int:
    """Return how many transactions the database has ended."""
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    row = await connection.fetchrow(
        "SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = current_database()"
    )
    return int(row["n"])


class Night:
    """The whole: parked, idle, woken."""

    def __init__(self, play: Play, sleep: Sleep) -> None:
        self.play, self.sleep = play, sleep
        self.report = SleepReport(sleep)
        self.counts = self._split()

    def _split(self) -> dict[str, int]:
        """Return how many of each kind: half of them timers, the rest events and files."""
        timers = max(self.sleep.sleepers // 2, self.sleep.due)
        rest = self.sleep.sleepers - timers
        return {"timer": timers, "event": rest * 3 // 5, "watch": rest - rest * 3 // 5}

    async def run(self) -> SleepReport:
        """Put them to bed, look at the idle worker, wake some, and count."""
        play = self.play
        files = play.folder / "files"
        files.mkdir()
        names = await park_templates(play, files)
        connection = await asyncpg.connect(play.url)
        copies = Copies(connection, files)
        for kind, name in names.items():
            entries = await play.runtime.store.read(name)
            await copies.make(name, kind, entries, self.counts[kind])
        await connection.execute("ANALYZE")
        worker = play.crew.start()
        await play.crew.wait_until_serving(worker)
        await self._measure_idle(connection, worker)
        await self._wake(connection, worker)
        await self._look(connection)
        await connection.close()
        return self.report

    async def _measure_idle(self, connection: Any, worker: Member) -> None:
        await asyncio.sleep(min(5.0, self.sleep.idle_seconds))  # it has just been started
        parent = int((self.play.server.data / "postmaster.pid").read_text().split()[0])
        before = (
            read_cpu(worker.pid),
            read_server_cpu(parent),
            await count_transactions(connection),
        )
        began = time.monotonic()
        await asyncio.sleep(self.sleep.idle_seconds)
        after = (
            read_cpu(worker.pid),
            read_server_cpu(parent),
            await count_transactions(connection),
        )
        report = self.report
        report.seconds = time.monotonic() - began
        report.worker_cpu, report.server_cpu = after[0] - before[0], after[1] - before[1]
        report.transactions = after[2] - before[2]

    async def _wake(self, connection: Any, worker: Member) -> None:
        """Have some due at once; kill the worker in the middle of it, and start another."""
        began = time.monotonic()
        await connection.execute(
            "UPDATE windlass_triggers SET due = $1 WHERE id IN"
            " (SELECT 'resume:timeout:timer-' || n FROM generate_series(0, $2) AS n)",
            time.time(),
            self.sleep.due - 1,
        )
        if self.sleep.kill:
            await _wait_until(lambda: self._count_effects(connection))
            worker.kill()
            self.report.killed_after = await self._count_effects(connection)
            await self.play.crew.wait_until_serving(self.play.crew.start())
        until = time.monotonic() + self.sleep.patience
        while time.monotonic() < until:
            if await self._count_effects(
                connection
            ) >= self.sleep.due and not await connection.fetch(
                "SELECT 1 FROM windlass_wishes WHERE due IS NOT NULL LIMIT 1"
            ):
                break
            await asyncio.sleep(0.25)
        self.report.waking_seconds = time.monotonic() - began

    async def _count_effects(self, connection: Any) -> int:
        return int(await connection.fetchval("SELECT count(*) FROM effects"))

    async def _count_told(self, connection: Any) -> Counter[str]:
        """Return how often each session was told that its condition holds."""
        told: Counter[str] = Counter()
        rows = await connection.fetch(
            "SELECT id, seq, payload FROM windlass_rows JOIN windlass_sessions USING (sid) WHERE seq > 1"
        )
        for row in rows:
            for entry in codec.decode(row["payload"], row["id"], row["seq"]):
                if type(entry) is Said and "You go on because" in entry.message.text:
                    told[row["id"]] += 1
        return told

    async def _look(self, connection: Any) -> None:
        """Each that was due was woken once and did its work once; nobody else was."""
        report = self.report
        due = {f"timer-{n}" for n in range(self.sleep.due)}
        rows = await connection.fetch("SELECT session, count(*) AS c FROM effects GROUP BY session")
        paid = {row["session"]: int(row["c"]) for row in rows}
        heard = await self._count_told(connection)
        report.woken = len(due & paid.keys())
        report.forgotten = len(due - paid.keys())
        report.twice = sum([count > 1 for count in (*paid.values(), *heard.values())])
        for name in sorted(paid.keys() - due)[:5]:
            report.problems.append(f"{name} was woken, and nothing was due")
        for name in sorted(due)[:: max(1, len(due) // 200)]:
            await self.play.runtime.store.verify(name)
            if (status := (await self.play.runtime.store.info(name)).status) != "done":
                report.problems.append(f"{name} is {status}")
            if heard.get(name) != 1:
                report.problems.append(f"{name} was told {heard.get(name)} times")
        if report.forgotten or report.twice:
            report.problems.append(f"{report.forgotten} forgotten, {report.twice} twice")


async def _wait_until(look: Callable[[], Awaitable[object]], seconds: float = 300.0) -> None:
    """Ask again and again for what another process does."""
    until = time.monotonic() + seconds
    while not await look():
        assert time.monotonic() < until
        await asyncio.sleep(0.02)


async def play_sleep(sleep: Sleep) -> SleepReport:
    """Play a night."""
    size = Size(sleep.engine, processes=1, runs=0, seconds=0, kills=0, lease=sleep.lease, pace=0)
    async with open_play(size) as play:
        play.crew.slots = sleep.slots
        return await Night(play, sleep).run()
