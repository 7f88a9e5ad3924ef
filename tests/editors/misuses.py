"""A user's file in which every marked line is wrong: a type checker reports each of them.

The comment names the rule of pyright that reports the line.
"""

from __future__ import annotations

from dataclasses import dataclass

import windlass as w


@dataclass
class Invoice:
    """What is read from a letter."""

    total: float


@w.tool(time_out=10)  # reportCallIssue
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def system() -> int:
    """Write no text."""
    return 1


async def misuse() -> None:
    """Make every mistake once."""
    agent = w.Agent("openai:gpt-4o", tools=[add])
    w.Agent("openai:gpt-4o", max_tuns=3)  # reportCallIssue
    w.Agent("openai:gpt-4o", instructions="Be brief.")  # reportCallIssue
    w.Agent("openai:gpt-4o", max_turns="three")  # reportArgumentType
    w.Agent("openai:gpt-4o", temperature="hot")  # reportArgumentType
    w.Agent("openai:gpt-4o", tools=add)  # reportArgumentType
    w.Agent("openai:gpt-4o", tools=[1])  # reportArgumentType
    w.Agent("openai:gpt-4o", system=5)  # reportArgumentType
    w.Agent("openai:gpt-4o", system=system)  # reportArgumentType
    w.Agent(42)  # reportArgumentType
    w.Agent("openai:gpt-4o", tool_format="xml")  # reportArgumentType
    w.Agent("openai:gpt-4o", budget=0.5)  # reportArgumentType
    w.Agent("openai:gpt-4o", policies=["careful"])  # reportArgumentType
    out = await agent.run("Hi.", sesion_id="s1")  # reportCallIssue
    out = await agent.run("Hi.", session_id=7)  # reportArgumentType
    out = await agent.run(5)  # reportArgumentType
    out = await agent.run("Hi.")
    print(out.final_output)  # reportAttributeAccessIssue
    print(out.outptu)  # reportAttributeAccessIssue
    print(out.output.total)  # reportAttributeAccessIssue
    print(out.usage.tokens)  # reportAttributeAccessIssue
    print(out.tool_calls[0].args)  # reportAttributeAccessIssue
    print(agent.run_stream)  # reportAttributeAccessIssue
    await agent.resume("s1", decision={})  # reportCallIssue
    await agent.resume("s1", decisions={"call": "yes"})  # reportArgumentType
    agent.with_(max_turn=3)  # reportCallIssue
    typed = w.Agent("openai:gpt-4o", output=Invoice)
    print((await typed.run("Read it.")).output.sum)  # reportAttributeAccessIssue
    await w.agent_loop("Go.", max_turns=3)  # reportCallIssue
    await w.agent_turn("Go.", jugde=True)  # reportCallIssue
    reply = await w.llm_call("Hi.", max_token=3)  # reportCallIssue
    reply = await w.llm_call("Hi.", schema=Invoice)
    print(reply.data.sum)  # reportAttributeAccessIssue
    w.llm_stream("Hi.", temprature=0.1)  # reportCallIssue
    w.Runtime(stor="agents.db")  # reportCallIssue
    w.Runtime(budget=5)  # reportArgumentType
    scope = w.Runtime()
    await scope.models.generate("Hi.", max_iterations=3)  # reportCallIssue
    await scope.models.generate("Hi.", tool_mode="off")  # reportArgumentType
    w.Budget(dollars=1)  # reportCallIssue
    w.Caller(7)  # reportArgumentType
    async with agent.stream("Go.") as run:
        async for event in run.events():
            if event.type == "tool_use":
                print(event.data.tool)  # reportAttributeAccessIssue


def blocking() -> None:
    """Misuse the blocking forms."""
    w.sync.llm_call("Hi.", temprature=0.1)  # reportCallIssue
    w.sync.agent_loop("Go.", max_turn=3)  # reportCallIssue
    print(w.sync.llm_call("Hi.").txet)  # reportAttributeAccessIssue
