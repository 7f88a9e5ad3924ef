"""Effects of a session, read from its journal, the newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from windlass.events import (
    InboxTaken,
    JournalEntry,
    Replied,
    RunStarted,
    ToolDecided,
    ToolIntended,
    ToolResulted,
    UndoBegun,
    UndoEnded,
)
from windlass.identifiers import child_session_id
from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.tools.middleware.agent import delegates
from windlass.tools.tool import Tool


class UndoStep(msgspec.Struct, frozen=True):
    """One effect of a session: what its undo does, or `why` there is none, and the `outcome`."""

    call_id: str
    tool: str
    arguments: JsonObject
    effect: str  # transactional, keyed, plain; host: the host runs the tool
    result: ToolResult | None = None
    what: str | None = None
    why: str | None = None
    outcome: str | None = None  # ok, conflict, denied, error; None: not tried
    detail: str | None = None
    undone_by: str | None = None


class _Call:
    def __init__(self, arguments: JsonObject) -> None:
        self.arguments = arguments
        self.run = ""
        self.allowed = self.hosted = False
        self.tool = ""
        self.effect: str | None = None
        self.result: ToolResult | None = None
        self.begun: UndoBegun | None = None
        self.ended: UndoEnded | None = None
        self.order = 0


class Elsewhere(msgspec.Struct, frozen=True):
    """The effects of the session that this one was forked from: they are undone there."""

    session_id: str
    calls: frozenset[tuple[str, str]] = frozenset()  # run, call


def calls_of(entries: Sequence[JournalEntry]) -> dict[str, _Call]:
    """Return the recorded calls, by id."""
    calls: dict[str, _Call] = {}
    run = ""
    for at, entry in enumerate(entries):
        if type(entry) is RunStarted:
            run = entry.run_id
        _take(calls, entry, at, run)
    return calls


def elsewhere(session_id: str, entries: Sequence[JournalEntry]) -> Elsewhere:
    """Collect a session's calls, for a session that was forked from it."""
    calls = calls_of(entries).items()
    return Elsewhere(session_id, frozenset((call.run, call_id) for call_id, call in calls))


def effects_of(
    session_id: str,
    entries: Sequence[JournalEntry],
    tools: Mapping[str, Tool],
    parent: Elsewhere | None = None,
) -> list[UndoStep]:
    """List every recorded effect, with why it cannot be undone where that is known."""
    calls = calls_of(entries)
    made: list[tuple[int, UndoStep]] = []
    for call_id, call in calls.items():
        if not call.allowed or call.effect == "read_only":
            continue
        tool = tools.get(call.tool)
        if call.effect is None and (not call.hosted or _reads(tool)):
            continue  # it has not begun, or failed before it committed anything
        ended = call.ended
        step = UndoStep(
            call_id,
            call.tool,
            call.arguments,
            call.effect or "host",
            call.result,
            why=_why(child_session_id(session_id, call_id), call, tool),
            outcome=None if ended is None else ended.outcome,
            detail=None if ended is None else ended.detail,
            undone_by=ended.by if ended is not None and ended.outcome == "ok" else None,
        )
        if parent is not None and (call.run, call_id) in parent.calls:
            why = f"it was done in session {parent.session_id}: undo it there"
            step = msgspec.structs.replace(step, why=why)
        made.append((call.order, step))
    made.sort(key=lambda pair: pair[0], reverse=True)
    return [step for _, step in made]


def _take(calls: dict[str, _Call], entry: JournalEntry, at: int, run: str) -> None:
    match entry:
        case Replied(purpose=None):
            for asked in entry.message.tool_calls:
                calls[asked.id] = call = _Call(asked.arguments)
                call.run = run
        case InboxTaken(item="result", payload=dict()):
            for call_id in cast("JsonObject", entry.payload):
                if call_id in calls:
                    calls[call_id].hosted = True
        case ToolDecided(call_id=call_id) if call_id in calls and entry.action != "ask":
            call = calls[call_id]
            call.allowed, call.tool = entry.action == "allow", entry.tool
            if entry.arguments is not None:
                call.arguments = entry.arguments
        case ToolIntended(call_id=call_id) if call_id in calls:
            calls[call_id].effect, calls[call_id].order = entry.effect, at
        case ToolResulted(call_id=call_id) if call_id in calls:
            calls[call_id].result, calls[call_id].order = entry.result, at
        case UndoBegun(call_id=call_id) if call_id in calls:
            calls[call_id].begun, calls[call_id].ended = entry, None
        case UndoEnded(call_id=call_id) if call_id in calls:
            calls[call_id].ended = entry
        case _:
            pass


def _why(child_id: str, call: _Call, tool: Tool | None) -> str | None:
    if call.ended is not None and call.ended.outcome == "ok":
        return f"it was undone by {call.ended.by}"
    if call.begun is not None and call.ended is None and call.begun.effect == "plain":
        return (
            f"{call.begun.by} began to undo it, and nobody knows how far that came; look yourself"
        )
    if call.result is None or call.result.outcome in ("interrupted", "timeout"):
        return "its outcome is unknown: look yourself what it did"
    if call.result.is_error:
        return "it failed, and what it did until then is unknown"
    if tool is None:
        return f"the tool {call.tool!r} is not here: give it with tools=[…] (-t)"
    if delegates(tool):
        return f"an agent did it, in a session of its own: undo {child_id}"
    if tool.undo is None:
        return f"{call.tool} declares no undo"
    return None


def _reads(tool: Tool | None) -> bool:
    return tool is not None and tool.effect == "read_only"
