"""The base of runs that are killed: a model that is pure, and the journal.

The base of every such model notes the bytes of each request that it gets, so that a check can tell
whether what is rebuilt from the journal was sent.
"""

from __future__ import annotations

import hashlib
from typing import Any

import windlass as w
from windlass.agents.agent import Agent
from windlass.errors import NoSuchSession
from windlass.events import JournalEntry
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.testing import EffectLog
from windlass.testing.kill import Scene

assert sqlite_store.SqliteStore  # loaded once, in the process that all others fork from
SESSION = "s"
WIRE = AnthropicMessages("claude-test", api_key="not-a-key")


def digest(request: w.Request) -> str:
    """Compute a digest of the request's bytes."""
    return hashlib.sha256(b"".join(WIRE.encode(request))).hexdigest()[:16]


class Noting(w.Model):
    """A model that logs its requests and answers with `answer`."""

    provider, name = "pure", "pure"

    def __init__(self, scene: Scene) -> None:
        self._sent = EffectLog(scene.folder / "sent.jsonl")

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        self._sent.write(digest(request))
        return await self.answer(request)

    async def answer(self, request: w.Request) -> w.Response:
        """Answer by the request alone."""
        raise NotImplementedError


def said(text: str) -> w.Response:
    """Build a reply that ends the run."""
    return w.Response(w.Message("assistant", text), w.Usage(10, 5))


def calling(*calls: w.ToolCall) -> w.Response:
    """Build a reply that calls tools."""
    return w.Response(w.Message("assistant", calls), w.Usage(10, 5), "tool_use")


def place(scene: Scene) -> str:
    """Return the URL of the scene's store."""
    return f"sqlite:///{scene.folder / 'runs.db'}"


async def finish(agent: Agent[Any, Any], scene: Scene, prompt: str) -> str:
    """Run the agent to its end, from wherever an earlier process left it."""
    async with w.Runtime(store=place(scene)):
        try:
            out = await agent.resume(SESSION)
        except NoSuchSession:
            out = await agent.run(prompt, session_id=SESSION)
        while out.status == "suspended":
            out = await agent.resume(SESSION, decisions={one.id: True for one in out.pending})
    assert out.status == "done", (out.status, out.stop_reason, out.error)
    return out.final_text


async def record(scene: Scene) -> list[JournalEntry]:
    """Read and verify the stored entries of the session."""
    store = open_store(place(scene))
    await store.verify(SESSION)
    entries = list(await store.read(SESSION))
    await store.aclose()
    return entries


def sent(scene: Scene) -> set[str]:
    """Return the digests of all requests to the model, of all processes."""
    return set(EffectLog(scene.folder / "sent.jsonl").counts())
