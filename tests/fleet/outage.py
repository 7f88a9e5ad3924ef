"""A database that is away for a while, and one that fails over to its standby, under runs of every kind.

`make prove-fleet` plays the whole, and CI a small one. Nobody supervises the workers here: whoever does
not come back by himself is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg

import windlass as w
from tests.fleet import shop
from tests.fleet.crew import Member
from tests.fleet.takeover import Play, Report, Size, fleet_options, open_play
from tests.postgres_pair import Pair, open_pair
from windlass.errors import Locked, StoreError
from windlass.testing.postgres import Server

LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Refusal:
    """A submission that came back with an error."""

    kind: str
    text: str
    seconds: float


@dataclass
class OutageReport:
    """What was seen; times count from when the database takes writes again."""

    report: Report
    away: float = 0.0
    held: int = 0
    first: float | None = None  # until something was paid
    workers: dict[int, float] = field(default_factory=dict)  # until each worker was heard of
    paid: dict[int, float] = field(default_factory=dict)  # until each has paid, if it had work
    held_waits: list[float] = field(default_factory=list)  # until a held session went on
    refused: list[Refusal] = field(default_factory=list)
    submit_waits: list[float] = field(default_factory=list)  # of those that waited for the database
    left_over: int = 0  # entries of the lost primary that the new one does not have
    problems: list[str] = field(default_factory=list)

    def describe_workers(self) -> str:
        """Return how long it took until all workers were heard of."""
        return f"{len(self.workers)}: longest {max(self.workers.values(), default=0.0):.1f} s"

    def describe_waits(self) -> str:
        """Return how long the sessions waited that were held when the database went away."""
        found = sorted(self.held_waits)
        if not found:
            return "none"
        return f"{len(found)}: median {statistics.median(found):.1f} s, longest {found[-1]:.1f} s"

    def describe_refusals(self) -> str:
        """Return what was said to clients."""
        waited = f"{len(self.submit_waits)} waited"
        if not self.refused:
            return waited
        kinds = ", ".join(sorted({one.kind for one in self.refused}))
        after = statistics.median([one.seconds for one in self.refused])
        return f"{waited}, {len(self.refused)} times `{kinds}` after {after:.0f} s"


class OutagePlay:
    """One play: runs are submitted all the time, and the database goes away once."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.found = OutageReport(play.report)
        self._gone, self._back = float("inf"), float("inf")
        self._gone_at = 0.0  # by the clock

    # ----------------------------------------------------------------------- clients

    async def submit_all(self) -> None:
        """Submit the runs in time, whether earlier submissions have come back or not."""
        size = self.play.size
        tasks: list[asyncio.Task[None]] = []
        for n in range(size.runs):
            tasks.append(asyncio.create_task(self._submit(n)))
            await asyncio.sleep(size.seconds / size.runs)
        await asyncio.gather(*tasks)

    async def _submit(self, n: int) -> None:
        play = self.play
        job = f"{shop.KINDS[n % len(shop.KINDS)]} {n}"
        while True:
            began = time.monotonic()
            try:
                handle = await play.runtime.submit("clerk@1", job, key=job)
                break
            except StoreError as error:  # the key makes it safe to ask again
                took = time.monotonic() - began
                self.found.refused.append(Refusal(type(error).__name__, str(error), took))
                if type(error) is not Locked:
                    self.found.problems.append(f"{job}: {type(error).__name__}: {error}")
                await asyncio.sleep(0.1)
        if began < self._back and time.monotonic() > self._back:
            self.found.submit_waits.append(time.monotonic() - began)
        play.jobs[handle.session_id] = job

    # ----------------------------------------------------------------------- the database

    async def go_away(self, members: list[Member], stop: Any) -> tuple[dict[str, int], int]:
        """Have the database go while sessions are held; return these, and the last payment."""
        held: dict[str, int] = {}
        for _ in range(200):
            held = await self.play.list_held(*members)
            if held:
                break
            await asyncio.sleep(0.02)
        [last] = await self.play.ask("SELECT coalesce(max(no), 0) AS no FROM effects")
        self.found.held, self._gone = len(held), time.monotonic()
        await asyncio.to_thread(stop)
        self._gone_at = time.time()
        return held, int(last["no"])

    async def watch(self, held: dict[str, int], url: str, pids: set[int], patience: float) -> None:
        """Note when work goes on, by each of the workers and in each of the sessions."""
        self._back, found = time.monotonic(), self.found
        found.away = self._back - self._gone
        connection = await asyncpg.connect(url)
        [last] = await connection.fetch("SELECT coalesce(max(no), 0) AS no FROM effects")
        before = await _read_progress(connection, held)
        waiting = {session for session, (_, _, due) in before.items() if due is not None}
        found.held_waits += [0.0] * (len(held) - len(waiting))  # it was done with them already
        try:
            while (left := patience - (now := time.monotonic() - self._back)) > 0:
                rows = await connection.fetch(
                    "SELECT DISTINCT pid FROM effects WHERE no > $1", last["no"]
                )
                for row in rows:
                    found.paid.setdefault(row["pid"], now)
                for row in await connection.fetch(
                    "SELECT pid FROM windlass_workers WHERE seen_at > $1", self._gone_at
                ):
                    found.workers.setdefault(row["pid"], now)
                if rows and found.first is None:
                    found.first = now
                after = await _read_progress(connection, held)
                moved = {session for session in waiting if after[session] != before[session]}
                found.held_waits += [now] * len(moved)
                waiting -= moved
                if not waiting and found.first is not None and pids <= found.workers.keys():
                    break
                await asyncio.sleep(min(left, LOOK_SECONDS))
        finally:
            await connection.close()
        found.problems += [f"worker {pid} has not come back" for pid in pids - set(found.workers)]
        found.problems += [f"session {session} has not gone on" for session in waiting]

    # ----------------------------------------------------------------------- the whole

    async def run(self, trouble: Any) -> OutageReport:
        """Play it, wait for every run, and look at the books."""
        play = self.play
        members = [play.crew.start() for _ in range(play.size.processes)]
        await play.crew.wait_until_serving(*members[: 1 if play.size.engine == "local" else None])
        answering = asyncio.create_task(play.answer_questions())
        try:
            await asyncio.gather(self.submit_all(), trouble(self, members))
            await play._wait_for_ends()
            dead = [member for member in members if not member.is_alive]
            self.found.problems += [
                f"a worker ended: {one.log.read_text()[-2000:]}" for one in dead
            ]
        finally:
            play._over.set()
            await answering
            play.crew.end()
        await play._close_books()
        self.found.problems += play.report.books.problems
        return self.found


