"""Transcripts: a session as plain data for people and programs, derived from its journal.

`{id, messages, events, summary, metadata, scratchpad, scratchpad_version}`. The messages are the
view, which the next request carries. The events are everything that happened, each with a kind and
who may see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.events import (
    AgentScratchpad,
    InboxTaken,
    JournalEntry,
    Noted,
    ProgressReported,
    Remembered,
    Replied,
    Reshaped,
    RunEnded,
    RunResumed,
    RunStarted,
    Said,
    SessionOpened,
    SessionReset,
    ToolIntended,
    ToolMessage,
    ToolResulted,
    ToolSearchQueried,
    ToolSearchResulted,
    as_dict,
    kind_of,
)
from windlass.json_types import as_list, is_object, is_sequence
from windlass.messages import Message, Opaque, Thinking, ToolResult
from windlass.policies.scratchpad.inbox import scratch_of
from windlass.policies.scratchpad.pad import Scratch, as_data
from windlass.store.view import ViewFold

Visibility: TypeAlias = Literal["public", "internal", "private"]
Transcript: TypeAlias = dict[str, Any]

# Notes by name, and their keys in the transcript.
NOTED_KINDS = frozenset(
    {
        "agent_await_resumption",
        "daemon_wake",
        "plan",
        "thinking_summary",
        "transcript_abandon",
        "transcript_archive",
        "transcript_resume",
    }
)


def transcript_of(entries: Sequence[JournalEntry]) -> Transcript:
    """Build the transcript of a session from its journal's entries."""
    reader = _Reader()
    for entry in entries:
        reader.read(entry)
    return {
        "id": reader.id,
        "messages": [_plain(message) for message in reader.view.messages],
        "events": reader.events,
        "summary": reader.summary,
        "metadata": reader.metadata,
        "scratchpad": as_data(reader.scratchpad.pad),
        "scratchpad_version": reader.scratchpad.version,
    }


