"""The task ledger of a run: its task, its deliverables, and the nudges it needed.

A view of the journal. Deliverables are what the run was held to: tools that must work, checks that
must pass, and the tasks that the model itself reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.events import CheckRan, FeedbackInjected, JournalEntry, ProgressReported, Said
from windlass.loop.run import Run
from windlass.policies.completion import Completion
from windlass.policies.facts import missing

_STATES = {"completed": "done"}  # anything else that a model reports is open


def build_task_ledger(run: Run, entries: Sequence[JournalEntry]) -> dict[str, Any]:
    """Build the ledger of a run: `result.task_ledger["deliverables"]`."""
    task, checks, feedback = "", dict[str, CheckRan](), dict[str, int]()
    plan: tuple[dict[str, Any], ...] = ()
    observations: list[str] = []
    for entry in entries:
        match entry:
            case Said() if not task and entry.message.role == "user" and entry.message.kind is None:
                task = entry.message.text
            case CheckRan():
                checks[entry.name] = entry
            case FeedbackInjected():
                feedback[entry.feedback] = feedback.get(entry.feedback, 0) + 1
            case ProgressReported():
                plan = entry.entries or plan
                observations += [entry.message] if entry.message else []
            case _:
                pass
    return {
        "root_task": task,
        "deliverables": [*_tools(run), *_checks(checks), *_tasks(plan)],
        "nudges": feedback.get("nudge", 0),
        "feedback": feedback,
        "observations": observations,
    }


def _tools(run: Run) -> list[dict[str, Any]]:
    completion = next((it for it in run.plan.policies if isinstance(it, Completion)), None)
    groups = completion.required if completion is not None else ()
    return [
        _item(f"tool-{number}", " or ".join(group), "open" if missing((group,), run) else "done")
        for number, group in enumerate(groups, 1)
    ]


def _checks(checks: dict[str, CheckRan]) -> list[dict[str, Any]]:
    return [
        _item(f"check-{number}", name, "done" if ran.passed else "open", ran.detail)
        for number, (name, ran) in enumerate(checks.items(), 1)
    ]


def _tasks(plan: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [
        _item(
            f"task-{number}",
            str(task.get("content", "")),
            _STATES.get(str(task.get("status")), "open"),
        )
        for number, task in enumerate(plan, 1)
    ]


def _item(name: str, text: str, status: str, note: str | None = None) -> dict[str, Any]:
    return {"id": name, "text": text, "status": status, "note": note}
