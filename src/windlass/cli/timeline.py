"""A session's journal as a timeline: each turn, model call, decision, tool call, result and verdict.

Pure but for `show`, which writes it down; `windlass sessions show` and the demo share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from windlass import events
from windlass.cli import text as words
from windlass.cli.console import ConsoleOutput
from windlass.cli.text import clean, one_line, shown_call
from windlass.events.receipts import details_of
from windlass.messages import Thinking
from windlass.store.codec import decode
from windlass.trace.marks import said_by

if TYPE_CHECKING:
    from windlass.store.base import Store

LABEL = 8


class TimedEntry(NamedTuple):
    """An entry, and when it was written down."""

    at: float
    entry: events.JournalEntry


class Step(NamedTuple):
    """One line of the timeline: a label, what happened, and how it looks."""

    label: str
    text: str
    tone: str = ""
    heading: bool = False


async def read(store: Store, session_id: str) -> list[TimedEntry]:
    """Read a session's entries with their times."""
    return [
        TimedEntry(row.at, entry)
        for row in await store.rows(session_id)
        for entry in decode(row.payload, session_id, row.seq)
    ]


def show(paper: ConsoleOutput, entries: Sequence[TimedEntry], *, full: bool = False) -> None:
    """Write the timeline. Long text is cut to the line unless all of it is wanted."""
    start = entries[0].at if entries else 0.0
    width = None if full else max(40, paper.width - 11 - LABEL - 2)
    for number, (at, entry) in enumerate(entries):
        if number > 1 and isinstance(entry, events.RunStarted):
            paper.line("")
        for step in steps(entry):
            if step.heading:
                paper.line("")
                paper.line((f"{step.label} {step.text}".rstrip(), step.tone or "bold"))
                continue
            text = one_line(step.text, width)
            paper.line(
                (f"{_offset(at - start):>10} ", "dim"),
                (f"{step.label:<{LABEL}}", step.tone or "bold"),
                " ",
                (text, step.tone if step.tone == "dim" else ""),
            )


def _offset(seconds: float) -> str:
    if seconds < 60:
        return f"+{max(0.0, seconds):.2f} s"
    return f"+{words.duration(seconds)}"


def steps(entry: events.JournalEntry) -> Iterator[Step]:
    """Describe an entry in lines."""
    yield from _TOLD[type(entry)](entry)


# --------------------------------------------------------------------------- entry by entry


def _session_steps(entry: events.SessionOpened) -> Iterator[Step]:
    if entry.parent_id is not None:
        kept = (
            "" if entry.branch_at is None else f" after {words.count(entry.branch_at, 'message')}"
        )
        yield Step("forked", f"from {entry.parent_id}{kept}")


def _start_steps(entry: events.RunStarted) -> Iterator[Step]:
    name = f"{entry.name}: " if entry.name else ""
    yield Step("run", f"{name}{entry.provider}:{entry.model}, for {entry.caller}, by {entry.door}")


def _end_steps(entry: events.RunEnded) -> Iterator[Step]:
    good = entry.status in ("done", "idle")
    why = f" ({entry.stop_reason})" if entry.stop_reason and not good else ""
    message = f": {entry.error.get('message')}" if entry.error else ""
    yield Step("end", f"{entry.status}{why}{message}", "green" if good else "yellow")


def _resume_steps(entry: events.RunResumed) -> Iterator[Step]:
    yield Step("resumed", f"where the journal ended, at the stage {entry.at!r}", "magenta")


def _suspend_steps(entry: events.Suspended) -> Iterator[Step]:
    waiting = f"; waits for {', '.join(entry.waiting)}" if entry.waiting else ""
    yield Step("parked", f"{entry.reason}{waiting}", "yellow")


def _frame_steps(entry: events.Framed) -> Iterator[Step]:
    tools = ", ".join(str(tool.get("name")) for tool in entry.tools) or "none"
    yield Step("frame", f"tools: {tools}; system: {entry.system or 'none'}", "dim")


def _message_steps(entry: events.Said) -> Iterator[Step]:
    message = entry.message
    text = message.text or words.count(len(message.content), "block")
    yield Step(message.kind or message.role, text, "" if message.kind is None else "dim")


def _turn(entry: events.IterationStart) -> Iterator[Step]:
    yield Step("turn", str(entry.number), heading=True)


def _reply_steps(entry: events.Replied) -> Iterator[Step]:
    usage = entry.usage
    facts = [f"{usage.input_tokens:,} in", f"{usage.output_tokens:,} out"]
    if usage.cache_read_tokens:
        facts.append(f"{usage.cache_read_tokens:,} from cache")
    facts += [words.money(entry.cost_usd), words.duration(entry.duration_ms / 1000)]
    if entry.stop_reason not in ("end_turn", "tool_use"):
        facts.append(entry.stop_reason)
    asked = f"{entry.purpose}: " if entry.purpose else ""
    yield Step("model", f"{asked}{' · '.join(facts)}", "cyan")
    for block in entry.message.content:
        if isinstance(block, Thinking) and block.text:
            yield Step("thinks", block.text, "dim")
    if entry.message.text:
        yield Step("says", entry.message.text)
    for call in entry.message.tool_calls:
        yield Step("asks", shown_call(call.name, call.arguments))


