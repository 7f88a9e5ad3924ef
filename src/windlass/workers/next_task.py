"""The next task of a worker: what it takes along, by its `carry`."""

from __future__ import annotations

import msgspec

from windlass import seams
from windlass.agents.artifacts import read_artifacts
from windlass.engine import driver
from windlass.engine.driver import Start
from windlass.engine.ownership import HOST, owner_of, with_owner
from windlass.errors import ConfigError, NoSuchSession, StoreError
from windlass.events import SessionOpened, WorkerUpdate
from windlass.json_types import JsonObject
from windlass.messages import Message, Text, as_messages
from windlass.store.base import Store
from windlass.store.body_sessions import create_session
from windlass.store.view import messages_of
from windlass.store.wishes import Transaction
from windlass.workers.config import build_prompt
from windlass.workers.drive import (
    WorkerScope,
    begin_graph,
    build_plan,
    build_request,
    open_idle,
    place_worker,
)
from windlass.workers.handoff import write_summary
from windlass.workers.record import (
    TASK_KEY,
    WorkerRecord,
    WorkerState,
    read_earlier_artifacts,
    read_record,
    session_of_task,
    to_metadata,
)
from windlass.workers.wish import raise_worker_wish


async def begin_next_task(scope: WorkerScope, state: WorkerState, task: str) -> Start | None:
    """Begin another task: on the same session, or put it on record in a session of its own."""
    record, number = state.record, state.number + 1
    artifacts = await _carry_artifacts(scope.home, state)
    if record.transcript_mode in ("inherit", "compact") and scope.live.graph is not None:
        return await _flush(await begin_graph(scope, state, number, task), record)
    if record.transcript_mode in ("inherit", "compact"):
        return await _start(scope, state, build_prompt(task, artifacts), number, task)
    later = msgspec.structs.replace(record, number=number, task=task, artifacts=tuple(artifacts))
    key = session_of_task(record.id, number)
    owner = owner_of(state.entries)
    metadata = to_metadata(later, None if owner == HOST else with_owner(owner))
    metadata = scope.environment.redact(metadata)
    if record.transcript_mode == "fork":
        await _fork(scope.home, state, key, metadata)
    else:
        opened = state.entries[0]
        above = opened.parent_id if isinstance(opened, SessionOpened) else None
        if record.agent is None:
            journal = await scope.home.open(key, metadata=metadata, parent_id=above)
            await journal.close()
            return None

        def create(tx: Transaction) -> None:
            create_session(tx, key, metadata=metadata, parent_id=above)
            raise_worker_wish(tx, record, key)

        await scope.home.commit(create)
    return None


async def assign_next_task(scope: WorkerScope, state: WorkerState, task: str) -> None:
    """Put another task on record for a process that has the code of the worker."""
    record = state.record
    if record.transcript_mode in ("fork", "reset"):
        await begin_next_task(scope, state, task)
        return
    artifacts = await _carry_artifacts(scope.home, state)
    payload: JsonObject = {"task": task, "artifacts": artifacts}
    number = state.number + 1
    update = WorkerUpdate(record.id, "running", record.name, number, payload, seams.now())
    journal = await open_idle(scope.home, state.key)
    try:
        if len(journal.entries) != len(state.entries):
            raise ConfigError(f"worker {record.id!r} was given another task at the same time")
        told = [scope.environment.redact(update)]
        await journal.commit(
            lambda tx: raise_worker_wish(tx, record, state.key, 0.0), lambda _: told
        )
    finally:
        await journal.close()


async def _fork(home: Store, state: WorkerState, key: str, metadata: JsonObject) -> None:
    try:
        await home.fork(
            state.key, key, state.entries[1:], len(messages_of(state.entries)), metadata
        )
    except StoreError:
        await home.info(key)  # a task that was cut off has made it: NoSuchSession if it has not
    if state.record.agent is not None:
        await home.commit(lambda tx: raise_worker_wish(tx, state.record, key))


async def _carry_artifacts(home: Store, state: WorkerState) -> list[JsonObject]:
    """Return the artifacts that the next task is told of; those in its conversation are not."""
    record = state.record
    if record.transcript_mode in ("inherit", "fork") or record.artifact_mode == "none":
        return []
    first = await _read_first(home, record)
    if record.artifact_mode == "reset":
        return list(first.artifacts)
    made = (
        *await read_earlier_artifacts(home, record),
        *read_artifacts(state.entries, state.key),
    )
    kept: list[JsonObject] = []
    for one in made:
        body: JsonObject = {"data": one.data} if one.text is None else {"text": one.text}
        kept.append({"kind": one.kind, "title": one.title, **body})
    return [*first.artifacts, *kept]


async def _read_first(home: Store, record: WorkerRecord) -> WorkerRecord:
    """Read what the worker was spawned with."""
    try:
        found = read_record(await home.info(record.id))
    except NoSuchSession:
        found = None
    return found or record


async def _start(
    scope: WorkerScope, state: WorkerState, prompt: str, number: int, task: str
) -> Start:
    """Start a run on the session of the worker; it is on record when this returns."""
    begun = await _begin(scope, state, number, task)
    for message in as_messages(prompt):
        begun.run.hear(message)
    return await _flush(begun, state.record)


async def _begin(scope: WorkerScope, state: WorkerState, number: int, task: str) -> Start:
    options = await place_worker(state.record, scope.live.options)
    plan = build_plan(scope, state.record, options)
    plan.metadata = {**(plan.metadata or {}), TASK_KEY: {"number": number, "task": task}}
    request = await build_request(scope, state, plan)
    return await driver.start(request, (), state.key, on_pending="discard")


async def _flush(begun: Start, record: WorkerRecord) -> Start:
    """Wait until the beginning of a run is on record, and with it the wish to go on with it."""
    journal = begun.run.journal
    try:
        if record.agent is not None:
            key = journal.session_id
            await journal.commit(lambda tx: raise_worker_wish(tx, record, key), lambda _: ())
        else:
            journal.flush()
            await journal.durable()
    except BaseException:
        await begun.run.journal.close()  # nobody else would let the next writer in
        raise
    seams.point("worker.task_begun")
    return begun


async def restart_from_summary(scope: WorkerScope, state: WorkerState, text: str | None) -> Start:
    """Begin the task again with a summary of what was done, and the new input, in place of the rest."""
    task = state.task
    if scope.live.graph is not None:
        told = task if text is None else f"{task}\n\n{text}"
        return await _flush(await begin_graph(scope, state, state.number, told), state.record)
    begun = await _begin(scope, state, state.number, task)
    size = len(begun.run.messages)
    if size:
        begun.run.reshape((0, size), (), "resume")
    begun.run.hear(Message("user", (Text(write_summary(state)),), "summary"))
    begun.run.hear(Message("user", (Text(text or f"Go on with the task: {task}"),)))
    return await _flush(begun, state.record)
