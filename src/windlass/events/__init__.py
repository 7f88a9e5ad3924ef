"""Events: the journal's entries, and the live events between them.

One closed union. An entry is appended to the session's journal and then shown to observers;
a live event (`TextDelta`, `ToolCallStarted`, …) is only shown.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, Union

import msgspec

from windlass.events.policy import (
    AgentScratchpad,
    ArtifactWritten,
    BudgetExhausted,
    CheckRan,
    Compacted,
    Decorated,
    EffectPlanned,
    Entry,
    FeedbackInjected,
    GuardrailDecided,
    JudgeDecision,
    LoopControlDecision,
    LoopDetected,
    LoopStuck,
    NativeToolFallback,
    NativeToolRejected,
    Noted,
    PermissionDeny,
    PermissionEscalation,
    PermissionGrant,
    PlanApproved,
    PlanMade,
    PlanUsed,
    ProgressReported,
    Projected,
    Propagate,
    SkillActivated,
    SkillDeactivated,
    SkillMatched,
    SkillNarrowed,
    SkillScopeTools,
    StallWarning,
    StepJudgeDecision,
    TaintAdded,
    ToolSearchQueried,
    ToolSearchResulted,
    UndoBegun,
    UndoEnded,
    WorkerStopped,
    WorkerUpdate,
)
from windlass.json_types import JsonObject
from windlass.messages import Message, Outcome, ToolCall, ToolResult
from windlass.usage import NO_USAGE, Usage

FORMAT = 1  # the journal's format; a reader refuses what is newer than itself


# --------------------------------------------------------------------------- sessions and runs


class SessionOpened(Entry, tag="session", frozen=True):
    """The first entry of every journal."""

    session_id: str
    format: int = 1  # the format of a journal that names none; new ones name FORMAT
    parent_id: str | None = None
    root_id: str | None = None
    branch_at: int | None = None  # messages kept from the parent, where it was forked at a place
    metadata: JsonObject | None = None


class RunStarted(Entry, tag="run_start", frozen=True):
    """A run begins on the session. What follows, up to its `RunEnded`, belongs to it."""

    run_id: str
    door: str  # agent_loop, agent, llm_call, …
    caller: str
    provider: str
    model: str
    name: str | None = None
    metadata: JsonObject | None = None
    tenant: str | None = None  # of the caller
    request_id: str | None = None  # what the run was asked in, as the host names it
    conversation_id: str | None = None
    user: str | None = None  # of the caller; None: a script without identity
    roles: tuple[str, ...] = ()  # that the caller came with


class RunEnded(Entry, tag="outcome", frozen=True):
    """The end of the run. `suspended` is an end too: the next drive continues from here."""

    run_id: str
    status: str
    stop_reason: str | None = None
    error: JsonObject | None = None


class RunResumed(Entry, tag="transcript_resume", frozen=True):
    """A drive goes on where an earlier one of the same run stopped."""

    run_id: str
    at: str  # the stage it begins at
    attempt: int = 0  # how many times in a row it goes on after a death without anything new
    progress: int = 0  # replies and results of the run and its children so far
    by: str | None = None  # who resumed it, if not the caller of the run
    lost_ms: int = 0  # that the drive before was at work after its last row, at most


class Suspended(Entry, tag="suspended", frozen=True):
    """The run is parked until what it waits for is in the inbox."""

    reason: str
    stage: Literal["turn", "gate", "run", "end"]
    initiator: str = "self"
    conditions: JsonObject | None = None
    waiting: tuple[str, ...] = ()  # ids of the calls that wait


class SessionReset(Entry, tag="transcript_reset", frozen=True):
    """The removal of all messages so far from the view."""


class InboxTaken(Entry, tag="host_input", frozen=True):
    """An item of the inbox, taken by the run in the append that records it."""

    item_id: str
    item: str  # steer, follow_up, remind, cancel, suspend, resume, decision, result, memory
    payload: object = None


# --------------------------------------------------------------------------- a turn


class Framed(Entry, tag="frame", frozen=True):
    """What stands before the messages of every request from here on."""

    digest: str
    system: str | None
    tools: tuple[JsonObject, ...]
    settings: JsonObject
    why: str = "start"


class Said(Entry, tag="message", frozen=True):
    """A message joins the view."""

    message: Message


class IterationStart(Entry, tag="iteration_start", frozen=True):
    """Turn `number` begins, counted from 1."""

    number: int


class CallReserved(Entry, tag="call_reserved", frozen=True):
    """A model is about to be asked under a budget: what is held back for the call.

    The reply or the failure that follows has the real usage. Where the process ends in between,
    what was held back counts as spent.
    """

    input_tokens: int  # estimated
    output_tokens: int  # the most that the reply may have
    usd: float
    provider: str
    model: str
    purpose: str | None = None
    again: bool = False  # a further request of the same call, in place of the one before


class Replied(Entry, tag="model_reply", frozen=True):
    """A model call, its answer and its cost. With a purpose it is not part of the view.

    `position`, `frame`, `tail` and `rewritten` describe the request: with the view they rebuild the
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
    rewritten: tuple[Message, ...] | None = None  # after the first `same` of the one before
    cost_usd: float = 0.0
    duration_ms: float = 0.0
    native_id: str | None = None
    via: str | None = None  # "cache", "fallback", "escalation": how the caller came by it
    attempts: int = 1  # how often the provider was asked
    same: int = 0  # messages at its front that the last rewritten request of the loop had too
    shortened: str | None = None  # the limit that left too little room: the reply was cut there


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