def _reply_failed(entry: events.ReplyFailed) -> Iterator[Step]:
    yield Step("model", f"failed ({entry.category}): {entry.message}", "red")


def _decision_steps(entry: events.ToolDecided) -> Iterator[Step]:
    why = f": {entry.reason}" if entry.reason else ""
    tone = "dim" if entry.action == "allow" else "yellow"
    by = f"by rule {entry.rule!r} for {entry.caller}"
    if entry.answered_by is not None:
        by += f", answered by {entry.answered_by}"
    if entry.scope == "session":
        by += " for the session"
    yield Step(entry.action, f"{entry.tool} {by}, arguments {entry.digest[:8]}{why}", tone)
    if entry.action in ("ask", "deny"):
        for line in (*details_of(entry.receipt), *(entry.diff or "").splitlines()):
            yield Step("", line, "dim")


_EFFECTS = {
    "read_only": "read only: may run again",
    "keyed": "keyed: may run again under its key",
    "transactional": "transactional: commits with its record",
    "plain": "plain: never run twice",
}


def _intent_steps(entry: events.ToolIntended) -> Iterator[Step]:
    again = f", attempt {entry.attempt}" if entry.attempt > 1 else ""
    eager = ", while the model still wrote" if entry.eager else ""
    yield Step("starts", f"{entry.tool} ({_EFFECTS[entry.effect]}{again}{eager})", "dim")


def _result_steps(entry: events.ToolResulted) -> Iterator[Step]:
    good = entry.outcome == "ok" and not entry.result.is_error
    took = f" ({words.duration(entry.duration_ms / 1000)})" if entry.duration_ms else ""
    outcome = "" if entry.outcome == "ok" else f" {entry.outcome}:"
    text = f"{entry.tool}:{outcome} {entry.result.text}{took}"
    yield Step("result", text, "green" if good else "red")


def _tool_message_steps(entry: events.ToolMessage) -> Iterator[Step]:
    if entry.shown:
        changed = words.count(len(entry.shown), "result")
        yield Step("shown", f"{changed} changed before the model sees it", "dim")


def _verdict(entry: events.IterationEnd) -> Iterator[Step]:
    verdict = entry.verdict.replace("_", " ")
    why = ", ".join(part for part in (entry.status, entry.reason) if part)
    yield Step("verdict", f"{verdict} ({why})" if why else verdict, "dim")


def _reshape_steps(entry: events.Reshaped) -> Iterator[Step]:
    gone, new = words.count(entry.stop - entry.start, "message"), len(entry.messages)
    yield Step("view", f"{gone} replaced by {new}: {entry.why}", "yellow")


def _compaction_steps(entry: events.Compacted) -> Iterator[Step]:
    sizes = f"{entry.estimated_tokens_before:,} to {entry.estimated_tokens_after:,} tokens"
    yield Step("compact", f"about {sizes} ({entry.reason}, {entry.strategy})", "yellow")


def _projection_steps(entry: events.Projected) -> Iterator[Step]:
    sizes = f"{entry.estimated_tokens_before:,} -> {entry.estimated_tokens_after:,} tokens"
    yield Step("project", f"about {sizes} ({entry.policy})", "yellow")


def _scratchpad(entry: events.AgentScratchpad) -> Iterator[Step]:
    why = f": {entry.reason}" if entry.reason else ""
    sizes = ", ".join(f"{size} {name.replace('_', ' ')}" for name, size in entry.counts.items())
    yield Step("pad", f"{entry.action}, version {entry.version} ({sizes}){why}", "dim")


def _inbox(entry: events.InboxTaken) -> Iterator[Step]:
    payload = "" if entry.payload is None else f": {_plain(entry.payload)}"
    if entry.item == "memory":  # the entries that follow show the edit
        payload = ""
    yield Step("inbox", f"{entry.item}{payload}", "magenta")


def _budget(entry: events.BudgetExhausted) -> Iterator[Step]:
    yield Step("limit", f"{entry.limit}: {entry.used:g} of {entry.allowed:g}", "yellow")


def _note_steps(entry: events.Noted) -> Iterator[Step]:
    if entry.name.startswith("workflow_"):
        yield from _as_in_the_picture(entry)
    else:
        yield Step("note", f"{entry.name}: {_plain(entry.data)}", "dim")


_TONES = {"plain": "dim", "good": "green", "warn": "yellow", "bad": "red"}


def _as_in_the_picture(entry: Any) -> Iterator[Step]:
    mark = said_by(entry)
    if mark is not None:
        yield Step(mark.kind, mark.text, _TONES[mark.tone])


def _nothing(_entry: Any) -> Iterator[Step]:
    return iter(())


