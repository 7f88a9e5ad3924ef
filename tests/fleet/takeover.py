"""Runs of every kind on workers that are killed, frozen and cut off, over a server that is restarted.

`play` is one run of it; `make prove-fleet` plays the whole, and CI the smallest that still fails without
the fences, the leases or the wishes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

import windlass as w
from tests.fleet import shop
from tests.fleet.books import Books, audit
from tests.fleet.crew import Crew, Member, Proxy
from windlass.errors import StoreError
from windlass.testing.postgres import Server, own_server, shared_server


@dataclass(frozen=True)
class Size:
    """How much is played, and what is done to the workers, in seconds from the beginning."""

    engine: str
    processes: int
    runs: int
    seconds: float  # over which runs are submitted and workers killed
    kills: int
    zombies: tuple[float, ...] = ()
    restarts: tuple[float, ...] = ()
    cuts: tuple[float, ...] = ()
    lease: float = 3.0
    pace: float = 0.1
    seed: int = 0
    alone: bool = False  # on a server of its own, which can be restarted
    patience: float = 120.0  # for what is left to end


@dataclass
class Report:
    """What was seen."""

    size: Size
    books: Books = field(default_factory=Books)
    kills: int = 0
    held_at_kills: int = 0
    zombies: int = 0
    held_by_zombies: int = 0
    taken_from_zombies: int = 0
    restarts: int = 0
    cuts: int = 0
    taken_while_cut: int = 0
    takeovers: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def describe_takeovers(self) -> str:
        """Return how long it took until somebody else went on."""
        if not self.takeovers:
            return "none"
        found = sorted(self.takeovers)
        return (
            f"{len(found)}: median {statistics.median(found):.1f} s,"
            f" p95 {found[int(0.95 * (len(found) - 1))]:.1f} s, longest {found[-1]:.1f} s"
        )


class Play:
    """One play."""

    def __init__(
        self, size: Size, server: Server, url: str, folder: Path, runtime: w.Runtime
    ) -> None:
        self.size, self.server, self.url, self.runtime = size, server, url, runtime
        self.crew = Crew(
            url, folder, engine=size.engine, lease=size.lease, pace=size.pace, slots=20
        )
        self.folder = folder
        self.report = Report(size)
        self.random = random.Random(size.seed)
        self.jobs: dict[str, str] = {}  # by session
        self._losses: list[tuple[str, float]] = []  # sessions and when their process was hurt
        self._spare: set[Member] = set()  # not to be killed now
        self._over = asyncio.Event()

    # ----------------------------------------------------------------------- what a host does

    async def submit_all(self) -> None:
        """Submit the runs, spread over the time."""
        size = self.size
        began = time.monotonic()
        for n in range(size.runs):
            kind = shop.KINDS[n % len(shop.KINDS)]
            job = f"{kind} {n}"
            while True:
                try:
                    handle = await self.runtime.submit("clerk@1", job, key=job)
                    break
                except StoreError:  # the server is away: the key makes it safe to ask again
                    await asyncio.sleep(0.1)
            self.jobs[handle.session_id] = job
            ahead = (n + 1) / size.runs * size.seconds - (time.monotonic() - began)
            if ahead > 0:
                await asyncio.sleep(ahead)

    async def answer_questions(self) -> None:
        """Say yes to what waits for a person."""
        while not self._over.is_set():
            with contextlib.suppress(StoreError, w.WindlassError):
                for asked in await w.approvals(self.runtime.store):
                    with contextlib.suppress(w.AlreadyAnswered, w.NoSuchApproval):
                        await w.approve(asked.id, store=self.runtime.store)
            await asyncio.sleep(0.3)

    async def supervise(self) -> None:
        """Start workers for those that have ended."""
        while not self._over.is_set():
            missing = self.size.processes - len([m for m in self.crew.members if m.is_alive])
            for _ in range(missing):
                self.crew.start()
            await asyncio.sleep(0.1)

    # ----------------------------------------------------------------------- what hurts

    async def ask(self, sql: str, *values: object) -> list[Any]:
        """Read from the server, which may be away for a moment."""
        for _ in range(200):
            try:
                connection = await asyncpg.connect(self.url)
                try:
                    return await connection.fetch(sql, *values)
                finally:
                    await connection.close()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(0.1)
        raise TimeoutError("the server does not come back")

    async def list_held(self, *members: Member) -> dict[str, int]:
        """Return the sessions that workers drive now, and the process of each."""
        rows = await self.ask(
            "SELECT session, worker FROM windlass_wishes WHERE since IS NOT NULL AND due IS NOT NULL"
        )
        pids = {member.pid for member in members}
        held = {row["session"]: int(row["worker"].split("/")[1]) for row in rows}
        return {session: pid for session, pid in held.items() if pid in pids}

    async def kill_some(self) -> None:
        """Kill a worker that serves, again and again."""
        size = self.size
        for _ in range(size.kills):
            await asyncio.sleep(size.seconds / size.kills)
            ready = [m for m in self.crew.alive if m.is_serving and m not in self._spare]
            if not ready:
                continue
            held = await self.list_held(*ready)
            ready = [m for m in ready if m.is_alive and m not in self._spare]  # it took a moment
            busy = [member for member in ready if member.pid in held.values()]
            if ready:
                await self.kill(self.random.choice(busy or ready), held)

    async def kill(self, victim: Member, held: dict[str, int]) -> None:
        """Kill one, and note what it held."""
        now = time.time()
        victim.kill()
        mine = [session for session, pid in held.items() if pid == victim.pid]
        self._losses += [(session, now) for session in mine]
        self.report.kills += 1
        self.report.held_at_kills += len(mine)

    async def make_zombie(self, after: float) -> None:
        """Freeze a worker past its lease, let it go on, and kill those who took over."""
        await asyncio.sleep(after)
        victim, held = await self._choose_busy()
        if victim is None:
            return
        now = time.time()
        victim.freeze()
        self._losses += [(session, now) for session in held]
        await asyncio.sleep(2.2 * self.size.lease + 1)
        until = time.monotonic() + self.size.patience / 2
        while time.monotonic() < until:  # on a busy machine others take over late
            if len(await self._list_continued(held, now)) == len(held):
                break
            await asyncio.sleep(0.2)
        others = [member for member in self.crew.alive if member is not victim]
        taken = {s: pid for s, pid in (await self.list_held(*others)).items() if s in held}
        begun = await self._list_continued(held, now)
        victim.thaw()
        self.report.zombies += 1
        self.report.held_by_zombies += len(held)
        self.report.taken_from_zombies += len(begun)
        await asyncio.sleep(0.4)
        for other in [member for member in others if member.pid in set(taken.values())]:
            if other.is_alive:
                await self.kill(other, await self.list_held(other))
        self._spare.discard(victim)

    async def cut_off(self, after: float, proxy: Proxy, member: Member) -> None:
        """Shut the door between a worker and the server for longer than a lease."""
        await asyncio.sleep(after)
        held = await self.list_held(member)
        now = time.time()
        proxy.shut()
        self._losses += [(session, now) for session in held]
        await asyncio.sleep(2.2 * self.size.lease + 1)
        self.report.taken_while_cut += len(await self._list_continued(held, now))
        proxy.reopen()
        self.report.cuts += 1
        self._spare.discard(member)

    async def restart_server(self, after: float) -> None:
        """Crash the server, and start it again."""
        await asyncio.sleep(after)
        await asyncio.to_thread(self.server.restart)
        self.report.restarts += 1

    async def _choose_busy(self) -> tuple[Member | None, dict[str, int]]:
        """Return the worker that holds most, when one holds something."""
        for _ in range(200):
            ready = [m for m in self.crew.alive if m.is_serving and m not in self._spare]
            held = await self.list_held(*ready)
            pids = {m.pid for m in ready if m.is_alive and m not in self._spare}  # it took a moment
            held = {session: pid for session, pid in held.items() if pid in pids}
            if held:
                pids = list(held.values())
                pid = max(set(pids), key=pids.count)
                [victim] = [member for member in ready if member.pid == pid]
                self._spare.add(victim)
                return victim, {s: p for s, p in held.items() if p == pid}
            await asyncio.sleep(0.05)
        return None, {}

    async def _list_continued(self, held: dict[str, int], since: float) -> list[str]:
        """Return which of the sessions were written to since then."""
        return [session for session in held if await self._find_next_row(session, since)]

    async def _find_next_row(self, session: str, since: float) -> float | None:
        rows = await self.ask(
            "SELECT min(at) AS at FROM windlass_rows JOIN windlass_sessions USING (sid)"
            " WHERE id = $1 AND at > $2",
            session,
            since,
        )
        return rows[0]["at"]

    # ----------------------------------------------------------------------- the whole

    async def run(self) -> Report:
        """Play it, wait for every run, and look at the books."""
        size, began = self.size, time.monotonic()
        first = [self.crew.start() for _ in range(size.processes - len(size.cuts))]
        proxies: list[tuple[Proxy, Member]] = []
        for _ in size.cuts:
            proxy = Proxy(self.server.folder / ".s.PGSQL.5432")
            port = await proxy.start()
            member = self.crew.start(url=self._url_through(port))
            self._spare.add(member)
            proxies.append((proxy, member))
        await self.crew.wait_until_serving(*first, *[member for _, member in proxies])
        hurts = [self.kill_some()]
        hurts += [self.make_zombie(after) for after in size.zombies]
        hurts += [self.restart_server(after) for after in size.restarts]
        pairs = zip(size.cuts, proxies, strict=True)
        hurts += [self.cut_off(after, proxy, member) for after, (proxy, member) in pairs]
        background = [
            asyncio.create_task(one) for one in (self.answer_questions(), self.supervise())
        ]
        try:
            await asyncio.gather(self.submit_all(), *hurts)
            await self._wait_for_ends()
        finally:
            self._over.set()
            await asyncio.gather(*background)
            self.crew.end()
            for proxy, _ in proxies:
                await proxy.aclose()
        await self._close_books()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _url_through(self, port: int) -> str:
        query = self.url.split("search_path=")[1]
        return (
            f"postgresql://windlass@127.0.0.1:{port}/postgres?sslmode=disable&search_path={query}"
        )

    async def _wait_for_ends(self) -> None:
        until = time.monotonic() + self.size.patience
        while time.monotonic() < until:
            rows = await self.ask(
                "SELECT count(*) AS c FROM windlass_sessions WHERE id = ANY($1)"
                " AND (status IS NULL OR status = 'suspended')",
                list(self.jobs),
            )
            wishes = await self.ask(
                "SELECT count(*) AS c FROM windlass_wishes WHERE due IS NOT NULL"
            )
            if rows[0]["c"] == 0 and wishes[0]["c"] == 0:
                return
            await asyncio.sleep(0.2)

    async def _close_books(self) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            self.report.books = await audit(self.runtime.store, connection, self.folder, self.jobs)
        finally:
            await connection.close()
        for session, when in self._losses:
            found = await self._find_next_row(session, when)
            if found is not None:
                self.report.takeovers.append(found - when)


@contextlib.asynccontextmanager
async def open_play(size: Size) -> AsyncGenerator[Play]:
    """Start a server and a store with the table of effects."""
    with _find_server(size) as server, tempfile.TemporaryDirectory() as folder:
        url = server.schema()
        async with w.Runtime(store=url, environ={}, **fleet_options(size.engine)) as runtime:
            await runtime.store.sessions()
            connection = await asyncpg.connect(url)
            await connection.execute(shop.TABLES)
            await connection.close()
            play = Play(size, server, url, Path(folder), runtime)
            try:
                yield play
            finally:
                play.crew.end()


def _find_server(size: Size) -> contextlib.AbstractContextManager[Server]:
    if size.alone or size.restarts:
        return own_server(durable=False, settings={"autovacuum": "on"})
    return contextlib.nullcontext(shared_server())


def fleet_options(engine: str) -> dict[str, Any]:
    """Return the options of a Runtime for an engine."""
    return {} if engine == "local" else {"fleet": engine}


async def play(size: Size) -> Report:
    """Play once."""
    async with open_play(size) as one:
        return await one.run()
