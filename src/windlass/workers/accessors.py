"""What a worker was asked and what came of it, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from windlass.agents.artifacts import Artifact
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject, as_list, as_object
from windlass.workers.record import Worker

_QUESTIONS: Final = ("research_questions", "questions")
_ACTIONS: Final = ("action_items", "actions")
_STAGES: Final = ("workflow_stages", "stages")
_STEPS: Final = ("verification_steps", "verification")


def worker_request(worker: Worker) -> JsonObject:
    """Return the request that the worker was spawned with: task, node, options, artifacts."""
    return _check(worker).request


def worker_result(worker: Worker) -> JsonObject | None:
    """Return what came of the last task (`text`, `data`, `status`, …); None while there is nothing."""
    return _check(worker).payload


def worker_provenance(worker: Worker) -> JsonObject:
    """Return where the worker comes from: its parent, the call that spawned it, in whose name."""
    return _check(worker).provenance


def worker_research_questions(worker: Worker) -> list[object]:
    """List the questions that the worker leaves: of its answer, its artifacts, and its handoff."""
    handoff = _handoff_of(_check(worker)).get("questions")
    return [*_collect(worker, _QUESTIONS, ("question", "research_question")), *as_list(handoff)]


def worker_action_items(worker: Worker) -> list[object]:
    """List what the worker leaves to be done: of its answer, its artifacts, and its handoff."""
    handoff = _handoff_of(_check(worker))
    step = handoff.get("next_step")
    found = _collect(worker, _ACTIONS, ("action", "action_item"))
    return [*found, *as_list(handoff.get("open")), *([step] if step else [])]


def worker_workflow_stages(worker: Worker) -> list[object]:
    """List the stages that the worker went through: its tasks, and those that its answer names."""
    stages = as_list((_check(worker).payload or {}).get("stages"))
    if worker.mode == "graph":
        return stages
    kind = worker.provenance.get("kind")
    own: list[object] = [
        {"id": str(one.number), "kind": kind, "task": one.task, "status": one.status}
        for one in worker.history
    ]
    return [*own, *_collect(worker, _STAGES, ("stage",))]


def worker_verification_steps(worker: Worker) -> list[object]:
    """List what was verified: the verdict of a node of kind `verify`, and what its answer names."""
    found: list[object] = []
    data = as_object(_check(worker).data)
    if worker.provenance.get("kind") == "verify" and "pass" in data:
        found.append({"task": worker.task, "pass": data["pass"], "reason": data.get("reason")})
    for stage in map(as_object, as_list((worker.payload or {}).get("stages"))):
        if stage.get("verdict") is not None:
            passed = stage["verdict"] == "pass"
            found.append({"task": stage["name"], "pass": passed, "reason": stage.get("reason")})
    return [*found, *_collect(worker, _STEPS, ("verification", "verification_step"))]


def _check(worker: object) -> Worker:
    if not isinstance(worker, Worker):
        raise ConfigError(f"this takes the handle of a worker, not {safe_repr(worker)}")
    return worker


def _handoff_of(worker: Worker) -> JsonObject:
    return {} if worker.handoff is None else as_object(worker.handoff.data)


def _collect(worker: Worker, keys: Iterable[str], kinds: Iterable[str]) -> list[object]:
    data = as_object(worker.data)
    found: list[object] = [one for key in keys for one in as_list(data.get(key))]
    return [*found, *[_content_of(one) for one in worker.artifacts if one.kind in tuple(kinds)]]


def _content_of(artifact: Artifact) -> object:
    return artifact.data if artifact.text is None else artifact.text
