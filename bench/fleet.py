"""What a fleet adds to a run: embedded beside a plain run, and on Postgres beside a bare Procrastinate.

A bare job does nothing. Ours is a session with a journal that ends with its record, driven by the same
engine. Wall time, as most of it is the server's. The queue is measured by processes of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg

import windlass as w
from bench.sampling import REPS, Work, paired, rounds
from bench.table import Row, micro
from windlass.store.sqlite.store import SqliteStore
from windlass.testing.postgres import find_binaries, own_server

EMBEDDED, ON_POSTGRES, LATENCY = 2.0, 3.0, 2.0
QUEUED = 1 / 0.6  # of the time that the same loops take without a queue
RUNS, AT_ONCE, TURNS = 1000, 20, 3
ENGINE = "procrastinate"
ROOT = Path(__file__).parents[1]
TABLES = "CREATE TABLE IF NOT EXISTS effects (job text, n bigint)"

begun: list[float] = []  # when the model was first called, for each run of this process


class Instant(w.Model):
    """Answers at once: in the runs of the queue after three calls, else with its first reply."""

    provider, name = "instant", "instant"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        """Answer by the conversation alone."""
        made = sum([message.role == "assistant" for message in request.messages])
        if made == 0:
            begun.append(time.perf_counter())
        if made < TURNS and request.messages[0].text.startswith("queued"):
            call = w.ToolCall(f"c{made}", "pay", {"job": request.messages[0].text, "n": made})
            return w.Response(w.Message("assistant", (call,)), w.Usage(10, 5), "tool_use")
        return w.Response(w.Message("assistant", (w.Text("Done."),)), w.Usage(10, 5), "end_turn")


@w.tool(transactional=True)
async def pay(ctx: w.ToolContext[None], job: str, n: int) -> str:
    """Write a row, in the transaction of the result."""

    def body(tx: Any) -> str:
        tx.execute("INSERT INTO effects (job, n) VALUES (?, ?)", (job, n))
        return "paid"

    return await ctx.commit(body)


agent = w.Agent(Instant(), name="bench", tools=[pay])
plain = w.Agent(Instant(), name="plain")


def missing() -> str | None:
    """Say why the rows on Postgres cannot be measured here; None if they can."""
    if find_binaries() is None:
        return "there is no Postgres"
    if importlib.util.find_spec(ENGINE) is None:
        return f"{ENGINE} is not installed: windlass[fleet]"
    return None


async def rows(reps: int = REPS, runs: int = RUNS) -> list[Row]:
    """All rows of the fleet; those that cannot be measured here are left out, with a message."""
    found = await embedded(reps)
    if (why := missing()) is not None:
        print(f"  fleet on Postgres is not measured: {why}", file=sys.stderr)
        return found
    with own_server(durable=True) as server:
        found += await on_postgres(server.schema("one"), reps)
        found.append(await queue(server, runs))
    return found


# --------------------------------------------------------------------------- embedded


async def embedded(reps: int) -> list[Row]:
    """A run that is submitted to the local engine, beside the same run on the same store."""
    work = Path(__file__).with_name(".work")
    work.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=work) as folder:
        store = SqliteStore(Path(folder, "direct.db"))
        async with w.Runtime(store=f"sqlite:///{folder}/fleet.db") as runtime:

            async def submitted() -> None:
                handle = await runtime.submit(plain, "go")
                _check(await handle.result())

            async def direct() -> None:
                _check(await plain.run("go", store=store))

            works = {"fleet": Work(submitted), "direct": Work(direct)}
            taken = await rounds(works, reps, target=0.3, clock=time.perf_counter)
        await store.aclose()
    pair = paired(taken["fleet"], taken["direct"])
    name = (
        "a one-turn run submitted to the local engine on SQLite, over `Agent.run` on such a store"
    )
    return [Row(name, pair.ratio, EMBEDDED, *_sides(pair.ours, pair.bare), (pair.low, pair.high))]


def _check(out: Any) -> None:
    if out.status != "done" or out.turns != 1:
        raise AssertionError(f"a run ended as {out.status} after {out.turns} turns")


def _sides(ours: float, bare: float) -> tuple[str, str]:
    return micro(ours), micro(bare)


# --------------------------------------------------------------------------- beside the bare engine


async def on_postgres(url: str, reps: int) -> list[Row]:
    """Submit, start and finish one run, and how long it takes until the model is called."""
    waits: dict[str, list[float]] = {"fleet": [], "bare": []}
    totals: dict[str, list[float]] = {"fleet": [], "bare": []}
    async with w.Runtime(store=url, fleet=ENGINE) as runtime, open_bare(url) as bare:
        serving = asyncio.create_task(runtime.serve(plain, slots=AT_ONCE))

        async def submitted() -> None:
            began = time.perf_counter()
            handle = await runtime.submit("plain@1", "go")
            _check(await handle.result())
            waits["fleet"].append(begun[-1] - began)
            totals["fleet"].append(time.perf_counter() - began)

        async def deferred() -> None:
            began = time.perf_counter()
            waits["bare"].append(await bare() - began)
            totals["bare"].append(time.perf_counter() - began)

        works = {"fleet": Work(submitted), "bare": Work(deferred)}
        await rounds(works, reps, target=0.5, clock=time.perf_counter)
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    # Medians: the bare worker misses a notification now and then, and waits for its next poll.
    whole, no_op = statistics.median(totals["fleet"]), statistics.median(totals["bare"])
    ours, theirs = statistics.median(waits["fleet"]), statistics.median(waits["bare"])
    return [
        Row(
            "submit, start and finish a one-turn run on Postgres, median, over a no-op job of Procrastinate",
            whole / no_op,
            ON_POSTGRES,
            *_sides(whole, no_op),
        ),
        Row(
            "from submit to the first model call on Postgres, median, over the start of that job",
            ours / theirs,
            LATENCY,
            *_sides(ours, theirs),
        ),
    ]


@contextlib.asynccontextmanager
async def open_bare(url: str) -> AsyncGenerator[Any]:
    """Yield a function that defers a no-op job, waits until it has run, and returns when it began."""
    import procrastinate

    place = url.split("search_path=")
    conninfo = f"{place[0].rstrip('?&')}&options=-csearch_path%3Dbare"
    connector = procrastinate.PsycopgConnector(conninfo=conninfo)
    app = procrastinate.App(connector=connector)
    events: dict[int, tuple[asyncio.Event, list[float]]] = {}

    @app.task(name="nothing")
    async def nothing(n: int) -> None:
        event, began = events[n]
        began.append(time.perf_counter())
        event.set()

    async with app.open_async():
        await connector.execute_query_async("CREATE SCHEMA IF NOT EXISTS bare")
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(
            app.run_worker_async(
                concurrency=AT_ONCE,
                install_signal_handlers=False,
                delete_jobs="always",
                fetch_job_polling_interval=0.5,
            )
        )
        await asyncio.sleep(0.5)

        async def defer() -> float:
            n = len(events)
            event, began = events.setdefault(n, (asyncio.Event(), []))
            await nothing.defer_async(n=n)
            await event.wait()
            return began[0]

        try:
            yield defer
        finally:
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await worker


# --------------------------------------------------------------------------- a full queue


async def queue(server: Any, runs: int, engine: str = ENGINE, processes: int = 2) -> Row:
    """So many queued runs on two workers, beside two processes that run the same loops at once."""
    taken = {
        "queue": await _drain_queue(server.schema("queue"), runs, engine, processes),
        "direct": await _run_directly(server.schema("direct"), runs, processes),
    }
    each = taken["queue"] / runs, taken["direct"] / runs
    return Row(
        f"{runs:,} queued runs of {TURNS + 1} turns on {processes} workers, over the same loops without a "
        f"queue: {1 / each[0]:,.0f} runs/s over {1 / each[1]:,.0f}",
        each[0] / each[1],
        QUEUED,
        *_sides(*each),
    )


async def _drain_queue(url: str, runs: int, engine: str, processes: int) -> float:
    options: dict[str, Any] = {} if engine == "local" else {"fleet": engine}
    flags = [] if engine == "local" else ["--fleet", engine]
    async with w.Runtime(store=url, **options) as runtime:
        await _create_table(runtime, url)
        for n in range(runs):
            await runtime.submit("bench@1", f"queued {n}")
        line = [sys.executable, "-m", "windlass", "worker", "bench.fleet:agent", "--store", url]
        line += ["--concurrency", str(AT_ONCE), *flags]
        workers = [_start(line) for _ in range(processes)]
        try:
            return await _measure(runtime, url, runs)
        finally:
            _end(workers)


async def _run_directly(url: str, runs: int, processes: int) -> float:
    async with w.Runtime(store=url) as runtime:
        await _create_table(runtime, url)
        line = [sys.executable, "-m", "bench.fleet", url, str(runs // processes)]
        workers = [_start([*line, str(n)]) for n in range(processes)]
        try:
            return await _measure(runtime, url, runs)
        finally:
            _end(workers)


async def _create_table(runtime: w.Runtime, url: str) -> None:
    await runtime.store.sessions()
    connection = await asyncpg.connect(url)
    await connection.execute(TABLES)
    await connection.close()


def _start(line: list[str]) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(line, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL)


def _end(workers: list[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.kill()
        worker.wait()


async def _measure(runtime: w.Runtime, url: str, runs: int) -> float:
    """Wait until all have ended; return the seconds from the first entry of a run to the last."""
    connection = await asyncpg.connect(url)
    try:
        until = time.monotonic() + 600
        while (
            await connection.fetchval(
                "SELECT count(*) FROM windlass_sessions WHERE status = 'done'"
            )
            < runs
        ):
            if time.monotonic() > until:
                raise TimeoutError("the queue is not emptied")
            await asyncio.sleep(0.1)
        effects = await connection.fetchval("SELECT count(*) FROM effects")
        if effects != runs * TURNS:
            raise AssertionError(f"{effects} effects of {runs * TURNS}")
        found = await connection.fetchrow(
            "SELECT min(at) AS first, max(at) AS last FROM windlass_rows WHERE seq > 0"
        )
        return float(found["last"] - found["first"])
    finally:
        await connection.close()


async def run_loops(url: str, runs: int, part: int) -> None:
    """Run loops at once without a queue, as a program of its own would."""
    places = asyncio.Semaphore(AT_ONCE)
    async with w.Runtime(store=url):

        async def one(n: int) -> None:
            async with places:
                out = await agent.run(f"queued {part}-{n}")
                assert out.status == "done"

        await asyncio.gather(*[asyncio.create_task(one(n)) for n in range(runs)])


if __name__ == "__main__":
    asyncio.run(run_loops(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
