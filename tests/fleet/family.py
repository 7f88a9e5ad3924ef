"""A parent with many workers, over worker processes that are killed.

Every worker pays in the transactions of its results; the parent is parked, and woken by their ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import windlass as w
from tests.fleet.crew import Crew, Member
from tests.fleet.team import create_table, expect_payments, read_payments
from windlass.events import InboxTaken, RunEnded, RunResumed, WorkerUpdate
from windlass.runtime.runtime import Runtime
from windlass.store.base import Store
from windlass.store.wishes import read_wish

TARGET = "tests.fleet.team:boss"
LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Family:
    """How large the play is, on which engine and store."""

    url: str
    children: int = 5
    processes: int = 2
    kills: int = 1
    engine: str = "local"
    lease: float = 3.0
    slots: int = 20
    pace: float = 0.1
    patience: float = 120.0  # seconds, for all of it


@dataclass
class FamilyReport:
    """What came of it."""

    status: str = ""
    kills: int = 0
    resumed: int = 0  # drives of the parent, after its first
    drivers: set[str] = field(default_factory=set[str])  # processes that drove a worker
    problems: list[str] = field(default_factory=list[str])


async def play_family(size: Family, folder: Path) -> FamilyReport:
    """Have a parent hire workers, kill processes while they pay, and look at the books."""
    report = FamilyReport()
    crew = Crew(
        size.url,
        folder,
        engine=size.engine,
        lease=size.lease,
        slots=size.slots,
        pace=size.pace,
    )
    try:
        async with Runtime(store=size.url, fleet=size.engine, environ={}) as runtime:
            await create_table(runtime.store)
            members = [crew.start(TARGET) for _ in range(size.processes)]
            await crew.wait_until_serving(*members)
            async with asyncio.timeout(size.patience):
                handle = await runtime.submit("boss", f"hire {size.children}")
                for number in range(size.kills):
                    await _kill_one(runtime.store, crew, size, number, report)
                out = await handle.result(timeout=size.patience)
                report.status = out.status
                await _check(runtime.store, handle.session_id, size, report)
    except TimeoutError:
        report.problems.append(f"not done in {size.patience:g} s:\n{crew.read_logs()[-4000:]}")
    finally:
        crew.end()
    return report


async def _kill_one(
    store: Store, crew: Crew, size: Family, number: int, report: FamilyReport
) -> None:
    """Kill a process that drives one of them when a part of the payments is made; start another."""
    whole = len(expect_payments(size.children))
    part = 1 + number * whole // (size.kills + 1)
    victims: list[Member] = []

    async def find() -> bool:
        found = await store.consult(_read_drivers)
        report.drivers |= {one for one in found if one is not None}
        pids = {int(one.split("/")[1]) for one in found if one is not None}
        victims[:] = [member for member in crew.alive if member.pid in pids]
        return len(await read_payments(store)) >= part and bool(victims)

    if await _wait(find, size.patience / 3):
        victims[number % len(victims)].kill()
        report.kills += 1
        crew.start(TARGET)


def _read_drivers(tx: Any) -> list[str | None]:
    rows = tx.execute("SELECT worker FROM windlass_wishes WHERE since IS NOT NULL ORDER BY session")
    return [row[0] for row in rows.fetchall()]


async def _wait(check: Callable[[], Any], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not await check():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True


async def _check(store: Store, parent: str, size: Family, report: FamilyReport) -> None:
    paid = await read_payments(store)
    if paid != expect_payments(size.children):
        wanted = expect_payments(size.children)
        lost = [one for one in wanted if one not in paid]
        twice = [one for one in set(paid) if paid.count(one) > 1]
        report.problems.append(f"payments: lost {lost}, twice {twice}")
    found = [one for one in await w.list_agents(store=store) if one.parent_session_id == parent]
    if [one.status for one in found] != ["completed"] * size.children:
        report.problems.append(f"workers: {[(one.name, one.status) for one in found]}")
    for one in found:
        entries = await store.read(one.id)
        ends = [e for e in entries if type(e) is WorkerUpdate]
        done = [e for e in entries if type(e) is RunEnded and e.status == "done"]
        if (len(ends), len(done)) != (1, 1):
            report.problems.append(f"{one.id} ended {len(ends)} times, {len(done)} runs")
    entries = await store.read(parent)
    report.resumed = len([e for e in entries if type(e) is RunResumed])
    taken = [e for e in entries if type(e) is InboxTaken and e.item == "result"]
    told = [name for entry in taken for name in dict(entry.payload)]
    if sorted(told) != sorted([one.id for one in found]):
        report.problems.append(f"the parent was told of {told}")
    for session in (parent, *[one.id for one in found]):

        async def is_idle(session: str = session) -> bool:
            wish = await store.consult(lambda tx: read_wish(tx, session))
            return wish is not None and not wish.is_wanted

        if not await _wait(is_idle, 10):
            report.problems.append(f"{session} is still wanted")
