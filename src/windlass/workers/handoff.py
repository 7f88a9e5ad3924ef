"""The handoff of a worker that is stopped: what its parent has to know to take over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from windlass.engine import driver
from windlass.engine.driver import conduct
from windlass.engine.limit_options import LimitOptions
from windlass.engine.model_options import ModelOptions, ReasoningOptions, SettingOptions
from windlass.engine.results import LoopResult
from windlass.errors import WindlassError
from windlass.events import ArtifactWritten, JournalEntry, Replied, RunStarted, Said, ToolResulted
from windlass.json_types import JsonObject, is_list, is_object
from windlass.loop.plan import as_journaled, digest_of
from windlass.loop.resume import standing
from windlass.messages import ToolCall, as_messages
from windlass.workers.drive import WorkerScope, build_plan, build_request, log
from windlass.workers.graph import list_stages
from windlass.workers.record import WorkerState

#: In the metadata of the run that writes the handoff.
CLOSING_KEY: Final = "windlass_worker_closing"
KIND: Final = "handoff"
_LISTS: Final = ("done", "open", "files", "questions")
_MOST, _LONG = 40, 2000  # lines of a list, characters of a line that is read from the journal

SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "goal": {"type": "string"},
        **{name: {"type": "array", "items": {"type": "string"}} for name in _LISTS},
        "next_step": {"type": "string"},
    },
    "required": ["goal", *_LISTS, "next_step"],
    "additionalProperties": False,
}
WORDS: Final = """You are being stopped, and another agent takes over. Call no tool. Write your handoff as JSON:
goal (what you were asked), done (what is finished), open (what is not), files (that you changed or need),
questions (that nobody has answered), next_step (what to do first)."""
_MODEL_OPTIONS: Final = frozenset(
    {
        *ModelOptions.__struct_fields__,
        *SettingOptions.__struct_fields__,
        *ReasoningOptions.__struct_fields__,
        *LimitOptions.__struct_fields__,
    }
) - {"tool_choice", "max_iterations"}


class Handoff(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the artifact of kind `handoff`."""

    goal: str
    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    next_step: str = ""
    written_by: str = "journal"  # or model


def as_artifact(handoff: Handoff, state: WorkerState) -> ArtifactWritten:
    """Return the entry that keeps the handoff; written again it is the same artifact."""
    record = state.record
    made = f"artifact_{digest_of([record.id, KIND])[:12]}"
    title = f"Handoff of {record.name or record.id}"
    data = as_journaled(handoff, "a handoff")
    return ArtifactWritten(made, KIND, title, None, data, record.name)


# --------------------------------------------------------------------------- by the model


async def write_handoff(scope: WorkerScope, state: WorkerState) -> Handoff:
    """Have the model write the handoff in one closing call; where that fails, read the journal."""
    known = _read_closing(state)
    if known is not None:
        return known
    try:
        found = await _ask_model(scope, state)
    except WindlassError as error:
        log.warning("the handoff of worker %s is read from its journal: %s", state.record.id, error)
        found = None
    return describe_progress(state) if found is None else found


async def _ask_model(scope: WorkerScope, state: WorkerState) -> Handoff | None:
    options: JsonObject = {
        name: value for name, value in scope.live.options.items() if name in _MODEL_OPTIONS
    }
    if "system" in scope.live.options:
        options["system"] = scope.live.options["system"]
    options |= {"schema": SCHEMA, "max_iterations": 1}
    plan = build_plan(scope, state.record, options)
    plan.metadata = {**(plan.metadata or {}), CLOSING_KEY: True}
    request = await build_request(scope, state, plan)
    begun = await driver.start(request, as_messages(WORDS), state.key, on_pending="discard")
    outcome = await conduct(begun, scope.environment)
    return _parse(LoopResult(begun.run, outcome).data)


def _parse(value: object) -> Handoff | None:
    if not is_object(value) or not isinstance(value.get("goal"), str):
        return None
    lists: dict[str, Any] = {}
    for name in _LISTS:
        given: object = value.get(name)
        lists[name] = tuple([str(one) for one in given]) if is_list(given) else ()
    step = str(value.get("next_step") or "")
    return Handoff(goal=value["goal"], next_step=step, written_by="model", **lists)


