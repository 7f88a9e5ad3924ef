"""Entries of policies: judgements, warnings, searches, compactions, and your notes.

Part of the union in `__init__.py`, where all of them are imported from.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject, as_given
from windlass.messages import Message

Propagate: TypeAlias = Literal["all", "session", "none"]
_PROPAGATE = cast("tuple[str, ...]", get_args(Propagate))


class Reminder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text at the end of the next requests: `Reminder("Run the tests first.", ttl=3)`.

    It is not part of the conversation. `ttl` is a number of turns; None: as long as the session.
    `propagate` says which sub-agents inherit it: `session`, those that this agent calls; `all`,
    also those that they call; `none`, none.
    """

    text: str
    ttl: int | None = None
    propagate: Propagate = "session"

    def __post_init__(self) -> None:
        text, ttl = as_given(self.text), as_given(self.ttl)
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(f"a reminder is a text that is not empty, not {safe_repr(text)}")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"a reminder holds half a character: {safe_repr(text)}") from None
        if ttl is not None and (not isinstance(ttl, int) or isinstance(ttl, bool) or ttl < 1):
            raise ConfigError(
                f"a reminder's ttl is a whole number of turns from 1, or None, not {safe_repr(ttl)}"
            )
        propagate = as_given(self.propagate)
        if not isinstance(propagate, str) or propagate not in _PROPAGATE:
            hint = nearest(propagate, _PROPAGATE) if isinstance(propagate, str) else ""
            raise ConfigError(
                f"a reminder's propagate is one of {', '.join(_PROPAGATE)}, not {safe_repr(propagate)}{hint}"
            )


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", gc=False):
    """Something that happened in a session, for ever."""


class FeedbackInjected(Entry, tag="feedback_injected", frozen=True):
    """A message of the runtime to the model."""

    feedback: str  # nudge, parse_error, steer, …
    text: str


class BudgetExhausted(Entry, tag="budget_exhausted", frozen=True):
    """A limit that was reached."""

    limit: str  # iterations, tokens, usd, seconds
    allowed: float
    used: float


class LoopStuck(Entry, tag="loop_stuck", frozen=True):
    """Too many turns in a row without a tool call."""

    nudges: int


class NativeToolFallback(Entry, tag="native_tool_fallback", frozen=True):
    """A tool call that a model with native tools wrote as text."""

    calls: int


class NativeToolRejected(Entry, tag="native_tool_fallback_rejected", frozen=True):
    """A refusal to run calls that were written as text."""

    calls: int


class ToolSearchQueried(Entry, tag="tool_search_query", frozen=True):
    """A search among the deferred tools; `mode` tells who ran it."""

    search_id: str
    query: object
    mode: Literal["native", "client"]
    strategy: str = "bm25"  # or regex, semantic, host; hosted where the provider names none


class ToolSearchResulted(Entry, tag="tool_search_result", frozen=True):
    """The tools a search found: from the next request on the model sees them."""

    search_id: str
    tool_names: tuple[str, ...]
    mode: Literal["native", "client"]
    diagnostic: str | None = None
    evicted: tuple[str, ...] = ()  # that a budget has no more room for


class ArtifactWritten(Entry, tag="artifact_written", frozen=True):
    """Something that a sub-agent leaves for the agent that it works for."""

    artifact_id: str
    artifact_kind: str
    title: str
    text: str | None = None
    data: object = None
    created_by: str | None = None


class WorkerUpdate(Entry, tag="worker_update", frozen=True):
    """A worker changes its state; on record when a task of it has ended, with what came of it."""

    worker_id: str
    status: str
    name: str | None = None
    number: int = 1  # of the task, from 1
    payload: JsonObject | None = None
    at: float = 0.0


class WorkerStopped(Entry, tag="worker_stopped", frozen=True):
    """A worker is over: no task follows. `handoff` is the id of the artifact that it leaves."""

    worker_id: str
    status: str
    name: str | None = None
    reason: str | None = None
    handoff: str | None = None
    children: tuple[str, ...] = ()
    at: float = 0.0


class GuardrailDecided(Entry, tag="guardrail_decided", frozen=True):
    """The verdict of a guardrail; `withheld`: the run ended before its text could be checked."""

    stage: Literal["input", "output"]
    guardrail: str
    verdict: Literal["passed", "tripped", "withheld"]
    reason: str | None = None
    duration_ms: float = 0.0
    digest: str = ""  # of the text