def restart_after(away: float, begin: float) -> Any:
    """Return what stops the server at once, and starts it again."""

    async def trouble(one: OutagePlay, members: list[Member]) -> None:
        await asyncio.sleep(begin)
        server = one.play.server
        held, _ = await one.go_away(members, server.stop)
        await asyncio.sleep(away)
        await asyncio.to_thread(server.start)
        await one.watch(held, one.play.url, {member.pid for member in members}, 60.0)

    return trouble


async def play_outage(size: Size, away: float) -> OutageReport:
    """Play an outage of so many seconds, a quarter into the time of the submissions."""
    async with open_play(size) as play:
        return await OutagePlay(play).run(restart_after(away, size.seconds / 4))


async def _read_progress(connection: Any, sessions: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """Return how far sessions have come, which changes with whatever is done with one."""
    rows = await connection.fetch(
        "SELECT s.id, s.entries, s.epoch, w.due FROM windlass_sessions s"
        " JOIN windlass_wishes w ON w.session = s.id WHERE s.id = ANY($1)",
        list(sessions),
    )
    return {row["id"]: (row["entries"], row["epoch"], row["due"]) for row in rows}


# --------------------------------------------------------------------------- fail-over


@contextlib.asynccontextmanager
async def _open_failover(size: Size) -> AsyncGenerator[tuple[Pair, Play]]:
    with open_pair() as pair, tempfile.TemporaryDirectory() as folder:
        pair.primary.sql("CREATE SCHEMA fleet")
        url = pair.url("fleet")
        async with w.Runtime(store=url, environ={}, **fleet_options(size.engine)) as runtime:
            await runtime.store.sessions()
            connection = await asyncpg.connect(pair.primary.url(search_path="fleet"))
            await connection.execute(shop.TABLES)
            await connection.close()
            # What the play itself asks is asked of the one that takes writes.
            asked = f"{url}&target_session_attrs=read-write"
            play = Play(size, pair.primary, url, Path(folder), runtime)
            play.url = asked
            try:
                yield pair, play
            finally:
                play.crew.end()


def fail_over(pair: Pair, begin: float, notice: float, *, frozen: bool, thaw: float = 3.0) -> Any:
    """Return what takes the primary away at once, or freezes it, and promotes the standby later."""

    async def trouble(one: OutagePlay, members: list[Member]) -> None:
        await asyncio.sleep(begin)
        how = signal.SIGSTOP if frozen else signal.SIGKILL
        held, _ = await one.go_away(members, lambda: pair.primary.signal_all(how))
        await asyncio.sleep(notice)
        await asyncio.to_thread(pair.standby.promote)
        new = pair.standby.url(search_path="fleet")
        await one.watch(held, new, {member.pid for member in members}, 90.0)
        if frozen:  # it goes on as if nothing had happened, until somebody ends it
            pair.primary.signal_all(signal.SIGCONT)
            await asyncio.sleep(thaw)
            pair.primary.signal_all(signal.SIGKILL)

    return trouble


async def play_failover(size: Size, *, frozen: bool = False, notice: float = 5.0) -> OutageReport:
    """Play a fail-over, a quarter into the time of the submissions; it is noticed after a while."""
    async with _open_failover(size) as (pair, play):
        one = OutagePlay(play)
        found = await one.run(fail_over(pair, size.seconds / 4, notice, frozen=frozen))
        await _compare(pair, found)
        return found


async def _compare(pair: Pair, found: OutageReport) -> None:
    """Look into what the lost primary has and the new one has not: nobody was told of it."""
    read = (
        "SELECT id, seq, payload FROM fleet.windlass_rows JOIN fleet.windlass_sessions USING (sid)"
    )

    async def list_rows(server: Server) -> set[tuple[str, int, bytes]]:
        connection = await asyncpg.connect(server.url())
        try:
            return {(row["id"], row["seq"], row["payload"]) for row in await connection.fetch(read)}
        finally:
            await connection.close()

    new = await list_rows(pair.standby)
    await asyncio.to_thread(pair.primary.start)
    found.left_over = len(await list_rows(pair.primary) - new)
