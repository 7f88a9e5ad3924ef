"""What a run costs a worker and the server: the units that `docs/scale.md` computes with."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import asyncpg

from tests.fleet.sleepers import count_transactions, read_cpu, read_server_cpu
from tests.fleet.takeover import Play, Size, open_play

TURNS = 13  # of a long run of the shop: twelve payments and an answer


@dataclass(frozen=True)
class Costs:
    """Of one turn with a transactional tool call, if nothing else is said."""

    engine: str
    runs: int
    turns: int
    seconds: float
    worker_ms: float
    server_ms: float
    transactions: float
    wal_bytes: float
    stored_bytes: float
    events: float
    submit_ms: float  # of the server's and the submitter's time, one after the other
    connections: int  # of one worker
    idle_transactions: float  # of one worker, a minute
    idle_cpu: float  # of one worker, in seconds a minute


async def measure_costs(engine: str, runs: int, idle_seconds: float) -> Costs:
    """Submit runs, let one worker do them, and then let it idle."""
    size = Size(engine, 1, runs, 0, 0, lease=30.0, pace=0, alone=True)  # the lease of production
    async with open_play(size) as play:
        return await _measure(play, runs, idle_seconds)


async def _measure(play: Play, runs: int, idle_seconds: float) -> Costs:
    connection = await asyncpg.connect(play.url)
    parent = int((play.server.data / "postmaster.pid").read_text().split()[0])
    began = time.perf_counter()
    for n in range(runs):
        handle = await play.runtime.submit("clerk@1", f"long {n}")
        play.jobs[handle.session_id] = f"long {n}"
    submitted = time.perf_counter() - began
    before = await _read(connection, parent)
    entries = await connection.fetchval("SELECT sum(entries) FROM windlass_sessions")
    own = await _count_connections(connection)
    worker = play.crew.start()
    await play.crew.wait_until_serving(worker)
    began, started = time.monotonic(), read_cpu(worker.pid)  # its imports are not counted
    await play._wait_for_ends()
    seconds = time.monotonic() - began
    cpu = read_cpu(worker.pid) - started
    after = await _read(connection, parent)
    turns = TURNS * runs
    made = await connection.fetchval("SELECT sum(entries) FROM windlass_sessions") - entries
    stored = await connection.fetchval("SELECT sum(length(payload) + 100) FROM windlass_rows")
    used = await _count_connections(connection) - own
    idle = await _measure_idle(connection, worker.pid, idle_seconds)
    await connection.close()
    return Costs(
        engine=play.size.engine,
        runs=runs,
        turns=turns,
        seconds=seconds,
        worker_ms=1000 * cpu / turns,
        server_ms=1000 * (after["cpu"] - before["cpu"]) / turns,
        transactions=(after["transactions"] - before["transactions"]) / turns,
        wal_bytes=(after["wal"] - before["wal"]) / turns,
        stored_bytes=float(stored) / turns,
        events=float(made) / turns,
        submit_ms=1000 * submitted / runs,
        connections=used,
        idle_transactions=idle[0],
        idle_cpu=idle[1],
    )


async def _count_connections(connection: Any) -> int:
    return int(
        await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        )
    )


async def _read(connection: Any, parent: int) -> dict[str, float]:
    return {
        "cpu": read_server_cpu(parent),
        "transactions": await count_transactions(connection),
        "wal": float(await connection.fetchval("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")),
    }


async def _measure_idle(connection: Any, pid: int, seconds: float) -> tuple[float, float]:
    await asyncio.sleep(2)
    cpu, transactions = read_cpu(pid), await count_transactions(connection)
    await asyncio.sleep(seconds)
    minutes = seconds / 60
    return (
        (await count_transactions(connection) - transactions) / minutes,
        (read_cpu(pid) - cpu) / minutes,
    )
