"""A refund that happens once, although its process is killed around it.

    python examples/refund_once.py

The shop's tables and the journal share one SQLite file, so the refund and the record of it are one
transaction. Two processes are killed: one with the refund inserted and not committed, one right
after the commit, before the run has heard of it. The table has no UNIQUE: whatever is inserted and
committed stays.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import windlass as w
from windlass import seams
from windlass.store.sqlite.store import SqliteStore
from windlass.testing import call, scripted

TASK = "Refund order A-1."


@w.tool(transactional=True)
async def refund(ctx: w.ToolContext[str], order: str, cents: int) -> str:
    """Pay an order back."""

    def body(tx: Any) -> str:
        tx.execute("INSERT INTO refunds (order_id, cents) VALUES (?, ?)", (order, cents))
        if ctx.deps == "die inside":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"refunded {cents / 100:.2f} EUR"

    return await ctx.commit(body)


def assistant(request: w.Request) -> Any:
    """What a model would say: refund first, then tell. It looks only at the conversation."""
    results = [message for message in request.messages if message.role == "tool"]
    return "The refund is on its way." if results else call("refund", order="A-1", cents=5990)


async def work(file: str, moment: str) -> w.AgentResult[str]:
    """Go on with the session, or begin it: a worker needs no more than this."""
    store = SqliteStore(file, add_tables=True)  # beside the shop's own tables
    agent = w.Agent(scripted(then=assistant), tools=[refund], store=store)
    try:
        return await agent.resume("refund-A-1", deps=moment)
    except w.NoSuchSession:
        return await agent.run(TASK, session_id="refund-A-1", deps=moment)


def die_after_commit(point: str) -> None:
    """The worst moment of all: it has happened, and nobody has been told."""
    if point == "tool.after_commit":
        os.kill(os.getpid(), signal.SIGKILL)


def child(file: str, moment: str) -> None:
    if moment == "die after":
        with seams.watch_points(die_after_commit):
            asyncio.run(work(file, moment))
    else:
        asyncio.run(work(file, moment))


def refunds(file: Path) -> int:
    db = sqlite3.connect(file)
    try:
        return db.execute("SELECT count(*) FROM refunds").fetchone()[0]
    finally:
        db.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.db"
        db = sqlite3.connect(file)
        db.execute("CREATE TABLE refunds (order_id TEXT, cents INTEGER)")
        db.close()
        for moment in ("die inside", "die after"):
            ended = subprocess.run([sys.executable, __file__, str(file), moment])
            print(f"a process was killed ({moment}): {ended.returncode}; refunds: {refunds(file)}")
        out = asyncio.run(work(str(file), "live"))
        print(f"resumed: {out.status}, {out.output!r}; refunds: {refunds(file)}")


if __name__ == "__main__":
    child(*sys.argv[1:]) if len(sys.argv) > 1 else main()
