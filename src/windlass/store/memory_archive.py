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

_KEPT: Final = frozenset({Replied, ReplyFailed, RunStarted, ToolIntended})
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
    has_arguments: bool = False
    """Whether a decision about a call holds its arguments."""

    def without_model_calls(self) -> ArchivedSession | None:
        """Return what the audit reads alone; None if no tool was called."""
        if ToolDecided not in map(type, self.tool_calls):
            return None
        kept = self
        if self.tool_calls is self.model_calls:
            kept = archive_entries(self.session_id, self.ended_at, self.tool_calls)
        calls = kept.tool_calls
        if kept.has_arguments:
            calls = [_without_arguments(entry) for entry in calls]
        return ArchivedSession(self.session_id, self.ended_at, (), calls)


def archive_entries(
    session_id: str, ended_at: float, entries: Sequence[JournalEntry]
) -> ArchivedSession:
    """Keep the calls of a session, without results that may be long.

    Done for every run in memory: in a hurry.
    """
    model_calls: list[JournalEntry] = []
    tool_calls: list[JournalEntry] = []
    has_arguments = False
    for entry in entries:
        kind = type(entry)
        if kind in _KEPT:
            if kind is not ToolIntended:
                model_calls.append(entry)
                if kind is not RunStarted:
                    continue
        elif type(entry) is ToolResulted:
            content = entry.result.content
            if type(content) is not str or len(content) > _SHORT:
                entry = msgspec.structs.replace(entry, result=_NO_RESULT)
        elif type(entry) is ToolDecided:
            if entry.arguments is not None:
                has_arguments = True
        else:
            continue
        tool_calls.append(entry)
    return ArchivedSession(session_id, ended_at, model_calls, tool_calls, has_arguments)


def _without_arguments(entry: JournalEntry) -> JournalEntry:
    if type(entry) is ToolDecided and entry.arguments is not None:
        return msgspec.structs.replace(entry, arguments=None)
    return entry
