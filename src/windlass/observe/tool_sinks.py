"""Sinks for tool calls: receipts, telemetry, handoffs, read from the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from windlass import seams
from windlass.detach import detach
from windlass.events import (
    Event,
    IterationStart,
    JournalEntry,
    Replied,
    RunEnded,
    ToolCallStarted,
    ToolDecided,
    ToolIntended,
    ToolResulted,
)
from windlass.json_types import JsonObject
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.sinks import Receipt, Watcher
from windlass.messages import ToolCall
from windlass.tools.handlers import own
from windlass.tools.middleware.layers import ToolSink, WithSink


def watcher_of(layer: WithSink) -> Callable[[Run], Watcher]:
    """Build the function that makes a run's watcher from the layer."""
    looks = {"audit_sink": _audit, "telemetry": _telemetry, "handoff_sink": _handoff}
    look, kind = looks[layer.kind], Receipt if layer.kind == "audit_sink" else Watcher
    return lambda run: kind(look(run, _clean(run, layer.sink)))


def _clean(run: Run, sink: ToolSink) -> ToolSink:
    """Wrap the sink so that records have no secrets."""
    redactor = run.redactor
    return sink if redactor is None else lambda record: sink(redactor.value(record))


def _audit(run: Run, sink: ToolSink) -> Callable[[Event], Any]:
    def look(event: Event) -> Any:
        if type(event) is ToolResulted:
            return sink(_receipt(run, event))
        return None

    return look


def _telemetry(run: Run, sink: ToolSink) -> Callable[[Event], Any]:
    def look(event: Event) -> Any:
        if type(event) is ToolCallStarted:
            return sink({"event": "tool_call_started", **_where(run, event.call_id, event.name)})
        if type(event) is ToolResulted:
            return sink(
                {
                    "event": "tool_call_finished",
                    **_where(run, event.call_id, event.tool),
                    "outcome": event.outcome,
                    "ok": not event.result.is_error,
                    "duration_ms": event.duration_ms,
                }
            )
        return None

    return look


def _handoff(run: Run, sink: ToolSink) -> Callable[[Event], Any]:
    def look(event: Event) -> Any:
        if type(event) is ToolResulted:
            tool = run.tools.get(event.tool)
            if tool is not None and tool.annotations.get("kind") == "handoff":
                return sink({**_receipt(run, event), "event": "handoff", "reason": event.tool})
        elif type(event) is RunEnded and event.status != "done":
            return sink(_handoff_event(run, event))
        return None

    return look


def _where(run: Run, call_id: str, tool: str) -> JsonObject:
    return {
        "session_id": run.session_id,
        "run_id": run.run_id,
        "iteration": run.number,
        "call_id": call_id,
        "tool": tool,
        "at": seams.now(),
    }


def _receipt(run: Run, event: ToolResulted) -> JsonObject:
    """Build the receipt of one call from the journal."""
    record = {
        "event": "tool_call",
        **_where(run, event.call_id, event.tool),
        "caller": run.caller_name,
        "arguments": None,
        "action": None,
        "rule": None,
        "reason": None,
        "digest": None,
        "answered_by": None,
        "policyDecision": None,
        "attempt": 0,
        "outcome": event.outcome,
        "ok": not event.result.is_error,
        "result": event.result.text,
        "duration_ms": event.duration_ms,
    }
    for entry in _turn(run):
        match entry:
            case ToolDecided(call_id=event.call_id):
                record |= {"action": entry.action, "rule": entry.rule}
                record |= {"digest": entry.digest, "reason": entry.reason}
                record |= {
                    "answered_by": entry.answered_by,
                    "policyDecision": detach(entry.policy_decision),
                }
                if entry.arguments is not None:
                    record["arguments"] = own(entry.arguments)
            case ToolIntended(call_id=event.call_id):
                record["attempt"] = entry.attempt
            case Replied(purpose=None) if record["arguments"] is None:
                asked = (call for call in entry.message.tool_calls if call.id == event.call_id)
                record["arguments"] = next((own(call.arguments) for call in asked), None)
            case _:
                pass
    return record


def _handoff_event(run: Run, event: RunEnded) -> JsonObject:
    """Build the record of a handoff: what a run leaves to others."""
    turn = run.turn
    pending: list[ToolCall] = []
    if turn is not None and event.status == "suspended":
        pending = [_as_decided(run, call) for call in turn.calls if call.id not in turn.results]
    return {
        "event": "handoff",
        "session_id": run.session_id,
        "run_id": run.run_id,
        "iteration": run.number,
        "status": event.status,
        "reason": event.stop_reason,
        "pending": [{"id": c.id, "name": c.name, "arguments": own(c.arguments)} for c in pending],
        "text": turn.text if turn is not None else "",
        "at": seams.now(),
    }


def _as_decided(run: Run, call: ToolCall) -> ToolCall:
    """Return the call with the arguments that were decided on, or are asked about."""
    for entry in _turn(run):
        if type(entry) is ToolDecided and entry.call_id == call.id and entry.arguments is not None:
            call = msgspec.structs.replace(call, arguments=entry.arguments)
    return call


def _turn(run: Run) -> Iterator[JournalEntry]:
    """Yield the entries of the current turn, oldest first."""
    entries = run.journal.entries
    start = len(entries)
    while start > run.first_entry:
        start -= 1
        if type(entries[start]) is IterationStart:
            break
    for at in range(start, len(entries)):
        yield entries[at]


# The next turn begins when the receipts of the last one are handed over.


class Receipts(Policy[None]):
    """A policy that waits for sinks that delay a turn."""

    async def before_turn(self, run: Run) -> None:
        for watcher in run.host.receipts:
            await watcher.wait_until_idle()
