"""What a durable call to a resource costs: beside the bare transaction, and beside the group commit.

At one caller the bare side is what one would write by hand: read the row and change it, in one
transaction of one connection. At 64 it is the store's own group commit of the same two statements
with a result for the journal of each session. Ours asks for permission, checks the values, counts the
version, and writes a chained audit row in the same transaction. Wall time, as the disk is in it.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec

import windlass as w
from bench.sampling import REPS, Work, paired, rounds
from bench.table import Row, micro
from windlass.events import JournalEntry, ToolResulted
from windlass.testing.postgres import find_binaries, own_server
from windlass.tools.result import answer
from windlass.tools.tool import AgentInfo

ALONE, TOGETHER, CALLERS = 3.0, 2.0, 64
ANN = w.Caller("ann", ("clerk",), "acme")


class Product(w.Resource):
    """Things we sell."""

    id: str
    name: str
    price: float
    stock: int = 0


async def rows(reps: int = REPS) -> list[Row]:
    """What it costs on SQLite, alone and with others, and on Postgres."""
    with TemporaryDirectory(dir=_work()) as folder:
        place = Path(folder)
        async with w.Runtime(
            f"sqlite:///{place / 'ours.db'}",
            environ={},
            resources=[Product],
            roles={"clerk": ["product.*"]},
        ) as scope:
            products = scope.resources[Product]
            for number in range(CALLERS):
                await products.create(id=f"p{number}", name="Pen", price=1.5, caller=ANN)
            bare = _Bare(place / "bare.db")
            alone = await _alone(products, bare, reps)
            together = await _together(scope, reps)
            bare.close()
    return [alone, together, *await _on_postgres(reps)]


async def _alone(products: Any, bare: _Bare, reps: int) -> Row:
    count = itertools.count()

    async def ours() -> None:
        await products.update("p1", {"stock": next(count)}, caller=ANN)

    async def theirs() -> None:
        bare.update("p1", next(count))

    works = {"ours": Work(ours), "bare": Work(theirs)}
    taken = await rounds(works, reps, clock=time.perf_counter)
    pair = paired(taken["ours"], taken["bare"])
    name = "one caller: a durable update of a resource on SQLite (FULL), over the bare transaction"
    sides = micro(pair.ours), micro(pair.bare)
    return Row(name, pair.ratio, ALONE, *sides, (pair.low, pair.high))


async def _on_postgres(reps: int) -> list[Row]:
    """One caller, beside asyncpg alone; nothing where no server can be started."""
    if find_binaries() is None:
        return []
    import asyncpg

    with own_server(durable=True) as server:
        pool: Any = await asyncpg.create_pool(server.url(), min_size=1, max_size=1)
        async with w.Runtime(
            server.url(), environ={}, resources=[Product], roles={"clerk": ["product.*"]}
        ) as scope:
            products = scope.resources[Product]
            await products.create(id="p1", name="Pen", price=1.5, caller=ANN)
            count = itertools.count(1)

            async def ours() -> None:
                await products.update("p1", {"stock": next(count)}, caller=ANN)

            async def theirs() -> None:
                async with pool.acquire() as one, one.transaction(isolation="serializable"):
                    await one.fetchrow(_READ.replace("?", "$1"), "p1")
                    await one.execute(_WRITE.replace("?", "$1", 1).replace("?", "$2"), 7, "p1")

            works = {"ours": Work(ours), "bare": Work(theirs)}
            taken = await rounds(works, reps, target=0.5, clock=time.perf_counter)
        await pool.close()
    pair = paired(taken["ours"], taken["bare"])
    name = "one caller: a durable update of a resource on Postgres, over asyncpg alone"
    sides = micro(pair.ours), micro(pair.bare)
    return [Row(name, pair.ratio, TOGETHER, *sides, (pair.low, pair.high))]


async def _together(scope: w.Runtime, reps: int) -> Row:
    """Each caller in a session of its own, whose journal takes the result."""
    sessions = [_Session(scope.store, f"s{number}") for number in range(CALLERS)]
    for session in sessions:
        await session.begin()
    tool = next(tool for tool in scope.tools() if tool.name == "update_product")
    count = itertools.count()

    async def ours() -> None:
        async def one(number: int) -> None:
            arguments = {"id": f"p{number}", "values": {"stock": next(count)}}
            result: Any = await tool.call(arguments, sessions[number].context())
            assert not result.is_error, result.content

        await asyncio.gather(*[one(number) for number in range(CALLERS)])

    async def theirs() -> None:
        bodies = [_body(f"p{number}", next(count)) for number in range(CALLERS)]
        pairs = zip(sessions, bodies, strict=True)
        await asyncio.gather(*[session.context().commit(body) for session, body in pairs])

    works = {"ours": Work(ours), "bare": Work(theirs)}
    taken = await rounds(works, reps, clock=time.perf_counter)
    for session in sessions:
        await session.journal.close()
    pair = paired(taken["ours"], taken["bare"])
    name = (
        f"{CALLERS} sessions at once: a durable update of a resource with its audit row and result, "
        "over the store's group commit of a bare body and its result"
    )
    sides = micro(pair.ours / CALLERS), micro(pair.bare / CALLERS)
    return Row(name, pair.ratio, TOGETHER, *sides, (pair.low, pair.high))


class _Session:
    """As much of a run as a call needs."""

    agent = AgentInfo()
    cancelled = False
    pool = None
    request_id = conversation_id = None

    def __init__(self, store: Any, name: str) -> None:
        self.store, self.name, self.calls = store, name, itertools.count()

    async def begin(self) -> None:
        """Become the session's writer."""
        self.journal: Any = await self.store.open(self.name)

    def context(self) -> w.ToolContext[None]:
        """The context of the next call."""
        call = f"c{next(self.calls)}"
        return w.ToolContext(None, ANN, self.name, "run", call, "update_product", cast("Any", self))

    async def commit(self, call_id: str, body: Any) -> Any:
        """Run the body in one transaction with the result of the call."""

        def record(value: Any) -> list[JournalEntry]:
            result = msgspec.structs.replace(answer(value), id=call_id, name="update_product")
            return [ToolResulted(call_id, "update_product", result.outcome, result, 0.0)]

        return await self.journal.commit(body, record)


