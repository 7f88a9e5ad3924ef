"""Answers to a parked run: decisions on calls, or results of calls that the host ran.

Whoever gives an answer gives it once, so it is on the record before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from windlass.access.caller import Caller, is_host
from windlass.errors import ConfigError, InvalidAnswer, nearest, safe_repr
from windlass.events.receipts import takes_session_answer
from windlass.json_types import JsonObject, is_mapping
from windlass.messages import ToolResult
from windlass.tools.result import answer

AnswerScope: TypeAlias = Literal["once", "session"]
_SCOPES = ("once", "session")


class Allow:
    """An approval of a call: `agent.resume(id, decisions={call_id: w.Allow()})`.

    `by` is the `Caller` who approves; without it, whoever resumes. `scope="session"` also answers
    later questions: of flow control about the same targets of the tool, and of a tool that requires
    approval about all its calls. `content` answers the question of an MCP server, in
    the form that it asks for.
    """

    allowed = True

    def __init__(
        self,
        by: Caller | None = None,
        ask: str | None = None,
        reason: str | None = None,
        scope: AnswerScope = "once",
        content: Mapping[str, Any] | None = None,
    ) -> None:
        self.by, self.ask, self.reason = check_by(by), ask, reason
        self.content = check_content(content)
        self.scope: AnswerScope = check_scope(scope)


class Deny:
    """A denial of a call; the model reads the reason: `w.Deny("not this customer")`.

    With `scope="session"` later calls are refused without a question: those on the same targets
    (flow control), or all calls of a tool that requires approval.
    """

    allowed = False

    def __init__(
        self,
        reason: str | None = None,
        by: Caller | None = None,
        ask: str | None = None,
        scope: AnswerScope = "once",
    ) -> None:
        self.reason, self.by, self.ask = reason, check_by(by), ask
        self.scope: AnswerScope = check_scope(scope)


def check_by(by: object) -> Caller | None:
    """Check that `by` is a caller, whose rights are checked and recorded."""
    if by is not None and not isinstance(by, Caller):
        raise ConfigError(f"by is who answers, a Caller such as Caller('bea'), not {safe_repr(by)}")
    return by


def check_content(content: object) -> JsonObject | None:
    """Check that the content of an answer is a dict that JSON can hold."""
    if content is None:
        return None
    if not is_mapping(content):
        raise InvalidAnswer(f"the content of an answer is a dict, not {safe_repr(content)}")
    try:
        msgspec.json.encode(content)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidAnswer(f"the content of an answer is plain data: {error}") from None
    return dict(content)


def check_scope(scope: object) -> AnswerScope:
    """Refuse what is no scope of an answer."""
    if scope not in _SCOPES:
        hint = nearest(scope, _SCOPES) if isinstance(scope, str) else ""
        raise InvalidAnswer(
            f"the scope of an answer is once or session, not {safe_repr(scope)}{hint}"
        )
    return scope


#: Why other questions take no answer for the session.
ONE_CALL: Final = "only flow control and requires_approval remember an answer for the session; leave the scope out"


def is_session_answer(answer: object) -> bool:
    """Return whether an answer is meant for the rest of the session."""
    return isinstance(answer, (Allow, Deny)) and answer.scope == "session"


def check_session_answer(
    scope: str | None, tool: str, rule: str, receipt: JsonObject | None
) -> None:
    """Refuse an answer for the whole session where the question does not offer it."""
    if scope == "session" and not takes_session_answer(receipt):
        raise InvalidAnswer(
            f"{rule} asks about {tool}, and takes an answer for this call alone, not for the session: "
            f"{ONE_CALL}"
        )


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
    scope: Literal["session"] | None = None  # None: for this call alone


#: Answers on record that are not used yet: by call, then by the question that they answer.
Answers: TypeAlias = dict[str, dict[str, Decision]]


def keep_answer(answers: Answers, call_id: str, decision: Decision, last_ask: str | None) -> None:
    """Store an answer under its question, or under the last one; the first answer counts."""
    answers.setdefault(call_id, {}).setdefault(decision.ask or last_ask or "", decision)


def decision_of(value: object) -> Decision:
    """Read a decision from what someone gave or posted; what is not clearly a yes is a no."""
    if isinstance(value, (Allow, Deny)):
        by = None if value.by is None else str(value.by)
        return _decision(value.allowed, value.reason, by, value.ask, value.scope)
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        by, ask = [str(fields[key]) if fields.get(key) else None for key in ("by", "ask")]
        allowed = fields.get("action") == "allow"
        return _decision(allowed, fields.get("reason"), by, ask, fields.get("scope"))
    return _decision(value is True or value == "allow", None, None, None, None)


def _decision(
    allowed: bool, reason: str | None, by: str | None, ask: str | None, scope: object
) -> Decision:
    name = by or ("approved" if allowed else "denied")
    return Decision(allowed, reason, name, ask, by, "session" if scope == "session" else None)


def answer_as_data(
    allowed: bool,
    by: str | None,
    ask: str | None,
    reason: str | None = None,
    scope: str | None = None,
    content: JsonObject | None = None,
) -> JsonObject:
    """Return an answer as it is posted; the host need not name anybody."""
    answer: JsonObject = {"action": "allow" if allowed else "deny", "reason": reason}
    more = (
        ("by", by),
        ("ask", ask),
        ("scope", scope if scope == "session" else None),
        ("content", content),
    )
    return {**answer, **{name: value for name, value in more if value is not None}}


def result_of(value: object) -> ToolResult:
    """Read a result from what the host gave, or from what the journal kept of it."""
    if isinstance(value, dict) and cast("JsonObject", value).get("type") == "tool_result":
        return msgspec.convert(value, ToolResult)
    return answer(value)
