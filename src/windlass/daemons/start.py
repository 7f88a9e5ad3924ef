"""Daemons that run in the background of this process: start a new one, or go on with one."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import msgspec

from windlass import seams
from windlass.agents.agent_loop import PreparedLoop, prepare_loop
from windlass.agents.daemon_start import start_daemon
from windlass.daemons.handle import PREFIX, DaemonHandle, RunningDaemon, find_daemon
from windlass.engine.environment import Environment
from windlass.engine.ownership import SessionScope, find_session
from windlass.engine.results import LoopResult
from windlass.engine.run_options import RunOptions
from windlass.errors import ConfigError, NoSuchSession
from windlass.json_types import JsonObject, as_list, as_object, is_object, is_sequence
from windlass.loop.resume import standing
from windlass.messages import Message, Text
from windlass.options.checks import identifier, text
from windlass.options.index import OF_A_RUN
from windlass.options.parse import merge_options
from windlass.policies.daemon.options import check_path
from windlass.policies.daemon.policy import Daemon
from windlass.policies.daemon.queue import read_state
from windlass.policies.daemon.snapshot import SnapshotFile, read_snapshot
from windlass.store.daemon_events import CAPACITY

if TYPE_CHECKING:
    from windlass.engine.keywords import LoopKeywords

log = logging.getLogger("windlass.loop")

_SPAWN: Final = "daemon_spawn"
_RESUME: Final = "daemon_resume"
_PER_RUN: Final = ("messages", "transcript", "resume_path")
_SECRET: Final = ("api_key", "headers")


async def daemon_spawn(
    config: Mapping[str, Any] | None = None,
    /,
    *,
    task: str | None = None,
    system: str | None = None,
    **more: Unpack[LoopKeywords],
) -> DaemonHandle:
    """Start a daemon in the background and return its handle.

    ```python
    daemon = await w.daemon_spawn(name="reviewer", task="Summarise each change.", model=model,
                                  persist_path=".windlass/daemons/reviewer")
    await w.daemon_trigger(daemon, {"kind": "file_changed", "path": "src/lib.rs"})
    ```
    Takes all options of `agent_loop`, also as a dict. Between events it is idle. Up to
    `event_queue_capacity` events (1,024) wait in the store. Without a `task` it begins idle.
    """
    typed = merge_options(config, cast("Mapping[str, Any]", more), _SPAWN)
    task = typed.pop("task", None) if task is None else task
    system = typed.pop("system", None) if system is None else system
    for name in _PER_RUN:
        if typed.get(name) is not None:
            raise ConfigError(f"{_SPAWN} takes no {name}: it begins with its task")
    if task is not None and not text("task", task).strip():
        raise ConfigError("task is a text that is not blank")
    name = typed.get("name")
    name = seams.new_id("daemon") if name is None else identifier("name", name)
    typed["name"] = name
    session_id = str(typed.setdefault("session_id", f"{PREFIX}{name}"))
    prepared = _prepare(typed, system, _SPAWN)
    definition = _define(prepared.request.environment, typed, task=task, system=system)
    await _check_free(prepared, name, session_id)
    messages = () if task is None else (Message("user", (Text(task),)),)
    return await _launch(prepared, name, session_id, definition, messages=messages)


async def daemon_resume(
    daemon: str | os.PathLike[str] | DaemonHandle,
    config: Mapping[str, Any] | None = None,
    /,
    **more: Unpack[LoopKeywords],
) -> DaemonHandle:
    """Go on with a daemon that was stopped, was killed or has ended: by its snapshot or name.

    ```python
    daemon = await w.daemon_resume(".windlass/daemons/reviewer")
    ```
    Its session goes on where it is in the store. Where the store does not have it, it begins with
    the conversation and the events of the snapshot. Options that are code (tools, callbacks, a
    model object) must be given again; others may be. An event that was interrupted comes first.
    """
    given = merge_options(config, cast("Mapping[str, Any]", more), _RESUME)
    source = await _find_source(daemon, given)
    definition = source.definition or {}
    session_id = RunOptions.read(given).session_id or source.session_id
    typed, system = _merge(definition, {**source.defaults, **given})
    name = str(typed.setdefault("name", session_id.removeprefix(PREFIX)))
    typed["session_id"] = session_id
    prepared = _prepare(typed, system, _RESUME)
    definition = {**definition, "name": name}
    return await _launch(prepared, name, session_id, definition, snapshot=source.snapshot)


class _Source(msgspec.Struct, frozen=True):
    """What a daemon goes on from: its session in the store, or a snapshot of it."""

    session_id: str
    definition: JsonObject | None
    defaults: JsonObject
    snapshot: SnapshotFile | None = None


async def _find_source(daemon: object, given: Mapping[str, Any]) -> _Source:
    """Find the daemon by its handle, its snapshot file or its name."""
    if isinstance(daemon, DaemonHandle):
        scope = daemon.scope
        found = await find_daemon(daemon)
        defaults = {"store": scope.home, "caller": scope.caller}
        definition = read_state(await found.read()).definition
        return _Source(found.session_id, definition, defaults)
    path = check_path("the path of a daemon", daemon)
    if await asyncio.to_thread(os.path.isfile, path):
        snapshot = await asyncio.to_thread(read_snapshot, path)
        defaults = {"persist_path": path}
        return _Source(snapshot.session_id, snapshot.definition, defaults, snapshot)
    try:
        run = RunOptions.read(given)
        found = await find_daemon(path, run.store, run.caller)
    except NoSuchSession:
        raise ConfigError(f"no snapshot and no daemon of this name: {path!r}") from None
    return _Source(found.session_id, read_state(await found.read()).definition, {})


def _merge(definition: JsonObject, given: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Merge the options of the definition with those given now; raise for code that is missing."""
    typed = {**as_object(definition.get("options")), **given}
    missing = [name for name in as_list(definition.get("needs")) if name not in typed]
    if missing:
        names = ", ".join([str(name) for name in missing])
        raise ConfigError(f"a snapshot holds no code and no secrets: give {names} again")
    system = typed.pop("system", None) or definition.get("system")
    return typed, system


