"""Entries that stay in memory after an unnamed session is dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from windlass.events import (
    JournalEntry,
    Replied,
    ReplyFailed,
    RunStarted,
    ToolDecided,
    ToolIntended,
    ToolResulted,
)
from windlass.messages import ToolResult

_CALLS: Final = frozenset(
    {Replied, ReplyFailed, RunStarted, ToolDecided, ToolIntended, ToolResulted}
)
_NO_RESULT: Final = ToolResult()
_SHORT: Final = 200  # characters of a result that is not worth a copy without it
# Four times as many fall out of the caches of a processor: a run of 100 turns gets 5 % slower.
MOST_ENTRIES: Final = 2048


class ArchivedSession(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a session: its model calls and its tool calls, each with the runs."""

    session_id: str
    ended_at: float
    calls: Sequence[JournalEntry]


class Archive:
    """Dropped sessions, the latest last; as many as the limit of entries allows.

    A session that reaches the limit alone stays until the next one comes. The limit is low: what is
    kept leaves the caches of the processor, and with 8,192 entries every turn took a twentieth longer.
    """

    def __init__(self) -> None:
        self._sessions: deque[ArchivedSession] = deque()
        self._entries = 0

    def __iter__(self) -> Iterator[ArchivedSession]:
        return iter(self._sessions)

    def __len__(self) -> int:
        return len(self._sessions)

    def add(self, session_id: str, ended_at: float, entries: Sequence[JournalEntry]) -> None:
        """Add the calls of the latest session, without long results; the oldest sessions are dropped.

        Done for every run in memory, so it is written for speed: a comprehension that compares types
        takes half the time of a loop.
        """
        content: object
        calls: list[JournalEntry] = [
            entry
            if kind is not ToolResulted
            or (type(content := entry.result.content) is str and len(content) <= _SHORT)
            else msgspec.structs.replace(entry, result=_NO_RESULT)
            for entry in cast("Sequence[Any]", entries)
            if (kind := type(entry)) in _CALLS  # pyright: ignore[reportUnknownVariableType]
        ]
        sessions, size = self._sessions, self._entries + len(calls)
        while size > MOST_ENTRIES and sessions:
            size -= len(sessions.popleft().calls)
        sessions.append(ArchivedSession(session_id, ended_at, calls))
        self._entries = size

    def remove(self, session_id: str) -> None:
        """Remove a session: it is in the store again, with its calls."""
        self._sessions = deque([one for one in self._sessions if one.session_id != session_id])
        self._entries = sum([len(one.calls) for one in self._sessions])
