"""A worker with two tasks and a graceful stop, to be killed: keyed effects, and a model that counts."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass as w
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.testing.kill import Scene, Seen
from windlass.workers import control, spawn, stop  # loaded before the fork

assert sqlite_store.SqliteStore and control and spawn and stop


class Clerk(w.Model):
    """Charges once for each task, then says so."""

    provider, name = "clerk", "clerk"

    async def respond(self, request, emit):
        turn = sum(message.role == "assistant" for message in request.messages)
        asked = sum(message.role == "user" for message in request.messages)
        charged = sum(message.role == "tool" for message in request.messages)
        if charged < asked:
            call = w.ToolCall(f"c{turn}", "charge", {"n": asked})
            return w.Response(w.Message("assistant", (call,)), w.Usage(10, 5), "tool_use")
        said = w.Message("assistant", (w.Text(f"Charged {asked} times."),))
        return w.Response(said, w.Usage(10, 5), "end_turn")


def build_code(scene: Scene) -> dict[str, Any]:
    """Build what no record can hold."""

    @w.tool(keyed=True)
    async def charge(ctx: w.ToolContext[None], n: int) -> str:
        """Charge a card; a key counts once."""
        keys = {one.get("idempotency_key") for one in scene.effects.read()}
        if ctx.idempotency_key not in keys:  # one line has both: a kill between two would lose one
            scene.effects.write(f"charge {n}", idempotency_key=ctx.idempotency_key)
        return f"charged {n}"

    return {"model": Clerk(), "tools": [charge]}


def scenario(scene: Scene) -> None:
    """Play the scene from wherever it was cut off."""
    asyncio.run(_play(scene))


async def _play(scene: Scene) -> None:
    mode = scene.params.get("mode", "inherit")
    async with w.Runtime(store=f"sqlite:///{scene.folder}/s.db"):
        code = build_code(scene)
        found = await w.list_agents()
        if not found:
            node = {"model_policy": {"model": code["model"]}, "tools": code["tools"]}
            carry = {"transcript_mode": mode}
            spawned = await w.spawn_agent({"task": "first", "node": node, "carry": carry})
            worker = await w.wait_agent(spawned)
        else:
            worker = await _finish(found[0].id, code)
        if len(worker.history) == 1 and not worker.is_closed:
            worker = await w.wait_agent(await w.send_input(worker, "second", options=code))
        await w.agent_stop(worker, {"graceful": True})


async def _finish(worker_id: str, code: dict[str, Any]) -> w.Worker:
    """Wait for the end of the task; take the worker up if nobody drives it."""
    [known] = [one for one in await w.list_agents() if one.id == worker_id]
    if known.status in ("running", "suspended"):
        await w.resume_agent(worker_id, options=code)
    return await w.wait_agent(worker_id)


def check(scene: Scene) -> Seen:
    """Look at the store with other eyes."""
    return asyncio.run(_look(scene))


async def _look(scene: Scene) -> Seen:
    async with w.Runtime(store=open_store(f"sqlite:///{scene.folder}/s.db")):
        found = await w.list_agents()
        if len(found) != 1:
            return Seen(problems=(f"{len(found)} workers",))
        worker = await w.wait_agent(found[0].id)
        tasks = [(one.number, one.task, one.status) for one in worker.history]
        handoff = None if worker.handoff is None else worker.handoff.data
        return Seen(state=[worker.status, tasks, handoff, worker.text])
