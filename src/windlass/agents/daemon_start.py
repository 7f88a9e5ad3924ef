"""The start of a daemon: a new session, one that is in the store, or a snapshot of one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.engine import driver
from windlass.engine.driver import RunRequest, Start
from windlass.engine.ownership import find_session
from windlass.engine.resume import resume_run
from windlass.errors import NoSuchSession
from windlass.json_types import JsonObject
from windlass.loop.resume import standing
from windlass.messages import Message
from windlass.policies.daemon.queue import DAEMON
from windlass.policies.daemon.snapshot import SnapshotFile, read_snapshot


async def start_daemon(
    request: RunRequest,
    session_id: str,
    messages: Sequence[Message] = (),
    *,
    definition: JsonObject | None = None,
    snapshot: SnapshotFile | None = None,
) -> Start:
    """Start a daemon, or go on with it: where its journal ends, else where its snapshot does.

    A daemon that was stopped or killed goes on with what it was doing, and hears new messages when it
    is idle. One that has ended begins a new run on its session.
    """
    home = request.check_store()
    try:
        key = await find_session(
            home, session_id, request.caller, request.environment, action="resume"
        )
        state = standing(await home.read(key))
    except NoSuchSession:
        return await _start_new(request, session_id, messages, definition, snapshot)
    if not state.unfinished or state.reset:
        return await driver.start(_define(request, definition), messages, session_id)
    for message in messages:
        await home.post(key, "follow_up", request.environment.redact(message.text))
    return await resume_run(request, session_id)


async def resume_from_file(
    request: RunRequest, path: str, session_id: str | None, messages: Sequence[Message]
) -> Start:
    """Go on with the daemon of a snapshot file, in its session or in one of another name."""
    snapshot = read_snapshot(path)
    return await start_daemon(
        request,
        session_id or snapshot.session_id,
        messages,
        definition=snapshot.definition,
        snapshot=snapshot,
    )


async def _start_new(
    request: RunRequest,
    session_id: str,
    messages: Sequence[Message],
    definition: JsonObject | None,
    snapshot: SnapshotFile | None,
) -> Start:
    """Begin the session, with the conversation and the events of a snapshot if there is one."""
    if snapshot is not None:
        # Recorded with the start of the run: events of a snapshot are here whole, or not at all.
        events = [msgspec.to_builtins(one) for one in snapshot.events]
        imported = {"last": snapshot.last_number, "events": events}
        definition = {**(definition or {}), "imported": imported}
        messages = (*snapshot.messages, *messages)
    return await driver.start(_define(request, definition), messages, session_id)


def _define(request: RunRequest, definition: JsonObject | None) -> RunRequest:
    """Return the request with what the daemon is, for the record of its run."""
    if definition is None:
        return request
    plan = request.plan.of(request.plan.model)
    plan.metadata = {**(plan.metadata or {}), DAEMON: definition}
    return msgspec.structs.replace(request, plan=plan)
