"""An ask is about one call exactly as it would run: what was approved is what runs, once.

The question is bound to a digest of the session, the call, the tool as it was, the arguments that
would run, who calls, what the rule looked at, and how long an answer holds. The digest is made again
when the call runs; an answer to anything else is no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass import seams
from windlass.events import IterationStart, ToolDecided
from windlass.loop.answers import Decision
from windlass.loop.plan import digest_of
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Suspend
from windlass.messages import ToolCall
from windlass.tools.base import Tool


def question(run: Run, call: ToolCall, tool: Tool, rule: str, answer: Suspend) -> ToolDecided:
    """The question, for the record."""
    lasts = answer.expires_in if isinstance(answer, Ask) else None
    until = None if lasts is None else seams.now() + lasts
    return ToolDecided(
        call.id,
        tool.name,
        "ask",
        rule,
        run.caller_name,
        digest_of(call.arguments),
        answer.reason,
        call.arguments,
        binding(run, call, tool, answer, until),
        until,
        answer.receipt if isinstance(answer, Ask) else None,
    )


def binding(run: Run, call: ToolCall, tool: Tool, answer: Suspend, until: float | None) -> str:
    """The digest of all that an answer is about."""
    about: Mapping[str, Any] | None = answer.about if isinstance(answer, Ask) else None
    who = run.caller
    return digest_of(
        (run.session_id, call.id, version(tool), call.arguments,
         who.user, who.tenant, sorted(who.roles), about, until)
    )  # fmt: skip


def version(tool: Tool) -> str:
    """What a tool is: another schema, other words or another effect make it another tool."""
    facts = {name: tool.annotations[name] for name in sorted(tool.annotations)}
    return digest_of((msgspec.to_builtins(tool.spec), tool.effect, repr(facts)))


def unfit(run: Run, call: ToolCall, tool: Tool, answer: Suspend, verdict: Decision) -> str | None:
    """Why a yes does not hold for the call as it would run now; None: it does."""
    known = question_of(run, call.id)
    if known is None or known.ask is None:
        return "nobody was asked about this call"
    if verdict.ask is not None and verdict.ask != known.ask:
        return "the approval is for another call"
    if known.expires_at is not None and seams.now() > known.expires_at:
        return "the approval has expired"
    if binding(run, call, tool, answer, known.expires_at) != known.ask:
        return "the call is no longer what was approved (its arguments, its tool or its caller)"
    return None


def question_of(run: Run, call_id: str) -> ToolDecided | None:
    """The last question about a call of the turn under way."""
    for entry in reversed(run.journal.entries):
        if type(entry) is ToolDecided and entry.call_id == call_id:
            return entry if entry.action == "ask" else None
        if type(entry) is IterationStart:
            break
    return None


def parked_by(run: Run, rule: str, call_id: str) -> bool:
    """Has somebody answered the question that this policy parked the call with?"""
    if call_id not in run.answers:
        return False
    known = question_of(run, call_id)
    return known is not None and known.rule == rule
