"""The record of a worker: what the metadata and the journal of its session say about it.

Nothing else knows a worker: who can open the store can read it, from any process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from windlass.agents.artifacts import Artifact, read_artifacts
from windlass.engine.active_runs import DETACHED
from windlass.engine.ownership import OWNER_KEY, WORKER_KEY
from windlass.engine.transcript import transcript_of
from windlass.errors import Corrupt, NoSuchSession
from windlass.events import (
    JournalEntry,
    RunEnded,
    RunStarted,
    SessionOpened,
    Suspended,
    WorkerStopped,
    WorkerUpdate,
)
from windlass.json_types import JsonObject, as_list, as_object
from windlass.loop.plan import as_journaled
from windlass.records import Record
from windlass.store.base import SessionInfo, Store

#: In the metadata of a run: which task of the worker it is, or that it only writes the handoff.
TASK_KEY: Final = "windlass_worker_task"
TERMINAL: Final = frozenset({"cancelled", "stopped"})
_DONE: Final = frozenset({"done", "idle"})


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker was spawned with, as its session keeps it."""

    id: str
    mode: str
    task: str
    created_at: float
    name: str | None = None
    node: JsonObject = {}
    graph: JsonObject | None = None  # as it was given, where that is plain data
    options: JsonObject = {}
    resume_when: JsonObject | None = None  # conditions that end a suspension which names none
    objects: tuple[str, ...] = ()  # options that are code, which no record can hold
    tools: tuple[str, ...] = ()
    builtin: tuple[str, ...] = ()  # those of its tools that are built in
    withheld: tuple[str, ...] = ()  # tools that it may not call
    artifacts: tuple[JsonObject, ...] = ()
    transcript: JsonObject | None = None
    carry: JsonObject = {}
    retriggers: bool = False  # it was spawned for several tasks
    execution: JsonObject = {}
    parent: str | None = None  # the session that spawned it
    under: JsonObject | None = None  # the rules of that session
    request: JsonObject = {}
    provenance: JsonObject = {}
    caller: JsonObject | None = None  # in whose name it works; None: the host
    number: int = 1  # of the first task in this session
    agent: str | None = None  # whose run spawned it, by the name that a fleet has for it
    stays: tuple[str, ...] = ()  # what no other process can build from the record and the agent
    begins_under_parent: bool = False  # a rule that is on record only once its first run has begun
    host: str | None = None  # the machine of its folder, where it is bound to one

    @property
    def transcript_mode(self) -> str:
        """How the conversation is carried to the next task."""
        return str(self.carry.get("transcript_mode", "inherit"))

    @property
    def resumes_workflow(self) -> bool:
        """Whether the run of its graph goes on where it was cut off."""
        return bool(self.carry.get("resume_workflow", True))

    @property
    def output_kinds(self) -> list[str]:
        """The kinds of artifacts that its parent expects."""
        contract = as_object(self.node.get("output_contract"))
        return [str(kind) for kind in as_list(contract.get("output_kinds"))]

    @property
    def artifact_mode(self) -> str:
        """How artifacts are carried to the next task."""
        return str(self.carry.get("artifact_mode", "inherit"))


class TaskRecord(Record, frozen=True):
    """One task of a worker: `worker.history[0].task`."""

    number: int
    task: str
    status: str
    run_id: str | None = None
    session_id: str | None = None


class Suspension(Record, frozen=True):
    """Why a worker waits: `worker.suspension.reason`."""

    reason: str
    initiator: str
    suspended_at: float
    snapshot_ref: str
    """The id that `resume_agent` takes."""
    conditions: JsonObject | None = None


class Worker(Record, frozen=True, kw_only=True):
    """A worker as it stands in the store; every function of workers takes it or its id."""

    id: str
    name: str | None
    task: str
    """The task that it has now, or had last."""
    status: str
    """running, completed, awaiting, suspended, cancelled, failed or stopped."""
    mode: str
    """`node`, `graph`, or `sub_agent` for `sub_agent_run(background=True)`."""
    created_at: float
    updated_at: float
    finished_at: float | None
    history: tuple[TaskRecord, ...]
    config: JsonObject
    request: JsonObject
    provenance: JsonObject
    payload: JsonObject | None
    """What came of its last task: `text`, `status`, `data`, ids of artifacts, usage."""
    error: JsonObject | None
    transcript: JsonObject
    artifacts: tuple[Artifact, ...]
    session_id: str
    """The session of its last task."""
    run_id: str | None
    parent_session_id: str | None
    carry: JsonObject
    execution: JsonObject
    suspension: Suspension | None = None
    handoff: Artifact | None = None
    is_closed: bool = False
    agent: str | None = None
    """The agent whose run spawned it: processes that serve it take the worker up."""
    stays: tuple[str, ...] = ()
    """What only the process that spawned it has: no other one can take it up without."""

    @property
    def text(self) -> str:
        """The final text of its last task; empty while there is none."""
        return str((self.payload or {}).get("text") or "")

    @property
    def data(self) -> object:
        """The value of its last task, where one was asked for."""
        return (self.payload or {}).get("data")

    @property
    def result(self) -> Artifact | None:
        """What its parent reads of it: an artifact whose `data["payload"]` leaves out the bulk."""
        return next((one for one in self.artifacts if one.kind == "worker_result"), None)

    def to_dict(self) -> JsonObject:
        """Return the worker as plain data: its snapshot."""
        data: JsonObject = msgspec.to_builtins(self)
        return data

    def __repr__(self) -> str:
        return f"<Worker {self.id} {self.status}>"


