"""A boss that has workers pay, each a few times; any process can go on with any of them.

The model is pure: it looks at the conversation alone. Payments are rows in the store, written in the
transaction of their result, and nothing in the table keeps a second one out.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import windlass as w
from windlass.store.base import Store

TABLE = "CREATE TABLE paid (job text, n bigint)"
PACE = "WINDLASS_PROOF_PACE"  # seconds that a payment takes
PAYMENTS = 2  # of each worker


class Team(w.Model):
    """Plays the boss and its workers, by the first words of the conversation."""

    provider, name = "team", "team"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        first = next(message.text for message in request.messages if message.role == "user")
        turns = sum(message.role == "assistant" for message in request.messages)
        word, _, rest = first.partition(" ")
        if word == "pay" and turns < PAYMENTS:
            made = w.ToolCall(f"p{turns}", "pay", {"job": rest, "n": turns})
        elif word == "hire" and turns == 0:
            made = w.ToolCall("d0", "delegate", {"count": int(rest)})
        else:
            blocks = [one for message in request.messages for one in message.content]
            told = [one.text for one in blocks if isinstance(one, w.ToolResult)]
            words = told[-1] if word == "hire" else f"paid {rest}"
            return w.Response(w.Message("assistant", (w.Text(words),)), w.Usage(10, 5), "end_turn")
        return w.Response(w.Message("assistant", (made,)), w.Usage(10, 5), "tool_use")


@w.tool(transactional=True)
async def pay(ctx: w.ToolContext[None], job: str, n: int) -> str:
    """Pay, in the transaction of the result."""
    await asyncio.sleep(float(os.environ.get(PACE, "0")))
    return await ctx.commit(lambda tx: _insert(tx, job, n))


def _insert(tx: Any, job: str, n: int) -> str:
    tx.execute("INSERT INTO paid (job, n) VALUES (?, ?)", (job, n))
    return "paid"


def build_boss(**options: Any) -> w.Agent[Any, str]:
    """Build the agent; each process builds its own."""
    model = Team()

    @w.tool(keyed=True)
    async def delegate(ctx: w.ToolContext[None], count: int) -> str | w.Parked:
        """Hire workers, and wait for all of them without holding a slot."""
        node = {"model_policy": {"model": model}}
        team = [
            await w.spawn_agent(
                {"name": f"w{at}", "task": f"pay {at}", "tools": ["pay"], "node": node}, parent=ctx
            )
            for at in range(count)
        ]
        left = [one.id for one in team if one.status in ("running", "suspended")]
        if left:
            return w.Parked(f"waiting for {len(left)} workers", {"sessions": left})
        return ", ".join([f"{one.name}: {one.status} {one.text}" for one in team])

    return w.Agent(model, name="boss", tools=[delegate, pay], **options)


async def create_table(store: Store) -> None:
    """Create the table of payments."""
    await store.commit(lambda tx: tx.execute(TABLE))


async def read_payments(store: Store) -> list[tuple[str, int]]:
    """Read all payments, sorted."""
    rows = await store.consult(lambda tx: tx.execute("SELECT job, n FROM paid").fetchall())
    return sorted([(str(job), int(n)) for job, n in rows])


def expect_payments(count: int) -> list[tuple[str, int]]:
    """Return what so many workers pay: each once."""
    return sorted([(str(at), n) for at in range(count) for n in range(PAYMENTS)])


boss = build_boss()  # for `windlass worker tests.fleet.team:boss`