INTERRUPTED = "interrupted"  # the category of a call that ended with its process


class ToolDecided(Entry, tag="decision", frozen=True):
    """May this call run? Asked once per call, before anything of the batch starts."""

    call_id: str
    tool: str
    action: Literal["allow", "deny", "answer", "ask"]
    rule: str
    caller: str
    digest: str  # of the arguments that will run
    reason: str | None = None
    arguments: JsonObject | None = None  # where they differ from what the model asked
    ask: str | None = None  # what an answer is bound to
    expires_at: float | None = None  # of an answer
    receipt: JsonObject | None = None  # which rule matched, and why it is there
    asks: tuple[JsonObject, ...] = ()  # the questions: their policy, words, receipt and `about`
    answered_by: str | None = None  # the person or the function that answered them
    scope: Literal["session"] | None = None  # an answer that holds for the rest of the session
    diff: str | None = None  # what the call would change, for whoever is asked about it

    @property
    def policy_decision(self) -> JsonObject:
        """The decision as receipts show it: rule, reason, question, and who answered."""
        receipt = dict(self.receipt or {})
        # an answer that came later stands behind the policies that asked: "approval_policy:ann"
        policy = self.rule if not self.asks else self.rule.rpartition(":")[0] or self.rule
        receipt |= {"action": self.action, "policy": policy}
        if self.asks:
            receipt["asker"] = " + ".join([str(ask["rule"]) for ask in self.asks])
            receipt["question"] = "; ".join([str(ask["reason"]) for ask in self.asks])
        why = receipt.get("question") or self.reason or _RATIONALES.get(policy, policy)
        receipt.setdefault("rule", policy)
        receipt.setdefault("rationale", why)
        if self.answered_by is not None:
            receipt |= {"answered_by": self.answered_by, "answer_reason": self.reason}
        return receipt


_RATIONALES = {"default": "no policy speaks of this call"}


class ToolIntended(Entry, tag="tool_intent", frozen=True):
    """The call is about to start."""

    call_id: str
    tool: str
    effect: Literal["read_only", "keyed", "transactional", "plain"]
    attempt: int = 1
    eager: bool = False


class ToolResulted(Entry, tag="tool_result", frozen=True):
    """The whole result of a tool; `ToolMessage` has what the model sees of it."""

    call_id: str
    tool: str
    outcome: Outcome
    result: ToolResult
    duration_ms: float = 0.0
    coerced: tuple[str, ...] = ()
    traceback: str | None = None  # of what the tool raised; for people, never for the model


class ToolShown(Entry, tag="tool_shown", frozen=True):
    """A result that the policies have passed before its siblings were done."""

    call_id: str
    result: ToolResult


class ToolMessage(Entry, tag="tool_message", frozen=True):
    """The results of a batch, in the order asked; `shown` holds those that changed."""

    calls: tuple[str, ...]
    shown: dict[str, ToolResult] | None = None


class IterationEnd(Entry, tag="iteration_end", frozen=True):
    """The verdict of the policies on turn `number`."""

    number: int
    verdict: Literal["keep_going", "finish", "stop", "suspend", "dropped"]
    reason: str | None = None
    status: str | None = None


class FinishProposed(Entry, tag="finish_proposed", frozen=True):
    """A vote to finish; the policies that must agree are asked next."""

    reason: str
    status: str = "done"


class Reshaped(Entry, tag="view", frozen=True):
    """Messages `start` to `stop` of the view are replaced."""

    start: int
    stop: int
    messages: tuple[Message, ...]
    why: str