class WorkerSummary(Record, frozen=True):
    """A worker in the list of `list_agents`."""

    id: str
    name: str | None
    task: str
    status: str
    mode: str
    parent_session_id: str | None
    created_at: float
    updated_at: float


class WorkerState(msgspec.Struct, frozen=True):
    """A worker that was read: its record, the session of its last task, and that one's journal."""

    record: WorkerRecord
    info: SessionInfo
    entries: list[JournalEntry]

    @property
    def key(self) -> str:
        """The id of the session of its last task."""
        return self.info.id

    @property
    def run(self) -> RunStarted | None:
        """The last run of a task."""
        for entry in reversed(self.entries):
            if type(entry) is RunStarted and _is_task(entry):
                return entry
        return None

    @property
    def entries_of_task(self) -> list[JournalEntry]:
        """The entries of the last run of a task, and what follows it."""
        for at in range(len(self.entries) - 1, -1, -1):
            if _is_task(self.entries[at]):
                return self.entries[at:]
        return []

    @property
    def parked(self) -> Suspended | None:
        """The entry that parked its last run."""
        for entry in reversed(self.entries):
            if type(entry) is Suspended:
                return entry
            if type(entry) is RunStarted:
                return None
        return None

    @property
    def suspension_conditions(self) -> JsonObject | None:
        """The conditions that wake it, if any were named."""
        parked = self.parked
        return None if parked is None else parked.conditions

    @property
    def is_handed_over(self) -> bool:
        """Whether it was parked because its process ends, and is to go on in another one."""
        ended = self.ended
        if ended is not None and ended.stop_reason == DETACHED.reason:
            return True
        parked = self.parked
        return parked is not None and parked.initiator == "fleet"

    @property
    def is_stopping(self) -> bool:
        """Whether its last run was to write the handoff, and its end is not on record."""
        return self.stopped is None and self.last_run is not None and not _is_task(self.last_run)

    @property
    def is_left(self) -> bool:
        """Whether its run has ended, and its process died before the end of the task was on record."""
        ended = self.ended
        if self.stopped or self.settled or not self.is_begun or ended is None:
            return False
        return ended.status != "suspended" and _is_task(self.last_run)

    @property
    def assigned(self) -> WorkerUpdate | None:
        """The entry that gave it a task which has no run yet."""
        for entry in reversed(self.entries):
            if type(entry) is WorkerUpdate:
                return entry if entry.status == "running" else None
            if type(entry) is RunStarted:
                return None
        return None

    @property
    def task(self) -> str:
        """The text of its last task."""
        if (assigned := self.assigned) is not None:
            return str((assigned.payload or {}).get("task", ""))
        run = self.run
        if run is None or not self.is_begun:
            return self.record.task
        return str(_task_of(run).get("task", self.record.task))

    @property
    def last_run(self) -> RunStarted | None:
        """The last run, also where that only wrote the handoff."""
        return next((e for e in reversed(self.entries) if type(e) is RunStarted), None)

    @property
    def number(self) -> int:
        """The number of its last task."""
        if (assigned := self.assigned) is not None:
            return assigned.number
        run = self.run
        return self.record.number if run is None else int(_task_of(run).get("number", 1))

    @property
    def stopped(self) -> WorkerStopped | None:
        """The entry that ended it for good."""
        return next((e for e in reversed(self.entries) if type(e) is WorkerStopped), None)

    @property
    def settled(self) -> WorkerUpdate | None:
        """The entry that ended its last task."""
        for entry in reversed(self.entries):
            if type(entry) is WorkerUpdate:
                ends = entry.status != "running" and entry.number >= self.record.number
                return entry if ends else None
            if _is_task(entry):
                return None
        return None

    @property
    def ended(self) -> RunEnded | None:
        """The end of its last run; None while that is under way, or was killed."""
        for entry in reversed(self.entries):
            if type(entry) is RunEnded:
                return entry
            if type(entry) in (RunStarted, SessionOpened) or _goes_on(entry):
                return None
        return None

    @property
    def is_begun(self) -> bool:
        """Whether its last task has a run."""
        if self.run is None or self.assigned is not None:
            return False
        return self.number >= self.record.number

    @property
    def status(self) -> str:
        """The status of the worker."""
        if (stopped := self.stopped) is not None:
            return stopped.status
        if (settled := self.settled) is not None:
            return settled.status
        ended = self.ended
        if not self.is_begun or ended is None or self.is_left:
            return "running"  # until the end of the task is on record, with its artifacts
        return "suspended"


