"""Decisions about calls as they are recorded and shown."""

from __future__ import annotations

from typing import cast

import msgspec

from windlass.events import ToolCallAudit, ToolDecided
from windlass.json_types import JsonObject
from windlass.loop.plan import digest_of
from windlass.loop.turn import Ready
from windlass.messages import ToolResult

ROLES = "roles"  # the rule of a refusal by the roles of the Runtime


def audit_event(entry: ToolDecided) -> ToolCallAudit:
    """Build the live event of a decision, for whoever audits."""
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
    """Find why a caller may not make the call, where the result says so."""
    try:
        told: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    fields = cast("JsonObject", told)
    if fields.get("error") != "permission_denied" or not isinstance(fields.get("reason"), str):
        return None
    return fields["reason"]
