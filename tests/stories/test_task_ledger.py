"""What a run was held to, and how it stands at the end."""

from __future__ import annotations

import windlass as w
from tests.stories.helpers import add, note
from windlass.testing import call, scripted


async def test_every_loop_has_a_ledger():
    out = await w.agent_loop("the task", model=scripted("hm", "##DONE##"), loop_until_done=True)
    assert out.task_ledger == {
        "root_task": "the task",
        "deliverables": [],
        "nudges": 1,
        "feedback": {"nudge": 1},
        "observations": [],
    }
    assert out.to_dict()["task_ledger"] == out.task_ledger


async def test_required_tools_and_checks_are_deliverables():
    def tests_pass() -> str:
        return "2 fail"

    def other() -> str:
        """Do something else."""
        return "done"

    out = await w.agent_loop(
        "go",
        model=scripted(call("note", text="x"), then="ok"),
        tools=[note, add, other],
        require_successful_tools=["note", ["add", "other"]],
        verify_completion=[tests_pass],
        max_iterations=3,
    )
    assert out.task_ledger["deliverables"] == [
        {"id": "tool-1", "text": "note", "status": "done", "note": None},
        {"id": "tool-2", "text": "add or other", "status": "open", "note": None},
        {"id": "check-1", "text": "tests_pass", "status": "open", "note": "2 fail"},
    ]


async def test_what_the_model_reports_is_on_it_as_it_last_stood():
    def plan(*states: str) -> w.ToolCall:
        tasks = [{"content": f"step {n}", "status": s} for n, s in enumerate(states)]
        return call("agent_progress", message="on it", entries=tasks)

    out = await w.agent_loop(
        "go",
        model=scripted(plan("pending", "pending"), plan("completed", "in_progress"), "ok"),
        progress_tool=True,
    )
    items = out.task_ledger["deliverables"]
    assert [(i["id"], i["text"], i["status"]) for i in items] == [
        ("task-1", "step 0", "done"),
        ("task-2", "step 1", "open"),
    ]
    assert out.task_ledger["observations"] == ["on it", "on it"]


async def test_a_session_goes_on_and_the_ledger_begins_anew():
    await w.agent_loop("first", model=scripted("ok"), session_id="s")
    out = await w.agent_loop("second", model=scripted("ok"), session_id="s")
    assert out.task_ledger["root_task"] == "second"