def _is_task(entry: JournalEntry | None) -> bool:
    return type(entry) is RunStarted and TASK_KEY in (entry.metadata or {})


def _task_of(run: RunStarted) -> JsonObject:
    return as_object((run.metadata or {}).get(TASK_KEY))


def _goes_on(entry: JournalEntry) -> bool:
    return str(type(entry).__struct_config__.tag) in ("transcript_resume", "iteration_start")


def status_of(run_status: str, record: WorkerRecord) -> str:
    """Return the status of a worker whose last run ended so."""
    if run_status in _DONE:
        return "awaiting" if record.retriggers else "completed"
    if run_status in ("suspended", "cancelled"):
        return run_status
    return "cancelled" if run_status == "cancelling" else "failed"


def to_metadata(record: WorkerRecord, owner: JsonObject | None) -> JsonObject:
    """Return the metadata of a session of the worker."""
    return {**(owner or {}), WORKER_KEY: as_journaled(record, "the record of a worker")}


def read_record(info: SessionInfo) -> WorkerRecord | None:
    """Read the record of a worker from the metadata of its session; None for other sessions."""
    found: object = info.metadata.get(WORKER_KEY)
    if found is None:
        return None
    try:
        return msgspec.convert(found, WorkerRecord, strict=False)
    except msgspec.ValidationError as error:
        raise Corrupt(f"the record of worker {info.id!r} is damaged: {error}") from error


def session_of_task(worker_id: str, number: int) -> str:
    """Build the id of the session of a task that does not go on in the one before.

    No call of a tool gives its child such an id: those have a dot in this place.
    """
    return worker_id if number == 1 else f"{worker_id}~{number}"


async def read_worker(home: Store, worker_id: str) -> WorkerState:
    """Read a worker with the session of its last task; `NoSuchSession` if there is none."""
    info = await home.info(worker_id)
    record = read_record(info)
    if record is None or record.id != worker_id:
        raise NoSuchSession(f"no worker {worker_id!r}")
    if record.transcript_mode in ("fork", "reset"):
        number = 2
        while (later := await _read_later(home, worker_id, number)) is not None:
            info, record, number = later[0], later[1], number + 1
    return WorkerState(record, info, await home.read(info.id))


async def _read_later(
    home: Store, worker_id: str, number: int
) -> tuple[SessionInfo, WorkerRecord] | None:
    try:
        info = await home.info(session_of_task(worker_id, number))
    except NoSuchSession:
        return None
    record = read_record(info)
    return None if record is None or record.id != worker_id else (info, record)


# --------------------------------------------------------------------------- the handle


async def build_worker(home: Store, state: WorkerState) -> Worker:
    """Build the handle of a worker from what was read."""
    record, info, entries = state.record, state.info, state.entries
    stopped, settled, status = state.stopped, state.settled, state.status
    history = await _read_history(home, state)
    artifacts = _list_artifacts(state, settled, await read_earlier_artifacts(home, record))
    payload = None if settled is None else settled.payload
    run = state.run
    handoff = None if stopped is None else stopped.handoff
    return Worker(
        id=record.id,
        name=record.name,
        task=history[-1].task if history else record.task,
        status=status,
        mode=record.mode,
        created_at=record.created_at,
        updated_at=info.updated_at,
        finished_at=stopped.at if stopped else settled.at if settled else None,
        history=history,
        config=_show_config(record),
        request=record.request,
        provenance=record.provenance,
        payload=payload,
        error=_find_error(state, payload),
        transcript=_show_transcript(entries),
        artifacts=artifacts,
        session_id=info.id,
        run_id=None if run is None else run.run_id,
        parent_session_id=record.parent,
        carry=record.carry,
        execution=record.execution,
        suspension=_read_suspension(state) if status == "suspended" else None,
        handoff=next((one for one in artifacts if one.id == handoff), None),
        is_closed=stopped is not None,
        agent=record.agent,
        stays=record.stays,
    )


