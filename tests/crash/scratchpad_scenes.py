"""A run with a scratchpad that is reorganised in every second turn, to be killed."""

from __future__ import annotations

import json

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
from windlass.events import AgentScratchpad, Replied
from windlass.loop.requests import requests_of
from windlass.models.history import audit
from windlass.store.view import messages_of
from windlass.testing.kill import Scene, Seen

TURNS = 8


class Pure(Noting):
    """Notes in every turn; asked for a pad it answers badly, falsely and well, by what it is asked."""

    async def answer(self, request: w.Request) -> w.Response:
        if "keep the scratchpad of an assistant" in (request.system or ""):
            return w.Response(w.Message("assistant", _pad(request.messages[0].text)), w.Usage(9, 9))
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn >= TURNS:
            return said("all done")
        call = w.ToolCall(f"c{turn}", "note", {"n": turn})
        return calling(call)


def _pad(question: str) -> str:
    if '"c3"' in question and "could not be used" not in question:
        return "let me think about it"
    facts = [
        {"text": f"noted {n}", "source_ref": f"c{n}"} for n in range(TURNS) if f'"c{n}"' in question
    ]
    if '"c5"' in question and '"c7"' not in question:
        facts.append({"text": "it is Tuesday", "source_ref": "the calendar"})
    return json.dumps({"goals": [], "open_items": [], "facts": facts, "refs": []})


@w.tool(side_effect_level="none")
async def note(n: int) -> str:
    """Note a number."""
    return f"noted {n}"


async def scenario(scene: Scene) -> str:
    """Run the agent to its end, from wherever an earlier process left it."""
    agent = w.Agent(Pure(scene), tools=[note], max_turns=100, scratchpad={"reorganize_every": 2})
    return await finish(agent, scene, "note numbers")


async def check(scene: Scene) -> Seen:
    """Check for the same pad, no reply paid for twice, and rebuilt requests that were sent."""
    entries = await record(scene)
    problems = audit([*messages_of(entries), w.Message("user", "next")])
    rebuilt = [digest(request) for request in requests_of(entries)]
    if not set(rebuilt) <= sent(scene):
        problems.append("a rebuilt request was never sent")
    told = [(e.action, e.version, e.counts) for e in entries if type(e) is AgentScratchpad]
    asked = sum(type(e) is Replied and e.purpose == "scratchpad" for e in entries)
    return Seen(state=[told, asked, rebuilt], problems=tuple(problems))
