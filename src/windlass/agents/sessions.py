"""Sessions by name: open, read, cut, fork and remove what a store keeps.

Each function works on the store of the current Runtime, or on the one given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from windlass import seams
from windlass.agents.transcripts import Transcript, transcript_of
from windlass.errors import ConfigError, Locked, NoSuchSession, shown
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
from windlass.messages import Message
from windlass.notes import Reminder
from windlass.policies.scratchpad.edits import standing
from windlass.policies.scratchpad.pad import as_data
from windlass.store.base import Journal, SessionInfo, Store
from windlass.store.fold import ViewFold, messages_of, whole


class Session(msgspec.Struct, frozen=True):
    """A session as it stands: its place in the family, its view, and all its entries."""

    id: str
    parent_id: str | None
    child_ids: tuple[str, ...]
    root_id: str
    branch_at: int | None
    status: str | None
    metadata: dict[str, Any]
    entries: Sequence[JournalEntry]
    scratchpad: dict[str, Any] | None = None  # with edits that no run has taken yet
    scratchpad_version: int = 0

    @property
    def messages(self) -> list[Message]:
        """What the next request carries."""
        return messages_of(self.entries)

    @property
    def transcript(self) -> Transcript:
        """The session as plain data."""
        return transcript_of(self.entries)

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.status or 'open'}, {len(self.entries)} entries>"


async def agent_session_open(
    id: str | None = None,
    *,
    metadata: dict[str, Any] | None = None,
    parent_id: str | None = None,
    store: Store | None = None,
) -> Session:
    """Make the session if it is not there yet; opening it again changes nothing.

    ```python
    session = await agent_session_open("review")
    await agent.run("hello", session_id=session.id)
    ```
    """
    home = _home(store)
    name = _named(id) if id is not None else seams.new_id("session")
    try:
        return await _read(home, name)
    except NoSuchSession:
        pass
    try:
        journal = await home.open(name, metadata=metadata, parent_id=parent_id)
        await journal.close()
    except Locked:
        pass  # somebody here was faster: it is there now
    return await _read(home, name)


async def agent_session_read(id: str, *, store: Store | None = None) -> Session:
    """The session as it stands on disk: `(await agent_session_read("review")).messages`."""
    return await _read(_home(store), id)


async def agent_session_list(*, store: Store | None = None) -> list[SessionInfo]:
    """All sessions, the latest first."""
    return await _home(store).sessions()


async def agent_session_reset(id: str, *, store: Store | None = None) -> None:
    """Everything said so far leaves the view; the id and the record stay."""
    await _append(_home(store), id, SessionReset())


async def agent_session_trim(id: str, keep_last: int, *, store: Store | None = None) -> int:
    """Keep the last `keep_last` messages in the view; how many were kept.

    Fewer are kept where the cut would leave a result without its call, and more where it would
    take away calls that still wait for their results.
    """
    if keep_last < 0:
        raise ConfigError(f"keep_last is a number of messages, not {keep_last}")
    home = _home(store)
    journal = await home.open(id, create=False)
    try:
        messages = messages_of(journal.entries)
        start = _cut(messages, keep_last)
        if start:
            journal.append(Reshaped(0, start, (), "trim"))
    finally:
        await journal.close()
    return len(messages) - start


async def agent_session_fork(
    id: str, new_id: str | None = None, *, store: Store | None = None
) -> Session:
    """A new session with the same history, up to its last answered call.

    What the original is still doing stays its own: an open call is not copied, for it would run twice.
    """
    home = _home(store)
    entries = await home.read(id)
    end, size = _last_whole(entries)
    return await _fork(home, id, new_id, entries[:end], size)


async def agent_session_fork_at(
    id: str, n: int, new_id: str | None = None, *, store: Store | None = None
) -> Session:
    """A new session with the first `n` messages, or fewer where the n-th asks for tools.

    `branch_at` says how many were kept.
    """
    if n < 0:
        raise ConfigError(f"a session is forked after some messages, not after {n}")
    home = _home(store)
    entries = await home.read(id)
    size = whole(messages_of(entries), n)
    return await _fork(home, id, new_id, _first(entries, size), size)


async def agent_session_remind(
    id: str, reminder: Reminder | str, *, store: Store | None = None
) -> None:
    """Remind the model that works on the session, or will: from its next request on.

    ```python
    await agent_session_remind("review", system_reminder("The freeze begins at noon.", ttl=5))
    ```
    A session whose run has ended keeps it for the next one.
    """
    words = Reminder(reminder) if isinstance(reminder, str) else reminder
    if type(cast("object", words)) is not Reminder:
        raise ConfigError(f"a reminder is made by system_reminder(…), not {shown(reminder)}")
    await _home(store).post(id, "remind", msgspec.to_builtins(words))


async def agent_session_close(id: str, *, store: Store | None = None) -> bool:
    """Remove the session and everything recorded of it; False when there was none."""
    return await _home(store).delete(id)


# --------------------------------------------------------------------------- how


def _home(store: Store | None) -> Store:
    if store is not None:
        return store
    from windlass.agents.runtime import current_store  # runs need sessions too: no circle at import

    return current_store()


def _named(id: str) -> str:
    if not id or id != id.strip():
        raise ConfigError(f"a session's id is a name without blanks around it, not {id!r}")
    return id


async def _read(home: Store, id: str) -> Session:
    info, entries = await home.info(id), await home.read(id)
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


async def _append(home: Store, id: str, entry: JournalEntry) -> None:
    journal: Journal = await home.open(id, create=False)
    try:
        journal.append(entry)
    finally:
        await journal.close()


def _cut(messages: Sequence[Message], keep_last: int) -> int:
    """Where a view may begin so that about `keep_last` messages are left."""
    size = len(messages)
    start = max(0, size - keep_last)
    while start < size and messages[start].role == "tool":
        start += 1
    return min(start, whole(messages, size))


async def _fork(
    home: Store, id: str, new_id: str | None, entries: list[JournalEntry], size: int
) -> Session:
    name = _named(new_id) if new_id is not None else seams.new_id("session")
    await home.fork(id, name, _ended(entries), size)
    return await _read(home, name)


def _ended(entries: list[JournalEntry]) -> list[JournalEntry]:
    """A run belongs to the session it began in: in a copy it is over."""
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
    """How many entries and messages there are before calls that have no answer yet."""
    fold = ViewFold()
    end = size = 0
    for position, entry in enumerate(entries):
        fold.apply(entry)
        if not fold.open:
            end, size = position + 1, len(fold.messages)
    return end, size


def _first(entries: Sequence[JournalEntry], size: int) -> list[JournalEntry]:
    """The entries that lead to the first `size` messages of today's view."""
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
