"""The error of a run without an answer: how it ended, why, and what to do about it."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.errors import OutputMissing
from windlass.json_types import JsonObject

#: Statuses with which a run has no answer, whatever was said on the way.
WITHOUT_OUTPUT: Final = frozenset(
    {"provider_error", "failed", "suspended", "cancelled", "cancelling", "blocked"}
)

_LATER: Final = "run it again later, or add a second model: llm_caller=w.with_fallback([…])"
_BY_CATEGORY: Final = {
    "auth": "check the key; `windlass models doctor {model}` tries it",
    "quota": "add credit to the account, or name another model",
    "bad_request": "`windlass models doctor {model}` shows what the model takes",
    "context_overflow": "give it less to read, or name a model with a larger window",
    "refused": "word the task differently, or name another model",
    "rate_limit": _LATER,
    "overloaded": _LATER,
    "server_error": _LATER,
    "timeout": f"raise timeout; or {_LATER}",
    "network": f"check the address and the network; or {_LATER}",
    "circuit_open": _LATER,
    "bad_reply": _LATER,
    "guardrail": "word the task differently, or change the guardrail; nothing of the answer is shown",
    "store": "see to the store, then resume the session {session!r}",
}
_BY_LIMIT: Final = {
    "max_iterations": "raise max_turns (max_iterations in agent_loop), or add closing_answer=True",
    "tokens": "raise the limit on tokens, or add closing_answer=True",
    "usd": "raise the limit in dollars, or add closing_answer=True",
    "seconds": "raise the limit in seconds, or add closing_answer=True",
}


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, as its result says it."""

    status: str
    stop_reason: str | None
    error: JsonObject | None
    session_id: str
    trace: JsonObject


def build_output_missing(ending: Ending, problem: str | None = None) -> OutputMissing:
    """Build the error of a run that ended so; `problem` is what was wrong with its value."""
    words = f"the run ended as {ending.status}"
    message = (ending.error or {}).get("message")
    if ending.stop_reason:
        words += f" ({ending.stop_reason})"
    if ending.status not in WITHOUT_OUTPUT:
        words += f" {problem}" if problem else " without a text"
    if message:
        words += f": {message}"
    fix = _find_fix(ending, typed=problem is not None)
    missing = OutputMissing(f"{words}; {fix}", error=ending.error, fix=fix)
    missing.status, missing.session_id, missing.trace = (
        ending.status,
        ending.session_id,
        ending.trace,
    )
    return missing


def _find_fix(ending: Ending, *, typed: bool) -> str:
    """Say in a few words what the user can do."""
    error, session = ending.error or {}, ending.session_id
    match ending.status:
        case "suspended":
            return f"answer what out.pending lists, then agent.resume({session!r}, …)"
        case "cancelled" | "cancelling":
            return f"go on with agent.resume({session!r}); out.final_text has what was said"
        case "budget_exhausted":
            limit = _BY_LIMIT.get(str(ending.stop_reason))
            return limit or f"raise the limit {ending.stop_reason}"
        case _ if error:
            known = _BY_CATEGORY.get(str(error.get("category")))
            if known is None:
                return "out.exception has the traceback"
            model = f"{error.get('provider')}:{error.get('model')}"
            return known.format(model=model, session=session)
        case "failed":
            return "out.trace has what happened"
        case _ if typed:
            return "out.final_text has what was said"
        case _:
            return "tell the model to end with an answer in words; out.tool_calls has what was done"
