"""A run with a scratchpad that is reorganised in every second turn, to be killed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import windlass as w
from windlass.errors import NoSuchSession
from windlass.events import AgentScratchpad, JournalEntry, Replied
from windlass.loop.replay import requests_of
from windlass.models.audit import audit
from windlass.models.wires.anthropic import AnthropicMessages
from windlass.store import open_store, sqlite
from windlass.store.fold import messages_of
from windlass.testing import EffectLog
from windlass.testing.killing import Scene, Seen

assert sqlite.SqliteStore
SESSION, TURNS = "s", 8
WIRE = AnthropicMessages("claude-test", api_key="not-a-key")


def digest(request: w.Request) -> str:
    """A fingerprint of the request's bytes."""
    return hashlib.sha256(b"".join(WIRE.encode(request))).hexdigest()[:16]


class Pure(w.Model):
    """Notes in every turn; asked for a pad it answers badly, falsely and well, by what it is asked."""

    provider, name = "pure", "pure"

    def __init__(self, scene: Scene) -> None:
        self.sent = EffectLog(scene.folder / "sent.jsonl")

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self.sent.write(digest(request))
        if "keep the scratchpad of an assistant" in (request.system or ""):
            return w.Response(w.Message("assistant", _pad(request.messages[0].text)), w.Usage(9, 9))
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn >= TURNS:
            return w.Response(w.Message("assistant", "all done"), w.Usage(10, 5))
        call = w.ToolCall(f"c{turn}", "note", {"n": turn})
        return w.Response(w.Message("assistant", (call,)), w.Usage(10, 5), "tool_use")


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
    async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}"):
        try:
            out = await agent.resume(SESSION)
        except NoSuchSession:
            out = await agent.run("note numbers", session_id=SESSION)
    assert out.status == "done", (out.status, out.stop_reason, out.error)
    return out.final_text


async def check(scene: Scene) -> Seen:
    """The pad is the same, no reply is paid for twice, and every request was sent as it is rebuilt."""
    store = open_store(f"sqlite:///{scene.folder / 'runs.db'}")
    await store.verify(SESSION)
    entries: list[JournalEntry] = list(await store.read(SESSION))
    await store.aclose()
    problems = audit([*messages_of(entries), w.Message("user", "next")])
    rebuilt = [digest(request) for request in requests_of(entries)]
    if not set(rebuilt) <= set(EffectLog(scene.folder / "sent.jsonl").counts()):
        problems.append("a rebuilt request was never sent")
    told = [(e.action, e.version, e.counts) for e in entries if type(e) is AgentScratchpad]
    asked = sum(type(e) is Replied and e.purpose == "scratchpad" for e in entries)
    return Seen(state=[told, asked, rebuilt], problems=tuple(problems))
