"""What a run did and how long it took, as it happens; and what is odd about it.

    python examples/traced.py

Callbacks only watch: what they raise is logged, they may be async, and the run takes no notice.
"""

from __future__ import annotations

import asyncio

import windlass as w
from windlass.testing import call, scripted


@w.tool(side_effect_level="read_only")
async def search(query: str) -> str:
    """Search the web."""
    await asyncio.sleep(0.002)
    return "nothing found"


def trace(span: w.TraceEvent) -> None:
    what = span.tool or f"{span.model} ({span.phase} {span.turn})"
    tokens = f", {span.tokens.total_tokens} tokens" if span.tokens else ""
    slow = " (slow)" if span.duration_ms > 60_000 else ""
    print(f"{span.agent}: {span.type} {what}{tokens}{slow}")


async def main() -> None:
    agent = w.Agent(
        scripted(then=call("search", query="the answer"), name="tiny"),
        name="seeker",
        tools=[search],
        allowed_tools=["search", "serach"],
        loop_detection={"max_repetitions": 2, "on_loop_detected": "terminate"},
    )
    out = await agent.run("Find it.", on_trace=trace, on_warning=lambda text: print("odd:", text))
    print(f"{out.status}: loop_detected={out.loop_detected}, {out.turns} turns")


if __name__ == "__main__":
    asyncio.run(main())
