"""An agent that would never stop: a limit with a last word, and one purse for three runs.

    python examples/budget.py

The price of a call is reserved before it is made, so that a budget holds before the money is spent.
A Runtime's budget is shared by everything that runs in it.
"""

from __future__ import annotations

import asyncio

import windlass as w
from windlass.testing import call, scripted


class Priced(w.Model):
    """A scripted model that costs a cent for each hundred tokens."""

    provider, name = "example", "priced"

    def __init__(self) -> None:
        self.script = scripted(then=self.reply, usage={"input_tokens": 150, "output_tokens": 50})

    def reply(self, request: w.Request) -> object:
        pages = sum(message.role == "tool" for message in request.messages)
        if not request.tools:  # the closing answer is asked for without tools
            return f"After {pages} pages: I found nothing so far."
        return call("read_page", number=pages + 1)

    async def respond(self, request: w.Request, emit: object) -> w.Response:
        return await self.script.respond(request, emit)

    def price(self, usage: w.Usage) -> float:
        return usage.total_tokens * 0.0001


@w.tool(side_effect_level="read_only")
def read_page(number: int) -> str:
    """Read a page of a very long book."""
    return f"page {number}: nothing of interest"


async def main() -> None:
    reader = w.Agent(
        Priced(),
        tools=[read_page],
        max_turns=100,
        max_tokens=50,
        budget=w.Budget(usd=0.10, seconds=60),
    )
    out = await reader.run("Find the treasure.")
    print(f"{out.status} ({out.stop_reason}) after {out.turns} turns and ${out.cost_usd:.2f}")
    out = await reader.run("Find the treasure.", max_turns=3, closing_answer=True)
    print(f"{out.status} ({out.stop_reason}) after {out.turns} turns and ${out.cost_usd:.2f}")
    print(f"last word: {out.output}")

    async with w.Runtime(store="memory:", budget=w.Budget(usd=0.12)):
        runs = [reader.with_(budget=None).run("Go.") for _ in range(3)]
        results = await asyncio.gather(*runs)
    together = sum(out.cost_usd for out in results)
    print(f"three at once: {[out.status for out in results]}, ${together:.2f} together")


if __name__ == "__main__":
    asyncio.run(main())
