"""The queue of a daemon: what a store checks in the transaction that stores an event.

An event waits in the inbox of its session until the daemon takes it. The notes of the daemon in the
journal say which number came last and how many events it holds, so one look at the latest of them is
enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from windlass.errors import DaemonQueueFull, DaemonStopped, NoSuchSession, StoreError
from windlass.events import JournalEntry, Noted, RunEnded, RunResumed, RunStarted
from windlass.json_types import JsonObject, is_object
from windlass.store.base import InboxItem

EVENT: Final = "event"  # the kind of such an item in an inbox
STARTED: Final = "daemon_started"
IDLE: Final = "agent_await_resumption"
WAKE: Final = "daemon_wake"
STOP: Final = "daemon_stopped"
NOTES: Final = frozenset({STARTED, IDLE, WAKE, STOP})
CAPACITY: Final = 1024


class NumberTaken(StoreError):
    """The number of an event that is not the next one, which is `expected`."""

    def __init__(self, expected: int) -> None:
        super().__init__(f"the next event has the number {expected}")
        self.expected = expected


class QueueNote(msgspec.Struct, frozen=True):
    """The state of a daemon's queue, as each of its notes in the journal says it."""

    last: int = 0
    """The highest number of an event that was taken out of the inbox."""
    held: int = 0
    """How many events are out of the inbox and not done."""
    capacity: int = CAPACITY


def find_queue_note(entry: JournalEntry) -> QueueNote | None:
    """Return the state of the queue in an entry, if it is a note of a daemon."""
    if type(entry) is not Noted or entry.name not in NOTES or not is_object(entry.data):
        return None
    queue: object = entry.data.get("queue")
    return msgspec.convert(queue, QueueNote) if is_object(queue) else None


def is_stop(entry: RunEnded) -> bool:
    """Check whether a daemon whose run ended so takes no more events until it is resumed."""
    return entry.status != "suspended" or entry.stop_reason == STOP


class EventCheck:
    """Check a new event, from the newest entry of the journal backwards.

    The daemon must not be stopped, the queue must not be full, and the number must be the next one.
    """

    def __init__(self, payload: JsonObject, inbox: Iterable[InboxItem]) -> None:
        self._number: object = payload.get("number")
        waiting = [item.fields.get("number") for item in inbox if item.kind == EVENT]
        self._waiting = [number for number in waiting if isinstance(number, int)]
        self._is_known = False  # whether the daemon runs
        self._ended: str | None = None  # why it takes no events

    def read(self, entries: Sequence[JournalEntry]) -> bool:
        """Look at these entries, the last first; True once nothing before them can matter."""
        for entry in reversed(entries):
            if type(entry) in (RunStarted, RunResumed):
                self._is_known = True
            elif type(entry) is RunEnded:
                if not self._is_known and is_stop(entry):
                    self._ended = f"the daemon has ended as {entry.status}: resume it first"
                self._is_known = True
            elif type(entry) is Noted and entry.name == STOP and not self._is_known:
                self._ended = "the daemon is stopped: resume it first"
            if (queue := find_queue_note(entry)) is not None:
                self._compare(queue)
                return True
        return False

    def finish(self) -> None:
        """Raise for a session without a note of a daemon."""
        raise NoSuchSession("this session is no daemon: start one with daemon_spawn")

    def _compare(self, queue: QueueNote) -> None:
        if self._ended is not None:
            raise DaemonStopped(self._ended)
        held = len(self._waiting) + queue.held
        if held >= queue.capacity:
            raise DaemonQueueFull(held, queue.capacity)
        expected = max([queue.last, *self._waiting]) + 1
        if self._number != expected:
            raise NumberTaken(expected)
