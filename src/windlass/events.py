"""Everything that happens: the journal's entries, and the live signs of progress between them.

One closed union. An entry is appended to the session's journal and then shown to whoever watches;
a live event (`TextDelta`, `ToolCallStarted`, …) is only shown.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, Union

import msgspec

from windlass.messages import Message, Outcome, ToolCall, ToolResult
from windlass.usage import NO_USAGE, Usage

FORMAT = 1  # the journal's format; a reader refuses what is newer than itself


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", gc=False):
    """Something that happened in a session, for ever."""


# --------------------------------------------------------------------------- sessions and runs


class SessionOpened(Entry, tag="session", frozen=True):
    """The first entry of every journal."""

    session_id: str
    format: int = 1  # what a journal that does not say is in; whoever opens one says FORMAT
    parent_id: str | None = None
    root_id: str | None = None
    branch_at: int | None = None  # messages kept from the parent, where it was forked at a place
    metadata: dict[str, Any] | None = None


class RunStarted(Entry, tag="run_start", frozen=True):
    """A run begins on the session. What follows, up to its `RunEnded`, belongs to it."""

    run_id: str
    door: str  # agent_loop, agent, llm_call, …
    caller: str
    provider: str
    model: str
    name: str | None = None
    metadata: dict[str, Any] | None = None
    tenant: str | None = None  # of the caller
    request_id: str | None = None  # what the run was asked in, as the host names it
    conversation_id: str | None = None


class RunEnded(Entry, tag="outcome", frozen=True):
    """How the run ended. `suspended` is an end too: the next drive goes on from here."""

    run_id: str
    status: str
    stop_reason: str | None = None
    error: dict[str, Any] | None = None


class RunResumed(Entry, tag="transcript_resume", frozen=True):
    """A drive goes on where an earlier one of the same run stopped."""

    run_id: str
    at: str  # the stage it begins at


class Suspended(Entry, tag="suspended", frozen=True):
    """The run is parked until what it waits for is in the inbox."""

    reason: str
    stage: Literal["turn", "gate", "run", "end"]
    initiator: str = "self"
    conditions: dict[str, Any] | None = None
    waiting: tuple[str, ...] = ()  # ids of the calls that wait


class SessionReset(Entry, tag="transcript_reset", frozen=True):
    """Everything said so far is out of the view."""


class InboxTaken(Entry, tag="host_input", frozen=True):
    """An item of the inbox, taken by the run in the append that records it."""

    item_id: str
    item: str  # steer, follow_up, cancel, suspend, resume, decision, result
    payload: Any = None


# --------------------------------------------------------------------------- a turn


class Framed(Entry, tag="frame", frozen=True):
    """What stands before the messages of every request from here on."""

    digest: str
    system: str | None
    tools: tuple[dict[str, Any], ...]
    settings: dict[str, Any]
    why: str = "start"


class Said(Entry, tag="message", frozen=True):
    """A message joins the view."""

    message: Message


class IterationStart(Entry, tag="iteration_start", frozen=True):
    """Turn `number` begins, counted from 1."""

    number: int


class Replied(Entry, tag="model_reply", frozen=True):
    """A model call, what it answered and what it cost. With a purpose it is not part of the view.

    `position`, `frame`, `tail` and `rewritten` say what was sent: with the view they rebuild the
    request to the byte.
    """

    message: Message
    usage: Usage
    stop_reason: str
    provider: str
    model: str
    position: int
    frame: str
    purpose: str | None = None
    tail: tuple[Message, ...] = ()
    rewritten: tuple[Message, ...] | None = None
    cost_usd: float = 0.0
    duration_ms: float = 0.0
    native_id: str | None = None
    via: str | None = None  # "cache", "fallback", "escalation": how the caller came by it
    attempts: int = 1  # how often the provider was asked


class ReplyFailed(Entry, tag="model_error", frozen=True):
    """A model call that ended in an error; it is no iteration, but it may have cost something."""

    category: str
    message: str
    provider: str
    model: str
    purpose: str | None = None
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    duration_ms: float = 0.0
    attempts: int = 1


class ToolDecided(Entry, tag="decision", frozen=True):
    """May this call run? Asked once per call, before anything of the batch starts."""

    call_id: str
    tool: str
    action: Literal["allow", "deny", "answer", "ask"]
    rule: str
    caller: str
    digest: str  # of the arguments that will run
    reason: str | None = None
    arguments: dict[str, Any] | None = None  # where they differ from what the model asked


class ToolIntended(Entry, tag="tool_intent", frozen=True):
    """The call is about to start."""

    call_id: str
    tool: str
    effect: Literal["read_only", "keyed", "transactional", "plain"]
    attempt: int = 1
    eager: bool = False


class ToolResulted(Entry, tag="tool_result", frozen=True):
    """What the tool returned, whole; `ToolMessage` says what the model sees of it."""

    call_id: str
    tool: str
    outcome: Outcome
    result: ToolResult
    duration_ms: float = 0.0
    coerced: tuple[str, ...] = ()


class ToolShown(Entry, tag="tool_shown", frozen=True):
    """The policies have passed this result before its siblings were done; they are not asked again."""

    call_id: str
    result: ToolResult


class ToolMessage(Entry, tag="tool_message", frozen=True):
    """The results of a batch join the view, in the order asked; `shown` holds those that changed."""

    calls: tuple[str, ...]
    shown: dict[str, ToolResult] | None = None


class IterationEnd(Entry, tag="iteration_end", frozen=True):
    """What the policies made of turn `number`."""

    number: int
    verdict: Literal["keep_going", "finish", "stop", "suspend", "dropped"]
    reason: str | None = None
    status: str | None = None


class FinishProposed(Entry, tag="finish_proposed", frozen=True):
    """The vote was to finish; those who must agree are asked next."""

    reason: str
    status: str = "done"


class Reshaped(Entry, tag="view", frozen=True):
    """Messages `start` to `stop` of the view are replaced."""

    start: int
    stop: int
    messages: tuple[Message, ...]
    why: str


class Reminded(Entry, tag="reminder", frozen=True):
    """Words for the tail of the next `ttl` requests; never part of the view."""

    message: Message
    ttl: int


class Remembered(Entry, tag="memory", frozen=True):
    """A policy's memory, with the moment that changed it."""

    policy: str
    value: Any
    keeps: Literal["run", "session"] = "run"


