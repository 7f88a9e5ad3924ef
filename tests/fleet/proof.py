"""The whole proof of the fleet, written as a page: `make prove-fleet`.

`python -m tests.fleet.proof takeover sleepers` plays some parts; `--medium` is for a machine that others use too,
`--small` for a quick look.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.fleet.costs import Costs, measure_costs
from tests.fleet.deploy import DeployReport, play_deploy, play_poison
from tests.fleet.family import Family, play_family
from tests.fleet.outage import OutageReport, play_failover, play_outage
from tests.fleet.sleepers import Sleep, play_sleep
from tests.fleet.takeover import Report, Size, play
from windlass.testing.postgres import shared_server

QUEUES = ("procrastinate", "pgqueuer")
LEASE = 3.0
SWEEP = LEASE / 3
POLL = LEASE / 3

Part = tuple[list[str], list[str]]  # lines of the page, and problems


def size_takeover(engine: str, scale: str) -> Size:
    """Return the size of the play of takeovers."""
    if scale == "medium":
        some: dict[str, tuple[float, ...]] = {"restarts": (20.0, 35.0, 50.0)}
        if engine != "local":
            some |= {"zombies": (8.0, 30.0), "cuts": (12.0,)}
        return Size(engine, 4, 96, 60.0, 10, lease=LEASE, alone=True, patience=240, **some)
    if scale == "small":
        return Size(
            engine,
            3,
            20,
            6.0,
            2,
            zombies=(1.0,) if engine != "local" else (),
            lease=2.0,
            alone=True,
        )
    hurts: dict[str, tuple[float, ...]] = {"restarts": (30.0, 70.0, 100.0)}
    if engine != "local":  # whose driver keeps its lock while it is frozen, by design
        hurts |= {"zombies": (12.0, 50.0, 85.0), "cuts": (20.0, 60.0)}
    return Size(engine, 6, 600, 120.0, 120, lease=LEASE, alone=True, patience=240, **hurts)


async def prove_takeover(scale: str) -> Part:
    """Kill, freeze, cut off and restart."""
    lines = [
        "## Takeover",
        "",
        "Runs with transactional, keyed, plain and read-only tools, with children, approvals and sleeps, submitted",
        "over the whole time. Workers are killed (SIGKILL), one a second at full size, and replaced. A *zombie* is stopped past its",
        "lease and let go; then those who took over are killed. A *cut* worker cannot reach Postgres for two leases.",
        "*Plain, unknown* are plain calls that a kill interrupted: they are marked as unknown and not repeated.",
        "",
        "| engine | processes | runs | kills | zombies | cuts | restarts of Postgres | ended well | effects |"
        " lost | twice | plain, unknown | takeovers |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    problems: list[str] = []
    for engine in ("procrastinate",) if scale == "small" else (*QUEUES, "local"):
        report = await play(size_takeover(engine, scale))
        lines.append(describe_takeover(report))
        print(lines[-1], file=sys.stderr, flush=True)
        problems += [f"takeover, {engine}: {one}" for one in report.books.problems]
    lines += [
        "",
        f"Lease {LEASE:g} s, sweep {SWEEP:g} s, poll {POLL:g} s: a takeover is due within {LEASE + SWEEP + POLL:g} s of"
        " the last kill. A session whose next",
        "driver was killed too, or that waited for a restart of Postgres, takes longer; its time is counted from the first.",
        "The local engine has no lease: its lock goes with the process. A frozen driver keeps it, so it has no zombies.",
        "",
    ]
    return lines, problems


def describe_takeover(report: Report) -> str:
    """Return the row of one play."""
    books, size = report.books, report.size
    zombies = f"{report.zombies} ({report.taken_from_zombies} sessions taken from them)"
    cuts = f"{report.cuts} ({report.taken_while_cut} taken)"
    cells: list[object] = [size.engine, size.processes, books.runs, report.kills, zombies, cuts]
    cells += [report.restarts, books.ended["done"], books.effects, books.lost, books.twice]
    cells += [books.unknown, report.describe_takeovers()]
    return "| " + " | ".join(map(str, cells)) + " |"


async def prove_poison(scale: str) -> Part:
    """A run that kills its workers."""
    runs = {"small": 8, "medium": 16}.get(scale, 60)
    lines = ["## Poison", ""]
    problems: list[str] = []
    for engine in QUEUES[:1] if scale == "small" else (*QUEUES, "local"):
        size = Size(engine, 3, runs, runs / 5, 0, lease=LEASE)
        found = await play_poison(size)
        lines.append(
            f"- {engine}: a run whose tool kills its process ended as `{found.status}`, `{found.reason}`,"
            f" after {found.deaths} processes; {found.others} of {runs} other runs ended well."
        )
        problems += [f"poison, {engine}: {one}" for one in found.problems]
        if (found.status, found.reason) != ("failed", "poison"):
            problems.append(f"poison, {engine}: {found.status}, {found.reason}")
    return [*lines, ""], problems


async def prove_deploy(scale: str) -> Part:
    """Old and new code beside each other."""
    lines = [
        "## Rolling deploy",
        "",
        "Workers of the old code are replaced one by one under load by workers of the new one, which has a second",
        "version of the agent without one of its tools, and one agent more. SIGTERM drains the old ones. A session that",
        "is run by hand beside them is left alone.",
        "",
        "| engine | runs | ended well | lost | twice | p99 wait before | during | codes of the old | by hand |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    problems: list[str] = []
    runs, seconds = {"small": (12, 3.0), "medium": (60, 30.0)}.get(scale, (400, 60.0))
    for engine in QUEUES[:1] if scale == "small" else QUEUES:
        size = Size(engine, 2 if scale != "full" else 3, runs, seconds, 0, lease=LEASE)
        found = await play_deploy(size)
        lines.append(describe_deploy(found))
        problems += [f"deploy, {engine}: {one}" for one in found.report.books.problems]
        if found.by_hand != "suspended" or any(found.codes):
            problems.append(f"deploy, {engine}: by hand {found.by_hand}, codes {found.codes}")
    return [*lines, ""], problems


def describe_deploy(found: DeployReport) -> str:
    """Return the row of one deploy."""
    books = found.report.books
    waits = [f"{1000 * found.find_p99(some):.0f} ms" for some in (found.before, found.during)]
    cells: list[object] = [found.report.size.engine, books.runs, books.ended["done"], books.lost]
    cells += [books.twice, *waits, found.codes, f"still {found.by_hand}"]
    return "| " + " | ".join(map(str, cells)) + " |"


async def prove_sleepers(scale: str) -> Part:
    """Parked sessions, and many that are due at once."""
    sleepers, due, idle = {"small": (300, 60, 2.0), "medium": (100_000, 1_000, 60.0)}.get(
        scale, (100_000, 10_000, 60.0)
    )
    sleep = Sleep(QUEUES[0], sleepers, due, idle)
    found = await play_sleep(sleep)
    rate = sleep.due / max(found.waking_seconds, 0.001)
    lines = [
        "## Sleepers",
        "",
        f"{sleep.sleepers:,} parked sessions: half wait for a time, the others for an event or for a file, one of"
        f" their own each. One worker ({sleep.engine}).",
        "",
        f"- Nothing is due, {found.seconds:.0f} s: {found.worker_cpu:.2f} s of CPU in the worker,"
        f" {found.server_cpu:.2f} s in Postgres, {60 * found.transactions / found.seconds:.0f} transactions a minute.",
        f"- {sleep.due:,} due at once, and the worker that wakes them is killed: {found.woken:,} woken, {found.twice} twice,"
        f" {found.forgotten} forgotten, in {found.waking_seconds:.0f} s ({rate:.0f} a second).",
        "",
    ]
    return lines, [f"sleepers: {one}" for one in found.problems]


async def prove_costs(scale: str) -> Part:
    """What a turn costs."""
    rows: list[Costs] = []
    for engine in (QUEUES[0], "local"):
        rows.append(
            await measure_costs(
                engine, *{"small": (20, 5.0), "medium": (60, 30.0)}.get(scale, (200, 60.0))
            )
        )
    names = {
        "worker_ms": "CPU of a worker for a turn with a transactional call, ms",
        "server_ms": "CPU of Postgres for it, ms",
        "transactions": "transactions for it",
        "wal_bytes": "write-ahead log for it, bytes",
        "stored_bytes": "journal for it, bytes",
        "events": "entries of the journal for it",
        "submit_ms": "submission of a run, ms",
        "connections": "connections of a worker",
        "idle_transactions": "transactions of an idle worker, a minute",
        "idle_cpu": "CPU of an idle worker, seconds a minute",
    }
    lines = [
        "## Unit costs",
        "",
        f"Of {rows[0].runs} runs of 13 turns on one worker, 20 at once.",
        "",
    ]
    lines += [
        "| | " + " | ".join([one.engine for one in rows]) + " |",
        "|---|" + "---|" * len(rows),
    ]
    for name, words in names.items():
        values = [_round(getattr(one, name)) for one in rows]
        lines.append(f"| {words} | " + " | ".join(values) + " |")
    return [*lines, ""], []


def _round(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


async def prove_families(scale: str) -> Part:
    """A parent with workers of `spawn_agent`, over processes that are killed."""
    lines = [
        "## Workers that runs spawn",
        "",
        "A parent spawns workers, and is parked until all have ended. Processes that drive one are killed meanwhile.",
        "",
        "| engine | processes | workers | kills | resumed | status | problems |",
        "|---|---|---|---|---|---|---|",
    ]
    problems: list[str] = []
    for engine in ("procrastinate",) if scale == "small" else (*QUEUES, "local"):
        with tempfile.TemporaryDirectory() as folder:
            url = shared_server().schema()
            if engine == "local":
                url = f"sqlite:///{folder}/family.db"
            size = Family(url, 50, 3, 6, engine=engine, lease=LEASE, patience=300.0)
            if scale == "small":
                size = Family(url, 4, 2, 1, engine=engine, lease=LEASE)
            found = await play_family(size, Path(folder))
        lines.append(
            f"| {engine} | {size.processes} | {size.children} | {found.kills} | {found.resumed} |"
            f" {found.status} | {len(found.problems)} |"
        )
        problems += [f"families, {engine}: {one}" for one in found.problems]
    return [*lines, ""], problems


AWAY_SECONDS = 40.0  # longer than the stores of the workers wait for a server
NOTICE_SECONDS = 5.0  # until somebody notices that the primary is lost
BACK_SECONDS = 10.0  # in which work has to go on when the database takes writes again
STILL_SECONDS = 50.0  # and where the old primary stands still: an answer is waited for, for 30 s


def size_outage(engine: str, scale: str, seconds: float) -> Size:
    """Return the size of an outage."""
    if scale == "small":
        return Size(engine, 2, 16, 8.0, 0, lease=2.0, pace=0.2, alone=True)
    runs = int(4 * seconds)
    return Size(engine, 4, runs, seconds, 0, lease=LEASE, pace=1.0, alone=True, patience=240)


def check_outage(found: OutageReport, most: float) -> list[str]:
    """Return what was wrong with one: work that went on too late counts."""
    problems = list(found.problems)
    late = [seconds for seconds in (*found.workers.values(), *found.held_waits) if seconds > most]
    if found.first is None or late:
        problems.append(f"work went on after {found.first} s, and later than {most:g} s: {late}")
    return problems


def describe_outage(name: str, found: OutageReport) -> str:
    """Return the row of one outage or fail-over."""
    books = found.report.books
    cells: list[object] = [name, found.report.size.processes, books.runs, f"{found.away:.0f} s"]
    cells += [books.ended["done"], books.effects, books.lost, books.twice, books.unknown]
    cells += ["never" if found.first is None else f"{found.first:.1f} s"]
    cells += [found.describe_workers(), found.describe_waits(), found.describe_refusals()]
    return "| " + " | ".join(map(str, cells)) + " |"


OUTAGE_HEAD = [
    "| engine | processes | runs | away | ended well | effects | lost | twice | plain, unknown |"
    " first effect after | workers heard of after | held sessions went on after | submissions meanwhile |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
]


async def prove_outage(scale: str) -> Part:
    """A server that is away for longer than stores wait."""
    away = 3.0 if scale == "small" else AWAY_SECONDS
    lines = [
        "## Outage of Postgres",
        "",
        f"The server is stopped at once under load, and started again after {away:g} s. Nobody restarts workers here. Clients",
        "go on to submit runs; a submission waits for the server for 30 s, and is tried again with its key.",
        "",
        *OUTAGE_HEAD,
    ]
    problems: list[str] = []
    for engine in QUEUES[:1] if scale == "small" else (*QUEUES, "local"):
        found = await play_outage(size_outage(engine, scale, 80.0), away)
        lines.append(describe_outage(engine, found))
        print(lines[-1], file=sys.stderr, flush=True)
        problems += [f"outage, {engine}: {one}" for one in check_outage(found, BACK_SECONDS)]
    lines += ["", f"Work is due to go on within {BACK_SECONDS:g} s after the server is back.", ""]
    return lines, problems


async def prove_failover(scale: str) -> Part:
    """A standby that takes over."""
    lines = [
        "## Fail-over to a synchronous standby",
        "",
        "Two servers on loopback, `synchronous_standby_names` and `synchronous_commit=on`; the address of the workers names",
        "both. The primary is lost with all its processes (SIGKILL), or it stands still (SIGSTOP), and the standby is promoted",
        f"{NOTICE_SECONDS:g} s later. A primary that stood still is let go after the work has gone on elsewhere, and ended 3 s",
        "later. *Left over* are rows that the old primary has and the new one has not: nobody was told that they are stored.",
        "",
        OUTAGE_HEAD[0].replace("away", "no primary") + " left over |",
        OUTAGE_HEAD[1] + "---|",
    ]
    problems: list[str] = []
    engines = QUEUES[:1] if scale == "small" else (*QUEUES, "local")
    for engine in engines:
        for frozen in (False,) if scale == "small" else (False, True):
            size = size_outage(engine, scale, 75.0 if frozen else 50.0)
            notice = 1.0 if scale == "small" else NOTICE_SECONDS
            found = await play_failover(size, frozen=frozen, notice=notice)
            name = f"{engine}, {'stands still' if frozen else 'lost'}"
            lines.append(f"{describe_outage(name, found)} {found.left_over} |")
            print(lines[-1], file=sys.stderr, flush=True)
            most = STILL_SECONDS if frozen else BACK_SECONDS
            problems += [f"fail-over, {name}: {one}" for one in check_outage(found, most)]
    lines += [
        "",
        f"Work is due to go on within {BACK_SECONDS:g} s after the standby takes writes; within {STILL_SECONDS:g} s where the old"
        " primary stands still,",
        "because a connection to it counts as lost when an answer is missing for 30 s.",
        "",
    ]
    return lines, problems


PARTS: dict[str, Callable[[str], Awaitable[Part]]] = {
    "takeover": prove_takeover,
    "outage": prove_outage,
    "failover": prove_failover,
    "poison": prove_poison,
    "deploy": prove_deploy,
    "sleepers": prove_sleepers,
    "families": prove_families,
    "costs": prove_costs,
}
HEAD = """# Proof of the fleet

Written by `make prove-fleet`: `tests/fleet/proof.py` says what is played. CPython {python}, Postgres without fsync on one
machine with {cores} cores, load {load} at the beginning. {when}.
"""


async def prove(names: Sequence[str], scale: str) -> int:
    """Play the parts and print the page; 1 if something was lost, doubled or stuck."""
    print(
        HEAD.format(
            python=platform.python_version(),
            cores=os.cpu_count(),
            load=f"{os.getloadavg()[0]:.1f}",
            when=datetime.now(UTC).strftime("%Y-%m-%d"),
        )
    )
    problems: list[str] = []
    for name in names or PARTS:
        began = time.perf_counter()
        lines, found = await PARTS[name](scale)
        problems += found
        print("\n".join(lines), flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    print(f"Problems: {len(problems)}.")
    for problem in problems:
        print(f"- {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    chosen = [name for name in sys.argv[1:] if not name.startswith("--")]
    given = [name.removeprefix("--") for name in sys.argv[1:] if name.startswith("--")]
    raise SystemExit(asyncio.run(prove(chosen, given[0] if given else "full")))
