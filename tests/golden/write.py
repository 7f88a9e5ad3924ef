"""Writes the golden journal of today's format: `python tests/golden/write.py`.

A journal once released is never written again; a new format gets a file of its own. The run is
scripted and its clock and ids are a seed's, so that writing it twice gives the same bytes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import windlass as w
from windlass.events import FORMAT
from windlass.models.base import Request
from windlass.store.base import Row
from windlass.store.memory import MemoryStore
from windlass.testing import call, scripted
from windlass.testing.virtual_time import VirtualTimeLoop

FOLDER = Path(__file__).parent
SESSION = "golden"


class GoldenRow(msgspec.Struct):
    """A row, with its payload as text for people to read."""

    seq: int
    first: int
    at: float
    payload: str
    hash: str

    def row(self) -> Row:
        """As a store has it."""
        payload = self.payload.encode()
        return Row(self.seq, self.first, self.at, payload, bytes.fromhex(self.hash))


class Golden(msgspec.Struct):
    """A journal as it was written, and the requests its models were sent."""

    format: int
    session_id: str
    rows: list[GoldenRow]
    requests: list[str]


@w.tool(side_effect_level="read_only")
async def find_order(id: int) -> dict[str, Any]:
    """Look an order up.

    Args:
        id: The order's number.
    """
    return {"id": id, "item": "windlass", "price": 12.5, "note": 'naïve ☕ \u2028 "quoted"'}


@w.tool(keyed=True)
async def refund(ctx: w.ToolContext[None], id: int, amount: float) -> str:
    """Refund an order."""
    if amount > 100:
        raise w.Retry("amount must be at most 100")
    return f"refunded {amount} for {id} under {ctx.idempotency_key}"


@w.tool
async def fail(reason: str) -> w.ToolResult:
    """Always fails."""
    # what it raised would be on record with the paths of this machine
    return w.ToolResult(content=f"RuntimeError: {reason}", is_error=True, outcome="error")


async def run() -> tuple[MemoryStore, list[Request]]:
    """A conversation that passes most kinds of entries."""
    store = MemoryStore()
    model = scripted(
        [call("find_order", id=7), call("find_order", id=8)],
        call("refund", id=7, amount=1000),
        [call("refund", id=7, amount=12.5), call("fail", reason="no paper"), call("nothing")],
        "Order 7 is refunded.",
        call("find_order", wrong=1),
        "Goodbye.",
    )
    agent = w.Agent(
        model,
        system="You run a small shop.",
        tools=[find_order, refund, fail],
        name="shop",
        budget=w.Budget(usd=5.0, tokens=100_000),
    )
    first = await agent.run("Refund order 7, please.", session_id=SESSION, store=store)
    second = await agent.run("Thank you. Anything else?", session_id=SESSION, store=store)
    assert (first.status, second.status) == ("done", "done"), (first, second)
    return store, model.requests


def request_text(request: Request) -> str:
    """A request as text that shows every difference."""
    parts = {"frame": request.frame, "messages": list(request.messages), "tail": request.tail}
    return msgspec.json.encode(parts).decode()


async def golden() -> Golden:
    """The journal, and what was asked."""
    store, requests = await run()
    rows = [
        GoldenRow(row.seq, row.first, row.at, row.payload.decode(), row.hash.hex())
        for row in await store.rows(SESSION)
    ]
    return Golden(FORMAT, SESSION, rows, [request_text(request) for request in requests])


def made() -> Golden:
    """The same, always."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(seed=7)) as runner:
        return runner.run(golden())


def main(arguments: Sequence[str]) -> None:
    path = FOLDER / f"journal-{FORMAT}.json"
    if path.exists() and "--again" not in arguments:
        sys.exit(f"{path.name} is there already; --again writes it anew, before a release only")
    path.write_bytes(msgspec.json.format(msgspec.json.encode(made()), indent=1) + b"\n")
    print(f"wrote {path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
