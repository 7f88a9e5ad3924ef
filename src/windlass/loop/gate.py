"""The gate: every call of a turn is decided, on the record, before any of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from windlass.detach import detach
from windlass.errors import nearest, safe_repr
from windlass.events import ToolCallUpdate, ToolDecided
from windlass.events.receipts import takes_session_answer
from windlass.json_types import JsonObject
from windlass.loop.approval_request import (
    EXPIRED,
    Source,
    find_answer,
    merge_sources,
    question,
    receipt_of,
    rule_of,
    standing_question,
    unanswered_sources,
)
from windlass.loop.call_diff import find_diff
from windlass.loop.calls import prepare_call, settle
from windlass.loop.plan import digest_of
from windlass.loop.review import Refusal, Review
from windlass.loop.run import Run, audit_event
from windlass.loop.state import without
from windlass.loop.turn import UNNAMED, Ready, Turn
from windlass.loop.verdict import Suspend
from windlass.messages import ToolCall, ToolResult
from windlass.models.base import silent
from windlass.tools.handlers import own
from windlass.tools.result import not_permitted


def open_gate(run: Run, turn: Turn) -> bool:
    """Decide the calls in the order asked, up to the first that somebody is asked about.

    True: all are decided, and `gate` has nothing to do.
    """
    plan, calls = run.plan, turn.calls
    ready, results = turn.ready, turn.results
    if run.emit is not silent:
        for call in calls:
            if call.id not in results:
                run.emit(ToolCallUpdate(call.id, "pending"))
    if len(calls) > plan.max_calls_per_reply:
        _refuse_excess_calls(run, turn, plan.max_calls_per_reply)
    if turn.foreseen is not None or run.calls.questions:
        return False
    asking = plan.moments.before_tool
    for call in calls:
        call_id = call.id
        if call_id in ready or call_id in results:
            continue  # decided before: while the reply streamed, or by an earlier drive
        if asking and not _is_passed(run, call):
            return False
        decided = _allow_unasked(run, call)
        if type(decided) is Ready:
            ready[call_id] = decided
        else:
            assert isinstance(decided, ToolResult)
            settle(run, turn, call, decided)
    return True


async def gate(run: Run, turn: Turn) -> Suspend | None:
    """Decide the calls that are left. Those that wait for someone park the run together."""
    waiting: Suspend | None = None
    ready, results = turn.ready, turn.results
    for call in turn.calls:
        call_id = call.id
        if call_id in ready or call_id in results:
            continue
        if turn.foreseen is None or (decided := turn.foreseen.pop(call_id, None)) is None:
            asking = run.plan.moments.before_tool
            asks = run.calls.questions or (asking and not _is_passed(run, call))
            decided = await decide(run, call) if asks else _allow_unasked(run, call)
        if isinstance(decided, Ready):
            ready[call_id] = decided
        elif isinstance(decided, ToolResult):
            settle(run, turn, call, decided)
        else:
            waiting = waiting or decided
    return waiting


def _is_passed(run: Run, call: ToolCall) -> bool:
    for method in run.plan.moments.before_tool:  # noqa: SIM110 - done at every call, twice as fast
        if not method.__self__.passes(run, call):
            return False
    return True


def _refuse_excess_calls(run: Run, turn: Turn, limit: int) -> None:
    """Answer the calls of a reply after the first `limit`, before anybody is asked about them."""
    words = f"Not run: too many calls in one reply (limit {limit})."
    for call in turn.calls[limit:]:
        if call.id not in turn.ready and call.id not in turn.results:
            settle(run, turn, call, ToolResult(call.id, words, True, call.name, "not_run"))


def _allow_unasked(run: Run, call: ToolCall) -> Ready | ToolResult:
    """Allow a call with valid arguments, where no policy is asked."""
    tool = run.tools.get(call.name)
    if tool is None:
        return _unknown(run, call)
    fits = prepare_call(run, tool, call)
    if type(fits) is not ToolCall:
        assert isinstance(fits, ToolResult)
        return fits
    changed = None if fits is call else fits.arguments
    digest, who, record = digest_of(fits.arguments), run.caller_name, run.record
    entry = ToolDecided(call.id, tool.name, "allow", "default", who, digest, None, changed)
    record(entry)
    if run.emit is silent:
        return Ready(fits, tool)
    run.emit(audit_event(entry))
    return Ready(msgspec.structs.replace(fits, arguments=own(fits.arguments)), tool)


async def decide(run: Run, call: ToolCall) -> Ready | ToolResult | Suspend:
    """Decide whether a call may run, and with which arguments."""
    tool = run.tools.get(call.name)
    if tool is None:
        return _unknown(run, call)
    known = run.calls.questions.get(call.id)
    if known is not None:
        run.calls.questions = without(run.calls.questions, call.id)
    prepared = prepare_call(run, tool, call)
    if isinstance(prepared, ToolResult):
        return prepared
    review = Review(run, tool, prepared)
    ended = await review.decide()
    if ended is not None:
        return _end(review, ended)
    sources = merge_sources(known, review.sources)
    if unanswered_sources(sources):
        diff = None
        if standing_question(run, review.call, tool, review.sources) is None:
            diff = await find_diff(run, tool, review.call)
        return _answer(review, call, sources, diff)
    return _allow_reviewed(review, call, sources)


def _end(review: Review, ended: Refusal) -> ToolResult:
    """Record that a policy refused the call."""
    answer = ended.answer
    if isinstance(answer, ToolResult):
        if ended.rule is not None:
            _record(review, "deny", ended.rule, reason=answer.text)
        return answer
    rule = ended.rule or review.rule
    asks = () if answer.ask is None else (Source(rule, answer.ask, answer.by),)
    _record(review, "deny", rule, asks, answer.by, answer.reason, answer.receipt)
    return answer.result


def _answer(
    review: Review, asked: ToolCall, sources: Sequence[Source], diff: str | None
) -> Ready | ToolResult | Suspend:
    """Decide a call by the answer to its question, or record the question and park."""
    run, call, tool = review.run, review.call, review.tool
    given = run.calls.answers.get(call.id)
    if given is not None:
        run.calls.answers = without(run.calls.answers, call.id)
    found = None if given is None else find_answer(run, call, tool, review.sources, given)
    if found is None or found.unfit not in (None, EXPIRED):
        entry = standing_question(run, call, tool, review.sources)
        if entry is None:
            entry = question(run, call, tool, sources, found.unfit if found else None, diff)
            run.record(entry)
        run.emit(audit_event(entry))
        return _park(unanswered_sources(sources), entry.reason)
    verdict, sources = found.verdict, found.sources
    asking = unanswered_sources(sources)
    rule = f"{rule_of(asking)}:{verdict.by}"
    receipt, by = receipt_of(asking), verdict.person or "host"
    scope = verdict.scope if takes_session_answer(receipt) else None
    if verdict.allowed and found.unfit is None:
        return _allow(review, asked, rule, sources, by, verdict.reason, receipt, scope)
    why = found.unfit or verdict.reason
    refused = denial_result(call, why)
    if verdict.allowed:  # a yes that came too late holds for nothing
        scope = None
    _record(review, "deny", rule, sources, by, why or refused.text, receipt, scope=scope)
    return refused


def _park(sources: Sequence[Source], reason: str | None) -> Suspend:
    first = sources[0].ask
    if reason is None or reason == first.reason:
        return first
    return Suspend(reason, first.conditions, first.initiator)


def _allow_reviewed(
    review: Review, asked: ToolCall, sources: Sequence[Source]
) -> Ready | ToolResult:
    """Allow a call that no policy asks about, by the rule that allowed it."""
    granted = review.granted.get(review.rule)
    if granted is None:
        return _allow(review, asked, review.rule, sources)
    by = granted.by
    return _allow(review, asked, review.rule, sources, by, granted.reason, granted.receipt)


def _allow(
    review: Review,
    asked: ToolCall,
    rule: str,
    sources: Sequence[Source] = (),
    by: str | None = None,
    reason: str | None = None,
    receipt: JsonObject | None = None,
    scope: Literal["session"] | None = None,
) -> Ready | ToolResult:
    """Record that the call may run as it is now, or has its answer."""
    call = review.call
    if (answer := review.answer) is not None:
        _record(
            review, "answer", review.rule, sources, by, reason or answer.text, receipt, scope=scope
        )
        return answer
    same = call.arguments is asked.arguments or digest_of(call.arguments) == digest_of(
        asked.arguments
    )
    changed = None if same else call.arguments
    _record(review, "allow", rule, sources, by, reason, receipt, changed, scope)
    # Its own copy: whoever holds the reply cannot change what was decided.
    return Ready(msgspec.structs.replace(call, arguments=own(call.arguments)), review.tool)


def _record(
    review: Review,
    action: Literal["allow", "deny", "answer"],
    rule: str,
    sources: Sequence[Source] = (),
    by: str | None = None,
    reason: str | None = None,
    receipt: JsonObject | None = None,
    arguments: JsonObject | None = None,
    scope: Literal["session"] | None = None,
) -> None:
    run, call = review.run, review.call
    entry = ToolDecided(
        call.id,
        review.tool.name,
        action,
        rule,
        run.caller_name,
        digest_of(call.arguments),
        reason,
        arguments,
        receipt=None if receipt is None else {**detach(receipt), "action": action},
        asks=tuple([source.as_data(bound=False) for source in sources]),
        answered_by=by,
        scope=scope,
    )
    run.record(entry)
    if run.emit is not silent:
        run.emit(audit_event(entry))


def _unknown(run: Run, call: ToolCall) -> ToolResult:
    """Answer a call of a tool that the run does not have."""
    if call.name in run.plan.withheld:
        return not_permitted(call, f"{call.name} is not among the tools that this agent was given")
    names = ", ".join(list(run.tools)[:40]) or "none"
    if call.name == UNNAMED and call.raw is not None:
        words = f"The tool call could not be read: {call.raw[:500]}"
    elif call.name == UNNAMED:
        words = f"The tool call has no name. Available: {names}."
    else:
        hint = nearest(call.name, run.tools) or "."
        words = f"There is no tool {safe_repr(call.name)}{hint} Available: {names}."
    return ToolResult(call.id, words, True, call.name, "unknown_tool")


def denial_result(call: ToolCall, reason: str | None) -> ToolResult:
    """Build the answer to a call that someone refused."""
    words = f"Denied: {reason}" if reason else "Denied."
    return ToolResult(call.id, words, True, call.name, "denied")