def summarize_worker(state: WorkerState) -> WorkerSummary:
    """Return a worker as lists show it."""
    record, info = state.record, state.info
    return WorkerSummary(
        record.id,
        record.name,
        state.task,
        state.status,
        record.mode,
        record.parent,
        record.created_at,
        info.updated_at,
    )


async def _read_history(home: Store, state: WorkerState) -> tuple[TaskRecord, ...]:
    """List the tasks so far: those of earlier sessions, then those of this one."""
    found: dict[int, TaskRecord] = {}
    record = state.record
    for number in range(1, record.number):
        key = session_of_task(record.id, number)
        try:
            _collect_tasks(await home.read(key), key, record, found)
        except NoSuchSession:
            continue  # deleted meanwhile
    _collect_tasks(state.entries, state.key, record, found)
    if not state.is_begun:
        number = max(state.number, record.number)
        found[number] = TaskRecord(number, state.task, "running", None, state.key)
    return tuple([found[number] for number in sorted(found)])


def _collect_tasks(
    entries: Sequence[JournalEntry], key: str, record: WorkerRecord, found: dict[int, TaskRecord]
) -> None:
    run: RunStarted | None = None
    for entry in entries:
        if type(entry) is RunStarted:
            run = entry if _is_task(entry) else None
            if run is not None:
                task = _task_of(run)
                number = int(task.get("number", 1))
                if number not in found or found[number].session_id == key:
                    words = str(task.get("task", ""))
                    found[number] = TaskRecord(number, words, "running", run.run_id, key)
        elif type(entry) is RunEnded and run is not None:
            number = int(_task_of(run).get("number", 1))
            known = found[number]
            if known.run_id == run.run_id:
                status = status_of(entry.status, record)
                found[number] = msgspec.structs.replace(known, status=status)


async def read_earlier_artifacts(home: Store, record: WorkerRecord) -> tuple[Artifact, ...]:
    """Read the artifacts of tasks whose sessions this one does not go on from, if they count."""
    found: list[Artifact] = []
    if record.transcript_mode == "reset" and record.artifact_mode == "inherit":
        for number in range(1, record.number):
            key = session_of_task(record.id, number)
            try:
                found += read_artifacts(await home.read(key), key)
            except NoSuchSession:
                continue  # deleted meanwhile
    return tuple(found)


def _list_artifacts(
    state: WorkerState, settled: WorkerUpdate | None, earlier: tuple[Artifact, ...]
) -> tuple[Artifact, ...]:
    """List the artifacts that count: all, or with another mode those of the last task."""
    entries = state.entries
    if state.record.artifact_mode != "inherit":
        entries = state.entries_of_task
    found = (*earlier, *read_artifacts(entries, state.key))
    if settled is None or settled.payload is None:
        return found
    record = state.record
    payload = {
        **settled.payload,
        "request": record.request,
        "provenance": record.provenance,
        "execution": record.execution,
        "artifact_ids": [one.id for one in found],
    }
    summary = Artifact(
        f"result_{record.id}_{settled.number}",
        "worker_result",
        f"Result of {record.name or record.id}",
        None,
        {"payload": payload},
        record.name,
        state.key,
    )
    return (*found, summary)


def _show_config(record: WorkerRecord) -> JsonObject:
    shown: JsonObject = {
        "name": record.name,
        "task": record.task,
        "node": record.node,
        "options": record.options,
        "tools": list(record.tools),
        "artifacts": list(record.artifacts),
        "carry": record.carry,
        "execution": record.execution,
        "objects": list(record.objects),
    }
    return shown


def _show_transcript(entries: Sequence[JournalEntry]) -> JsonObject:
    transcript = transcript_of(entries)
    hidden = (WORKER_KEY, OWNER_KEY)
    metadata: dict[str, Any] = transcript["metadata"]
    transcript["metadata"] = {key: one for key, one in metadata.items() if key not in hidden}
    return transcript


def _find_error(state: WorkerState, payload: JsonObject | None) -> JsonObject | None:
    if payload is not None:
        return payload.get("error")
    ended = state.ended
    return None if ended is None else ended.error


def _read_suspension(state: WorkerState) -> Suspension | None:
    """Read why the worker waits, from its journal."""
    parked = state.parked
    reason, initiator, conditions = "detached", "operator", None
    if parked is not None:
        reason, initiator, conditions = parked.reason, parked.initiator, parked.conditions
    elif (ended := state.ended) is not None:
        reason = ended.stop_reason or reason
    at = state.info.updated_at
    return Suspension(reason, initiator, at, state.record.id, conditions)
