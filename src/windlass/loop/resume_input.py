"""Answers to a parked run: decisions on calls, or results of calls that the host ran.

Whoever gives an answer gives it once, so it is on the record before it is used.
"""

from __future__ import annotations

from typing import TypeAlias, cast

import msgspec

from windlass.access.caller import Caller, is_host
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.tools.result import answer


class Allow:
    """An answer to an ask: the call may run. `resume(id, decisions={call_id: w.Allow()})`

    `by` is who says so, a `Caller`; without one it is whoever resumes.
    """

    allowed = True

    def __init__(
        self, by: Caller | None = None, ask: str | None = None, reason: str | None = None
    ) -> None:
        self.by, self.ask, self.reason = check_by(by), ask, reason


class Deny:
    """An answer to an ask: the call may not run, and the model is told why."""

    allowed = False

    def __init__(
        self, reason: str | None = None, by: Caller | None = None, ask: str | None = None
    ) -> None:
        self.reason, self.by, self.ask = reason, check_by(by), ask


def check_by(by: object) -> Caller | None:
    """Check that `by` is a caller, whose rights are checked and recorded."""
    if by is not None and not isinstance(by, Caller):
        raise ConfigError(f"by is who answers, a Caller such as Caller('bea'), not {safe_repr(by)}")
    return by


def name_of_answerer(by: Caller | None, name: str | None, nobody: str) -> str:
    """Return the recorded name of who answers; the host may name somebody."""
    if not is_host(by):
        return str(by)
    if name is not None and (not isinstance(cast("object", name), str) or not name.strip()):
        raise ConfigError(f"name is a text that is not empty, not {safe_repr(name)}")
    return name or (nobody if by is None else str(by))


class Decision(msgspec.Struct, frozen=True):
    """An answer as it is on record: yes or no, who gave it, and to which question."""

    allowed: bool
    reason: str | None = None
    by: str = ""  # for the rule: who gave it, or the host's act without a name
    ask: str | None = None  # what it is bound to; None: to what was asked last
    person: str | None = None  # who answered; None: the host


#: Answers on record that are not used yet: by call, then by the question that they answer.
Answers: TypeAlias = dict[str, dict[str, Decision]]


def keep_answer(answers: Answers, call_id: str, decision: Decision, last_ask: str | None) -> None:
    """Store an answer under its question, or under the last one; the first answer counts."""
    answers.setdefault(call_id, {}).setdefault(decision.ask or last_ask or "", decision)


def decision_of(value: object) -> Decision:
    """Read a decision from what someone gave or posted; what is not clearly a yes is a no."""
    if isinstance(value, (Allow, Deny)):
        by = None if value.by is None else str(value.by)
        return _decision(value.allowed, value.reason, by, value.ask)
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        by, ask = [str(fields[key]) if fields.get(key) else None for key in ("by", "ask")]
        allowed = fields.get("action") == "allow"
        return _decision(allowed, fields.get("reason"), by, ask)
    return _decision(value is True or value == "allow", None, None, None)


def _decision(allowed: bool, reason: str | None, by: str | None, ask: str | None) -> Decision:
    return Decision(allowed, reason, by or ("approved" if allowed else "denied"), ask, by)


def answer_as_data(
    allowed: bool, by: str | None, ask: str | None, reason: str | None = None
) -> JsonObject:
    """Return an answer as it is posted; the host need not name anybody."""
    answer: JsonObject = {"action": "allow" if allowed else "deny", "reason": reason}
    named = {name: value for name, value in (("by", by), ("ask", ask)) if value is not None}
    return {**answer, **named}


def result_of(value: object) -> ToolResult:
    """Read a result from what the host gave, or from what the journal kept of it."""
    if isinstance(value, dict) and cast("JsonObject", value).get("type") == "tool_result":
        return msgspec.convert(value, ToolResult)
    return answer(value)