def _prepare(typed: dict[str, Any], system: str | None, door: str) -> PreparedLoop:
    """Check the options of a daemon and build its plan."""
    if typed.get("daemon") is False:
        raise ConfigError(f"{door} starts daemons: leave daemon=False out")
    typed["daemon"] = True
    typed.setdefault("event_queue_capacity", CAPACITY)
    typed.setdefault("on_cancel", "park")
    options = dict(typed)
    if system is not None:
        options["system"] = system
    return prepare_loop(options, door)


def _define(environment: Environment, typed: Mapping[str, Any], **words: str | None) -> JsonObject:
    """Describe what a daemon was started with: plain options, and the names of all others."""
    options: JsonObject = {}
    needs: list[str] = []
    for name, value in typed.items():
        if name in OF_A_RUN or name == "daemon":
            continue
        plain: object = str(value) if isinstance(value, PurePath) else value
        if name in _SECRET or not _is_plain(plain) or environment.redact(plain) != plain:
            needs.append(name)
        else:
            options[name] = plain
    return {"name": typed["name"], **environment.redact(words), "options": options, "needs": needs}


def _is_plain(value: object) -> bool:
    """Check whether a value is data that a file can hold."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    if is_object(value):
        return all([_is_plain(one) for one in value.values()])
    return is_sequence(value) and all([_is_plain(one) for one in value])


async def _check_free(prepared: PreparedLoop, name: str, session_id: str) -> None:
    """Refuse to start a daemon whose session waits to be resumed."""
    request = prepared.request
    home = request.check_store()
    try:
        key = await find_session(home, session_id, request.caller, request.environment, "resume")
        unfinished = standing(await home.read(key)).unfinished
    except NoSuchSession:
        return
    if unfinished:
        raise ConfigError(
            f"there is a daemon {name!r} that has not ended: daemon_resume({name!r}) goes on with it"
        )


async def _launch(
    prepared: PreparedLoop,
    name: str,
    session_id: str,
    definition: JsonObject,
    *,
    messages: Sequence[Message] = (),
    snapshot: SnapshotFile | None = None,
) -> DaemonHandle:
    """Start the run in the background; it takes events when this returns."""
    request = prepared.request
    begun = await start_daemon(
        request, session_id, messages, definition=definition, snapshot=snapshot
    )
    run = begun.run
    policy = next((one for one in run.plan.policies if isinstance(one, Daemon)), None)
    assert policy is not None
    try:
        await policy.start(run)
    except BaseException:
        await run.journal.close()
        raise
    task = asyncio.get_running_loop().create_task(prepared.drive(begun, LoopResult))
    running = RunningDaemon(run, task)
    environment = request.environment

    async def close() -> None:
        running.park()
        await asyncio.wait({task})

    def on_end(ended: asyncio.Task[LoopResult]) -> None:
        environment.closers.discard(close)
        if not ended.cancelled() and (error := ended.exception()) is not None:
            log.error("daemon %s failed: %s", name, error)

    environment.closers.add(close)
    task.add_done_callback(on_end)
    scope = SessionScope(environment, run.store, RunOptions.read(prepared.values).caller)
    handle = DaemonHandle(name, session_id, policy.options.persist_path, scope)
    handle.set_running(running)
    return handle
