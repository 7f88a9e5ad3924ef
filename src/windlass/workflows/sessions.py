"""Sessions of workflows as a host keeps them: fork, archive, open again, write to a file, read from one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from windlass.access.caller import Caller
from windlass.agents.artifacts import Artifact
from windlass.engine.continuation import read_transcript
from windlass.engine.ownership import (
    SessionScope,
    check_session_id,
    owner_metadata,
    place_session,
)
from windlass.engine.results import RunResult
from windlass.engine.transcript import Transcript
from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.events import Noted, Replied, ReplyFailed, Reshaped
from windlass.files import LARGEST_EXPORT, read_regular, write_private
from windlass.json_types import as_given, is_object
from windlass.records import Record, RecordDict
from windlass.sessions.api import agent_session_fork, agent_session_read
from windlass.store.open import Address
from windlass.workflows.host import ARCHIVED, DOOR, UNARCHIVED
from windlass.workflows.result import WorkflowResult

FOLDER: Final = ".windlass-runs"
_FORMAT: Final = 1


class WorkflowUsage(Record, frozen=True):
    """What a workflow used: `session.usage.input_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_duration_ms: int = 0
    """Of its model calls together."""
    call_count: int = 0


class WorkflowSession(Record, frozen=True, kw_only=True):
    """The session of a workflow: its transcript, its usage, and the record of its run."""

    id: str
    status: str
    """Of its last run; `archived` while it is archived."""
    transcript: Transcript
    usage: WorkflowUsage = WorkflowUsage()
    artifacts: tuple[Artifact, ...] = ()
    run: RecordDict = RecordDict()
    """The last run: `id`, `name`, `status`, `stop_reason`, and `persisted_path` once it is in a file."""
    parent_id: str | None = None
    """The session that it was forked from."""

    @property
    def session_id(self) -> str:
        """The same as `id`."""
        return self.id

    @property
    def is_archived(self) -> bool:
        """Whether runs on it are refused."""
        return self.status == "archived"


def workflow_session(result: RunResult) -> WorkflowSession:
    """Return the session of a result, with what it used.

    ```python
    session = w.workflow_session(await w.task_run("Write a note", flow))
    print(session.usage.input_tokens, session.usage.call_count)
    ```
    """
    if not isinstance(as_given(result), RunResult):
        raise ConfigError(f"workflow_session takes a result, not {safe_repr(result)}")
    is_flow = isinstance(result, WorkflowResult)
    made = [one for one in result.entries if isinstance(one, (Replied, ReplyFailed))]
    made = [one for one in made if one.provider != DOOR]
    calls, took = len(made), sum([one.duration_ms for one in made])
    if isinstance(result, WorkflowResult):
        calls += sum([step.calls for step in result.steps])
        took += sum([step.model_ms for step in result.steps])
    used = result.usage
    return WorkflowSession(
        id=result.session_id,
        status=result.status,
        transcript=result.transcript,
        usage=WorkflowUsage(used.input_tokens, used.output_tokens, round(took), calls),
        artifacts=result.artifacts if isinstance(result, WorkflowResult) else (),
        run=RecordDict(
            id=result.run_id,
            name=result.name if is_flow else None,
            status=result.status,
            stop_reason=result.stop_reason,
            persisted_path=None,
        ),
    )


async def workflow_session_fork(
    session: WorkflowSession,
    new_id: str | None = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> WorkflowSession:
    """Create a session with the same history, and return it; the first one stays as it is."""
    session = _check(session, "workflow_session_fork")
    forked = await agent_session_fork(session.id, new_id, store=store, caller=caller)
    return msgspec.structs.replace(
        session,
        id=forked.id,
        status=session.run.get("status") or "open",
        transcript=forked.transcript,
        parent_id=session.id,
    )


async def workflow_session_archive(
    session: WorkflowSession, *, store: Address | None = None, caller: Caller | None = None
) -> WorkflowSession:
    """Archive a session: workflows are not run on it until `workflow_session_resume`."""
    session = _check(session, "workflow_session_archive")
    if session.is_archived:
        return session
    return await _note(session, ARCHIVED, "archived", store, caller)


async def workflow_session_resume(
    session: WorkflowSession, *, store: Address | None = None, caller: Caller | None = None
) -> WorkflowSession:
    """Open an archived session again; one that is not archived is returned as it is."""
    session = _check(session, "workflow_session_resume")
    if not session.is_archived:
        return session
    status = session.run.get("status") or "open"
    return await _note(session, UNARCHIVED, status, store, caller)


async def workflow_session_persist(
    result: RunResult | WorkflowSession, path: str | os.PathLike[str] | None = None
) -> WorkflowSession:
    """Write a session to a file, by default in `.windlass-runs/`; `session.run.persisted_path` is it.

    ```python
    persisted = await w.workflow_session_persist(result, ".windlass-runs/chat.json")
    restored = await w.workflow_session_restore(persisted.run.persisted_path)
    ```
    The file is readable by this user only.
    """
    session = result if isinstance(result, WorkflowSession) else workflow_session(result)
    name = session.id.replace("/", "_").replace("@", "_")
    place = Path(path) if path is not None else Path(FOLDER) / f"{name}.json"
    session = msgspec.structs.replace(
        session, run=RecordDict({**session.run, "persisted_path": str(place)})
    )
    content = msgspec.json.encode({"format": _FORMAT, "session": session})
    try:
        await asyncio.to_thread(write_private, place, content, linked_folders=True)
    except OSError as error:
        raise ConfigError(f"{place} cannot be written: {error.strerror or error}") from None
    return session


async def workflow_session_restore(
    path: str | os.PathLike[str], *, store: Address | None = None, caller: Caller | None = None
) -> WorkflowSession:
    """Read a session from a file; a store that does not know it is given its conversation."""
    session = await asyncio.to_thread(_read_file, Path(path))
    scope = SessionScope.current(store, caller)
    try:
        known = await agent_session_read(session.id, store=store, caller=caller)
        return msgspec.structs.replace(session, transcript=known.transcript)
    except NoSuchSession:
        pass
    messages = read_transcript(session.transcript)[0]
    await check_session_id(scope.environment, scope.home, session.id)
    key = await place_session(scope.home, session.id, caller, scope.environment)
    metadata = owner_metadata(caller, {"restored_from": Path(path).name})
    journal = await scope.home.open(key, metadata=metadata)
    try:
        journal.append(scope.environment.redact(Reshaped(0, 0, tuple(messages), "seed")))
        if session.is_archived:
            journal.append(Noted(ARCHIVED, {"session": session.id}))
    finally:
        await journal.close()
    return session


def _read_file(path: Path) -> WorkflowSession:
    try:
        content: Any = msgspec.json.decode(read_regular(path, LARGEST_EXPORT))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no session of a workflow: {error}") from None
    if not is_object(content) or content.get("format") != _FORMAT:
        raise ConfigError(f"{path} is no session of a workflow in format {_FORMAT}")
    try:
        return msgspec.convert(content.get("session"), WorkflowSession, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} is no session of a workflow: {error}") from None


def _decode(kind: type, value: object) -> object:
    if kind is RecordDict and is_object(value):
        return RecordDict(value)
    raise NotImplementedError


async def _note(
    session: WorkflowSession,
    name: str,
    status: str,
    store: Address | None,
    caller: Caller | None,
) -> WorkflowSession:
    """Record a change of the session in its journal."""
    scope = SessionScope.current(store, caller)
    key = await scope.find(session.id, "edit")
    journal = await scope.home.open(key, create=False)
    try:
        journal.append(Noted(name, {"session": session.id}))
    finally:
        await journal.close()
    known = await agent_session_read(session.id, store=store, caller=caller)
    return msgspec.structs.replace(session, status=status, transcript=known.transcript)


def _check(session: object, door: str) -> WorkflowSession:
    if isinstance(session, RunResult):
        return workflow_session(session)
    if not isinstance(session, WorkflowSession):
        raise ConfigError(f"{door} takes what workflow_session returns, not {safe_repr(session)}")
    return session
