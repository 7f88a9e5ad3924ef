"""Marks of a trace: which entries leave one, and its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from windlass import events
from windlass.events import as_dict, kind_of
from windlass.events.receipts import details_of
from windlass.json_types import as_list, as_object
from windlass.trace.format import (
    count,
    literal,
    money,
    short,
)
from windlass.trace.model import Tone


class MarkText(NamedTuple):
    """The text of a mark."""

    kind: str
    text: str
    tone: Tone = "plain"
    detail: str = ""


def said_by(entry: events.JournalEntry) -> MarkText | None:
    """Return the mark that an entry leaves, or None."""
    kind = type(entry)
    if kind in _SILENT:
        return None
    describe = _TOLD.get(kind)
    if describe is not None:
        return describe(entry)
    facts = {name: value for name, value in as_dict(entry).items() if name != "kind"}
    return MarkText(
        kind_of(entry).replace("_", " "), ", ".join(f"{k} {literal(v)}" for k, v in facts.items())
    )


def _judge(e: events.JudgeDecision) -> MarkText:
    tone: Tone = "good" if e.verdict == "done" else "warn"
    return MarkText("judge", _and(f"{e.gate}: {e.verdict}", e.reasoning), tone, e.next_step or "")


def _note(e: events.Noted) -> MarkText | None:
    data = as_object(e.data)
    match e.name:
        case "workflow_step_begun":
            return None  # its bar shows it
        case "workflow_step_ended":
            failed = data.get("status") == "failed"
            then = ", ".join(as_list(data.get("edges")))
            told = f"{data.get('name')}: {data.get('verdict') or data.get('status')}"
            return MarkText("step", f"{told}, then {then}" if then else told, _TONES[failed])
        case "workflow_finished":
            return MarkText("workflow", f"{data.get('status')} ({data.get('reason')})")
        case _:
            return MarkText("note", f"{e.name}: {literal(e.data)}")


_TONES: dict[bool, Tone] = {True: "bad", False: "good"}


def _guardrail(e: events.GuardrailDecided) -> MarkText:
    tone: Tone = "good" if e.verdict == "passed" else "bad"
    name = f" {e.guardrail}" if e.guardrail else ""
    return MarkText("guardrail", _and(f"{e.stage}{name}: {e.verdict}", e.reason), tone)


def _check(e: events.CheckRan) -> MarkText:
    text = f"{e.name} {'passed' if e.passed else 'failed'}"
    return MarkText("check", _and(text, e.detail), "good" if e.passed else "bad")


def _step_judge(e: events.StepJudgeDecision) -> MarkText:
    if e.error is not None:
        return MarkText("step judge", f"could not be asked: {e.error}", "bad")
    if e.skipped:
        return MarkText("step judge", f"skipped: {e.reason or 'no reason given'}")
    tone: Tone = "warn" if e.verdict == "revise" else "good"
    return MarkText("step judge", _and(e.verdict or "", e.reasoning), tone, e.critique or "")


def _control(e: events.LoopControlDecision) -> MarkText:
    if e.action == "stop":
        return MarkText("control", _and(f"stop ({e.status or 'stopped'})", e.reason), "warn")
    return MarkText("control", _and(f"limit {e.old_limit} -> {e.new_limit} turns", e.reason))


def _stall(e: events.StallWarning) -> MarkText:
    return MarkText(
        "stall", f"{e.tool_name} {e.repeat_count} times with the same arguments", "warn"
    )


def _limit(e: events.BudgetExhausted) -> MarkText:
    used = money(e.used) if e.limit == "usd" else f"{e.used:g}"
    allowed = money(e.allowed) if e.limit == "usd" else f"{e.allowed:g}"
    return MarkText("limit", f"{e.limit}: {used} of {allowed}", "bad")


def _decision(e: events.ToolDecided) -> MarkText | None:
    detail = "\n".join([*details_of(e.receipt), *([e.diff] if e.diff else [])])
    if e.action == "allow":
        if e.rule == "default":
            return None
        scope = ", for the session" if e.scope == "session" else ""
        return MarkText("allowed", f"{e.tool} by {e.rule}{scope}", "good", detail)
    kind = {"deny": "denied", "ask": "asks", "answer": "answered"}[e.action]
    kind = "never" if e.action == "deny" and e.scope == "session" else kind
    return MarkText(kind, _and(f"{e.tool} by {e.rule}", e.reason), "warn", detail)


def _verdict(e: events.IterationEnd) -> MarkText | None:
    if e.verdict == "keep_going" and not e.reason:
        return None  # the next turn shows it
    verdict = e.verdict.replace("_", " ")
    why = ", ".join(part for part in (e.status, e.reason) if part)
    tone: Tone = (
        "good" if e.verdict == "finish" else "warn" if e.verdict != "keep_going" else "plain"
    )
    return MarkText("verdict", f"{verdict} ({why})" if why else verdict, tone)


def _end_mark(e: events.RunEnded) -> MarkText:
    good = e.status in ("done", "idle")
    why = f" ({e.stop_reason})" if e.stop_reason and not good else ""
    message = str((e.error or {}).get("message") or "")
    tone: Tone = "good" if good else "warn" if e.status == "suspended" else "bad"
    return MarkText("end", _and(f"{e.status}{why}", message), tone)


def _suspend_mark(e: events.Suspended) -> MarkText:
    waits = f"; waits for {', '.join(e.waiting)}" if e.waiting else ""
    return MarkText("parked", f"{e.reason}{waits}", "warn")


def _inbox(e: events.InboxTaken) -> MarkText:
    payload = e.payload if isinstance(e.payload, str) else ""
    detail = "" if e.payload is None else literal(e.payload)
    return MarkText("inbox", _and(e.item, payload), "plain", detail)


def _search(e: events.ToolSearchResulted) -> MarkText:
    found = ", ".join(e.tool_names) or e.diagnostic or "no tool"
    return MarkText("found", found, "plain" if e.tool_names else "warn")


def _feedback(e: events.FeedbackInjected) -> MarkText:
    return MarkText("feedback", f"{e.feedback}: {e.text}")


def _reshape_mark(e: events.Reshaped) -> MarkText:
    gone = count(e.stop - e.start, "message")
    return MarkText("view", f"{gone} replaced by {len(e.messages)}: {e.why}", "warn")


def _compaction_mark(e: events.Compacted) -> MarkText:
    sizes = f"{short(e.estimated_tokens_before)} -> {short(e.estimated_tokens_after)} tokens"
    return MarkText("compaction", f"about {sizes} ({e.reason}, {e.strategy})", "warn")


def _projection_mark(e: events.Projected) -> MarkText:
    sizes = f"{short(e.estimated_tokens_before)} -> {short(e.estimated_tokens_after)} tokens"
    return MarkText("projection", f"about {sizes} ({e.policy})", "warn")


def _scratchpad(e: events.AgentScratchpad) -> MarkText:
    held = e.action in ("rejected", "failed", "refused")
    return MarkText(
        "scratchpad",
        _and(f"{e.action}, version {e.version}", e.reason),
        "warn" if held else "plain",
    )


def _progress(e: events.ProgressReported) -> MarkText:
    return MarkText("progress", e.message or count(len(e.entries), "entry", "entries"))


def _skills_mark(e: events.SkillMatched) -> MarkText:
    found = ", ".join(f"{one.name} {one.score:.2f}" for one in e.candidates[:5])
    tone: Tone = "warn" if e.warning else "plain"
    return MarkText("skills", _and(found or "none fits", e.warning), tone)


def _and(text: str, more: str | None) -> str:
    return f"{text}: {more}" if more else text


def _tools_mark(entry: events.SkillNarrowed) -> MarkText:
    if entry.removed_tools:
        return MarkText("tools", f"{', '.join(entry.removed_tools)} hidden, not used for a while")
    return MarkText("tools", f"{', '.join(entry.returned_tools)} shown again")


# Drawn as bars or heads, shown in other marks, or not worth showing.
_SILENT = frozenset(
    {
        events.SessionOpened,
        events.RunStarted,
        events.Framed,
        events.Said,
        events.IterationStart,
        events.CallReserved,
        events.Replied,
        events.ReplyFailed,
        events.ToolIntended,
        events.ToolResulted,
        events.ToolShown,
        events.ToolMessage,
        events.FinishProposed,
        events.Remembered,
        events.Decorated,
    }
)

_TOLD: dict[type, Callable[[Any], MarkText | None]] = {
    events.ArtifactWritten: lambda e: MarkText("artifact", f"{e.artifact_kind}: {e.title}", "good"),
    events.WorkerUpdate: lambda e: MarkText("worker", f"task {e.number}: {e.status}"),
    events.WorkerStopped: lambda e: MarkText(
        "worker", f"{e.status}: {e.reason or 'no reason given'}"
    ),
    events.GuardrailDecided: _guardrail,
    events.JudgeDecision: _judge,
    events.CheckRan: _check,
    events.StepJudgeDecision: _step_judge,
    events.LoopControlDecision: _control,
    events.StallWarning: _stall,
    events.LoopDetected: lambda e: MarkText("loop", f"{e.detail} ({e.action})", "warn"),
    events.LoopStuck: lambda e: MarkText("stuck", f"after {count(e.nudges, 'nudge')}", "bad"),
    events.BudgetExhausted: _limit,
    events.ToolDecided: _decision,
    events.IterationEnd: _verdict,
    events.RunEnded: _end_mark,
    events.Suspended: _suspend_mark,
    events.RunResumed: lambda e: MarkText("resumed", f"at the stage {e.at!r}", "good"),
    events.InboxTaken: _inbox,
    events.ToolSearchQueried: lambda e: MarkText("search", f"tools for {literal(e.query)}"),
    events.ToolSearchResulted: _search,
    events.FeedbackInjected: _feedback,
    events.Reminded: lambda e: MarkText("reminder", e.text),
    events.Reshaped: _reshape_mark,
    events.Compacted: _compaction_mark,
    events.Projected: _projection_mark,
    events.PermissionGrant: lambda e: MarkText(
        "granted", f"{e.tool}, {e.grant}: {e.reason}", "good"
    ),
    events.PermissionDeny: lambda e: MarkText("denied", f"{e.tool}: {e.reason}", "warn"),
    events.PermissionEscalation: lambda e: MarkText("asked for", f"{e.tool}: {e.reason}", "warn"),
    events.TaintAdded: lambda e: MarkText(
        "touched", f"{e.tool}: {', '.join([*e.labels, *[f'{one} results' for one in e.results]])}"
    ),
    events.AgentScratchpad: _scratchpad,
    events.SessionReset: lambda _: MarkText(
        "reset", "everything said so far is out of the view", "warn"
    ),
    events.HistoryRepaired: lambda e: MarkText("mended", "; ".join(e.problems), "warn"),
    events.NativeToolFallback: lambda e: MarkText(
        "fallback", f"{count(e.calls, 'call')} written as text"
    ),
    events.NativeToolRejected: lambda e: MarkText(
        "fallback", f"{count(e.calls, 'call')} refused", "warn"
    ),
    events.ProgressReported: _progress,
    events.SkillMatched: _skills_mark,
    events.SkillActivated: lambda e: MarkText("skill", _and(f"{e.name} on", e.reason), "good"),
    events.SkillDeactivated: lambda e: MarkText("skill", f"{e.name} off"),
    events.SkillScopeTools: lambda e: MarkText(
        "scope", f"{e.name}: {', '.join(e.tools) or 'no tool'}"
    ),
    events.SkillNarrowed: _tools_mark,
    events.EffectPlanned: lambda e: MarkText("planned", f"{e.tool} {literal(e.arguments)}"),
    events.PlanMade: lambda e: MarkText("plan", f"{count(e.effects, 'effect')} ({e.plan[:12]})"),
    events.PlanApproved: lambda e: MarkText("plan", f"approved by {e.by}", "good"),
    events.PlanUsed: lambda e: MarkText("plan", f"used by {e.session_id}"),
    events.UndoBegun: lambda e: MarkText("undo", _and(f"{e.tool} by {e.by}", e.what)),
    events.UndoEnded: lambda e: MarkText("undone", _and(f"{e.tool}: {e.outcome}", e.detail)),
    events.Noted: _note,
}
