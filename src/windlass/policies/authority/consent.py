"""Consent to calls: a function of yours is asked before each, and may ask a person.

All that is not clearly a yes is a no: a function that raises, or answers something else, refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from windlass.errors import error_text, safe_repr
from windlass.loop.approval_request import parked_by
from windlass.loop.policy import CallVerdict, Policy
from windlass.loop.resume_input import (
    ONE_CALL,
    Allow,
    Deny,
    decision_of,
    is_session_answer,
)
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Granted, Refused, Suspend
from windlass.messages import ToolCall, ToolResult
from windlass.tools.middleware.call_info import AskedCall, described

Asked = Callable[[AskedCall], Any | Awaitable[Any]]
_KEYS = ("allow", "reason")
_HOST = "consent"  # the name recorded where no person is named


class Consent(Policy[None]):
    """A policy that asks your function: True, False, "ask", `{"allow": …, "reason": …}`."""

    decides = True

    def __init__(self, consent: Asked, name: str = "Consent") -> None:
        self.consent, self._name = consent, name

    @property
    def name(self) -> str:
        return self._name

    async def before_tool(self, run: Run, call: ToolCall) -> CallVerdict:
        tool = run.tools[call.name]
        if parked_by(run, self.name, call.id):
            return Suspend(f"may {call.name} run?")  # a person has answered: do not ask again
        about = described(
            tool, call.arguments, call.id, run.session_id, run.run_id, run.caller_name
        )
        answer: Any = None
        try:
            answer = self.consent(about)
            if inspect.isawaitable(answer):
                answer = await answer
            allowed, reason = _read(answer)
        except Exception as error:
            allowed, reason = False, f"consent failed: {error_text(error)}"
        if allowed == "ask":
            return Suspend(reason or f"may {call.name} run?")
        named = decision_of(answer).person if isinstance(answer, (Allow, Deny)) else None
        by = named or _HOST
        ask = Ask(f"may {call.name} run?")
        if allowed:
            return Granted(reason, by, ask)
        why = reason or f"{call.name} was not consented to."
        result = ToolResult(call.id, f"Denied: {why}", True, call.name, "denied")
        return Refused(result, why, by, ask)


def _read(answer: object) -> tuple[bool | str, str | None]:
    """Parse the answer: yes, no or "ask", and the reason."""
    if is_session_answer(answer):
        return False, f"consent answers for one call: {ONE_CALL}"
    if answer is True or isinstance(answer, Allow):
        return True, answer.reason if isinstance(answer, Allow) else None
    if answer is False:
        return False, None
    if isinstance(answer, Deny):
        return False, answer.reason
    if isinstance(answer, str) and answer == "ask":
        return "ask", None
    if isinstance(answer, Mapping):
        fields = cast("Mapping[Any, Any]", answer)
        allow, reason = fields.get("allow", False), fields.get("reason")
        if set(fields) <= set(_KEYS) and (reason is None or isinstance(reason, str)):
            if allow is True or allow is False or allow == "ask":
                return allow, reason
    return False, (
        f'consent answers True, False, "ask" or {{"allow": …, "reason": …}}, not {safe_repr(cast("object", answer))}'
    )
