"""A report in stages: two researchers side by side, a check that sends it back, an approval before it goes out.

    python examples/workflow.py

The workflow parks while publication waits for a yes, and goes on in another Runtime: the researchers are not asked
again. A plain function with the same idea stands below the graph.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import windlass as w
from windlass.testing import call, scripted


@w.tool(keyed=True, requires_approval=True)
async def publish(title: str) -> str:
    """Publish the report."""
    return f"{title} is online"


def build_graph() -> w.WorkflowGraph:
    """The graph: plan, two researchers, a report that must have a title, publication."""
    llm = {"mode": "llm"}
    checker = scripted(
        '{"verdict": "fail", "reason": "It has no title."}',
        '{"verdict": "pass", "reason": "It has one."}',
    )
    nodes: dict[str, Any] = {
        "plan": {**llm, "model": scripted("Look at prices and at weather.")},
        "prices": {**llm, "task": "Research prices.", "model": scripted("Apples cost 2.")},
        "weather": {**llm, "task": "Research weather.", "model": scripted("It rains.")},
        "report": {**llm, "model": scripted("Apples and rain.", "# Autumn\nApples and rain.")},
        "check": {"kind": "verify", "judge": "Does it have a title?", "model": checker},
        "publish": {
            "tools": [publish],
            "model": scripted(call("publish", title="Autumn"), "Autumn is online."),
        },
    }
    edges = [
        {"from": "plan", "to": "prices"},
        {"from": "plan", "to": "weather"},
        {"from": "prices", "to": "report"},
        {"from": "weather", "to": "report"},
        {"from": "report", "to": "check"},
        {"from": "check", "to": "report", "on": "fail"},
        {"from": "check", "to": "publish", "on": "pass"},
    ]
    return w.workflow_graph({"name": "autumn", "entry": "plan", "nodes": nodes, "edges": edges})


@w.workflow
async def small(wf: w.WorkflowContext, topic: str) -> str:
    """The same idea in Python, shorter."""
    researcher = w.Agent(scripted(f"{topic} cost 2."), name="researcher")
    critic = w.Agent(scripted("Fine."), name="critic")
    found = await wf.run(researcher, f"Research {topic}.")
    opinion, loud = await wf.parallel(
        wf.run(critic, found.output), wf.step(str.upper, found.output)
    )
    return f"{loud} ({opinion.output})"


async def main() -> None:
    graph = build_graph()
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'runs.db'}"
        async with w.Runtime(store=store):
            result = await graph.run("Write about autumn.", session_id="autumn")
            [waiting] = result.pending
            print(f"{result.status}: {waiting.path[0]} wants {waiting.name} {waiting.arguments}")
        async with w.Runtime(store=store):
            result = await graph.resume("autumn", decisions={waiting.id: w.Allow()})
            print(f"{result.status}: {result.output}")
            print(graph.draw(result))
            out = await small.run("apples")
            print(out.output)


if __name__ == "__main__":
    asyncio.run(main())