class JudgeDecision(Entry, tag="judge_decision", frozen=True):
    """The decision of a completion check or a judge on a proposed end."""

    session_id: str
    iteration: int
    gate: str  # verify_completion, verify_completion_judge, done_judge
    verdict: Literal["done", "continue"]
    reasoning: str | None = None
    next_step: str | None = None
    judge_duration_ms: float = 0.0
    trigger: str | None = None  # "stalled": not asked because an end was proposed


class CheckRan(Entry, tag="check", frozen=True):
    """A completion check that the runtime ran itself."""

    iteration: int
    name: str
    passed: bool
    detail: str | None = None
    duration_ms: float = 0.0


class StepJudgeDecision(Entry, tag="step_judge_decision", frozen=True):
    """The decision of the step judge on a reply, or why it was not asked."""

    session_id: str
    iteration: int
    verdict: Literal["pass", "revise"] | None = None
    reasoning: str | None = None
    critique: str | None = None
    confidence: float | None = None
    skipped: bool = False
    reason: str | None = None  # why it was skipped
    error: str | None = None  # it could not be asked, and the reply passed
    judge_duration_ms: float = 0.0


class LoopControlDecision(Entry, tag="loop_control_decision", frozen=True):
    """A raised limit on turns, or a stop, by `loop_control` or an adaptive budget."""

    iteration: int
    action: Literal["extend", "stop"]
    old_limit: int
    new_limit: int
    reason: str | None = None
    status: str | None = None


class StallWarning(Entry, tag="agent_loop_stall_warning", frozen=True):
    """The same call with the same arguments, several times."""

    iteration: int
    tool_name: str
    repeat_count: int
    threshold: int
    arguments_digest: str
    signature_digest: str
    arguments: JsonObject | None = None


class LoopDetected(Entry, tag="loop_detected", frozen=True):
    """A repetition of whole turns: the same calls, or the same text."""

    iteration: int
    loop: Literal["tool_repetition", "text_repetition"]
    detail: str
    action: str  # warn, inject, terminate, continue
    repeat_count: int = 0


class ProgressReported(Entry, tag="progress_reported", frozen=True):
    """A progress report of the model."""

    message: str | None = None
    entries: tuple[JsonObject, ...] = ()  # of a task list


class Compacted(Entry, tag="compaction", frozen=True):
    """A compaction of the view: its reason, method, instructions, cost and saving."""

    reason: str  # threshold, window, overflow
    strategy: str
    engine_strategy: str  # llm, truncate, custom; references: only bulky results left the view
    estimated_tokens_before: int
    estimated_tokens_after: int
    instruction_mode: str
    instruction_source: str
    compaction_policy: JsonObject | None
    threshold: int = 0
    archived: int = 0  # messages that left the view
    shed: int = 0  # tokens of results that are there by reference only
    cost_usd: float = 0.0  # of the summary
    cache_usd: float = 0.0  # of sending anew what a provider had in its cache
    saves_usd: float = 0.0  # with each turn from here on
    shortfall: str | None = None  # why the view is still above the threshold


class AgentScratchpad(Entry, tag="agent_scratchpad", frozen=True):
    """A change of the scratchpad, or a refused one; the scratchpad itself is in the memory."""

    action: Literal["init", "reorganize", "rejected", "failed", "set", "clear", "refused"]
    version: int  # of the pad from here on
    counts: dict[str, int]  # of its goals, open_items, facts, refs
    bytes: int = 0  # of its JSON
    reason: str | None = None  # why it stayed as it was


class Projected(Entry, tag="transcript_projection", frozen=True):
    """The removal of failed or unreferenced messages from the view."""

    policy: str
    estimated_tokens_before: int
    estimated_tokens_after: int
    removed: int = 0  # messages that left the view
    shed: tuple[str, ...] = ()  # ids of calls whose results are there by reference only
    cache_usd: float = 0.0  # of sending anew what a provider had in its cache
    saves_usd: float = 0.0  # with each turn from here on


