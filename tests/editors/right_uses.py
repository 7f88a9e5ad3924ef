"""A user's file in which everything is right: a type checker reports nothing here."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, assert_type

import windlass as w
from windlass import Agent, Rule, agent_session_fork, with_retry
from windlass.audit import AuditEntry
from windlass.policies import CompletionJudge, SlidingWindow
from windlass.sessions import PendingApproval
from windlass.testing import scripted
from windlass.tools import tool_registry


@dataclass
class Invoice:
    """What is read from a letter."""

    total: float
    lines: list[str]


@dataclass
class Shop:
    """What tools are given."""

    name: str


@w.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@w.tool(side_effect_level="read_only", timeout=10)
async def weather(city: Annotated[str, "in English"], ctx: w.ToolContext[Shop]) -> str:
    """Tell the weather."""
    return f"{ctx.deps.name}: {city}"


def plain(city: str) -> str:
    """Tell the time."""
    return city


async def write_prompt(ctx: w.ToolContext[Shop]) -> str:
    """Write the system prompt."""
    return ctx.deps.name


class Careful(w.Policy[None]):
    """Asks before a tool."""

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Ask | None:
        """Ask about payments."""
        return w.Ask("may it?") if call.name == "pay" else None


async def agents() -> None:
    """Make agents and run them."""
    agent = w.Agent("openai:gpt-4o", system="Be brief.", tools=[add, weather, plain], max_turns=5)
    out = await agent.run("What is 2 + 3?", session_id="s1", temperature=0.2, timeout=30)
    assert_type(out.output, str)
    assert_type(out.status, str)
    assert_type(out.cost_usd, float)
    assert_type(out.usage, w.Usage)
    assert_type(out.usage.total_tokens, int)
    assert_type(out.turns, int)
    assert_type(out.messages, tuple[w.Message, ...])
    for call in out.tool_calls:
        assert_type(call.name, str)
        assert_type(call.arguments["a"], Any)
    if out.error is not None:
        print(out.error["message"])
    out.raise_for_status()

    typed = Agent(model="anthropic:claude-sonnet-4-5", output=Invoice, deps_type=Shop)
    assert_type((await typed.run("Read it.", deps=Shop("corner"))).output, Invoice)
    assert_type((await typed.run("Read it.", output=list[int])).output, list[int])
    assert_type(typed.with_(output=int).run_sync("How many?").output, int)
    assert_type((await typed.with_(max_turns=3).run("…")).output, Invoice)
    print((await w.Agent(output=Invoice | Shop).run("Which?")).output)
    print((await w.Agent(output=Literal["yes", "no"]).run("Is it?")).output.upper())
    schema: dict[str, Any] = {"type": "object", "properties": {"year": {"type": "integer"}}}
    print((await w.Agent("openai:gpt-4o", output=schema).run("When?")).output["year"])

    w.Agent(scripted("hello"), tools=[agent, "shop:refund", tool_registry()], system=write_prompt)
    w.Agent(tools=tool_registry(), policies=[Careful()], approval_policy={"pay": "ask"})
    w.Agent(
        store=Path("agents.db"),
        budget=w.Budget(usd=0.5),
        context_strategy=SlidingWindow(max_turns=3),
    )
    w.Agent(budget={"usd": 0.5, "tokens": 1000}, loop_detection=True, thinking={"mode": "adaptive"})
    w.Agent(verify_completion_judge=CompletionJudge(), dry_run="plan", openai={"store": False})
    options: dict[str, Any] = {"max_turns": 3}
    w.Agent("openai:gpt-4o", **options)


async def streams(agent: w.Agent[Shop, Invoice]) -> None:
    """Watch runs."""
    async with agent.stream("Go.", deps=Shop("corner"), on_event=print) as run:
        async for text in run.text():
            print(text.upper())
    async with agent.stream("Go.", max_turns=2) as run:
        async for event in run.events():
            if event.type == "text":
                assert_type(event.data, str)
            elif event.type == "tool_use":
                assert_type(event.data.name, str)
            elif event.type == "done":
                assert_type(event.data.output, Invoice)
    async with agent.stream("Go.") as run:
        async for event in run:
            if isinstance(event, w.TextDelta):
                print(event.text)


async def approvals(agent: w.Agent[Shop, Invoice]) -> None:
    """Park, answer and resume."""
    out = await agent.run("Refund order 7.", caller=w.Caller("ann", roles=("clerk",)))
    yes = {call.id: w.Allow() for call in out.pending}
    out = await agent.resume(out.session_id, decisions=yes, timeout=60, budget=w.Budget(usd=1))
    agent.resume_sync(out.session_id, decisions={"call": True}, on_event=print)
    waiting: list[PendingApproval] = list(await w.approvals())
    await w.approve(waiting[0].id, by=w.Caller("bea"))
    print(Rule, AuditEntry, await agent_session_fork(out.session_id))
    try:
        out.raise_for_status()
    except w.Suspended as parked:
        print(parked.pending[0].arguments, parked.session_id)
    except w.SessionHeld as held:
        print(held.holder.host if held.holder else held.last_active)


async def calls() -> None:
    """Call models and loops."""
    reply = await w.llm_call("What is 2 + 2?", provider="openai", model="gpt-4o", max_tokens=10)
    assert_type(reply.data, None)
    assert_type(reply.text, str)
    assert_type((await w.llm_call("Read it.", schema=Invoice)).data.total, float)
    print((await w.llm_call("Who?", schema={"author": "string"})).data["author"])
    print((await w.llm_call("Who?", None, {"response_format": "json"})).data["author"])
    async for chunk in w.llm_stream("Tell me.", temperature=0.0):
        print(chunk.text, chunk.finish_reason)
    result = await w.agent_loop("Sort it.", "Be brief.", tools=[add], loop_until_done=True)
    print(
        result.llm.iterations, result.tools.calls, result.visible_text, result.done_judge["vetoes"]
    )
    turn = await w.agent_turn("Summarize.", system="Be concise.", judge={"cadence": 2})
    print(turn.judge_decisions[0].verdict, turn.iterations[0].tool_count)
    caller = w.callers.compose([with_retry(max_attempts=4)])(w.callers.default_llm_caller())
    await w.agent_loop("Go.", llm_caller=caller, on_event=print)


async def scopes() -> None:
    """Run in a Runtime."""
    async with w.Runtime(store="sqlite:///agents.db", budget=w.Budget(usd=5)) as scope:
        out = await scope.models.generate("Reorder.", max_cost_usd=0.10, tool_mode="auto")
        print(out.content, out.usage.output_tokens)
        async for piece in scope.models.generate_stream("Tell me.", max_output_tokens=100):
            print(piece.delta_content or "")


def prompts() -> list[Awaitable[object]]:
    """Give a run what it accepts."""
    agent = w.Agent("openai:gpt-4o")
    picture = w.Message("user", (w.Text("What is this?"),))
    return [agent.run("text"), agent.run(picture), agent.run([{"role": "user", "content": "hi"}])]


def blocking() -> str:
    """Call the blocking forms."""
    for piece in w.sync.llm_stream("Tell me.", temperature=0.2):
        print(piece.text)
    out = w.sync.agent_loop("Go.", max_iterations=3)
    return out.final_text + w.sync.llm_call("Hi.", temperature=0.1).text
