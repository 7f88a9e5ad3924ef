"""Sessions by id: open, read, trim, fork and remove what a store keeps.

Each function works on the store of the current Runtime, or on the one given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.engine.open_questions import Discarder, write_without_conditions
from windlass.engine.ownership import (
    BEGIN_TRIES,
    SessionScope,
    as_seen_by,
    check_session_id,
    owner_metadata,
    owner_of,
    place_session,
    readable_sessions,
    wait_for_beginner,
)
from windlass.engine.transcript import Transcript, transcript_of
from windlass.errors import (
    ConfigError,
    Corrupt,
    NoSuchSession,
    SessionHeld,
    StoreError,
    WorkspaceChanged,
    safe_repr,
)
from windlass.events import (
    InboxTaken,
    IterationStart,
    JournalEntry,
    Reshaped,
    RunEnded,
    RunResumed,
    RunStarted,
    SessionReset,
    ToolIntended,
)
from windlass.events.policy import Reminder
from windlass.json_types import JsonObject, as_given
from windlass.loop.resume import standing as read_standing
from windlass.messages import Message
from windlass.options.group import read_options
from windlass.policies.scratchpad.inbox import standing
from windlass.policies.scratchpad.pad import as_data
from windlass.store.base import InboxKind, SessionInfo
from windlass.store.open import Address
from windlass.store.view import ViewFold, messages_of, whole
from windlass.toolbox.options import MountMode, WorkspaceOptions
from windlass.toolbox.session_workspace import ANCHOR, describe_workspace, find_workspace

_OF_CALLERS: Final = ("steer", "follow_up", "cancel", "suspend", "resume")


class Session(msgspec.Struct, frozen=True):
    """A stored session: its lineage, its view, and all its entries."""

    id: str
    parent_id: str | None
    child_ids: tuple[str, ...]
    root_id: str
    branch_at: int | None
    status: str | None
    metadata: JsonObject
    entries: Sequence[JournalEntry]
    scratchpad: JsonObject | None = None  # with edits that no run has taken yet
    scratchpad_version: int = 0

    @property
    def messages(self) -> list[Message]:
        """The messages that the next request carries."""
        return messages_of(self.entries)

    @property
    def workspace_anchor(self) -> str | None:
        """The folder that its runs work in: path checks, built-in tools and commands begin there."""
        found = find_workspace(self.entries)
        return None if found is None else found.anchor

    @property
    def mounts(self) -> Mapping[str, MountMode]:
        """Further folders that its runs may read (`read`), or change as well (`extend`)."""
        found = find_workspace(self.entries)
        return {} if found is None else found.mounts

    @property
    def transcript(self) -> Transcript:
        """The session as plain data."""
        return transcript_of(self.entries)

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.status or 'open'}, {len(self.entries)} entries>"


async def agent_session_open(
    id: str | None = None,
    *,
    metadata: JsonObject | None = None,
    parent_id: str | None = None,
    workspace: str | os.PathLike[str] | None = None,
    mounts: Mapping[str, MountMode] | None = None,
    store: Address | None = None,
    caller: Caller | None = None,
) -> Session:
    """Create a session if it does not exist, and return it.

    It belongs to `caller`; without one, to the host. Runs on it work in `workspace` and its `mounts`,
    unless their agent names a workspace; an agent that names another one is refused with
    `WorkspaceChanged`. Opening it again changes nothing.

    ```python
    session = await agent_session_open("review")
    await agent.run("hello", session_id=session.id)
    ```
    """
    scope = SessionScope.current(store, caller)
    environment, home = scope.environment, scope.home
    name = _check_id(id) if id is not None else seams.new_id("session")
    metadata = owner_metadata(caller, environment.redact(metadata))
    place = _check_workspace(workspace, mounts)
    if place:
        metadata = {**(metadata or {}), **place}
    for attempt in count():
        try:
            return _check_same(place, await _read(scope, await scope.find(name, "run")))
        except NoSuchSession:
            if attempt == BEGIN_TRIES:
                raise
        await check_session_id(environment, home, name)
        key = await place_session(home, name, caller, environment)
        above = parent_id
        if above is not None:
            above = await scope.find(above, "run")
        try:
            journal = await home.open(key, metadata=metadata, parent_id=above)
            await journal.close()
        except SessionHeld:  # it is being created just now: for this caller, or for another tenant
            await wait_for_beginner(attempt)
    raise AssertionError("unreachable")


def _check_workspace(
    workspace: str | os.PathLike[str] | None, mounts: Mapping[str, MountMode] | None
) -> JsonObject:
    """Return the workspace as metadata; `ConfigError` if it cannot be one."""
    if workspace is None and not mounts:
        return {}
    given = {"workspace": workspace, "mounts": mounts or {}}
    checks = read_options(WorkspaceOptions)
    checked = {name: checks[name].check(name, value) for name, value in given.items()}
    return describe_workspace(WorkspaceOptions(**checked))


def _check_same(place: JsonObject, session: Session) -> Session:
    """Return the session; `WorkspaceChanged` if it works in another folder than was asked for."""
    if place and session.workspace_anchor != place[ANCHOR]:
        known = session.workspace_anchor
        raise WorkspaceChanged(
            f"session {session.id!r} was begun "
            + (
                "without a workspace"
                if known is None
                else f"in the workspace {safe_repr(known, 500)}"
            )
            + f", not in {safe_repr(place[ANCHOR], 500)}"
        )
    return session


async def agent_session_read(
    id: str, *, store: Address | None = None, caller: Caller | None = None
) -> Session:
    """Read a stored session: `(await agent_session_read("review")).messages`.

    With `caller`, sessions that they did not begin and have no role for raise `NoSuchSession`.
    """
    scope = SessionScope.current(store, caller)
    return await _read(scope, await scope.find(id, "read"))


async def agent_session_list(
    *, store: Address | None = None, caller: Caller | None = None
) -> list[SessionInfo]:
    """List all sessions, latest first; with `caller`, those that they may read."""
    scope = SessionScope.current(store, caller)
    found = await readable_sessions(scope.home, caller, scope.environment)
    return [as_seen_by(info, caller) for info in found]


async def agent_session_reset(
    id: str, *, store: Address | None = None, caller: Caller | None = None
) -> None:
    """Remove all messages from the view; the id and the record stay.

    Calls that its last run and its sub-agents wait for are discarded.
    """
    scope = SessionScope.current(store, caller)
    journal = await scope.home.open(await scope.find(id, "edit"), create=False)
    try:
        await _discard_children(scope, journal.session_id)
        await write_without_conditions(journal, read_standing(journal.entries), [SessionReset()])
    finally:
        await journal.close()


async def agent_session_trim(
    id: str, keep_last: int, *, store: Address | None = None, caller: Caller | None = None
) -> int:
    """Keep the last `keep_last` messages in the view; return how many were kept.

    Fewer are kept if a result would be separated from its call, more if calls still wait for their
    results.
    """
    if keep_last < 0:
        raise ConfigError(f"keep_last is a number of messages, not {keep_last}")
    scope = SessionScope.current(store, caller)
    journal = await scope.home.open(await scope.find(id, "edit"), create=False)
    try:
        messages = messages_of(journal.entries)
        start = _cut(messages, keep_last)
        if start:
            journal.append(Reshaped(0, start, (), "trim"))
    finally:
        await journal.close()
    return len(messages) - start


async def agent_session_fork(
    id: str,
    new_id: str | None = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> Session:
    """Create a session with the same history, up to its last answered call.

    An open call is not copied, because it would run twice. The fork belongs to `caller`; a fork by
    the host belongs to whoever began the original.
    """
    scope = SessionScope.current(store, caller)
    key = await scope.find(id, "fork")
    entries = await scope.home.read(key)
    end, size = _last_whole(entries)
    return await _fork(scope, key, new_id, entries[:end], size)


async def agent_session_fork_at(
    id: str,
    n: int,
    new_id: str | None = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> Session:
    """Create a session with the first `n` messages, or fewer if the n-th calls tools.

    `branch_at` of the new session says how many were kept.
    """
    if n < 0:
        raise ConfigError(f"a session is forked after some messages, not after {n}")
    scope = SessionScope.current(store, caller)
    key = await scope.find(id, "fork")
    entries = await scope.home.read(key)
    size = whole(messages_of(entries), n)
    return await _fork(scope, key, new_id, _first(entries, size), size)


async def agent_session_remind(
    id: str,
    reminder: Reminder | str,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> None:
    """Add a reminder to a session: the model reads it from its next request on.

    ```python
    await agent_session_remind("review", system_reminder("The freeze begins at noon.", ttl=5))
    ```
    If no run is at work, the next run gets it.
    """
    entry = Reminder(reminder) if isinstance(reminder, str) else reminder
    if type(as_given(entry)) is not Reminder:
        raise ConfigError(f"a reminder is made by system_reminder(…), not {safe_repr(reminder)}")
    scope = SessionScope.current(store, caller)
    payload = scope.environment.redact(msgspec.to_builtins(entry))
    await scope.home.post(await scope.find(id, "mail"), "remind", payload)


async def agent_session_post(
    id: str,
    kind: InboxKind,
    payload: Any = None,
    *,
    store: Address | None = None,
    caller: Caller | None = None,
) -> str:
    """Post an item to the inbox of a session, in a caller's name; return its id.

    ```python
    await agent_session_post("review", "steer", "Be brief.", caller=ann)
    ```
    Kinds with a text: `steer`, `follow_up`, `cancel`, `suspend`, `resume`. For reminders use
    `agent_session_remind`, for decisions `approve` and `deny`; results come from the host.
    """
    if not is_host(caller):
        if kind not in _OF_CALLERS:
            raise ConfigError(
                f"a caller posts one of {', '.join(_OF_CALLERS)}, not {safe_repr(kind)}"
            )
        if payload is not None and not isinstance(payload, str):
            raise ConfigError(f"a caller posts a text, not {safe_repr(payload)}")
        if kind == "suspend":
            payload = {"reason": payload or "suspended"}
    scope = SessionScope.current(store, caller)
    key = await scope.find(id, "mail")
    return await scope.home.post(key, kind, scope.environment.redact(payload))


async def agent_session_close(
    id: str, *, store: Address | None = None, caller: Caller | None = None
) -> bool:
    """Remove a session and everything recorded of it; return False if there was none.

    Calls that sub-agents of its last run wait for are discarded.
    """
    scope = SessionScope.current(store, caller)
    try:
        key = await scope.find(id, "edit")
        await _discard_children(scope, key)
    except NoSuchSession:
        return False
    return await scope.home.delete(key)


# --------------------------------------------------------------------------- how


def _check_id(id: str) -> str:
    if not id or id != id.strip():
        raise ConfigError(f"a session's id is a name without blanks around it, not {id!r}")
    return id


async def _discard_children(scope: SessionScope, key: str) -> None:
    """Discard what the children of a session's last run wait for, where it can be read."""
    try:
        entries = await scope.home.read(key)
    except Corrupt:
        return
    discarder = Discarder(scope.home, scope.caller, owner_of(entries), scope.environment.redactor)
    await discarder.discard_tree_below(key, entries)


