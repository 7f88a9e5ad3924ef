"""An anchored run to be killed, and what must hold of its record whenever that was."""

from __future__ import annotations

import contextlib
from typing import Any

import windlass as w
from windlass.agents.agent import Agent  # loaded once, in the process that all others fork from
from windlass.audit import seal, verify
from windlass.errors import NoSuchSession
from windlass.store.sqlite import store as sqlite_store
from windlass.testing.kill import Scene

assert sqlite_store.SqliteStore and seal.SealScheduler and verify.verify
ANN = w.Caller("ann", (), "acme")
SESSION = "s"
TURNS = 3


class Order(w.Resource):
    """What somebody bought."""

    id: str


class Pure(w.Model):
    """A model that makes an order in each turn."""

    provider, name = "pure", "pure"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn == TURNS:
            return w.Response(w.Message("assistant", "all done"), w.Usage(10, 5))
        call = w.ToolCall(f"c{turn}", "create_order", {"id": f"o{turn}"})
        return w.Response(w.Message("assistant", (call,)), w.Usage(10, 5), "tool_use")


def runtime(scene: Scene) -> w.Runtime:
    return w.Runtime(
        f"sqlite:///{scene.folder / 'runs.db'}",
        environ={},
        resources=[Order],
        audit_anchor=scene.folder / "anchor.jsonl",
    )


async def scenario(scene: Scene) -> str:
    """Run to the end, from wherever an earlier process left it; then some more, by hand."""
    async with runtime(scene) as scope:
        agent = Agent(Pure(), tools=scope.tools(ANN))
        try:
            out = await agent.resume(SESSION)
        except NoSuchSession:
            out = await agent.run("go", session_id=SESSION, caller=ANN)
        with contextlib.suppress(w.Conflict):
            await scope.resources[Order].create(id="by-hand", caller=ANN)
    assert out.status == "done", (out.status, out.stop_reason, out.error)
    return out.final_text


async def check(scene: Scene) -> dict[str, Any]:
    """Check that the record is intact so far, and fully covered once all has ended."""
    async with runtime(scene) as scope:
        report = await scope.audit.verify()
        page = await scope.audit.query(tenant="acme", tool="create_order")
    return {
        "problems": tuple(map(str, report.findings)) + report.not_covered,
        "made": sorted(entry.row or "" for entry in page.entries),
    }
