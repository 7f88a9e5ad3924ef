"""`windlass workflow`: run a graph or a function of a program, go on with it, draw it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

FLOWS = """
    from windlass.testing import call, scripted

    @w.tool(requires_approval=True)
    async def pay(what: str) -> str:
        '''Pay.'''
        return "paid"

    paying = scripted(call("pay", what="Ann"), "All paid.")
    graph = {
        "name": "pays",
        "nodes": {"plan": {"mode": "llm"}, "pay": {"tools": [pay], "model": paying}},
        "edges": [{"from": "plan", "to": "pay"}],
    }

    @w.workflow
    async def shout(wf, text):
        return await wf.step(str.upper, text)
"""


def test_graph_of_a_program_is_run_parked_resumed_and_drawn(
    windlass: Callable[..., Any], module: Callable[[str, str], None]
):
    module("flows", FLOWS)
    drawn = windlass("workflow", "draw", "flows:graph").stdout
    assert drawn == "pays\n  ○ plan (stage)\n    └──> pay\n  ○ pay (stage)\n"
    run = ("workflow", "run", "flows:graph", "Pay Ann.", "--provider", "mock", "--session", "s")
    parked = windlass(*run, code=1)
    assert (
        "pay waits: w1.2/" in parked.stderr
        and "windlass workflow resume flows:graph s" in parked.stderr
    )
    call = next(word for word in parked.stderr.split() if word.startswith("w1.2/"))
    mermaid = windlass("workflow", "draw", "flows:graph", "--session", "s", "--format", "mermaid")
    assert 'n0["plan: done"]' in mermaid.stdout
    resume = ("workflow", "resume", "flows:graph", "s", "--provider", "mock", "--json")
    done = json.loads(windlass(*resume, "--allow", call).stdout)
    assert (done["status"], done["output"]) == ("done", "All paid.")
    trace = windlass("trace", "s").stdout
    assert "plan: done, then pay" in trace and "workflow_step_begun" not in trace


def test_function_of_a_program_and_wrong_names(
    windlass: Callable[..., Any], module: Callable[[str, str], None]
):
    module("flows", FLOWS)
    assert windlass("workflow", "run", "flows:shout", "hello").stdout == "HELLO\n"
    assert "is no workflow" in windlass("workflow", "run", "flows:pay", "x", code=2).stderr
    assert "did you mean 'graph'" in windlass("workflow", "draw", "flows:grph", code=2).stderr
    missing = windlass("workflow", "draw", "flows:graph", "--session", "nope", code=None)
    assert missing.exit_code != 0 and "nope" in missing.stderr
