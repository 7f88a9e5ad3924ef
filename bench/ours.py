"""Windlass doing the same work, through its public names and with its default options."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import windlass as w
from bench.work import DONE, PROMPT, SYSTEM, TOOLS, Script, begin, script_now

TURNS = 10_000  # the script ends the run, not the limit
USAGE = w.Usage(input_tokens=10, output_tokens=5)

READS = {name: w.tool(side_effect_level="read_only")(TOOLS[name]) for name in ("slow", "quick")}


class Fake(w.Model):
    """A model that says what the current script says."""

    provider, name = "fake", "fake"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        """The script's next answer."""
        script = script_now()
        if script.deltas or script.eager:
            return await self._written(script, emit)
        if script.yields:
            await asyncio.sleep(0)
        calls = script.calls_next()
        if calls is None:
            return w.Response(w.Message("assistant", (w.Text(DONE),)), USAGE, "end_turn")
        blocks = [w.ToolCall(id, name, json.loads(arguments)) for id, name, arguments in calls]
        return w.Response(w.Message("assistant", tuple(blocks)), USAGE, "tool_use")

    async def _written(self, script: Script, emit: Any) -> w.Response:
        text: list[str] = []
        calls: dict[str, tuple[str, list[str]]] = {}
        ready: list[w.ToolCall] = []
        async for kind, one, two in script.stream():
            if kind == "text":
                text.append(one)
                emit(w.TextDelta(one))
            elif kind == "call":
                calls[one] = (two, [])
            elif kind == "args":
                calls[one][1].append(two)
            else:
                name, pieces = calls[one]
                call = w.ToolCall(one, name, json.loads("".join(pieces)))
                ready.append(call)
                emit(w.ToolCallReady(call))
        blocks = (*([w.Text("".join(text))] if text else []), *ready)
        return w.Response(
            w.Message("assistant", blocks), USAGE, "tool_use" if ready else "end_turn"
        )


def build(*tools: str) -> w.Agent[None, str]:
    """An agent with these tools."""
    return w.Agent(
        Fake(), system=SYSTEM, tools=[READS.get(t, TOOLS[t]) for t in tools], max_turns=TURNS
    )


async def run(agent: w.Agent[None, str], script: Script, store: Any = None) -> Any:
    """Run it. Its session, which nobody named, lives as long as the result."""
    begin(script)
    out = await (agent.run(PROMPT) if store is None else agent.run(PROMPT, store=store))
    assert out.final_text == DONE, out
    return out


async def loop(tools: tuple[str, ...], script: Script) -> Any:
    """The same work through `agent_loop`."""
    begin(script)
    chosen: list[Any] = [TOOLS[name] for name in tools]
    out = await w.agent_loop(PROMPT, SYSTEM, model=Fake(), tools=chosen, max_iterations=TURNS)
    assert out.final_text == DONE, out
    return out


async def stream(agent: w.Agent[None, str], script: Script) -> tuple[int, Any]:
    """Read its text piece by piece; how many pieces, and the result."""
    begin(script)
    seen = 0
    async with agent.stream(PROMPT) as running:
        async for _ in running.text():
            seen += 1
        return seen, await running.result()
