"""How values are put on the record: frames, decisions about calls, plain data and digests."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, cast

import msgspec

from windlass.errors import ConfigError, Corrupt
from windlass.events import Framed, ToolCallAudit, ToolDecided
from windlass.json_types import JsonObject
from windlass.loop.turn import Ready
from windlass.messages import ToolResult, ToolSpec
from windlass.models.base import Frame, Settings
from windlass.tools.render import to_text

ROLES = "roles"  # the rule of a refusal by the roles of the Runtime


def frame_entry(frame: Frame, why: str = "start") -> Framed:
    """Build the entry that puts a frame on the record."""
    tools = tuple([cast("JsonObject", msgspec.to_builtins(tool)) for tool in frame.tools])
    settings = cast("JsonObject", msgspec.to_builtins(frame.settings))
    return Framed(digest_of((frame.system, tools, settings)), frame.system, tools, settings, why)


def frame_of(entry: Framed) -> Frame:
    """Read the frame that an entry put on the record."""
    try:
        return Frame(
            entry.system,
            tuple(msgspec.convert(tool, ToolSpec) for tool in entry.tools),
            msgspec.convert(entry.settings, Settings),
        )
    except msgspec.ValidationError as error:
        raise Corrupt(f"frame {entry.digest!r} on record is none: {error}") from error


def to_plain(value: Any, what: str) -> Any:
    """Return the value as plain data; refuse what no journal can hold."""
    check_storable(value, what)
    return msgspec.to_builtins(value)


def as_journaled(value: Any, what: str) -> Any:
    """Copy the value as a journal gives it back; refuse what no journal can hold."""
    check_storable(value, what)
    return msgspec.json.decode(_encode(value))


def check_storable(value: Any, what: str) -> None:
    """Refuse what no journal can hold."""
    try:
        _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"{what} is kept in the journal and must be plain data: {error}"
        ) from error


def digest_of(value: object) -> str:
    """Compute a short digest of anything that JSON can hold."""
    try:
        data = _encode(value)
    except (ValueError, TypeError, RecursionError):  # what no JSON can hold has a text all the same
        data = to_text(value).encode()
    state = _blank()  # a copy is made in half the time of a new one
    state.update(data)
    return state.hexdigest()


_blank = blake2b(digest_size=16).copy
_encode = msgspec.json.Encoder(order="deterministic").encode


def audit_event(entry: ToolDecided) -> ToolCallAudit:
    """Build the live event of a decision, for auditors."""
    audit = {
        "event_type": f"tool_{entry.action}",
        "rule": entry.rule,
        "reason": entry.reason,
        "policyDecision": entry.policy_decision,
    }
    return ToolCallAudit(entry.call_id, entry.tool, audit)


def refusal_by_tool(ready: Ready, result: ToolResult, caller: str) -> ToolDecided:
    """Build the decision of a tool that refused a call which had passed the gate."""
    call, reason = ready.call, _reason_in(result.text)
    rule = ready.tool.name if reason is None else ROLES
    why = result.text if reason is None else reason
    digest = digest_of(call.arguments)
    receipt = {"action": "deny", "rule": rule, "rationale": why}
    return ToolDecided(call.id, ready.tool.name, "deny", rule, caller, digest, why, receipt=receipt)


def _reason_in(text: str) -> str | None:
    """Return why the caller may not make the call, if the result has a reason."""
    try:
        decoded: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    fields = cast("JsonObject", decoded)
    if fields.get("error") != "permission_denied" or not isinstance(fields.get("reason"), str):
        return None
    return fields["reason"]