def events_of(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Build the events of these messages, where there is no journal."""
    reader = _Reader()
    for message in messages:
        for block in message.content:
            if isinstance(block, Thinking):
                kind = "thinking_summary" if _is_summary(block) else "private_reasoning"
                reader.add(kind, "private", block.text, message.role)
            elif isinstance(block, ToolResult):
                _result(reader, block.id, block)
        if message.role != "tool":
            _message(reader, message)
    return reader.events


def told_by(entries: Iterable[JournalEntry]) -> list[dict[str, Any]]:
    """Build the events of these entries."""
    reader = _Reader()
    for entry in entries:
        reader.read(entry)
    return reader.events


def transcript_events(transcript: Transcript) -> list[dict[str, Any]]:
    """Return all events of a transcript, in order: `{kind, visibility, role, text, …}`."""
    return [dict(event) for event in as_list(transcript.get("events"))]


def transcript_render_visible(transcript: Transcript) -> str:
    """Render a transcript as a person saw it: the messages of both sides, as text.

    ```python
    print(w.transcript_render_visible(result.transcript))
    ```
    """
    lines = [
        f"{event['role']}: {event['text']}"
        for event in transcript_events(transcript)
        if event["kind"] == "message" and event["visibility"] == "public" and event["text"]
    ]
    return "\n\n".join(lines)


def transcript_render_full(transcript: Transcript) -> str:
    """Render a transcript with everything: reasoning, tool calls and decisions too.

    `print(w.transcript_render_full(result.transcript))`, for debugging.
    """
    lines: list[str] = []
    for event in transcript_events(transcript):
        who = event.get("role") or event.get("name") or ""
        label = f"[{event['kind']}]" + (f" {who}" if who else "")
        lines.append(f"{label}: {event['text']}" if event["text"] else label)
    return "\n".join(lines)


def export_jsonl(entries: Iterable[JournalEntry]) -> str:
    """Encode the journal as text, one entry per line, exactly as stored."""
    encode = msgspec.json.Encoder().encode
    return "".join(f"{encode(entry).decode()}\n" for entry in entries)


# --------------------------------------------------------------------------- entry by entry


class _Reader:
    """Folds entries into events; tracks the open run, to notice one that was abandoned."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.view = ViewFold()
        self.events: list[dict[str, Any]] = []
        self.summary: str | None = None
        self.metadata: dict[str, Any] = {}
        self.running: str | None = None
        self.scratchpad = Scratch()

    def read(self, entry: JournalEntry) -> None:
        read_entry = _TELL.get(type(entry))
        if read_entry is not None:
            read_entry(self, entry)
        else:
            self.add(kind_of(entry), "internal", data=_without_kind(entry))
        self.view.apply(entry)

    def add(
        self,
        kind: str,
        visibility: Visibility,
        text: str = "",
        role: str | None = None,
        **more: Any,
    ) -> None:
        event: dict[str, Any] = {"kind": kind, "visibility": visibility, "role": role, "text": text}
        event.update(more)
        self.events.append(event)


def _without_kind(entry: JournalEntry) -> dict[str, Any]:
    data = _tuples_to_lists(as_dict(entry))
    data.pop("kind", None)
    return data


def _plain(value: object) -> Any:
    """Convert a value as JSON would give it back: lists, not tuples."""
    return _tuples_to_lists(msgspec.to_builtins(value))


def _tuples_to_lists(value: Any) -> Any:
    if is_object(value):
        return {key: _tuples_to_lists(item) for key, item in value.items()}
    if is_sequence(value):
        return [_tuples_to_lists(item) for item in value]
    return value


def _read_opened(reader: _Reader, entry: SessionOpened) -> None:
    reader.id = entry.session_id
    reader.metadata.update(entry.metadata or {})
    if entry.parent_id is not None:
        reader.metadata["parent_transcript_id"] = entry.parent_id
    if entry.branch_at is not None:
        reader.metadata["branch_at"] = entry.branch_at
        reader.add(
            "transcript_fork", "internal", parent_id=entry.parent_id, branch_at=entry.branch_at
        )


def _read_started(reader: _Reader, entry: RunStarted) -> None:
    if reader.running is not None:
        reader.add("transcript_abandon", "internal", run_id=reader.running)
    reader.running = entry.run_id
    reader.add("run_start", "internal", data=_without_kind(entry))


def _read_ended(reader: _Reader, entry: RunEnded) -> None:
    reader.running = entry.run_id if entry.status == "suspended" else None
    reader.add("outcome", "internal", entry.status, data=_without_kind(entry))


def _read_resumed(reader: _Reader, entry: RunResumed) -> None:
    reader.running = entry.run_id
    reader.add("transcript_resume", "internal", run_id=entry.run_id, at=entry.at)


def _reset(reader: _Reader, _entry: SessionReset) -> None:
    reader.summary = None
    reader.add("transcript_reset", "internal")


def _read_note(reader: _Reader, entry: Noted) -> None:
    kind = entry.name if entry.name in NOTED_KINDS else "note"
    text = entry.data if isinstance(entry.data, str) else ""
    reader.add(kind, "internal", text, name=entry.name, data=entry.data)


def _read_memory(reader: _Reader, entry: Remembered) -> None:
    data = _without_kind(entry)
    if entry.policy == "scratchpad" and entry.keeps == "session":
        reader.scratchpad = scratch_of(data["value"])  # the event that follows is the short form
    else:
        reader.add(kind_of(entry), "internal", data=data)


def _read_scratchpad(reader: _Reader, entry: AgentScratchpad) -> None:
    data = _without_kind(entry)
    reader.metadata["agent_scratchpad"] = data
    reader.add("agent_scratchpad", "internal", entry.action, data=data)


def _read_message(reader: _Reader, entry: Said) -> None:
    _message(reader, entry.message)


def _message(reader: _Reader, message: Message) -> None:
    # Messages of the runtime in a user's place are no part of the visible conversation.
    seen: Visibility = "public" if message.kind is None and message.role != "system" else "internal"
    blocks = [_plain(block) for block in message.content]
    more = {"name": message.kind} if message.kind is not None else {}
    reader.add("message", seen, message.text, message.role, blocks=blocks, **more)


def _read_reply(reader: _Reader, entry: Replied) -> None:
    for block in entry.message.content:
        if isinstance(block, Thinking):
            kind = "thinking_summary" if _is_summary(block) else "private_reasoning"
            reader.add(kind, "private", block.text, "assistant")
    native = [_plain(b.data) for b in entry.message.content if isinstance(b, Opaque)]
    reader.add(
        "provider_payload",
        "private",
        provider=entry.provider,
        model=entry.model,
        native_id=entry.native_id,
        stop_reason=entry.stop_reason,
        usage=_plain(entry.usage),
        cost_usd=entry.cost_usd,
        purpose=entry.purpose,
        native=native,
    )
    if entry.purpose is None:
        _message(reader, entry.message)
    else:
        reader.add("model_reply", "internal", entry.message.text, "assistant", name=entry.purpose)


def _is_summary(block: Thinking) -> bool:
    """Check for a summary of reasoning, which some providers give in place of the reasoning."""
    native: Any = block.opaque
    return isinstance(native, dict) and "summary" in native


def _read_intent(reader: _Reader, entry: ToolIntended) -> None:
    reader.add("tool_intent", "internal", name=entry.tool, **_call(entry))


def _read_execution(reader: _Reader, entry: ToolResulted) -> None:
    reader.add("tool_execution", "internal", entry.outcome, name=entry.tool, **_call(entry))


def _call(entry: ToolIntended | ToolResulted) -> dict[str, Any]:
    data = _without_kind(entry)
    for name in ("result", "tool", "traceback"):
        data.pop(name, None)
    return data


def _read_results(reader: _Reader, entry: ToolMessage) -> None:
    results, shown = reader.view.results, entry.shown or {}
    for call_id in entry.calls:
        result: ToolResult | None = shown.get(call_id) or results.get(call_id)
        if result is not None:
            _result(reader, call_id, result)


def _result(reader: _Reader, call_id: str, result: ToolResult) -> None:
    reader.add(
        "tool_result",
        "internal",
        result.text,
        "tool",
        name=result.name,
        call_id=call_id,
        outcome=result.outcome,
        is_error=result.is_error,
    )


def _read_search_query(reader: _Reader, entry: ToolSearchQueried) -> None:
    text = entry.query if isinstance(entry.query, str) else ""
    reader.add(
        "tool_search_query",
        "internal",
        text,
        search_id=entry.search_id,
        query=entry.query,
        metadata={"mode": entry.mode, "strategy": entry.strategy},
    )


def _read_search_result(reader: _Reader, entry: ToolSearchResulted) -> None:
    reader.add(
        "tool_search_result",
        "internal",
        ", ".join(entry.tool_names),
        search_id=entry.search_id,
        tool_names=list(entry.tool_names),
        diagnostic=entry.diagnostic,
        evicted=list(entry.evicted),
        metadata={"mode": entry.mode},
    )


def _read_host_input(reader: _Reader, entry: InboxTaken) -> None:
    text = entry.payload if isinstance(entry.payload, str) else ""
    reader.add("host_input", "internal", text, name=entry.item, data=_without_kind(entry))


def _read_reshape(reader: _Reader, entry: Reshaped) -> None:
    summaries = [m.text for m in entry.messages if m.kind == "summary"]
    if summaries:
        reader.summary = summaries[-1]
    archived = entry.stop - entry.start - len(entry.messages)
    if archived > 0 and entry.why != "fork":
        reader.add("transcript_archive", "internal", entry.why, messages=entry.stop - entry.start)
    reader.add(
        "view", "internal", entry.why, start=entry.start, stop=entry.stop, put=len(entry.messages)
    )


def _read_progress(reader: _Reader, entry: ProgressReported) -> None:
    data = _without_kind(entry)
    if entry.entries:
        steps = "\n".join([f"{one.get('status')}: {one.get('content')}" for one in entry.entries])
        reader.add("plan", "internal", steps, "assistant", entries=data["entries"])
    reader.add(kind_of(entry), "internal", data=data)


_TELL: dict[type, Callable[[_Reader, Any], None]] = {
    SessionOpened: _read_opened,
    RunStarted: _read_started,
    RunEnded: _read_ended,
    RunResumed: _read_resumed,
    SessionReset: _reset,
    Noted: _read_note,
    Remembered: _read_memory,
    AgentScratchpad: _read_scratchpad,
    Said: _read_message,
    Replied: _read_reply,
    ToolIntended: _read_intent,
    ToolResulted: _read_execution,
    ToolMessage: _read_results,
    ToolSearchQueried: _read_search_query,
    ToolSearchResulted: _read_search_result,
    InboxTaken: _read_host_input,
    Reshaped: _read_reshape,
    ProgressReported: _read_progress,
}
