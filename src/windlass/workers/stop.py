"""Stop a worker for good, with or without a handoff to whoever takes over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.access.caller import Caller
from windlass.agents.artifacts import Artifact
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject, is_mapping
from windlass.options.checks import boolean, no_key, optional, text
from windlass.records import Record
from windlass.store.open import Address
from windlass.workers.control import (
    Control,
    cancel_tree,
    end_worker,
    find_children,
    request_suspension,
)
from windlass.workers.drive import Live
from windlass.workers.handoff import as_artifact, describe_progress, write_handoff
from windlass.workers.record import Worker, WorkerState

_CHECKS: JsonObject = {"graceful": boolean, "reason": optional(text)}


class StopResult(Record, frozen=True):
    """The result of `agent_stop`: `stop.handoff.data["next_step"]`."""

    status: str
    """`stopped`; without `graceful` the status that the worker ended with."""
    handoff: Artifact | None
    children: tuple[StopResult, ...]
    """The workers that it had spawned, and that were stopped with it."""
    handoffs: tuple[Artifact, ...]
    """Its handoff, and those of the workers below it."""
    worker: Worker


async def agent_stop(
    worker: Worker | str,
    options: Mapping[str, Any] | None = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> StopResult:
    """Stop a worker and those that it spawned.

    ```python
    stop = await w.agent_stop(worker, {"graceful": True})
    print(stop.handoff.data["open"])
    ```
    With `graceful` it is suspended before its next turn and writes a handoff in one closing call; where
    that fails the handoff is read from its journal. Without it the worker is cancelled at once. `reason`
    is on record.
    """
    given = _check_options(options)
    control = await Control.find(worker, "mail", store, caller)
    reason = given.get("reason")
    if given.get("graceful"):
        return await _stop_gracefully(control, reason)
    state = await control.read()
    if state.stopped is None:
        await cancel_tree(control, reason or "stopped")
    return await _build_result(control, ())


def _check_options(options: object) -> JsonObject:
    if options is None:
        return {}
    if not is_mapping(options):
        raise ConfigError(f"the options of agent_stop are a dict, not {safe_repr(options)}")
    checked: JsonObject = {}
    for key, value in options.items():
        if key not in _CHECKS:
            raise no_key("agent_stop", key, _CHECKS)
        checked[key] = _CHECKS[key](key, value)
    return checked


async def _stop_gracefully(control: Control, reason: str | None) -> StopResult:
    state = await control.read()
    if state.stopped is not None:
        return await _build_result(control, ())
    ended = state.settled is not None
    if state.status == "running" and (state.info.alive or _is_driven(control)):
        words = reason or "it is stopped"
        await request_suspension(control, {"reason": words, "initiator": "parent"})
    children: list[StopResult] = []
    for child in await find_children(control):
        if (await child.read()).stopped is None:
            children.append(await _stop_gracefully(child, reason))
    state = await control.read()
    ended = ended or state.settled is not None
    graph = state.record.mode == "graph"
    live = None if ended or graph or not state.is_begun else _try_restore(control, state)
    if live is None:
        handoff = describe_progress(state)
    else:
        handoff = await write_handoff(control.scope(live), state)
    entry = as_artifact(handoff, state)
    state = await control.read()
    below = tuple([child.worker.id for child in children])
    await end_worker(
        control, state, "stopped", reason, [entry], handoff=entry.artifact_id, children=below
    )
    return await _build_result(control, tuple(children))


def _is_driven(control: Control) -> bool:
    return control.workers.get_task(control.place.home, control.worker_id) is not None


def _try_restore(control: Control, state: WorkerState) -> Live | None:
    """Return the options of the worker; None where this process cannot build its model."""
    try:
        return control.restore(state)
    except ConfigError:
        return None


async def _build_result(control: Control, children: tuple[StopResult, ...]) -> StopResult:
    worker = await control.describe()
    own = () if worker.handoff is None else (worker.handoff,)
    below = [one for child in children for one in child.handoffs]
    return StopResult(worker.status, worker.handoff, children, (*own, *below), worker)
