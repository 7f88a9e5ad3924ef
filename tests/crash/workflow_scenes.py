"""Workflows to be killed: a graph of 30 nodes with a loop and two approvals, and a function like it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import windlass as w
from windlass.errors import NoSuchSession
from windlass.events import Replied, RunStarted
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.testing import EffectLog
from windlass.testing.kill import Scene, Seen
from windlass.workflows import execute, functions, task  # loaded before the fork

assert sqlite_store.SqliteStore and execute and functions and task
SESSION = "flow"
Pay = Callable[[str, str], None]


class Pure(w.Model):
    """Answers by what it is asked alone, so that every run is the same; counts what it is asked."""

    provider, name = "pure", "pure"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        node, last = request.system or "", request.messages[-1]
        self.asked.append(node)
        if node == "check":
            verdict = "pass" if "Result of fix" in last.text else "fail"
            text = f'{{"verdict": "{verdict}", "reason": "looked"}}'
        elif node.startswith("pay") and last.role != "tool":
            pay = w.ToolCall("c1", "pay", {"what": node})
            return w.Response(w.Message("assistant", (pay,)), w.Usage(10, 5), "tool_use")
        else:
            text = f"{node} of {last.text.count('##')}"
        return w.Response(w.Message("assistant", text), w.Usage(10, 5))

    def price(self, usage: w.Usage) -> float:
        return 0.0


def build_tool(write: Pay) -> w.Tool:
    """Build the tool that needs an approval; `write(key, what)` is its effect."""

    @w.tool(keyed=True, requires_approval=True)
    async def pay(ctx: w.ToolContext[None], what: str) -> str:
        """Pay."""
        write(ctx.idempotency_key, what)
        return f"paid {what}"

    return pay


def build_graph(write: Pay) -> w.WorkflowGraph:
    """Build 30 nodes: four branches, a join, a loop with a verdict, two approvals, a chain."""
    pay = build_tool(write)
    branches = [[f"b{one}{two}" for two in range(4)] for one in range(4)]
    chain = [f"c{one}" for one in range(6)]
    plain = ["start", *[node for branch in branches for node in branch], "join", "fix"]
    plain += ["both", *chain, "end"]
    nodes: dict[str, Any] = {node: {"mode": "llm", "system": node} for node in plain}
    nodes["check"] = {"kind": "verify", "mode": "llm", "system": "check"}
    for node in ("pay1", "pay2"):
        nodes[node] = {"system": node, "tools": [pay]}
    pairs = [("fix", "check"), ("pay1", "both"), ("pay2", "both"), ("join", "check")]
    for branch in branches:
        path = ["start", *branch, "join"]
        pairs += zip(path, path[1:], strict=False)
    path = ["both", *chain, "end"]
    pairs += zip(path, path[1:], strict=False)
    edges: list[dict[str, Any]] = [{"from": one, "to": two} for one, two in pairs]
    edges.append({"from": "check", "to": "fix", "on": "fail"})
    edges += [{"from": "check", "to": node, "on": "pass"} for node in ("pay1", "pay2")]
    spec = {"name": "large", "entry": "start", "nodes": nodes, "edges": edges}
    return w.workflow_graph(spec)


def build_function(write: Pay, model: w.Model) -> w.Workflow:
    """Build the same in Python: branches with steps of their own, two approvals, a chain."""
    pay = build_tool(write)

    def agent(name: str) -> w.Agent[Any, str]:
        tools = [pay] if name.startswith("pay") else None
        return w.Agent(model, system=name, name=name, tools=tools)

    @w.workflow
    async def small(wf: w.WorkflowContext, topic: str) -> list[str]:
        first = await wf.run(agent("start"), topic)

        async def branch(name: str) -> str:
            one = await wf.run(agent(name), first.output)
            return await wf.step(str.upper, one.output)

        found = await wf.parallel(*[branch(f"b{one}") for one in range(3)])
        paid = await wf.parallel(*[wf.run(agent(name), "Pay.") for name in ("pay1", "pay2")])
        last = await wf.run(agent("end"), "\n".join(found))
        return [*found, *[one.output for one in paid], last.output]

    return small


async def go_on(flow: Any, begin: Callable[[], Any], **options: Any) -> w.WorkflowResult:
    """Begin the workflow, or go on with it; approve one call after the other."""
    try:
        result = await flow.resume(SESSION, **options)
    except NoSuchSession:
        result = await begin()
    while result.status == "suspended":
        first = {one.id: w.Allow() for one in result.pending[:1]}
        result = await flow.resume(SESSION, decisions=first, **options)
    return result


def _pay_once(scene: Scene) -> Pay:
    def write(key: str, what: str) -> None:
        book = EffectLog(scene.folder / "paid.jsonl")
        if key not in book.counts():
            book.write(key)
            scene.effects.write(what)

    return write


def _play(scene: Scene) -> None:
    async def run() -> None:
        model = Pure()
        async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}"):
            if scene.params.get("form") == "function":
                flow = build_function(_pay_once(scene), model)
                result = await go_on(flow, lambda: flow.run("Do it.", session_id=SESSION))
            else:
                graph = build_graph(_pay_once(scene))
                begin = {"session_id": SESSION, "model": model}
                result = await go_on(graph, lambda: graph.run("Do it.", **begin), model=model)
        assert result.status == "done", result.error

    asyncio.run(run())


def scenario(scene: Scene) -> None:
    """Run the workflow, or go on with what a killed process left."""
    _play(scene)


def check(scene: Scene) -> Seen:
    """Look at the outputs, and at how often each step was begun."""

    async def look() -> Seen:
        store = open_store(f"sqlite:///{scene.folder / 'runs.db'}")
        sessions = {info.id: await store.read(info.id) for info in await store.sessions()}
        await store.aclose()
        problems: list[str] = []
        for id, entries in sessions.items():
            runs = sum(type(entry) is RunStarted for entry in entries)
            if runs != 1:
                problems.append(f"{id} has {runs} runs")
        async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}"):
            if scene.params.get("form") == "function":
                flow: Any = build_function(lambda key, what: None, Pure())
                result = await flow.resume(SESSION)
            else:
                graph = build_graph(lambda key, what: None)
                result = await graph.resume(SESSION, model=Pure())
        keys = [step.key for step in result.steps]
        if len(set(keys)) != len(keys):
            problems.append(f"begun twice: {keys}")
        state = sorted([(step.key, step.text) for step in result.steps])
        replies = sum(type(e) is Replied for entries in sessions.values() for e in entries)
        return Seen([result.status, result.output, state, replies], problems=tuple(problems))

    return asyncio.run(look())
