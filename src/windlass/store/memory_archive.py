"""Entries that stay in memory after an unnamed session is dropped."""

from __future__ import annotations

from collections.abc import Sequence
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
