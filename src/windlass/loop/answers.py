"""What a parked run was waiting for: a yes or a no to a call, or the result of one the host ran.

Whoever gives an answer gives it once, so it is on the record before it is used.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec

from windlass.messages import ToolResult
from windlass.tools.answer import answer


class Allow:
    """An answer to an ask: the call may run. `resume(id, decisions={call_id: w.Allow()})`"""

    allowed, reason = True, None

    def __init__(self, by: str = "approved", ask: str | None = None) -> None:
        self.by, self.ask = by, ask


class Deny:
    """An answer to an ask: the call may not run, and the model is told why."""

    allowed = False

    def __init__(
        self, reason: str | None = None, by: str = "denied", ask: str | None = None
    ) -> None:
        self.reason, self.by, self.ask = reason, by, ask


Decision: TypeAlias = Allow | Deny


def decision_of(value: object) -> Decision:
    """A decision from what someone gave or posted; all that is not clearly a yes is a no."""
    if isinstance(value, (Allow, Deny)):
        return value
    if isinstance(value, dict):
        said = cast("dict[str, Any]", value)
        by = {key: str(said[key]) for key in ("by", "ask") if said.get(key)}
        if said.get("action") == "allow":
            return Allow(**by)
        return Deny(said.get("reason"), **by)
    return Allow() if value is True or value == "allow" else Deny()


def decision_as_data(decision: Decision) -> dict[str, Any]:
    """The decision as the journal keeps it."""
    action = "allow" if decision.allowed else "deny"
    told = {"action": action, "reason": decision.reason, "by": decision.by}
    return told if decision.ask is None else {**told, "ask": decision.ask}


def result_of(value: object) -> ToolResult:
    """A result from what the host gave, or from what the journal kept of it."""
    if isinstance(value, dict) and cast("dict[str, Any]", value).get("type") == "tool_result":
        return msgspec.convert(value, ToolResult)
    return answer(value)