class HistoryRepaired(Entry, tag="history_repaired", frozen=True):
    """A request would have broken the rule of one result for each call; it was mended."""

    problems: tuple[str, ...]


# --------------------------------------------------------------------------- what policies note


class FeedbackInjected(Entry, tag="feedback_injected", frozen=True):
    """The runtime said something to the model."""

    feedback: str  # nudge, parse_error, steer, …
    text: str


class BudgetExhausted(Entry, tag="budget_exhausted", frozen=True):
    """A limit was reached."""

    limit: str  # iterations, tokens, usd, seconds
    allowed: float
    used: float


class LoopStuck(Entry, tag="loop_stuck", frozen=True):
    """Too many turns in a row without a tool call."""

    nudges: int


class NativeToolFallback(Entry, tag="native_tool_fallback", frozen=True):
    """A model with native tools wrote a tool call as text."""

    calls: int


class NativeToolRejected(Entry, tag="native_tool_fallback_rejected", frozen=True):
    """Calls that were written as text were not run."""

    calls: int


class ToolSearchQueried(Entry, tag="tool_search_query", frozen=True):
    """A search among the deferred tools; `mode` says who ran it."""

    search_id: str
    query: Any
    mode: Literal["native", "client"]
    strategy: str = "bm25"  # or regex, semantic, host; hosted where the provider does not say


class ToolSearchResulted(Entry, tag="tool_search_result", frozen=True):
    """The tools a search found: from the next request on the model sees them."""

    search_id: str
    tool_names: tuple[str, ...]
    mode: Literal["native", "client"]
    diagnostic: str | None = None
    evicted: tuple[str, ...] = ()  # that a budget has no more room for


class JudgeDecision(Entry, tag="judge_decision", frozen=True):
    """What a gate before the end said: a function of yours, or a model that judges."""

    session_id: str
    iteration: int
    gate: str  # verify_completion, verify_completion_judge, done_judge
    verdict: Literal["done", "continue"]
    reasoning: str | None = None
    next_step: str | None = None
    judge_duration_ms: float = 0.0
    trigger: str | None = None  # "stalled": not asked because an end was proposed


class CheckRan(Entry, tag="check", frozen=True):
    """A check of the work, run by the runtime itself: evidence, not a claim."""

    iteration: int
    name: str
    passed: bool
    detail: str | None = None
    duration_ms: float = 0.0


class StepJudgeDecision(Entry, tag="step_judge_decision", frozen=True):
    """What the judge of single steps said of a reply before its calls ran, or why it was not asked."""

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
    """The limit on turns was raised, or the loop was told to stop."""

    iteration: int
    action: Literal["extend", "stop"]
    old_limit: int
    new_limit: int
    reason: str | None = None
    status: str | None = None


class StallWarning(Entry, tag="agent_loop_stall_warning", frozen=True):
    """The same call, with the same arguments, again and again."""

    iteration: int
    tool_name: str
    repeat_count: int
    threshold: int
    arguments_digest: str
    signature_digest: str
    arguments: dict[str, Any] | None = None


