"""An agent as a tool of another: two researchers side by side, one budget.

    python examples/subagent.py

Each call of a sub-agent is a session of its own, named after the call, and what it spends counts in
its parent's budget. A child that is killed or parked goes on where its own journal ends.
"""

from __future__ import annotations

import asyncio

import windlass as w
from windlass.testing import call, scripted

FACTS = {"Graz": "300,000 people", "Linz": "212,000 people"}


@w.tool(side_effect_level="read_only")
def look_up(city: str) -> str:
    """Look a city up."""
    return FACTS[city]


def research(request: w.Request) -> object:
    """The child's model: look up the city of the task, then report."""
    task = request.messages[0].text
    city = next(name for name in FACTS if name in task)
    last = request.messages[-1]
    if last.role == "tool":
        return f"{city} has {last.content[0].text}."  # pyright: ignore[reportAttributeAccessIssue]
    return call("look_up", city=city)


async def main() -> None:
    researcher = w.Agent(
        scripted(then=research), name="researcher", system="You look cities up.", tools=[look_up]
    )
    chief = w.Agent(
        scripted(
            [
                "I will have both looked up.",
                call("researcher", task="How many people live in Graz?"),
                call("researcher", task="How many people live in Linz?"),
            ],
            "Graz is larger than Linz.",
        ),
        tools=[researcher.as_tool(description="Find out about a city.")],
        budget=w.Budget(tokens=10_000),
    )
    async with w.Runtime(store="memory:") as runtime:
        out = await chief.run("Which is larger, Graz or Linz?", session_id="cities")
        for record in out.tool_calls:
            print(f"{record.name}: {record.result}")
        print(out.output)
        family = sorted(info.id for info in await runtime.store.sessions())
        tokens = [await tokens_of(name) for name in family]
    print(f"sessions: {family}")
    print(f"tokens: {sum(tokens)} in all, {out.own_usage.total_tokens} of them the chief's own")


async def tokens_of(session_id: str) -> int:
    """Every model call is on record with its usage."""
    events = (await w.agent_session_read(session_id)).transcript["events"]
    usages = [event["usage"] for event in events if event["kind"] == "provider_payload"]
    return sum(usage["input_tokens"] + usage["output_tokens"] for usage in usages)


if __name__ == "__main__":
    asyncio.run(main())