class Reminded(Entry, tag="system_reminder", frozen=True):
    """A text for the tail of the next `ttl` requests; never part of the view."""

    message: Message
    ttl: int | None = None  # None: of every request
    propagate: Propagate = "none"  # to the agents that this one hands a task to
    source: str = "policy"  # session_start, host, tool, suspend, inherited
    originating_agent_id: str | None = None  # the session in which it was first given

    @property
    def text(self) -> str:
        """The text, without the tags around it."""
        text = self.message.text
        if self.message.kind != "system_reminder":
            return text
        return text.removeprefix("<system_reminder>\n").removesuffix("\n</system_reminder>")

    @property
    def lasts(self) -> bool:
        """Whether it stays for the next run; a policy's reminder ends with its run."""
        return self.source != "policy"


class Remembered(Entry, tag="memory", frozen=True):
    """A policy's memory, with the moment that changed it."""

    policy: str
    value: object
    keeps: Literal["run", "session"] = "run"


class HistoryRepaired(Entry, tag="history_repaired", frozen=True):
    """A request would have broken the rule of one result for each call; it was mended."""

    problems: tuple[str, ...]


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
    CallReserved,
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
    ArtifactWritten,
    WorkerUpdate,
    WorkerStopped,
    GuardrailDecided,
    JudgeDecision,
    CheckRan,
    StepJudgeDecision,
    LoopControlDecision,
    StallWarning,
    LoopDetected,
    ProgressReported,
    Compacted,
    AgentScratchpad,
    Projected,
    Decorated,
    PermissionGrant,
    PermissionDeny,
    PermissionEscalation,
    SkillMatched,
    SkillActivated,
    SkillDeactivated,
    SkillScopeTools,
    SkillNarrowed,
    TaintAdded,
    EffectPlanned,
    PlanMade,
    PlanApproved,
    PlanUsed,
    UndoBegun,
    UndoEnded,
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
    """A complete tool call, while the reply is still streaming."""

    call: ToolCall


class AnswerDelta(msgspec.Struct, frozen=True, tag="answer_delta", tag_field="kind", gc=False):
    """A piece of a typed answer that the model gives by a tool call, as it arrives."""

    tool: str
    text: str


class StreamRestarted(
    msgspec.Struct, frozen=True, tag="stream_restarted", tag_field="kind", gc=False
):
    """The model call is tried again: what it streamed so far is void."""

    reason: str


class ToolCallStarted(msgspec.Struct, frozen=True, tag="tool_call", tag_field="kind", gc=False):
    """A tool call begins."""

    call_id: str
    name: str
    arguments: JsonObject


class ToolCallUpdate(
    msgspec.Struct, frozen=True, tag="tool_call_update", tag_field="kind", gc=False
):
    """A tool call changes its state, or reports progress."""

    call_id: str
    status: Literal["pending", "in_progress", "completed", "failed"]
    progress: object = None


class ToolCallAudit(msgspec.Struct, frozen=True, tag="tool_call_audit", tag_field="kind", gc=False):
    """A decision about a call, for auditors: `audit["event_type"]` is its kind."""

    call_id: str
    name: str
    audit: JsonObject


class TranscriptCompacted(Compacted, tag="transcript_compacted", frozen=True):
    """The view became smaller (live event); the journal has the entry `compaction`."""


class ChildEvent(msgspec.Struct, frozen=True, tag="child_event", tag_field="kind", gc=False):
    """An event of a sub-agent, or of one further down.

    `path` has the names of the agents on the way to it, `session_id` is its session, `event` is
    what happened.
    """

    path: tuple[str, ...]
    session_id: str
    call_id: str  # of the run's own call that began it
    event: Event


LiveEvent: TypeAlias = Union[
    ChildEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    AnswerDelta,
    StreamRestarted,
    ToolCallStarted,
    ToolCallUpdate,
    ToolCallAudit,
    TranscriptCompacted,
]

Event: TypeAlias = Union[JournalEntry, LiveEvent]


def kind_of(event: Event) -> str:
    """Return the event's tag in the journal: `kind_of(TextDelta("x"))` -> `text_delta`."""
    return str(type(event).__struct_config__.tag)


def as_dict(event: Event) -> JsonObject:
    """Convert the event to plain data, with its `kind`; a decision with `policyDecision`."""
    data: JsonObject = msgspec.to_builtins(event)
    if type(event) is ToolDecided:
        data["policyDecision"] = event.policy_decision
    return data