async def _read(scope: SessionScope, id: str) -> Session:
    home = scope.home
    info, entries = as_seen_by(await home.info(id), scope.caller), await home.read(id)
    state = standing(entries, await home.inbox(id))
    return Session(
        id=info.id,
        parent_id=info.parent_id,
        child_ids=info.child_ids,
        root_id=info.root_id or info.id,
        branch_at=info.branch_at,
        status=info.status,
        metadata=info.metadata,
        entries=entries,
        scratchpad=as_data(state.pad),
        scratchpad_version=state.version,
    )


def _cut(messages: Sequence[Message], keep_last: int) -> int:
    """Return where a view may begin so that about `keep_last` messages are left."""
    size = len(messages)
    start = max(0, size - keep_last)
    while start < size and messages[start].role == "tool":
        start += 1
    return min(start, whole(messages, size))


async def _fork(
    scope: SessionScope, id: str, new_id: str | None, entries: list[JournalEntry], size: int
) -> Session:
    environment, home, caller = scope
    name = _check_id(new_id) if new_id is not None else seams.new_id("session")
    await check_session_id(environment, home, name)
    if is_host(caller):
        await home.fork(id, name, _with_run_ended(entries), size)
        return await _read(scope, name)
    owner = owner_metadata(caller)
    key = await place_session(home, name, caller, environment)
    try:
        await home.fork(id, key, _with_run_ended(entries), size, owner)
    except StoreError:
        taken, key = key, await place_session(home, name, caller, environment)
        if key == taken:
            raise
        await home.fork(
            id, key, _with_run_ended(entries), size, owner
        )  # beside that of another tenant
    return await _read(scope, key)


