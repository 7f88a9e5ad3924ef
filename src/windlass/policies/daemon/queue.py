"""The state of a daemon as its journal says it: whether it is idle, and which events it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.events import (
    IterationEnd,
    IterationStart,
    JournalEntry,
    Noted,
    RunEnded,
    RunStarted,
    Said,
)
from windlass.json_types import JsonObject, as_list, as_object, is_object
from windlass.store.daemon_events import (
    CAPACITY,
    IDLE,
    STARTED,
    WAKE,
    QueueNote,
    find_queue_note,
)

IDLE_TURN: Final = "daemon_idle"  # the verdict on a turn after which a daemon becomes idle
_HANDLED: Final = ("done", "idle", "watchdog")  # how a run ends that has done its work
DAEMON: Final = "daemon"  # in a run's metadata: what the daemon was started with


class QueuedEvent(msgspec.Struct, frozen=True):
    """An event with its number; `repeat`: the model was shown it before, and was interrupted."""

    number: int
    event: JsonObject
    repeat: bool = False


class DaemonState:
    """The state of a daemon, read from the entries of its session in one pass."""

    def __init__(self) -> None:
        self.place = 0
        self.last = 0  # the highest number that was taken out of the inbox
        self.in_flight: QueuedEvent | None = None
        # taken out of the inbox and not done: these go before all that wait there
        self.front: list[QueuedEvent] = []
        self.capacity = CAPACITY
        self.is_due = False  # to become idle, or idle: nothing is left to do
        self.idle: JsonObject | None = None  # the note, while it is idle
        self.heard = False  # a message came meanwhile
        self.turns = 0  # since it woke up, or since its run began
        self.is_started = False  # the note of this run is there
        self.is_imported = False  # its run began from a snapshot
        self.definition: JsonObject | None = None

    @property
    def is_interrupted(self) -> bool:
        """Whether the conversation of a snapshot ends in the middle of the first event."""
        return self.is_imported and bool(self.front) and self.front[0].repeat

    @property
    def held(self) -> int:
        """How many events are out of the inbox and not done."""
        return len(self.front) + (self.in_flight is not None)

    def to_note(self) -> QueueNote:
        """Return the state of the queue as a note of the journal says it."""
        return QueueNote(self.last, self.held, self.capacity)

    def read(self, entries: Sequence[JournalEntry]) -> None:
        """Read the entries that are new since the last time."""
        for place in range(self.place, len(entries)):
            self._apply(entries[place])
        self.place = len(entries)

    def _apply(self, entry: JournalEntry) -> None:
        match entry:
            case RunStarted():
                self._begin(entry)
            case RunEnded(status=status) if status in _HANDLED:
                self.in_flight = None
            case Said(message=message):
                self.heard = message.role != "assistant"
            case IterationStart():
                self.is_due, self.idle, self.heard = False, None, False
                self.turns += 1
            case IterationEnd(reason=reason) if reason == IDLE_TURN:
                self.is_due, self.heard = True, False
            case Noted(data=dict()):
                self._apply_note(entry)
            case _:
                pass

    def _begin(self, entry: RunStarted) -> None:
        """Read the start of a run: what the one before left undone goes to the front."""
        if self.in_flight is not None:
            self.front.insert(0, msgspec.structs.replace(self.in_flight, repeat=True))
        self.in_flight, self.idle, self.is_started = None, None, False
        self.is_due, self.heard = True, False  # without a prompt there is nothing to do
        self.turns = 0
        found: object = (entry.metadata or {}).get(DAEMON)
        if not is_object(found):
            return
        self.definition = {name: value for name, value in found.items() if name != "imported"}
        imported: object = found.get("imported")
        self.is_imported = is_object(imported)
        if is_object(imported):
            self.front += msgspec.convert(as_list(imported.get("events")), list[QueuedEvent])
            self.last = max(self.last, int(imported.get("last") or 0))

    def _apply_note(self, entry: Noted) -> None:
        data, queue = as_object(entry.data), find_queue_note(entry)
        if queue is None:
            return
        self.capacity = queue.capacity
        if entry.name == STARTED:
            self.is_started = True
        elif entry.name == IDLE:
            self.idle, self.in_flight = data, None
        elif entry.name == WAKE:
            self.idle, self.is_due, self.turns = None, False, 0
            if data.get("number") is not None:
                taken = QueuedEvent(data["number"], data["event"])
                self.in_flight, self.last = taken, max(self.last, taken.number)
                self.front = [one for one in self.front if one.number != taken.number]


def read_state(entries: Sequence[JournalEntry]) -> DaemonState:
    """Read the state of a daemon from the journal of its session."""
    state = DaemonState()
    state.read(entries)
    return state
