"""A run whose messages are projected, rewritten and decorated, to be killed."""

from __future__ import annotations

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
from windlass.events import Decorated, Projected, Replied
from windlass.loop.requests import requests_of
from windlass.messages import Message, Text
from windlass.models.history import audit
from windlass.store.view import messages_of
from windlass.testing.kill import Scene, Seen

TURNS = 9


class Pure(Noting):
    """Reads a page in every turn, and mistakes every third for one that is not there."""

    async def answer(self, request: w.Request) -> w.Response:
        calls = [call for message in request.messages for call in message.tool_calls]
        turn = max([int(call.id[1:]) for call in calls], default=0) + 1
        if turn > TURNS:
            return said("all done")
        asked = w.ToolCall(f"c{turn}", "page", {"path": f"{'x' * (turn % 3 == 1)}/{turn}.md"})
        return calling(asked)


@w.tool(side_effect_level="none")
async def page(path: str) -> str:
    """Read a page."""
    if path.startswith("x"):
        raise ValueError(f"no {path} " * 100)
    return f"{path} says: " + "lorem ipsum " * 200


async def scenario(scene: Scene) -> str:
    """Run the agent to its end, from wherever an earlier process left it."""

    def decorator(message: Message, context: Any) -> Any:
        blocks = [
            Text(f"#{context.index} {b.text}") if type(b) is Text else b for b in message.content
        ]
        return Message(message.role, tuple(blocks), message.kind)

    def callback(ctx: Any) -> Any:
        first = {"role": "user", "content": "Be kind."}
        return {"messages": [first, *ctx.messages], "system": f"Read. {ctx.iteration // 3}"}

    shaping: dict[str, Any] = {
        "projection": {"transcript_projection": scene.params.get("policy", "clean_tool_repair")},
        "callback": {"context_callback": callback},
        "decorator": {"message_decorator": decorator},
    }
    options: dict[str, Any] = {}
    for name in scene.params["shaping"]:
        options |= shaping[name]
    agent = w.Agent(Pure(scene), tools=[page], max_turns=100, compaction=False, **options)
    return await finish(agent, scene, "read pages")


async def check(scene: Scene) -> Seen:
    """Check for the same view, and that every rebuilt request was sent."""
    entries = await record(scene)
    problems = audit([*messages_of(entries), Message("user", "next")])
    rebuilt = [digest(request) for request in requests_of(entries)]
    if not set(rebuilt) <= sent(scene):
        problems.append("a rebuilt request was never sent")
    projected = [(e.policy, e.removed, e.shed) for e in entries if type(e) is Projected]
    if not projected:
        problems.append("nothing was projected")
    shown = [e.shown for e in entries if type(e) is Decorated]
    replies = sum(type(e) is Replied for e in entries)
    return Seen(state=[projected, repr(shown), replies, rebuilt], problems=tuple(problems))
