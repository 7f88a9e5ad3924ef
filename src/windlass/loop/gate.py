"""The gate: every call of a turn is decided, on the record, before any of them runs."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.errors import nearest, shown
from windlass.events import ToolCallAudit, ToolCallUpdate, ToolDecided
from windlass.loop.asks import question, unfit
from windlass.loop.calls import settle
from windlass.loop.plan import digest_of
from windlass.loop.policy import misplaced
from windlass.loop.run import Run, unwatched
from windlass.loop.turn import UNNAMED, Ready, Turn
from windlass.loop.verdict import Suspend
from windlass.messages import ToolCall, ToolResult
from windlass.tools.base import Tool
from windlass.tools.prepare import unparsable


async def gate(run: Run, turn: Turn) -> Suspend | None:
    """Decide every call in the order asked. Those that wait for someone park the run together."""
    waiting: Suspend | None = None
    if run.emit is not unwatched:
        for call in turn.calls:
            if call.id not in turn.results:
                run.emit(ToolCallUpdate(call.id, "pending"))
    for call in turn.calls:
        if call.id in turn.ready or call.id in turn.results:
            continue  # decided before: while the reply streamed, or by an earlier drive
        if turn.foreseen is None or (decided := turn.foreseen.pop(call.id, None)) is None:
            asks = run.moments.before_tool or run.asked
            decided = await decide(run, call) if asks else _fitted(run, call)
        match decided:
            case Ready():
                turn.ready[call.id] = decided
            case ToolResult():
                settle(run, turn, call, decided)
            case Suspend():
                waiting = waiting or decided
    return waiting


def _fitted(run: Run, call: ToolCall) -> Ready | ToolResult:
    """Where nobody is asked, a call runs whose arguments fit."""
    tool = run.tools.get(call.name)
    if tool is None:
        return _unknown(run, call)
    fits = prepare(run, tool, call)
    return fits if isinstance(fits, ToolResult) else _allowed(run, call, fits, tool, "default")


async def decide(run: Run, call: ToolCall) -> Ready | ToolResult | Suspend:
    """May this call run, and with which arguments?"""
    tool = run.tools.get(call.name)
    if tool is None:
        return _unknown(run, call)
    asked = call
    call_or_problem = prepare(run, tool, call)
    if isinstance(call_or_problem, ToolResult):
        return call_or_problem
    call = call_or_problem
    rule, known = "default", run.asked.pop(call.id, None) if run.asked else None
    for ask in run.moments.before_tool:
        answer = await ask(run, call)
        if isinstance(answer, Suspend):
            known = None
            rule = _answered(run, call, tool, ask.__self__.name, answer)
            if not isinstance(rule, str):
                return rule
        if isinstance(answer, ToolResult):
            action = "deny" if answer.outcome == "denied" else "answer"
            _decided(run, call, tool, action, ask.__self__.name, answer.text)
            return answer
        if answer is None or answer is call or isinstance(answer, Suspend):
            continue
        if not isinstance(answer, ToolCall):
            raise misplaced(ask, answer, "the call, a ToolResult, Suspend or None")
        rule = ask.__self__.name
        changed = prepare(run, tool, msgspec.structs.replace(call, arguments=answer.arguments))
        if isinstance(changed, ToolResult):
            return changed
        call = changed
    if known is not None:  # whoever asked is not here: the question stands all the same
        rule = _answered(run, call, tool, known.rule, Suspend(known.reason or "may it run?"))
        if not isinstance(rule, str):
            return rule
    return _allowed(run, asked, call, tool, rule)


def _allowed(run: Run, asked: ToolCall, call: ToolCall, tool: Tool, rule: str) -> Ready:
    """The call may run, as it is now: on the record."""
    arguments = None if call.arguments == asked.arguments else call.arguments
    run.record(
        ToolDecided(
            call.id,
            tool.name,
            "allow",
            rule,
            run.caller_name,
            digest_of(call.arguments),
            None,
            arguments,
        )  # fmt: skip
    )
    return Ready(call, tool)


def _answered(
    run: Run, call: ToolCall, tool: Tool, name: str, ask: Suspend
) -> str | ToolResult | Suspend:
    """Who said yes; or the refusal; or the question, once it is on record."""
    verdict = run.answers.pop(call.id, None)
    if verdict is None:
        run.record(question(run, call, tool, name, ask))
        _shown(run, call, "ask", name, ask.reason)
        return ask
    rule = f"{name}:{verdict.by}"
    why = unfit(run, call, tool, ask, verdict) if verdict.allowed else verdict.reason
    if verdict.allowed and why is None:
        return rule
    refused = denied(call, why)
    _decided(run, call, tool, "deny", rule, refused.text)
    return refused


def prepare(run: Run, tool: Tool, call: ToolCall) -> ToolCall | ToolResult:
    """The call with arguments that fit the tool, or the result that says why they do not."""
    if call.raw is not None:
        problems = (unparsable(call.raw),)
    else:
        prepared = tool.prepare(call.arguments, run.plan.validation)
        problems = prepared.problems
        if not problems:
            if prepared.coerced:
                run.coerced[call.id] = prepared.coerced
            if prepared.arguments is call.arguments:
                return call
            return msgspec.structs.replace(call, arguments=prepared.arguments)
    words = "\n".join((f"The arguments for {tool.name} are not valid:", *problems))
    return ToolResult(call.id, words, True, call.name, "invalid")


def _unknown(run: Run, call: ToolCall) -> ToolResult:
    names = ", ".join(list(run.tools)[:40]) or "none"
    if call.name == UNNAMED and call.raw is not None:
        words = f"The tool call could not be read: {call.raw[:500]}"
    elif call.name == UNNAMED:
        words = f"The tool call has no name. Available: {names}."
    else:
        hint = nearest(call.name, run.tools) or "."
        words = f"There is no tool {shown(call.name)}{hint} Available: {names}."
    return ToolResult(call.id, words, True, call.name, "unknown_tool")


def _decided(
    run: Run, call: ToolCall, tool: Tool, action: Any, rule: str, reason: str | None
) -> None:
    digest = digest_of(call.arguments)
    run.record(ToolDecided(call.id, tool.name, action, rule, run.caller_name, digest, reason))
    _shown(run, call, action, rule, reason)


def _shown(run: Run, call: ToolCall, action: str, rule: str, reason: str | None) -> None:
    if run.emit is not unwatched:
        audit = {"event_type": f"tool_{action}", "rule": rule, "reason": reason}
        run.emit(ToolCallAudit(call.id, call.name, audit))


def denied(call: ToolCall, reason: str | None) -> ToolResult:
    """The answer to a call that someone refused."""
    words = f"Denied: {reason}" if reason else "Denied."
    return ToolResult(call.id, words, True, call.name, "denied")
