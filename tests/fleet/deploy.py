"""A run that kills its workers, and a deploy under load: old and new code beside each other."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

import windlass as w
from tests.fleet import shop
from tests.fleet.books import read_lines
from tests.fleet.crew import Member
from tests.fleet.takeover import Play, Report, Size, open_play
from windlass.errors import StoreError


@dataclass
class PoisonReport:
    """How a run ended that kills its process, and how many processes it took."""

    status: str
    reason: str | None
    deaths: int
    others: int
    problems: list[str]


async def play_poison(size: Size) -> PoisonReport:
    """Submit a run that kills each worker, beside others."""
    async with open_play(size) as play:
        workers = [play.crew.start() for _ in range(size.processes)]
        await play.crew.wait_until_serving(*workers)
        deadly = await play.runtime.submit("deadly@1", "die 0")
        supervising = asyncio.create_task(play.supervise())
        answering = asyncio.create_task(play.answer_questions())
        try:
            await play.submit_all()
            out = await deadly.result(timeout=size.patience)
            await play._wait_for_ends()
        finally:
            play._over.set()
            await asyncio.gather(supervising, answering)
            play.crew.end()
        await play._close_books()
        books = play.report.books
        return PoisonReport(
            out.status,
            out.stop_reason,
            len(read_lines(play.folder, "deaths")),
            books.ended["done"],
            books.problems,
        )


@dataclass
class DeployReport:
    """How long runs waited for their first entry, before and while workers are replaced."""

    report: Report
    before: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    by_hand: str = ""

    @staticmethod
    def find_p99(waits: list[float]) -> float:
        """Return the wait that one of a hundred exceeds."""
        return sorted(waits)[int(0.99 * (len(waits) - 1))] if waits else 0.0


class Deploy:
    """Workers are replaced one by one while runs keep coming."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.deploy = DeployReport(play.report)
        self._submitted: dict[str, tuple[float, bool]] = {}
        self._deploying = False
        self._over = asyncio.Event()

    async def submit(self, agent: str, job: str) -> None:
        """Submit a run, and note when."""
        began = time.time()
        handle = await self.play.runtime.submit(agent, job, key=job)
        self._submitted[handle.session_id] = (began, self._deploying)
        self.play.jobs[handle.session_id] = job

    async def load(self) -> None:
        """Submit runs without a pause in between, half of them before the deploy begins."""
        size = self.play.size
        for n in range(size.runs):
            await self.submit("clerk@1", f"mixed {n}")
            await asyncio.sleep(size.seconds / size.runs)
        await self._over.wait()

    async def replace(self, old: list[Member]) -> None:
        """Start one with the new code, drain one with the old, until all are new."""
        await asyncio.sleep(self.play.size.seconds / 2)
        self._deploying = True
        number = 10_000
        for member in old:
            fresh = self.play.crew.start("new_agents")
            await self.play.crew.wait_until_serving(fresh)
            # What only the new code knows is left alone by the old one.
            for agent in ("clerk@2", "helper@1"):
                await self.submit(agent, f"pay {number}")
                number += 1
            member.tell_to_end()
            self.deploy.codes.append(await member.wait())
        self._over.set()

    async def run(self) -> DeployReport:
        """Deploy under load, and look at the books."""
        play = self.play
        old = [play.crew.start() for _ in range(play.size.processes)]
        await play.crew.wait_until_serving(*old)
        by_hand = await self._begin_by_hand()
        await asyncio.gather(self.load(), self.replace(old))
        await play._wait_for_ends()
        self.deploy.by_hand = str((await play.runtime.store.info(by_hand)).status)
        play.crew.end()
        await play._close_books()
        rows = await play.ask(
            "SELECT id, min(at) AS at FROM windlass_rows JOIN windlass_sessions USING (sid)"
            " WHERE seq > 0 GROUP BY id"  # row 0 is written by the submission
        )
        first = {row["id"]: row["at"] for row in rows}
        for session, (began, deploying) in self._submitted.items():
            waits = self.deploy.during if deploying else self.deploy.before
            waits.append(first[session] - began)
        return self.deploy

    async def _begin_by_hand(self) -> str:
        """Run a session by hand that parks, and answer it: no worker may take it."""
        store = self.play.runtime.store
        out = await shop.clerk.run("ask 99999", session_id="by-hand", store=store)
        assert out.status == "suspended"
        await w.approve((await w.approvals(store))[0].id, store=store)
        return "by-hand"


async def play_deploy(size: Size) -> DeployReport:
    """Play a deploy."""
    async with open_play(size) as play:
        with contextlib.suppress(StoreError):
            await play.runtime.store.sessions()
        return await Deploy(play).run()
