"""The loop everyone writes first: a list of messages, a model, a dict of functions. Nothing is kept."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from bench.work import DONE, PROMPT, SYSTEM, TOOLS, Script, begin, script_now

Message = dict[str, Any]
Functions = dict[str, Callable[..., Any]]


def build(*tools: str) -> Functions:
    """All that a bare agent is."""
    return {name: TOOLS[name] for name in tools}


async def run(functions: Functions, script: Script) -> str:
    """Ask and call until the model only speaks."""
    begin(script)
    messages: list[Message] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": PROMPT},
    ]
    while True:
        reply = await _ask(messages)
        messages.append(reply)
        calls = reply.get("tool_calls")
        if not calls:
            return reply["content"]
        if len(calls) == 1:
            messages.append(await _call(functions, calls[0]))
        else:
            messages.extend(await asyncio.gather(*[_call(functions, call) for call in calls]))


async def stream(functions: Functions, script: Script) -> int:
    """The same, streamed: how many pieces of text were seen."""
    seen = 0
    async for _ in _texts(functions, script):
        seen += 1
    return seen


async def _texts(functions: Functions, script: Script) -> AsyncIterator[str]:
    """Pieces of text as they come; a call starts as soon as its arguments are whole."""
    messages: list[Message] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": PROMPT},
    ]
    while True:
        text: list[str] = []
        calls: dict[str, Message] = {}
        at_work: list[asyncio.Task[Message]] = []
        async for kind, one, two in script.stream():
            if kind == "text":
                text.append(one)
                yield one
            elif kind == "call":
                asked = {"name": two, "arguments": ""}
                calls[one] = {"id": one, "type": "function", "function": asked}
            elif kind == "args":
                calls[one]["function"]["arguments"] += two
            else:
                at_work.append(asyncio.create_task(_call(functions, calls[one])))
        messages.append(
            {"role": "assistant", "content": "".join(text), "tool_calls": list(calls.values())}
        )
        if not at_work:
            return
        messages.extend(await asyncio.gather(*at_work))


async def _ask(_messages: list[Message]) -> Message:
    script = script_now()
    if script.yields:
        await asyncio.sleep(0)
    calls = script.calls_next()
    if calls is None:
        return {"role": "assistant", "content": DONE}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in calls
        ],
    }


async def _call(functions: Functions, call: Message) -> Message:
    asked = call["function"]
    value = functions[asked["name"]](**json.loads(asked["arguments"]))
    if inspect.iscoroutine(value):
        value = await value
    return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(value)}
