"""Somebody is asked before a call runs: a function of yours, and through it, if it wants, a person.

All that is not clearly a yes is a no: a function that raises, or answers something else, refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from windlass.errors import said, shown
from windlass.loop.answers import Allow, Deny
from windlass.loop.asks import parked_by
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Suspend
from windlass.messages import ToolCall, ToolResult
from windlass.tools.asked import AskedCall, described

Asked = Callable[[AskedCall], Any | Awaitable[Any]]
_KEYS = ("allow", "reason")


class Consent(Policy[None]):
    """Ask the function about every call: True, False, "ask", or `{"allow": …, "reason": …}`."""

    def __init__(self, consent: Asked, name: str = "Consent") -> None:
        self.consent, self._name = consent, name

    @property
    def name(self) -> str:
        return self._name

    async def before_tool(self, run: Run, call: ToolCall) -> ToolCall | ToolResult | Suspend | None:
        tool = run.tools[call.name]
        if parked_by(run, self.name, call.id):
            return Suspend(f"may {call.name} run?")  # a person has answered: nobody is asked again
        about = described(
            tool, call.arguments, call.id, run.session_id, run.run_id, run.caller_name
        )
        try:
            answer = self.consent(about)
            if inspect.isawaitable(answer):
                answer = await answer
            allowed, reason = _read(answer)
        except Exception as error:
            allowed, reason = False, f"consent failed: {said(error)}"
        if allowed == "ask":
            return Suspend(reason or f"may {call.name} run?")
        if allowed:
            return msgspec.structs.replace(call)  # a copy: the decision then names this rule
        words = f"Denied: {reason}" if reason else f"Denied: {call.name} was not consented to."
        return ToolResult(call.id, words, True, call.name, "denied")


def _read(answer: object) -> tuple[bool | str, str | None]:
    """Yes, no or "ask", and the reason."""
    if answer is True or isinstance(answer, Allow):
        return True, None
    if answer is False:
        return False, None
    if isinstance(answer, Deny):
        return False, answer.reason
    if isinstance(answer, str) and answer == "ask":
        return "ask", None
    if isinstance(answer, Mapping):
        told = cast("Mapping[Any, Any]", answer)
        allow, reason = told.get("allow", False), told.get("reason")
        if set(told) <= set(_KEYS) and (reason is None or isinstance(reason, str)):
            if allow is True or allow is False or allow == "ask":
                return allow, reason
    return False, (
        f'consent answers True, False, "ask" or {{"allow": …, "reason": …}}, not {shown(cast("object", answer))}'
    )
