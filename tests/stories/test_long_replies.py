"""Replies made to be slow: the event loop goes on, and what they ask for is answered as usual."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass as w

CALL = '<tool_call>{"name": "add", "arguments": {"n": 2}}</tool_call>'


async def add(n: int) -> int:
    """Add one."""
    return n + 1


class Ticks:
    """Counts the turns that others on the event loop have had."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Ticks:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


def agent_of(*replies: Any, stream: bool = False) -> w.Agent[Any, Any]:
    return w.Agent(w.testing.scripted(*replies, stream=stream), tools=[add], tool_format="text")


async def test_long_reply_lets_others_run():
    fences = "```\n" * 40_000
    for reply, called in ((f"{fences}\n{CALL}", 1), (CALL + "\n" + CALL * 2000, 2001)):
        async with Ticks() as ticks:
            out = await agent_of(reply, "<done>##DONE##</done>").run("go")
        results = [one for one in out.messages if one.role == "tool"]
        assert sum([len(one.content) for one in results]) == called
        long = ticks.count
        async with Ticks() as ticks:
            await agent_of(CALL, "<done>##DONE##</done>").run("go")
        assert long > ticks.count + (50 if called == 1 else 5)


async def test_long_reply_is_streamed_without_its_calls():
    words = "Well then.\n" * 4000
    agent = agent_of(f"{words}\n{CALL}", "all done <done>##DONE##</done>", stream=True)
    async with agent.stream("go") as run:
        shown = "".join([one.text async for one in run if isinstance(one, w.events.TextDelta)])
    assert words in shown and "tool_call" not in shown
    assert (await run.result()).status == "done"


SLUG = {"type": "string", "pattern": r"^(?!admin)[a-z]*$"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"slugs": {"type": "array", "items": SLUG}, "body": {"type": "string"}},
    "additionalProperties": False,
}


async def answer_of(arguments: dict[str, Any]) -> str:
    """What a tool whose schema looks ahead answers to these arguments."""

    publish = w.Tool("publish", "Publish a page.", SCHEMA, lambda args: "published")
    call = w.Message("assistant", (w.ToolCall("c1", "publish", arguments),))
    out = await w.Agent(w.testing.scripted(call, "ok"), tools=[publish]).run("go")
    (result,) = [block for one in out.messages if one.role == "tool" for block in one.content]
    return result.text


async def test_arguments_with_more_text_than_their_patterns_may_be_tried_on_are_refused():
    assert "hold more text than can be matched" in await answer_of({"slugs": ["a" * 900] * 1000})
    assert "published" in await answer_of({"slugs": ["a" * 900] * 5, "body": "b" * 200_000})
    assert "does not match" in await answer_of({"slugs": ["admin"]})


async def test_problems_of_many_arguments_are_told_in_few_lines():
    told = await answer_of({f"key{n}": n for n in range(20_000)})
    assert len(told.splitlines()) < 30 and "key0: is not a parameter" in told
    told = await answer_of({"slugs": [1] * 20_000})
    assert len(told.splitlines()) < 5 and "slugs/0" in told
