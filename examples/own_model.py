"""A model of your own: anything that answers a request is one.

    python examples/own_model.py

This one is a handful of rules. It streams its words, says when a call is complete (so that reads
may start while it still writes), and can be wrapped: the second model keeps answers it has given.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import windlass as w

Emit = Callable[[object], None]


class Rules(w.Model):
    """Finds a sum in the last message and has it worked out."""

    provider, name = "example", "rules"

    async def respond(self, request: w.Request, emit: Emit) -> w.Response:
        last = request.messages[-1]
        usage = w.Usage(input_tokens=len(request.messages), output_tokens=3)
        if last.role == "tool":
            results = [block.text for block in last.content if isinstance(block, w.ToolResult)]
            return w.Response(say(f"It is {' and '.join(results)}.", emit), usage)
        sums = re.findall(r"(\d+) \+ (\d+)", last.text)
        calls = [
            w.ToolCall(f"sum_{number}_{len(request.messages)}", "add", {"a": int(a), "b": int(b)})
            for number, (a, b) in enumerate(sums)
        ]
        for asked in calls:
            emit(w.ToolCallReady(asked))
        if not calls:
            return w.Response(say("I only know sums.", emit), usage)
        return w.Response(w.Message("assistant", tuple(calls)), usage, "tool_use")


def say(text: str, emit: Emit) -> w.Message:
    for word in re.findall(r"\s*\S+", text):
        emit(w.TextDelta(word))
    return w.Message("assistant", text)


class Remembering(w.Model):
    """A wrapper is a model that holds a model."""

    def __init__(self, model: w.Model) -> None:
        self.model, self.provider, self.name = model, model.provider, model.name
        self.known: dict[str, w.Response] = {}
        self.asked = 0

    async def respond(self, request: w.Request, emit: Emit) -> w.Response:
        question = request.messages[0].text if len(request.messages) == 1 else None
        if question in self.known:
            return self.known[question]
        self.asked += 1
        answer = await self.model.respond(request, emit)
        if question is not None:
            self.known[question] = answer
        return answer


@w.tool(side_effect_level="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    model = Remembering(Rules())
    agent = w.Agent(model, tools=[add])
    async with agent.stream("What is 1 + 2 and 30 + 4?") as run:
        async for text in run.text():
            print(text, end="")
    print()
    for question in ("Who are you?", "Who are you?"):
        print((await agent.run(question)).output)
    print(f"asked {model.asked} times")


if __name__ == "__main__":
    asyncio.run(main())