_READ = "SELECT id, name, price, stock, _version FROM product WHERE _tenant = 'acme' AND id = ?"
_WRITE = "UPDATE product SET stock = ? WHERE _tenant = 'acme' AND id = ?"


def _body(id: str, stock: int) -> Any:
    def body(tx: Any) -> dict[str, Any]:
        row = tx.execute(_READ, (id,)).fetchone()
        tx.execute(_WRITE, (stock, id))
        return {"id": id, "name": row[1], "price": row[2], "stock": stock, "version": row[4]}

    return body


class _Bare:
    """One connection and a transaction, by hand."""

    def __init__(self, path: Path) -> None:
        self._db = db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(
            "CREATE TABLE product (_tenant TEXT, id TEXT, name TEXT, price REAL, stock INTEGER, "
            "_version INTEGER, PRIMARY KEY (_tenant, id)) WITHOUT ROWID"
        )
        db.execute("INSERT INTO product VALUES ('acme', 'p1', 'Pen', 1.5, 0, 1)")

    def update(self, id: str, stock: int) -> None:
        """One durable change."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        db.execute(_READ, (id,)).fetchone()
        db.execute(_WRITE, (stock, id))
        db.execute("COMMIT")

    def close(self) -> None:
        """Done."""
        self._db.close()


def _work() -> Path:
    """Beside the project, on a real disk; a temporary folder may be memory."""
    folder = Path(__file__).with_name(".work")
    folder.mkdir(exist_ok=True)
    return folder
