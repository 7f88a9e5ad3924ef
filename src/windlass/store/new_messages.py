"""The messages that a run adds to its session: replies, results, and messages to it.

The input of `run` is not among them. Messages that compaction removes from the view still count.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.events import (
    Framed,
    IterationEnd,
    JournalEntry,
    Reshaped,
    RunStarted,
    Said,
    SessionReset,
)
from windlass.messages import Message
from windlass.store.view import ViewFold


class NewMessages:
    """A fold over a run's entries: `new.apply(entry)` returns the messages that it adds."""

    __slots__ = ("_fold", "_given")

    def __init__(self) -> None:
        self._fold = ViewFold()
        self._given = False  # these messages are the input of the run

    def apply(self, entry: JournalEntry) -> list[Message]:
        """Return the messages that this entry adds, in order."""
        kind = type(entry)
        if kind is RunStarted:
            self._given = True
            return []
        if self._given:
            if kind is Said or kind is Framed:
                return []
            self._given = False
        if kind is Reshaped or kind is SessionReset:
            return []
        before, size = self._fold.messages, len(self._fold.messages)
        self._fold.apply(entry)
        if kind is IterationEnd and self._fold.messages is not before:
            size -= 1  # a reply was dropped, and the messages held for it are added
        return self._fold.messages[size:]

    @property
    def messages(self) -> list[Message]:
        """All of them so far."""
        return self._fold.messages


def new_messages(entries: Iterable[JournalEntry]) -> list[Message]:
    """Return the new messages of a run with these entries."""
    new = NewMessages()
    for entry in entries:
        new.apply(entry)
    return new.messages