class MadeUp(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message outside the view, built for a request: when it was first shown, and how."""

    digest: str
    time: float
    shown: Message | None = None  # as it is
    asked: bool = False  # was there a function to ask?


class Decorated(Entry, tag="decorated", frozen=True):
    """Messages of the view from `start` on: when each was first shown, and as what."""

    start: int
    times: tuple[float, ...]
    shown: tuple[Message | None, ...] | None = (
        None  # None in it: as it is; None: the function was not called
    )
    made: tuple[MadeUp, ...] = ()


class PermissionGrant(Entry, tag="PermissionGrant", frozen=True):
    """A permission for a call that the lists deny, once or for the session."""

    tool: str
    call_id: str
    grant: Literal["once", "session"]
    reason: str


class PermissionDeny(Entry, tag="PermissionDeny", frozen=True):
    """The denial of a call by the lists of permissions."""

    tool: str
    call_id: str
    reason: str


class PermissionEscalation(Entry, tag="PermissionEscalation", frozen=True):
    """A question about a call that the lists deny, to `on_escalation`."""

    tool: str
    call_id: str
    reason: str


class SkillScore(msgspec.Struct, frozen=True, gc=False):
    """The score of a skill for a prompt, and the reason."""

    name: str
    score: float
    reason: str


class SkillMatched(Entry, tag="skill_matched", frozen=True):
    """A match of skills with the last message: the candidates, and those chosen, if any."""

    session_id: str
    iteration: int  # counted from 0
    strategy: str  # the source of the scores: metadata, host, embedding
    candidates: tuple[SkillScore, ...]  # the best first
    chosen: tuple[SkillScore, ...]  # those that are to be active now
    reassess: bool = False  # not the first time in this run
    working_files: tuple[str, ...] = ()
    warning: str | None = None  # why a matcher was not believed
    problems: tuple[str, ...] = ()  # of skills that could not be read as they stand
    registry: str = ""  # a fingerprint of what there was to choose from


class SkillActivated(Entry, tag="skill_activated", frozen=True):
    """The activation of a skill: its instructions join the system prompt."""

    session_id: str
    name: str
    iteration: int
    score: float
    reason: str
    description: str = ""
    allowed_tools: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()  # servers that it needs; hosts may start them


class SkillDeactivated(Entry, tag="skill_deactivated", frozen=True):
    """The deactivation of a skill."""

    session_id: str
    name: str
    iteration: int


class SkillScopeTools(Entry, tag="skill_scope_tools", frozen=True):
    """The tools that an active skill leaves to the model, and those that it hides."""

    session_id: str
    name: str
    allowed_tools: tuple[str, ...]  # as written in the skill
    tools: tuple[str, ...]  # that all active skills leave, of the caller's own
    hidden: tuple[str, ...]


class SkillNarrowed(Entry, tag="skill_narrow", frozen=True):
    """Unused tools that were hidden, or tools that are visible again after use."""

    iteration: int
    removed_tools: tuple[str, ...]
    remaining_tools: tuple[str, ...]
    reason: Literal["unused", "used_again"]
    policy: JsonObject
    removed: tuple[JsonObject, ...] = ()  # name, class, turn of the last use
    kept: tuple[JsonObject, ...] = ()  # the same, and why
    returned_tools: tuple[str, ...] = ()


class TaintAdded(Entry, tag="taint", frozen=True):
    """The first use of private data, untrusted content or a way out, by a tool of a session."""

    tool: str
    labels: tuple[str, ...]
    results: tuple[str, ...] = ()  # what its results are: untrusted, secret


class EffectPlanned(Entry, tag="effect_planned", frozen=True):
    """A call with an effect in a preview: it was not run, and is part of the plan."""

    call_id: str
    tool: str
    version: str  # of the tool as it was
    arguments: JsonObject
    digest: str  # of the arguments as they would run
    diff: tuple[JsonObject, ...] | None = None  # of rows, where the call could be rehearsed
    pinned: JsonObject | None = None  # arguments that the real call gets beside its own
    note: str | None = None
    asks: tuple[JsonObject, ...] = ()  # the policies that would have asked: rule, reason, about
    session_id: str | None = None  # of the sub-agent that made it
    rows: tuple[JsonObject, ...] | None = None  # digests of what the diff shows
    mark: int | None = None  # where the audit log ended then


class PlanMade(Entry, tag="plan_made", frozen=True):
    """The end of a preview: its effects, by their digest."""

    plan: str
    effects: int
    status: str  # how the preview ended


class PlanApproved(Entry, tag="plan_approved", frozen=True):
    """The approval of a plan as a whole."""

    plan: str
    by: str
    expires_at: float | None = None


class PlanUsed(Entry, tag="plan_used", frozen=True):
    """The use of a plan by one run; no other may use it."""

    plan: str
    session_id: str
    run_id: str


class UndoBegun(Entry, tag="undo_begun", frozen=True):
    """The start of the undo of a call."""

    call_id: str
    tool: str
    by: str
    effect: str  # how the undo runs: transactional, keyed, plain
    what: str | None = None  # as text


class UndoEnded(Entry, tag="undo_ended", frozen=True):
    """The outcome of an undo."""

    call_id: str
    tool: str
    by: str
    outcome: Literal["ok", "conflict", "denied", "error"]
    detail: str | None = None


class Noted(Entry, tag="note", frozen=True):
    """A record of a policy of yours: `run.note(name, data)`."""

    name: str
    data: object = None
