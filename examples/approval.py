"""Someone must say yes: a policy parks the run, and a decision wakes it, days later if need be.

    python examples/approval.py

Small refunds pass. A large one suspends the run: nothing stays in memory, and the decision may
come from another process. The yes is on record with the name of who gave it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import windlass as w
from windlass.testing import call, scripted


@w.tool(keyed=True)
async def refund(order: str, cents: int) -> str:
    """Pay an order back."""
    return f"{cents / 100:.2f} EUR for {order} paid back"


class AskAbove(w.Policy[None]):
    """Refunds above a limit want a person's yes."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Suspend | None:
        if call.name == "refund" and call.arguments["cents"] > self.cents:
            return w.Suspend(f"refund {call.arguments['cents'] / 100:.2f} EUR?")
        return None


def agent(store: Path, *replies: object) -> w.Agent[None, str]:
    """The same agent in every process; only the script goes on where the last one stopped."""
    return w.Agent(
        scripted(*replies), tools=[refund], policies=[AskAbove(10_000)], store=str(store)
    )


async def ask(store: Path) -> None:
    """Monday: the agent works until it needs somebody."""
    monday = agent(
        store, call("refund", order="A-1", cents=900), call("refund", order="A-2", cents=99_000)
    )
    out = await monday.run("Refund A-1 and A-2.", session_id="case-7")
    print(f"monday: {out.status}")


async def decide(store: Path) -> None:
    """Wednesday, another process: what waits is in the session, and so goes the answer."""
    wednesday = agent(store, "A-1 is refunded. A-2 was refused: too much.")
    waiting = await wednesday.resume("case-7")  # nothing has changed: it only tells what it wants
    [asked] = waiting.pending
    print(f"waiting: {asked.name}({asked.arguments['order']}): {asked.reason}")
    out = await wednesday.resume(
        "case-7", decisions={asked.id: w.Deny("too much", by=w.Caller("ann"))}
    )
    for record in out.tool_calls:
        print(f"{record.arguments['order']}: {record.outcome}: {record.result}")
    print(f"wednesday: {out.status}: {out.output}")
    for event in out.trace["events"]:
        if event["kind"] == "decision":
            print(f"on record: {event['action']} by {event['rule']}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "cases.db"
        asyncio.run(ask(store))
        asyncio.run(decide(store))


if __name__ == "__main__":
    main()