def _read_closing(state: WorkerState) -> Handoff | None:
    """Read the handoff that the model wrote before the process ended that had asked for it."""
    at = len(state.entries)
    for at in range(len(state.entries) - 1, -1, -1):
        entry = state.entries[at]
        if type(entry) is RunStarted:
            if CLOSING_KEY not in (entry.metadata or {}):
                return None
            break
    else:
        return None
    for entry in state.entries[at:]:
        if type(entry) is Replied and entry.purpose is None:
            try:
                return _parse(msgspec.json.decode(entry.message.text))
            except msgspec.DecodeError:
                return None
    return None


# --------------------------------------------------------------------------- from the journal


def describe_progress(state: WorkerState) -> Handoff:
    """Read from the journal alone what a worker has done and what is open."""
    entries = _of_tasks(state.entries)
    calls: dict[str, ToolCall] = {}
    results: dict[str, ToolResulted] = {}
    said = ""
    for entry in entries:
        message = entry.message if isinstance(entry, (Replied, Said)) else None
        if message is not None and getattr(entry, "purpose", None) is None:
            if message.role == "assistant":
                calls |= {call.id: call for call in message.tool_calls}
                said = message.text or said
        if type(entry) is ToolResulted:
            results[entry.call_id] = entry
    if state.record.mode == "graph":
        return _describe_stages(state)
    worked = [call for call in calls.values() if _has_worked(results.get(call.id))]
    left = [call for call in calls.values() if not _has_worked(results.get(call.id))]
    done = [_describe_call(call) for call in worked]
    if said:
        done.append(said[:_LONG])
    ended = state.status in ("completed", "awaiting")
    still = [] if ended else [state.task, *[_describe_call(call) for call in left]]
    return Handoff(
        goal=state.task,
        done=tuple(done[-_MOST:]),
        open=tuple(still[-_MOST:]),
        files=_find_files(calls.values()),
        next_step="" if ended else "Read what is done, and go on with the task.",
    )


def _describe_stages(state: WorkerState) -> Handoff:
    """Read from the journal of a workflow which of its steps are over."""
    steps = list_stages(state.entries_of_task)
    ended = state.status in ("completed", "awaiting")
    left = [one.name for one in steps if not one.is_over]
    return Handoff(
        goal=state.task,
        done=tuple([f"{one.name}: {one.text}"[:_LONG] for one in steps if one.is_over][-_MOST:]),
        open=() if ended else (state.task, *left),
        next_step="" if ended else f"Go on with {', '.join(left) or 'the next step'}.",
    )


def _of_tasks(entries: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Leave out the run that was to write the handoff."""
    kept: list[JournalEntry] = []
    closes = False
    for entry in entries:
        if type(entry) is RunStarted:
            closes = CLOSING_KEY in (entry.metadata or {})
        if not closes:
            kept.append(entry)
    return kept


def _has_worked(result: ToolResulted | None) -> bool:
    return result is not None and not result.result.is_error


def _describe_call(call: ToolCall) -> str:
    arguments = msgspec.json.encode(call.arguments).decode()
    return f"{call.name} {arguments}"[:_LONG]


def _find_files(calls: Sequence[ToolCall] | Any) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for call in calls:
        for name in ("path", "file", "file_path", "filename"):
            value = call.arguments.get(name) if is_object(call.arguments) else None
            if isinstance(value, str) and value:
                found[value] = None
    return tuple(list(found)[-_MOST:])


def write_summary(state: WorkerState) -> str:
    """Write what a worker has done so far as a message, for a run that begins without the rest."""
    told = describe_progress(state)
    lines = ["What was done before you were suspended, in short:", f"Goal: {told.goal}"]
    summary = standing(state.entries).view.messages
    earlier = [message.text for message in summary if message.kind == "summary"]
    lines += [f"Earlier summary: {earlier[-1]}"] if earlier else []
    lines += [f"Done: {one}" for one in told.done]
    lines += [f"Open: {one}" for one in told.open]
    return "\n".join(lines)
