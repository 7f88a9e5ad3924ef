"""The examples of workflows in the specification."""

from __future__ import annotations

from pathlib import Path

import pytest

import windlass as w


def review_tools() -> w.tools.ToolRegistry:
    """Return the tools of the example; the host runs them."""
    tools = w.tool_registry()
    for name, about, parameter in (
        ("read", "Read a file", "path"),
        ("edit", "Edit a file", "path"),
        ("run", "Run a command", "command"),
    ):
        tools = w.tool_define(
            tools,
            name,
            about,
            {
                "parameters": {parameter: {"type": "string"}},
                "returns": {"type": "string"},
                "handler": None,
            },
        )
    return tools


async def test_review_and_repair():
    w.llm_mock(text="Done.")
    w.llm_mock(text='{"verdict": "pass", "reason": "The test passes."}')
    graph = w.workflow_graph(
        {
            "name": "review_and_repair",
            "entry": "act",
            "nodes": {
                "act": {"kind": "stage", "mode": "agent", "tools": review_tools()},
                "verify": {
                    "kind": "verify",
                    "mode": "agent",
                    "tools": w.tool_select(review_tools(), ["run"]),
                },
            },
            "edges": [{"from": "act", "to": "verify"}],
        }
    )
    run = await w.workflow_execute(
        "Fix the failing test and verify the change.",
        graph,
        [],
        {"max_steps": 6, "provider": "mock"},
    )
    assert run.status == "done", run.error
    assert [step.name for step in run.steps] == ["act", "verify"]
    acting, verifying = [{tool["name"] for tool in one["tools"]} for one in w.llm_mock_calls()]
    assert {"read", "edit", "run"} <= acting
    assert "run" in verifying and verifying.isdisjoint({"read", "edit"})


async def test_lifecycle_of_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    some_flow = {"nodes": {"write": {"kind": "stage", "mode": "llm"}}}
    result = await w.task_run("Write a note", some_flow, {"provider": "mock"})
    session = w.workflow_session(result)
    forked = await w.workflow_session_fork(session)
    archived = await w.workflow_session_archive(forked)
    resumed = await w.workflow_session_resume(archived)
    persisted = await w.workflow_session_persist(result, ".windlass-runs/chat.json")
    restored = await w.workflow_session_restore(persisted.run.persisted_path)
    assert (archived.status, resumed.status, restored.id) == ("archived", "done", session.id)
    usage = session.usage
    assert usage.input_tokens > 0 and usage.output_tokens > 0 and usage.call_count == 1
    assert usage.total_duration_ms >= 0
