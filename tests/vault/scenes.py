"""A run to be killed: it searches, calls what it found, and searches again under a small budget."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import windlass as w
from tests.crash.pure_model import (
    Noting,
    calling,
    digest,
    finish,
    record,
    said,
    sent,
)
from windlass.agents.agent import Agent  # loaded once, in the process that all others fork from
from windlass.events import Replied, ToolDecided, ToolResulted, ToolSearchResulted
from windlass.loop.requests import requests_of
from windlass.policies.tool_search.plan import plan_tool_search
from windlass.testing import EffectLog
from windlass.testing.kill import Scene
from windlass.tools.search.options import SEARCH_NAME

assert plan_tool_search

#: What the model does, turn by turn.
SCRIPT: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    ((SEARCH_NAME, {"query": "charge a card"}),),
    (("charge", {"n": 1}), (SEARCH_NAME, {"query": "look something up"})),
    (("look", {"n": 2}), ("charge", {"n": 3})),
    ((SEARCH_NAME, {"query": "send a letter"}), (SEARCH_NAME, {"query": "nothing of the kind"})),
    (("mail", {"n": 4}),),
)


class Pure(Noting):
    """Answers by how many turns it has had; notes the bytes of every request it gets."""

    async def answer(self, request: w.Request) -> w.Response:
        await asyncio.sleep(0.003)  # time for what came before to reach the disk
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn >= len(SCRIPT):
            return said("all done")
        calls = tuple(
            w.ToolCall(f"c{turn}{place}", name, arguments)
            for place, (name, arguments) in enumerate(SCRIPT[turn])
        )
        return calling(*calls)


def tools_of(scene: Scene) -> list[w.Tool]:
    @w.tool(keyed=True, defer_loading=True)
    async def charge(ctx: w.ToolContext[None], n: int) -> str:
        """Charge a card."""
        EffectLog(scene.folder / "charges.jsonl").write(ctx.idempotency_key, n=n)
        return f"charged {n}"

    @w.tool(defer_loading=True)
    async def mail(n: int) -> str:
        """Send a letter."""
        scene.effects.write(f"mail:{n}")
        return f"sent {n}"

    @w.tool(side_effect_level="read_only", defer_loading=True)
    async def look(n: int) -> str:
        """Look something up."""
        return f"seen {n}"

    @w.tool
    async def wait() -> str:
        """Do nothing."""
        return "waited"

    return [wait, charge, mail, look]


async def scenario(scene: Scene) -> str:
    """Run the agent to its end, from wherever an earlier process left it."""
    agent = Agent(
        Pure(scene),
        tools=tools_of(scene),
        tool_search={"budget_tokens": 90},
        max_concurrent_tools=2,
    )
    return await finish(agent, scene, "go")


async def check(scene: Scene) -> dict[str, Any]:
    """Check for the same requests, and each search and call recorded once."""
    entries = await record(scene)
    problems: list[str] = []
    searches = Counter(e.search_id for e in entries if type(e) is ToolSearchResulted)
    decided = Counter(e.call_id for e in entries if type(e) is ToolDecided)
    for what, counts in (("told", searches), ("decided", decided)):
        problems += [f"{id} was {what} {n} times" for id, n in counts.items() if n != 1]
    if len(searches) != 4:
        problems.append(f"{len(searches)} searches are on record")
    keys: dict[int, set[str]] = {}
    for line in EffectLog(scene.folder / "charges.jsonl").read():
        keys.setdefault(line["n"], set()).add(line["key"])
    problems += [f"charge {n} was made under {len(k)} keys" for n, k in keys.items() if len(k) != 1]
    results = [e for e in entries if type(e) is ToolResulted]
    unknown = [e for e in results if e.outcome == "interrupted"]
    wrong = [e.tool for e in results if e.outcome not in ("ok", "interrupted")]
    problems += [f"{tool} was not run" for tool in wrong]
    rebuilt = [digest(request) for request in requests_of(entries)]
    if len(rebuilt) != sum(type(e) is Replied for e in entries):
        problems.append("a reply has no request")
    got = sent(scene)
    if not set(rebuilt) <= got or (not unknown and got != set(rebuilt)):
        problems.append("what was sent is not what the journal says")
    return {
        "state": rebuilt[:-1],  # the last request tells of a letter that may be unknown
        "unknown": tuple(f"mail:{4}" for _ in unknown),
        "problems": tuple(problems),
    }
