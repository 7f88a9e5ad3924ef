"""Snapshots of a daemon: an export of its session to a file, and how such a file is read.

The store is the truth. A snapshot holds the conversation, the events that are not done and what the
daemon was started with, so that it can go on where that store is not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from windlass import seams
from windlass.errors import ConfigError
from windlass.files import LARGEST_EXPORT, open_private, read_regular
from windlass.json_types import JsonObject
from windlass.loop.run import Run
from windlass.messages import Message, ToolResult
from windlass.policies.daemon.queue import DaemonState, QueuedEvent
from windlass.store.base import InboxItem
from windlass.store.daemon_events import CAPACITY, EVENT

KIND: Final = "windlass_daemon"
FORMAT: Final = 1


class SnapshotFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a snapshot file."""

    kind: str = KIND
    format: int = FORMAT
    session_id: str
    status: str
    saved_at: float
    last_number: int = 0
    capacity: int = CAPACITY
    events: tuple[QueuedEvent, ...] = ()
    """The events that are not done, in the order in which they will be delivered."""
    messages: tuple[Message, ...] = ()
    definition: JsonObject | None = None


def build_snapshot(run: Run, state: DaemonState, status: str) -> SnapshotFile:
    """Describe the daemon of a run as it is now."""
    events = list_events(state, run.inbox)
    return SnapshotFile(
        session_id=run.session_id,
        status=status,
        saved_at=seams.now(),
        last_number=max([state.last, *(one.number for one in events)]),
        capacity=state.capacity,
        events=tuple(events),
        messages=trim_open_calls(run.messages),
        definition=state.definition,
    )


def list_events(state: DaemonState, inbox: Sequence[InboxItem]) -> list[QueuedEvent]:
    """List the events that are not done: the one in flight, those in front, and the inbox."""
    first = [] if state.in_flight is None else [state.in_flight]
    shown = [msgspec.structs.replace(one, repeat=True) for one in first]
    waiting = [
        QueuedEvent(item.fields["number"], item.fields["event"])
        for item in inbox
        if item.kind == EVENT and item.fields["number"] > state.last
    ]
    return [*shown, *state.front, *waiting]


def trim_open_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation without a last reply whose calls have no results yet."""
    answered = {
        block.id
        for message in messages
        for block in message.content
        if isinstance(block, ToolResult)
    }
    for place, message in enumerate(messages):
        if any([call.id not in answered for call in message.tool_calls]):
            return tuple(messages[:place])
    return tuple(messages)


def write_snapshot(path: str, snapshot: SnapshotFile) -> None:
    """Write a snapshot in one step: whoever reads the file finds a whole one."""
    data = msgspec.json.format(msgspec.json.encode(snapshot))
    partial = f"{path}.{os.getpid()}.part"
    handle = open_private(partial, make_folders=True, linked_folders=True)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def read_snapshot(path: str) -> SnapshotFile:
    """Read a snapshot file, or raise `ConfigError`."""
    try:
        found = msgspec.json.decode(read_regular(path, LARGEST_EXPORT), type=SnapshotFile)
    except OSError as error:
        raise ConfigError(f"no snapshot of a daemon in {path!r}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path!r} is no snapshot of a daemon: {error}") from error
    if found.kind != KIND:
        raise ConfigError(f"{path!r} is no snapshot of a daemon: its kind is {found.kind!r}")
    if found.format > FORMAT:
        raise ConfigError(f"{path!r} is a snapshot of a newer version of Windlass")
    return found
