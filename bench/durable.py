"""What it costs to keep a turn: loops on SQLite beside the same loops in memory and a bare writer.

The bare writer is what one would write by hand to keep the same bytes: a thread, a queue, and one
transaction for all that has gathered. It is given the rows of a real journal in the rhythm of the
loop: a wait for the disk before a call starts and at the end, a yield where the model answers. What
the rhythm alone costs is taken off on both sides.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import windlass as w
from bench import ours
from bench.proof import prove
from bench.sampling import REPS, Work, paired, rounds
from bench.table import Row, micro
from bench.work import Script
from windlass.events import ToolIntended
from windlass.store.codec import decode
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore

LOOPS, TURNS = 64, 100
DURABLE = 3.5  # reserves of metered calls are stored before the call

Rows = list[tuple[bytes, bool]]  # payloads, and whether the loop waits for this one

entries_proved = [0]


class BareWriter:
    """Rows to SQLite from one thread, durably, as many at once as have gathered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: SimpleQueue[tuple[int, int, bytes, asyncio.Future[None] | None] | None]
        self._queue = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def put(self, session: int, seq: int, payload: bytes) -> None:
        """Write it some time."""
        self._queue.put((session, seq, payload, None))

    async def keep(self, session: int, seq: int, payload: bytes) -> None:
        """Write it, and be back when it and all before it is on disk."""
        kept: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((session, seq, payload, kept))
        await kept

    def close(self) -> None:
        """Write the rest and end."""
        self._queue.put(None)
        self._thread.join()

    def _write(self) -> None:
        db = sqlite3.connect(self._path, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(
            "CREATE TABLE rows (session INT, seq INT, payload BLOB, PRIMARY KEY (session, seq))"
        )
        open_ = True
        while open_:
            group = [self._queue.get()]
            try:
                while True:
                    group.append(self._queue.get_nowait())
            except Empty:
                pass
            jobs = [job for job in group if job is not None]
            open_ = len(jobs) == len(group)
            db.execute("BEGIN")
            db.executemany("INSERT INTO rows VALUES (?, ?, ?)", [job[:3] for job in jobs])
            db.execute("COMMIT")
            waiting = [job[3] for job in jobs if job[3] is not None]
            if waiting:
                self._loop.call_soon_threadsafe(_tell, waiting)
        db.close()


def _tell(waiting: list[asyncio.Future[None]]) -> None:
    for kept in waiting:
        kept.set_result(None)


async def rows(reps: int = REPS, loops: int = LOOPS, turns: int = TURNS) -> list[Row]:
    """The cost of keeping a turn."""
    with TemporaryDirectory(dir=_work()) as folder:
        journal = await _journal(turns)
        place = Path(folder)
        works = {
            "memory": _loops(loops, turns, lambda _: MemoryStore()),
            "sqlite": _loops(loops, turns, lambda n: SqliteStore(place / f"ours-{n}.db")),
            "bare": _bare(loops, journal, place),
            "alone": _bare(loops, journal, None),
        }
        taken = await rounds(works, reps, target=0)
    each = loops * turns
    added = [kept - not_ for kept, not_ in zip(taken["sqlite"], taken["memory"], strict=True)]
    bare = [kept - not_ for kept, not_ in zip(taken["bare"], taken["alone"], strict=True)]
    pair = paired(added, bare)
    size = sum(len(payload) for payload, _ in journal) / turns
    name = (
        f"{loops} loops at once on SQLite (FULL): what keeping a turn adds to it, over a bare writer "
        f"of the same {len(journal) / turns:.1f} rows and {size:,.0f} bytes"
    )
    sides = micro(pair.ours / each), micro(pair.bare / each)
    return [Row(name, pair.ratio, DURABLE, *sides, (pair.low, pair.high))]


def _work() -> Path:
    """Beside the project, on a real disk; a temporary folder may be memory."""
    folder = Path(__file__).with_name(".work")
    folder.mkdir(exist_ok=True)
    return folder


async def _journal(turns: int) -> Rows:
    """The rows of a real run."""
    store = MemoryStore()
    out = await ours.run(ours.build("add"), Script(turns, yields=True), store)
    session, found = out.session_id, Rows()
    for row in await store.rows(session):
        last = decode(row.payload, session, row.seq)[-1]
        found.append((row.payload, isinstance(last, ToolIntended)))
    found[-1] = (found[-1][0], True)
    return found


def _loops(loops: int, turns: int, store_at: Any) -> Work:
    agent = ours.build("add")
    made = [0]

    async def once() -> tuple[Any, list[Any]]:
        made[0] += 1
        store = store_at(made[0])
        async with w.Runtime(store=store):
            run = [ours.run(agent, Script(turns, yields=True), store) for _ in range(loops)]
            return store, await asyncio.gather(*[asyncio.create_task(one) for one in run])

    async def after(kept: list[Any]) -> None:
        for store, results in kept:
            entries_proved[0] += await prove(store, results, Script(turns))
            await store.aclose()

    return Work(once, after)


def _bare(loops: int, journal: Rows, place: Path | None) -> Work:
    """The bare writer under as many loops as ours; without a place, the loops alone."""
    made = [0]

    async def one(writer: BareWriter, session: int) -> None:
        for seq, (payload, waits) in enumerate(journal):
            if waits:
                await asyncio.sleep(0)  # the model answers, and then a call is to be started
                await writer.keep(session, seq, payload)
            else:
                writer.put(session, seq, payload)

    async def alone() -> None:
        for _, waits in journal:
            if waits:
                await asyncio.sleep(0)

    async def once() -> None:
        if place is None:
            await asyncio.gather(*[asyncio.create_task(alone()) for _ in range(loops)])
            return
        made[0] += 1
        writer = BareWriter(place / f"bare-{made[0]}.db")
        await asyncio.gather(*[asyncio.create_task(one(writer, n)) for n in range(loops)])
        writer.close()

    return Work(once)