def _with_run_ended(entries: list[JournalEntry]) -> list[JournalEntry]:
    """End the run in a copy: a run belongs to the session it began in."""
    run_id: str | None = None
    for entry in entries:
        if isinstance(entry, RunStarted | RunResumed):
            run_id = entry.run_id
        elif isinstance(entry, RunEnded):
            run_id = entry.run_id if entry.status == "suspended" else None
    if run_id is not None:
        entries = [*entries, RunEnded(run_id, "stopped", "fork")]
    return entries


def _last_whole(entries: Sequence[JournalEntry]) -> tuple[int, int]:
    """Count the entries and messages before calls that have no answer yet."""
    fold = ViewFold()
    end = size = 0
    for position, entry in enumerate(entries):
        fold.apply(entry)
        if not fold.open:
            end, size = position + 1, len(fold.messages)
    return end, size


def _first(entries: Sequence[JournalEntry], size: int) -> list[JournalEntry]:
    """Return the entries that lead to the first `size` messages of the current view."""
    target = messages_of(entries)[:size]
    fold = ViewFold()
    reached: int | None = None
    for position, entry in enumerate(entries):
        fold.apply(entry)
        if not fold.open and len(fold.messages) == size and fold.messages == target:
            reached = position + 1
            break
    if reached is None:  # the place lies inside what was reshaped since: cut today's view
        end, seen = _last_whole(entries)
        return [*entries[:end], Reshaped(size, seen, (), "fork")]
    while reached < len(entries) and not isinstance(entries[reached], _NEW_MOMENT):
        fold.apply(entries[reached])
        if fold.messages != target or fold.open:
            break
        reached += 1
    return list(entries[:reached])


_NEW_MOMENT = (RunStarted, RunResumed, IterationStart, InboxTaken, ToolIntended)
