"""Tools that say themselves that a person must approve them: `@w.tool(requires_approval=True)`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from windlass.access.approval import ApprovalPolicy
from windlass.errors import error_text, safe_repr
from windlass.events import JournalEntry, ToolDecided
from windlass.json_types import JsonObject
from windlass.loop.approval_request import answered_before, parked_by, sources_of
from windlass.loop.policy import CallVerdict, Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Granted, Refused
from windlass.messages import ToolCall
from windlass.policies.authority.approval import ApprovalOptions, ask_host
from windlass.policies.build import BuildContext, Policies
from windlass.tools.handlers import own, takes_context
from windlass.tools.result import not_permitted
from windlass.tools.tool import Tool, ToolContext

RULE: Final = "requires_approval"
_ALWAYS: Final = "the tool requires approval"


def build(ctx: BuildContext) -> Policies:
    """Build the policy; it asks as the approval rules of the run say, where there are any."""
    return (ToolApproval(ApprovalOptions.read(ctx.values).approval_policy),)


class ToolApproval(Policy[None]):
    """A policy that asks a person about calls of tools that require it."""

    decides = True

    def __init__(self, rules: ApprovalPolicy | None = None) -> None:
        self.expires_in = None if rules is None else rules.expires_in
        self.request_permission = None if rules is None else rules.request_permission

    @property
    def name(self) -> str:
        return RULE

    def passes(self, run: Run, call: ToolCall) -> bool:
        tool = run.tools.get(call.name)
        return tool is not None and tool.requires_approval is False

    async def before_tool(self, run: Run, call: ToolCall) -> CallVerdict:
        tool = run.tools[call.name]
        if tool.requires_approval is False:
            return None
        if parked_by(run, RULE, call.id):
            return self._ask(call, _ALWAYS)  # a person has answered: the tool is not asked again
        if (answer := find_session_answer(run, call.name)) is not None:
            return _use_session_answer(call, answer)
        if (reason := await _find_reason(run, tool, call)) is None:
            return None
        ask = self._ask(call, reason)
        if self.request_permission is None:
            return ask
        if (by := answered_before(run, RULE, call)) is not None:
            return Granted(None, by, ask, ask.receipt)
        return await ask_host(self.request_permission, run, call, ask)

    def _ask(self, call: ToolCall, reason: str) -> Ask:
        receipt: JsonObject = {
            "action": "ask",
            "rule": RULE,
            "rationale": reason,
            "offers": ["session"],
        }
        return Ask(f"may {call.name} run? {reason}", receipt=receipt, expires_in=self.expires_in)


async def _find_reason(run: Run, tool: Tool, call: ToolCall) -> str | None:
    """Return why the call needs a person; None if its predicate says that it does not.

    All that is not clearly a no is a yes: a predicate that raises, or answers something else, asks.
    """
    needs = tool.requires_approval
    if needs is True or needs is False:
        return _ALWAYS if needs else None
    context: ToolContext[Any] = ToolContext(
        run.deps, run.caller, run.session_id, run.run_id, call.id, tool.name, run
    )
    try:
        both = takes_context(needs, f"tool {tool.name!r}: {RULE}")
        arguments = own(call.arguments)
        answer: object = needs(arguments, context) if both else needs(arguments)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:
        return f"{RULE} failed: {error_text(error)}"
    if answer is False:
        return None
    if isinstance(answer, str) and answer.strip():
        return answer
    return _ALWAYS if answer is True else f"{RULE} answers True or False, not {safe_repr(answer)}"


# --------------------------------------------------------------------------- answers for the session


class _SessionAnswer(msgspec.Struct, frozen=True):
    """A person's answer about a tool that holds for the rest of the session."""

    allowed: bool
    by: str | None


class _SessionAnswers:
    """Answers for the session by tool; each entry of the journal is read once."""

    def __init__(self) -> None:
        self.place = 0
        self.by_tool: dict[str, _SessionAnswer] = {}

    def read_new(self, entries: Sequence[JournalEntry]) -> None:
        """Read the entries that have come since; the last answer counts."""
        for entry in entries[self.place :]:
            if type(entry) is ToolDecided and entry.scope == "session" and _is_asked_here(entry):
                answer = _SessionAnswer(entry.action != "deny", entry.answered_by)
                self.by_tool[entry.tool] = answer
        self.place = len(entries)


def _is_asked_here(entry: ToolDecided) -> bool:
    return any([source.rule == RULE for source in sources_of(entry)])


def find_session_answer(run: Run, tool: str) -> _SessionAnswer | None:
    """Find what somebody answered about this tool for the whole session."""
    seen: _SessionAnswers | None = run.cache.get(_SessionAnswers)
    if seen is None:
        seen = run.cache[_SessionAnswers] = _SessionAnswers()
    seen.read_new(run.entries)
    return seen.by_tool.get(tool)


def _use_session_answer(call: ToolCall, answer: _SessionAnswer) -> Granted | Refused:
    receipt: JsonObject = {"action": "ask", "rule": RULE, "rationale": "answered for the session"}
    if answer.allowed:
        return Granted("approved for the session", answer.by, receipt=receipt)
    why = f"somebody said never to {call.name} in this session"
    return Refused(not_permitted(call, why, receipt), why, answer.by, receipt=receipt)