class LoopDetected(Entry, tag="loop_detected", frozen=True):
    """Whole turns repeat themselves: the same calls, or the same words."""

    iteration: int
    loop: Literal["tool_repetition", "text_repetition"]
    detail: str
    action: str  # warn, inject, terminate, continue
    repeat_count: int = 0


class ProgressReported(Entry, tag="progress_reported", frozen=True):
    """The model said how far it is."""

    message: str | None = None
    entries: tuple[dict[str, Any], ...] = ()  # of a task list


class Compacted(Entry, tag="compaction", frozen=True):
    """The view became smaller: why, how, by whose instructions, and what that costs and saves."""

    reason: str  # threshold, window, overflow
    strategy: str
    engine_strategy: str  # llm, truncate, custom; references: only bulky results left the view
    estimated_tokens_before: int
    estimated_tokens_after: int
    instruction_mode: str
    instruction_source: str
    compaction_policy: dict[str, Any] | None
    threshold: int = 0
    archived: int = 0  # messages that left the view
    shed: int = 0  # tokens of results that are there by reference only
    cost_usd: float = 0.0  # of the summary
    cache_usd: float = 0.0  # of sending anew what a provider had in its cache
    saves_usd: float = 0.0  # with each turn from here on
    shortfall: str | None = None  # why the view is still above the threshold


class Noted(Entry, tag="note", frozen=True):
    """Something a policy of yours wants on the record."""

    name: str
    data: Any = None


JournalEntry: TypeAlias = Union[
    SessionOpened,
    RunStarted,
    RunEnded,
    RunResumed,
    Suspended,
    SessionReset,
    InboxTaken,
    Framed,
    Said,
    IterationStart,
    Replied,
    ReplyFailed,
    ToolDecided,
    ToolIntended,
    ToolResulted,
    ToolShown,
    ToolMessage,
    IterationEnd,
    FinishProposed,
    Reshaped,
    Reminded,
    Remembered,
    HistoryRepaired,
    FeedbackInjected,
    BudgetExhausted,
    LoopStuck,
    NativeToolFallback,
    NativeToolRejected,
    ToolSearchQueried,
    ToolSearchResulted,
    JudgeDecision,
    CheckRan,
    StepJudgeDecision,
    LoopControlDecision,
    StallWarning,
    LoopDetected,
    ProgressReported,
    Compacted,
    Noted,
]


# --------------------------------------------------------------------------- live only


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta", tag_field="kind", gc=False):
    """A piece of the answer, as it arrives: `case w.TextDelta(text): print(text, end="")`."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking_delta", tag_field="kind", gc=False):
    """A piece of the model's reasoning, as it arrives."""

    text: str


class ToolCallReady(msgspec.Struct, frozen=True, tag="tool_call_ready", tag_field="kind", gc=False):
    """A model has finished writing a call while its reply still streams."""

    call: ToolCall


class StreamRestarted(
    msgspec.Struct, frozen=True, tag="stream_restarted", tag_field="kind", gc=False
):
    """The model call is tried again: what it streamed so far is void."""

    reason: str


class ToolCallStarted(msgspec.Struct, frozen=True, tag="tool_call", tag_field="kind", gc=False):
    """A tool call begins."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolCallUpdate(
    msgspec.Struct, frozen=True, tag="tool_call_update", tag_field="kind", gc=False
):
    """A tool call changes its state, or reports progress."""

    call_id: str
    status: Literal["pending", "in_progress", "completed", "failed"]
    progress: Any = None


class ToolCallAudit(msgspec.Struct, frozen=True, tag="tool_call_audit", tag_field="kind", gc=False):
    """A decision about a call, for whoever audits: `audit["event_type"]` says which."""

    call_id: str
    name: str
    audit: dict[str, Any]


class TranscriptCompacted(Compacted, tag="transcript_compacted", frozen=True):
    """The view became smaller, as it happens; the journal keeps the same as `compaction`."""


LiveEvent: TypeAlias = Union[
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    StreamRestarted,
    ToolCallStarted,
    ToolCallUpdate,
    ToolCallAudit,
    TranscriptCompacted,
]

Event: TypeAlias = Union[JournalEntry, LiveEvent]


def kind_of(event: Event) -> str:
    """The event's name in the journal and on the wire: `kind_of(TextDelta("x"))` -> `text_delta`."""
    return str(type(event).__struct_config__.tag)


def as_dict(event: Event) -> dict[str, Any]:
    """The event as plain data, with its `kind`."""
    return msgspec.to_builtins(event)
