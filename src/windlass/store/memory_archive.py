"""Entries that stay in memory after an unnamed session is dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

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

_TOOL_CALLS: Final = frozenset({RunStarted, ToolDecided, ToolIntended, ToolResulted})
_CALLS: Final = _TOOL_CALLS | {Replied, ReplyFailed}
_NO_RESULT: Final = ToolResult()
_SHORT: Final = 200  # characters of a result that is not worth a copy without it
MOST_SESSIONS: Final = 128  # of the latest, with their model calls
MOST_ENTRIES: Final = 4096  # of those
MOST_AUDITED: Final = 8192  # entries of the sessions before them, with decisions for the audit


class ArchivedSession(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a session: its model calls and its tool calls, each with the runs.

    Of a short session it is all of its entries: that is less than looking for what must stay.
    """

    session_id: str
    ended_at: float
    calls: Sequence[JournalEntry]
    is_whole: bool = False  # they are all of its entries

    def without_model_calls(self) -> ArchivedSession | None:
        """Return what the audit reads alone; None if no tool was called."""
        calls = [entry for entry in self.calls if type(entry) in _TOOL_CALLS]
        arguments = [entry.arguments for entry in calls if type(entry) is ToolDecided]
        if not arguments:
            return None
        if any(arguments):
            calls = [_without_arguments(entry) for entry in calls]
        if self.is_whole:
            calls = _without_long_results(calls)
        return ArchivedSession(self.session_id, self.ended_at, calls)


class Archive:
    """Dropped sessions: the latest with all their calls, those before with what the audit reads.

    The limits are in entries. What is kept leaves the caches of the processor: with 4,096 sessions
    every run took up to a seventh longer.
    """

    def __init__(self) -> None:
        self.latest: deque[ArchivedSession] = deque()
        self.audited: deque[ArchivedSession] = deque()
        self._entries = self._audited_entries = 0

    def __iter__(self) -> Iterator[ArchivedSession]:
        yield from self.audited
        yield from self.latest

    def __len__(self) -> int:
        return len(self.audited) + len(self.latest)

    def add(self, session: ArchivedSession) -> None:
        """Add the latest session; older ones lose their model calls, or are dropped."""
        latest, size = self.latest, len(session.calls)
        self._entries += size
        while latest and (self._entries > MOST_ENTRIES or len(latest) >= MOST_SESSIONS):
            self._retire(latest.popleft())
        latest.append(session)

    def _retire(self, oldest: ArchivedSession) -> None:
        self._entries -= len(oldest.calls)
        kept = oldest.without_model_calls()
        if kept is None:
            return
        self._audited_entries += len(kept.calls)
        self.audited.append(kept)
        while self._audited_entries > MOST_AUDITED and len(self.audited) > 1:
            self._audited_entries -= len(self.audited.popleft().calls)

    def remove(self, session_id: str) -> None:
        """Remove a session: it is in the store again, with its calls."""
        self.latest = deque([one for one in self.latest if one.session_id != session_id])
        self.audited = deque([one for one in self.audited if one.session_id != session_id])
        self._entries = sum([len(one.calls) for one in self.latest])
        self._audited_entries = sum([len(one.calls) for one in self.audited])


def archive_entries(
    session_id: str, ended_at: float, entries: Sequence[JournalEntry]
) -> ArchivedSession:
    """Keep the calls of a session, without results that may be long.

    Done for every run in memory, so it is written for speed: comprehensions that compare types take
    half the time of `compress` and `map`.
    """
    calls = [entry for entry in entries if type(entry) in _CALLS]
    return ArchivedSession(session_id, ended_at, _without_long_results(calls))


def _without_long_results(calls: list[JournalEntry]) -> list[JournalEntry]:
    results = [entry.result.content for entry in calls if type(entry) is ToolResulted]
    for content in results:
        if type(content) is not str or len(content) > _SHORT:
            return [_without_long_result(entry) for entry in calls]
    return calls


def _without_long_result(entry: JournalEntry) -> JournalEntry:
    if type(entry) is ToolResulted:
        content = entry.result.content
        if type(content) is not str or len(content) > _SHORT:
            return msgspec.structs.replace(entry, result=_NO_RESULT)
    return entry


def _without_arguments(entry: JournalEntry) -> JournalEntry:
    if type(entry) is ToolDecided and entry.arguments is not None:
        return msgspec.structs.replace(entry, arguments=None)
    return entry
