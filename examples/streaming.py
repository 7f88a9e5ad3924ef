"""Watch an answer arrive, and talk to the agent while it works.

    python examples/streaming.py

`steer` is heard before the next model call, `follow_up` when the run would have stopped.
"""

from __future__ import annotations

import asyncio

import windlass as w
from windlass.events import IterationEnd
from windlass.testing import call, scripted


@w.tool
async def temperature(ctx: w.ToolContext[None], city: str) -> str:
    """How warm it is, in degrees Fahrenheit."""
    for step in range(2):
        ctx.progress(f"station {step + 1} of 2")
        await asyncio.sleep(0)
    return "70 °F"


def words(request: w.Request) -> object:
    """A model that does as it is told: metric if somebody says so."""
    said = " ".join(message.text for message in request.messages)
    if "Graz" not in said:
        return "Where?"
    if not any(message.role == "tool" for message in request.messages):
        return ["I will look.", call("temperature", city="Graz")]
    if "French" in request.messages[-1].text:
        return "Il fait 21 °C à Graz."
    return "It is 21 °C in Graz." if "metric" in said else "It is 70 °F in Graz."


async def main() -> None:
    agent = w.Agent(scripted(then=words, stream=True), tools=[temperature])
    async with agent.stream("How warm is it in Graz?") as run:
        await run.follow_up("And in French?")
        async for event in run:
            match event:
                case w.TextDelta(text):
                    print(text, end="", flush=True)
                case w.ToolCallStarted(name=name):
                    print(f"\n[{name} starts]")
                    await run.steer("Use metric units, please.")
                case w.ToolCallUpdate(status="in_progress", progress=str() as step):
                    print(f"[{step}]")
                case IterationEnd():
                    print()
                case _:
                    pass
        out = await run.result()
    print(f"[{out.status} after {out.turns} turns]")


if __name__ == "__main__":
    asyncio.run(main())