def _simple(label: str, tell: Callable[[Any], str], tone: str = "dim") -> Callable[[Any], Any]:
    return lambda entry: iter((Step(label, tell(entry), tone),))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return clean(msgspec.json.encode(value).decode())


def _for_so_long(ttl: int | None) -> str:
    return "from here on" if ttl is None else f"for {words.count(ttl, 'request')}"


_TOLD: dict[type, Callable[[Any], Iterator[Step]]] = {
    **dict.fromkeys(
        (
            events.PermissionGrant,
            events.PermissionDeny,
            events.PermissionEscalation,
            events.TaintAdded,
            events.SkillScopeTools,
            events.PlanMade,
            events.PlanApproved,
            events.PlanUsed,
            events.SkillActivated,
            events.SkillDeactivated,
            events.SkillMatched,
        ),
        _as_in_the_picture,
    ),
    events.SessionOpened: _session_steps,
    events.RunStarted: _start_steps,
    events.RunEnded: _end_steps,
    events.RunResumed: _resume_steps,
    events.Suspended: _suspend_steps,
    events.SessionReset: _simple(
        "reset", lambda _: "everything said so far is out of the view", "yellow"
    ),
    events.InboxTaken: _inbox,
    events.Framed: _frame_steps,
    events.Said: _message_steps,
    events.IterationStart: _turn,
    events.CallReserved: _nothing,  # the reply or the failure follows
    events.Replied: _reply_steps,
    events.ReplyFailed: _reply_failed,
    events.ToolDecided: _decision_steps,
    events.ToolIntended: _intent_steps,
    events.ToolResulted: _result_steps,
    events.ToolShown: _nothing,
    events.ToolMessage: _tool_message_steps,
    events.IterationEnd: _verdict,
    events.FinishProposed: _simple("finish", lambda e: f"proposed: {e.reason}"),
    events.Reshaped: _reshape_steps,
    events.Compacted: _compaction_steps,
    events.Projected: _projection_steps,
    events.Decorated: _nothing,
    events.Reminded: _simple("reminder", lambda e: f"{e.text} ({_for_so_long(e.ttl)})"),
    events.Remembered: _nothing,
    events.HistoryRepaired: _simple("mended", lambda e: "; ".join(e.problems), "yellow"),
    events.FeedbackInjected: _nothing,  # the text follows as a message
    events.BudgetExhausted: _budget,
    events.LoopStuck: _simple("stuck", lambda e: words.count(e.nudges, "nudge"), "yellow"),
    events.NativeToolRejected: _simple(
        "fallback", lambda e: f"{e.calls} written calls were refused"
    ),
    events.NativeToolFallback: _simple(
        "fallback", lambda e: f"{e.calls} calls were written as text"
    ),
    events.ToolSearchQueried: _simple("search", lambda e: f"tools for {e.query!r}"),
    events.ToolSearchResulted: _simple("found", lambda e: ", ".join(e.tool_names) or "no tool"),
    events.ArtifactWritten: _simple("artifact", lambda e: f"{e.artifact_kind}: {e.title}"),
    events.WorkerUpdate: _simple("worker", lambda e: f"task {e.number}: {e.status}"),
    events.WorkerStopped: _simple("worker", lambda e: e.status),
    events.GuardrailDecided: _simple(
        "guardrail",
        lambda e: f"{e.stage} {e.guardrail}: {e.verdict}{f', {e.reason}' if e.reason else ''}",
    ),
    events.JudgeDecision: _simple("judge", lambda e: f"{e.gate}: {e.verdict}"),
    events.CheckRan: _simple("check", lambda e: f"{e.name}: {'passed' if e.passed else 'failed'}"),
    events.StepJudgeDecision: _simple("judge", lambda e: f"step: {e.verdict or e.reason}"),
    events.LoopControlDecision: _simple(
        "control", lambda e: f"{e.action}: {e.old_limit} → {e.new_limit}"
    ),
    events.StallWarning: _simple(
        "stall", lambda e: f"{e.tool_name} {e.repeat_count} times", "yellow"
    ),
    events.LoopDetected: _simple("loop", lambda e: f"{e.detail} ({e.action})", "yellow"),
    events.ProgressReported: _simple(
        "progress", lambda e: e.message or words.count(len(e.entries), "entry")
    ),
    events.AgentScratchpad: _scratchpad,
    events.SkillNarrowed: _simple(
        "tools",
        lambda e: (
            f"{', '.join(e.removed_tools)} hidden"
            if e.removed_tools
            else "back: " + ", ".join(e.returned_tools)
        ),
    ),
    events.EffectPlanned: _simple("planned", lambda e: words.shown_call(e.tool, e.arguments)),
    events.UndoBegun: _simple("undo", lambda e: f"{e.tool} by {e.by}: {e.what or 'its own undo'}"),
    events.UndoEnded: _simple(
        "undone", lambda e: f"{e.tool}: {e.outcome} {e.detail or ''}", "yellow"
    ),
    events.Noted: _note_steps,
}
