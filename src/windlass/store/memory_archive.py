"""Entries that stay in memory after an unnamed session is dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from operator import attrgetter
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

_MODEL_CALLS: Final = frozenset({Replied, ReplyFailed, RunStarted})
_TOOL_CALLS: Final = frozenset({RunStarted, ToolDecided, ToolIntended, ToolResulted})
_DECISIONS: Final = frozenset({ToolDecided})
_RESULTS: Final = frozenset({ToolResulted})
_TEXT: Final = {str}
_get_arguments, _get_content = attrgetter("arguments"), attrgetter("result.content")
_NO_RESULT: Final = ToolResult()
_SHORT: Final = 200  # characters of a result that is not worth a copy without it


class ArchivedSession(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a session: its model calls, and its tool calls, each with the runs.

    Of a short session both are all of its entries: that is less than looking for what must stay.
    """

    session_id: str
    ended_at: float
    model_calls: Sequence[JournalEntry]
    tool_calls: Sequence[JournalEntry]

    def without_model_calls(self) -> ArchivedSession | None:
        """Return what the audit reads alone; None if no tool was called."""
        if ToolDecided not in map(type, self.tool_calls):
            return None
        kept = self
        if self.tool_calls is self.model_calls:
            kept = archive_entries(self.session_id, self.ended_at, self.tool_calls)
        calls = kept.tool_calls
        if any(map(_get_arguments, _select(calls, _DECISIONS))):
            calls = [_without_arguments(entry) for entry in calls]
        return ArchivedSession(self.session_id, self.ended_at, (), calls)


def archive_entries(
    session_id: str, ended_at: float, entries: Sequence[JournalEntry]
) -> ArchivedSession:
    """Keep the calls of a session, without results that may be long.

    Done for every run in memory, so it is written for speed.
    """
    model_calls = list(_select(entries, _MODEL_CALLS))
    tool_calls = list(_select(entries, _TOOL_CALLS))
    contents = list(map(_get_content, _select(tool_calls, _RESULTS)))
    if contents and (set(map(type, contents)) != _TEXT or max(map(len, contents)) > _SHORT):
        tool_calls = [_without_long_result(entry) for entry in tool_calls]
    return ArchivedSession(session_id, ended_at, model_calls, tool_calls)


def _select(entries: Sequence[JournalEntry], kinds: frozenset[type]) -> Iterator[JournalEntry]:
    return compress(entries, map(kinds.__contains__, map(type, entries)))


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
