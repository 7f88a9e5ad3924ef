"""Which entries of a journal are marks in its picture, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from windlass import events
from windlass.events import as_dict, kind_of
from windlass.trace.format import (
    count,
    literal,
    money,
    short,
)
from windlass.trace.model import Tone


class Said(NamedTuple):
    """What a mark says."""

    kind: str
    text: str
    tone: Tone = "plain"
    detail: str = ""


def said_by(entry: events.JournalEntry) -> Said | None:
    """The mark that an entry leaves; bars and the words between them leave none."""
    kind = type(entry)
    if kind in _SILENT:
        return None
    tell = _TOLD.get(kind)
    if tell is not None:
        return tell(entry)
    facts = {name: value for name, value in as_dict(entry).items() if name != "kind"}
    return Said(kind_of(entry).replace("_", " "), ", ".join(f"{k} {literal(v)}" for k, v in facts.items()))  # fmt: skip


def _judge(e: events.JudgeDecision) -> Said:
    tone: Tone = "good" if e.verdict == "done" else "warn"
    return Said("judge", _and(f"{e.gate}: {e.verdict}", e.reasoning), tone, e.next_step or "")


def _check(e: events.CheckRan) -> Said:
    text = f"{e.name} {'passed' if e.passed else 'failed'}"
    return Said("check", _and(text, e.detail), "good" if e.passed else "bad")


def _step_judge(e: events.StepJudgeDecision) -> Said:
    if e.error is not None:
        return Said("step judge", f"could not be asked: {e.error}", "bad")
    if e.skipped:
        return Said("step judge", f"skipped: {e.reason or 'no reason given'}")
    tone: Tone = "warn" if e.verdict == "revise" else "good"
    return Said("step judge", _and(e.verdict or "", e.reasoning), tone, e.critique or "")


def _control(e: events.LoopControlDecision) -> Said:
    if e.action == "stop":
        return Said("control", _and(f"stop ({e.status or 'stopped'})", e.reason), "warn")
    return Said("control", _and(f"limit {e.old_limit} -> {e.new_limit} turns", e.reason))


def _stall(e: events.StallWarning) -> Said:
    return Said("stall", f"{e.tool_name} {e.repeat_count} times with the same arguments", "warn")


def _limit(e: events.BudgetExhausted) -> Said:
    used = money(e.used) if e.limit == "usd" else f"{e.used:g}"
    allowed = money(e.allowed) if e.limit == "usd" else f"{e.allowed:g}"
    return Said("limit", f"{e.limit}: {used} of {allowed}", "bad")


def _decision(e: events.ToolDecided) -> Said | None:
    if e.action == "allow":
        return None if e.rule == "default" else Said("allowed", f"{e.tool} by {e.rule}", "good")
    kind = {"deny": "denied", "ask": "asks", "answer": "answered"}[e.action]
    return Said(kind, _and(f"{e.tool} by {e.rule}", e.reason), "warn")


def _verdict(e: events.IterationEnd) -> Said | None:
    if e.verdict == "keep_going" and not e.reason:
        return None  # the next turn says it
    words = e.verdict.replace("_", " ")
    why = ", ".join(part for part in (e.status, e.reason) if part)
    tone: Tone = (
        "good" if e.verdict == "finish" else "warn" if e.verdict != "keep_going" else "plain"
    )
    return Said("verdict", f"{words} ({why})" if why else words, tone)


def _ended(e: events.RunEnded) -> Said:
    good = e.status in ("done", "idle")
    why = f" ({e.stop_reason})" if e.stop_reason and not good else ""
    said = str((e.error or {}).get("message") or "")
    tone: Tone = "good" if good else "warn" if e.status == "suspended" else "bad"
    return Said("end", _and(f"{e.status}{why}", said), tone)


def _suspended(e: events.Suspended) -> Said:
    waits = f"; waits for {', '.join(e.waiting)}" if e.waiting else ""
    return Said("parked", f"{e.reason}{waits}", "warn")


def _inbox(e: events.InboxTaken) -> Said:
    payload = e.payload if isinstance(e.payload, str) else ""
    detail = "" if e.payload is None else literal(e.payload)
    return Said("inbox", _and(e.item, payload), "plain", detail)


def _search(e: events.ToolSearchResulted) -> Said:
    found = ", ".join(e.tool_names) or e.diagnostic or "no tool"
    return Said("found", found, "plain" if e.tool_names else "warn")


def _feedback(e: events.FeedbackInjected) -> Said:
    return Said("feedback", f"{e.feedback}: {e.text}")


def _reshaped(e: events.Reshaped) -> Said:
    gone = count(e.stop - e.start, "message")
    return Said("view", f"{gone} replaced by {len(e.messages)}: {e.why}", "warn")


def _compacted(e: events.Compacted) -> Said:
    sizes = f"{short(e.estimated_tokens_before)} -> {short(e.estimated_tokens_after)} tokens"
    return Said("compaction", f"about {sizes} ({e.reason}, {e.strategy})", "warn")


def _projected(e: events.Projected) -> Said:
    sizes = f"{short(e.estimated_tokens_before)} -> {short(e.estimated_tokens_after)} tokens"
    return Said("projection", f"about {sizes} ({e.policy})", "warn")


def _scratchpad(e: events.AgentScratchpad) -> Said:
    held = e.action in ("rejected", "failed", "refused")
    return Said("scratchpad", _and(f"{e.action}, version {e.version}", e.reason), "warn" if held else "plain")  # fmt: skip


def _progress(e: events.ProgressReported) -> Said:
    return Said("progress", e.message or count(len(e.entries), "entry", "entries"))


def _matched(e: events.SkillMatched) -> Said:
    found = ", ".join(f"{one.name} {one.score:.2f}" for one in e.candidates[:5])
    tone: Tone = "warn" if e.warning else "plain"
    return Said("skills", _and(found or "none fits", e.warning), tone)


def _and(text: str, more: str | None) -> str:
    return f"{text}: {more}" if more else text


def _narrowed(entry: events.SkillNarrowed) -> Said:
    if entry.removed_tools:
        return Said("tools", f"{', '.join(entry.removed_tools)} hidden, not used for a while")
    return Said("tools", f"{', '.join(entry.returned_tools)} shown again")


# Drawn as bars or heads, said in other marks, or nothing to look at.
_SILENT = frozenset(
    {events.SessionOpened, events.RunStarted, events.Framed, events.Said, events.IterationStart, events.CallReserved, events.Replied, events.ReplyFailed,
     events.ToolIntended, events.ToolResulted, events.ToolShown, events.ToolMessage, events.FinishProposed, events.Remembered,
     events.Decorated}
)  # fmt: skip

_TOLD: dict[type, Callable[[Any], Said | None]] = {
    events.JudgeDecision: _judge,
    events.CheckRan: _check,
    events.StepJudgeDecision: _step_judge,
    events.LoopControlDecision: _control,
    events.StallWarning: _stall,
    events.LoopDetected: lambda e: Said("loop", f"{e.detail} ({e.action})", "warn"),
    events.LoopStuck: lambda e: Said("stuck", f"after {count(e.nudges, 'nudge')}", "bad"),
    events.BudgetExhausted: _limit,
    events.ToolDecided: _decision,
    events.IterationEnd: _verdict,
    events.RunEnded: _ended,
    events.Suspended: _suspended,
    events.RunResumed: lambda e: Said("resumed", f"at the stage {e.at!r}", "good"),
    events.InboxTaken: _inbox,
    events.ToolSearchQueried: lambda e: Said("search", f"tools for {literal(e.query)}"),
    events.ToolSearchResulted: _search,
    events.FeedbackInjected: _feedback,
    events.Reminded: lambda e: Said("reminder", e.text),
    events.Reshaped: _reshaped,
    events.Compacted: _compacted,
    events.Projected: _projected,
    events.PermissionGrant: lambda e: Said("granted", f"{e.tool}, {e.grant}: {e.reason}", "good"),
    events.PermissionDeny: lambda e: Said("denied", f"{e.tool}: {e.reason}", "warn"),
    events.PermissionEscalation: lambda e: Said("asked for", f"{e.tool}: {e.reason}", "warn"),
    events.TaintAdded: lambda e: Said("touched", f"{e.tool}: {', '.join(e.labels)}"),
    events.AgentScratchpad: _scratchpad,
    events.SessionReset: lambda _: Said(
        "reset", "everything said so far is out of the view", "warn"
    ),
    events.HistoryRepaired: lambda e: Said("mended", "; ".join(e.problems), "warn"),
    events.NativeToolFallback: lambda e: Said(
        "fallback", f"{count(e.calls, 'call')} written as text"
    ),
    events.NativeToolRejected: lambda e: Said(
        "fallback", f"{count(e.calls, 'call')} refused", "warn"
    ),
    events.ProgressReported: _progress,
    events.SkillMatched: _matched,
    events.SkillActivated: lambda e: Said("skill", _and(f"{e.name} on", e.reason), "good"),
    events.SkillDeactivated: lambda e: Said("skill", f"{e.name} off"),
    events.SkillScopeTools: lambda e: Said("scope", f"{e.name}: {', '.join(e.tools) or 'no tool'}"),
    events.SkillNarrowed: _narrowed,
    events.EffectPlanned: lambda e: Said("planned", f"{e.tool} {literal(e.arguments)}"),
    events.PlanMade: lambda e: Said("plan", f"{count(e.effects, 'effect')} ({e.plan[:12]})"),
    events.PlanApproved: lambda e: Said("plan", f"approved by {e.by}", "good"),
    events.PlanUsed: lambda e: Said("plan", f"used by {e.session_id}"),
    events.UndoBegun: lambda e: Said("undo", _and(f"{e.tool} by {e.by}", e.what)),
    events.UndoEnded: lambda e: Said("undone", _and(f"{e.tool}: {e.outcome}", e.detail)),
    events.Noted: lambda e: Said("note", f"{e.name}: {literal(e.data)}"),
}
