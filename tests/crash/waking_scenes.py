"""A submitted workflow to be killed: its nodes wait for a time and for an event, and wake by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import windlass as w
from windlass.events import RunStarted
from windlass.fleet import service  # loaded before the fork
from windlass.runtime.runtime import Runtime
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.testing.kill import Scene, Seen
from windlass.triggers.api import publish_event
from windlass.workflows import execute, functions

assert sqlite_store.SqliteStore and service and execute and functions
SESSION, NODES = "waits", ("timer", "event", "late")


class Sleeper(w.Model):
    """Waits once, then pays: by what it is asked alone."""

    provider, name = "sleeper", "sleeper"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        node, last = request.system or "", request.messages[-1].text
        called = [call.name for message in request.messages for call in message.tool_calls]
        if node in NODES and "agent_await_resumption" not in called:
            wait = {"timeout": 0.05} if node == "timer" else {"on_event": f"{node}.*"}
            return _call("c1", "agent_await_resumption", {"reason": "not yet", "conditions": wait})
        if node in NODES and "pay" not in called:
            return _call("c2", "pay", {"what": node})
        text = f"{node} is over" if node in NODES else f"{node}: {last.count('is over')}"
        return w.Response(w.Message("assistant", text), w.Usage(10, 5))

    def price(self, usage: w.Usage) -> float:
        return 0.0


def _call(id: str, name: str, arguments: dict[str, Any]) -> w.Response:
    message = w.Message("assistant", (w.ToolCall(id, name, arguments),))
    return w.Response(message, w.Usage(10, 5), "tool_use")


def build_flow(scene: Scene) -> Any:
    """Build the workflow in the form that is asked for."""
    model = Sleeper()

    @w.tool(keyed=True)
    async def pay(ctx: w.ToolContext[None], what: str) -> str:
        """Pay; a key counts once."""
        keys = {one.get("idempotency_key") for one in scene.effects.read()}
        if ctx.idempotency_key not in keys:
            scene.effects.write(what, idempotency_key=ctx.idempotency_key)
        return f"paid {what}"

    if scene.params.get("form") == "function":

        def agent(name: str) -> w.Agent[Any, str]:
            return w.Agent(model, system=name, name=name, tools=[pay], await_resumption=True)

        @w.workflow(name="waits")
        async def waits(wf: w.WorkflowContext, task: str) -> str:
            one, two = await wf.parallel(*[wf.run(agent(n), task) for n in ("timer", "event")])
            late = await wf.run(agent("late"), f"{one.output} {two.output}")
            return (await wf.run(agent("end"), late.output)).output

        return waits
    nodes: dict[str, Any] = {node: {"system": node, "tools": [pay]} for node in NODES}
    nodes["begin"] = {"mode": "llm", "system": "begin"}
    nodes["end"] = {"mode": "llm", "system": "end"}
    pairs = [("begin", "timer"), ("begin", "event"), ("timer", "late"), ("event", "late")]
    pairs.append(("late", "end"))
    edges = [{"from": one, "to": two} for one, two in pairs]
    spec = {"name": "waits", "entry": "begin", "nodes": nodes, "edges": edges}
    return w.workflow_graph(spec).with_(model=model)


def scenario(scene: Scene) -> None:
    """Submit the workflow under a key, and publish its events until it has ended."""

    async def run() -> None:
        async with Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}") as runtime:
            flow = build_flow(scene)
            handle = await runtime.submit(flow, "go", session_id=SESSION, key="once")
            for _ in range(400):
                await publish_event("event.now")
                await publish_event("late.now")
                try:
                    out = await handle.result(timeout=0.1)
                    break
                except TimeoutError:
                    continue
            else:
                raise AssertionError(f"it has not ended: {await handle.status()}")
            assert out.status == "done", out.error

    asyncio.run(run())


def check(scene: Scene) -> Seen:
    """Look at the outputs, how often each session was begun, and whether anything still waits."""

    async def look() -> Seen:
        address = f"sqlite:///{scene.folder / 'runs.db'}"
        store = open_store(address)
        sessions = {info.id: await store.read(info.id) for info in await store.sessions()}
        await store.aclose()
        problems = [
            f"{id} has {runs} runs"
            for id, entries in sessions.items()
            if (runs := sum(type(entry) is RunStarted for entry in entries)) != 1
        ]
        async with Runtime(store=address) as runtime:
            result = await build_flow(scene).resume(SESSION)
            armed = await runtime.store.consult(_list_conditions)
        problems += [f"a condition is left: {one}" for one in armed]
        keys = [step.key for step in result.steps]
        if len(set(keys)) != len(keys):
            problems.append(f"begun twice: {keys}")
        steps = sorted([(step.key, step.text) for step in result.steps])
        return Seen([result.status, result.output, steps], problems=tuple(problems))

    return asyncio.run(look())


def _list_conditions(tx: Any) -> list[str]:
    rows = tx.keep("SELECT id FROM windlass_triggers WHERE id LIKE 'resume:%' /* windlass */")
    return [str(row[0]) for row in rows.fetchall()]
