"""What a durable commit on Postgres costs: ours beside asyncpg alone, storing the same by hand.

By hand means: begin, fence the session's row, insert the journal row, commit; and for a body its
own statement before. Wall time, as most of it is the server's; it waits for the disk on both sides.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.sampling import REPS, Work, paired, rounds
from bench.table import Row, micro
from windlass.events import IterationStart, ToolResulted
from windlass.messages import ToolResult
from windlass.store import codec as written
from windlass.store.postgres.store import PostgresStore
from windlass.testing.postgres import find_binaries, own_server

ALLOWED = 2.0
SESSIONS, POOL = 64, 8
PAYLOAD = "x" * 1000

TABLES = """
CREATE TABLE bare_sessions (sid bigint PRIMARY KEY, epoch bigint, rows bigint, head bytea);
CREATE TABLE bare_rows (sid bigint, seq bigint, at float8, payload bytea, hash bytea,
    PRIMARY KEY (sid, seq));
CREATE TABLE effects (n bigint);
"""
FENCE = "UPDATE bare_sessions SET rows = $2, head = $3 WHERE sid = $1 AND epoch = 1 AND rows = $4"
INSERT = "INSERT INTO bare_rows VALUES ($1, $2, $3, $4, $5)"


class Bare:
    """A session as asyncpg alone keeps it."""

    def __init__(self, sid: int) -> None:
        self.sid, self.seq, self.head = sid, 0, b""

    async def append(self, connection: Any, payload: bytes) -> None:
        """Fence and insert, in the open transaction."""
        at, seq = time.time(), self.seq
        hash_ = written.chain_hash(self.head, seq, at, payload)
        done = await connection.execute(FENCE, self.sid, seq + 1, hash_, seq)
        assert done == "UPDATE 1"
        await connection.execute(INSERT, self.sid, seq, at, payload, hash_)
        self.seq, self.head = seq + 1, hash_


async def rows(reps: int = REPS) -> list[Row]:
    """A row alone, a body with its record, and many sessions at once."""
    if find_binaries() is None:
        return []
    with own_server(durable=True) as server:
        works, close = await _works(server.url())
        taken = await rounds(works, reps, target=0.5, clock=time.perf_counter)
        await close()
    found: list[Row] = []
    for name, title, each in (
        ("row", "a durable row on Postgres, over asyncpg alone", 1),
        ("body", "a body and its record in one commit on Postgres, over asyncpg alone", 1),
        (
            "many",
            f"durable rows of {SESSIONS} sessions at once on Postgres, over asyncpg with "
            f"{POOL} connections",
            SESSIONS,
        ),
    ):
        pair = paired(taken[name], taken[f"bare {name}"])
        sides = micro(pair.ours / each), micro(pair.bare / each)
        found.append(Row(title, pair.ratio, ALLOWED, *sides, (pair.low, pair.high)))
    return found


async def _works(url: str) -> tuple[dict[str, Work], Any]:
    import asyncpg

    pool: Any = await asyncpg.create_pool(url, min_size=POOL, max_size=POOL)
    await pool.execute(TABLES)
    bare = [Bare(n) for n in range(SESSIONS + 1)]
    await pool.executemany(
        "INSERT INTO bare_sessions VALUES ($1, 1, 0, '')", [(b.sid,) for b in bare]
    )
    store = PostgresStore(url)
    journals = [await store.open(f"s{n}") for n in range(SESSIONS + 1)]
    calls = iter(range(10**9))
    encoded = written.encode([_result("c0")], "s")

    async def bare_row(session: Bare) -> None:
        payload = written.encode([IterationStart(7)], "s")
        async with pool.acquire() as connection, connection.transaction():
            await session.append(connection, payload)

    async def bare_body() -> None:
        payload = written.encode([_result(f"c{next(calls)}")], "s")
        async with pool.acquire() as connection, connection.transaction(isolation="serializable"):
            await connection.execute("INSERT INTO effects VALUES ($1)", len(encoded))
            await bare[-1].append(connection, payload)

    async def row(journal: Any) -> None:
        journal.append(IterationStart(7))
        journal.flush()
        await journal.durable()

    async def body() -> None:
        await journals[-1].commit(_effect, lambda _: [_result(f"c{next(calls)}")])

    async def many(one: Any, sessions: Any) -> None:
        await asyncio.gather(*[asyncio.create_task(one(session)) for session in sessions])

    async def close() -> None:
        for n in (0, SESSIONS):
            await store.verify(f"s{n}")
        for journal in journals:
            await journal.close()
        await store.aclose()
        await pool.close()

    works = {
        "row": Work(lambda: row(journals[-1])),
        "bare row": Work(lambda: bare_row(bare[-1])),
        "body": Work(body),
        "bare body": Work(bare_body),
        "many": Work(lambda: many(row, journals[:-1])),
        "bare many": Work(lambda: many(bare_row, bare[:-1])),
    }
    return works, close


def _effect(tx: Any) -> None:
    tx.execute("INSERT INTO effects VALUES (?)", (7,))


def _result(call_id: str) -> ToolResulted:
    return ToolResulted(call_id, "t", "ok", ToolResult(call_id, PAYLOAD, name="t"))


if __name__ == "__main__":
    for line in asyncio.run(rows()):
        print(line.line())
