"""Results of a run: views of its journal, computed when they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from windlass import errors, seams
from windlass.engine.active_runs import (
    DETACHED,
    SuspendedRun,
    describe_suspension,
    find_suspension,
)
from windlass.engine.children import ChildRun, list_children, list_pending
from windlass.engine.task_ledger import build_task_ledger
from windlass.engine.transcript import transcript_of
from windlass.events import (
    GuardrailDecided,
    InboxTaken,
    JournalEntry,
    NativeToolRejected,
    Replied,
    ReplyFailed,
    Said,
    Suspended,
    ToolDecided,
    ToolResulted,
    as_dict,
)
from windlass.json_types import JsonObject, is_object
from windlass.loop.run import Run
from windlass.loop.state import PendingCall
from windlass.loop.turn import UNNAMED
from windlass.loop.verdict import Outcome
from windlass.messages import Message
from windlass.models.history import is_text_call
from windlass.models.meter import EMPTY
from windlass.observe.result_records import LLMMetrics, ToolCallRecord, ToolSummary, to_call_record
from windlass.output.error import WITHOUT_OUTPUT, Ending, build_output_missing
from windlass.output.protocol import Answering
from windlass.policies.completion import visible
from windlass.policies.preview.plan import plan_in
from windlass.records import RecordDict, to_record
from windlass.store.new_messages import new_messages
from windlass.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from windlass.output.plan import Reading
    from windlass.policies.preview.plan import EffectPlan

Output = TypeVar("Output")

REJECTED = frozenset(
    {"error", "retry", "invalid", "unknown_tool", "timeout", "denied", "not_run", "interrupted"}
)


class RunResult:
    """The base class of results: status, text, cost, messages, tool calls, trace."""

    def __init__(self, run: Run, outcome: Outcome) -> None:
        self._run, self._outcome = run, outcome

    @property
    def status(self) -> str:
        """How it ended: `done`, `budget_exhausted`, `suspended`, `provider_error`, …"""
        return self._outcome.status

    @property
    def stop_reason(self) -> str | None:
        """Why, in a word: `natural`, `sentinel`, `max_iterations`, …"""
        return self._outcome.stop_reason

    @property
    def error(self) -> JsonObject | None:
        """The error of the run, if any: category, kind, message, provider, …"""
        return self._outcome.error

    @property
    def exception(self) -> BaseException | None:
        """The exception that ended the run, if it is known; `error` is the same as data."""
        cause = self._outcome.exception
        if cause is not None or self.status not in ("provider_error", "failed"):
            return cause
        return self._as_error()

    @property
    def budget_exceeded(self) -> bool:
        """Whether a limit on tokens, dollars or seconds ended the run."""
        return self.status == "budget_exhausted" and self.stop_reason != "max_iterations"

    @property
    def limit(self) -> str | None:
        """The limit that ended the run: `max_iterations`, `tokens`, `usd`, `seconds`; or None."""
        return self.stop_reason if self.status == "budget_exhausted" else None

    @property
    def session_id(self) -> str:
        """The id of the session: continue it with `session_id=…`, or `resume` it."""
        return self._run.session_id

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._run.run_id

    @cached_property
    def entries(self) -> Sequence[JournalEntry]:
        """The journal entries of this run."""
        return self._run.journal.entries[self._run.first_entry :]

    @cached_property
    def _replies(self) -> list[Replied]:
        return [e for e in self.entries if type(e) is Replied]

    @cached_property
    def _texts(self) -> list[str]:
        said: list[str] = []
        for entry in self.entries:
            if (message := _assistant(entry)) is not None:
                said.append(message.text)
            elif type(entry) is GuardrailDecided and entry.verdict != "passed":
                said = [] if entry.stage == "input" else said[:-1]
        return said

    @property
    def _sentinel(self) -> str | None:
        return (self._run.plan.metadata or {}).get("sentinel")

    @cached_property
    def text(self) -> str:
        """All text of the model, turn by turn."""
        return "\n".join(text for text in self._texts if text)

    @cached_property
    def visible_text(self) -> str:
        """The same without the completion sentinel."""
        shown = [visible(text, self._sentinel) for text in self._texts]
        return "\n".join(text for text in shown if text.strip())

    @property
    def final_text(self) -> str:
        """The last text of the model, however the run ended; empty if there is none."""
        run = self._run
        entries, sentinel = run.journal.entries, self._sentinel
        for place in range(len(entries) - 1, run.first_entry - 1, -1):
            entry = entries[place]
            if type(entry) in _SPOKEN:
                if (message := _assistant(entry)) is not None:
                    text = message.text
                    if seen := text if sentinel is None else visible(text, sentinel):
                        return seen
            elif type(entry) is GuardrailDecided and entry.verdict != "passed":
                return ""  # what was said may not leave
        return ""

    @cached_property
    def cost_usd(self) -> float:
        """Dollars of the run and its sub-agents, as far as prices are known."""
        return self.own_cost_usd + sum(usd for _, usd in self._run.calls.children.values())

    @cached_property
    def usage(self) -> Usage:
        """Tokens of the run and its sub-agents, over all resumes.

        Judges, summaries and failed calls are included; `own_usage` is without sub-agents.
        """
        return sum((usage for usage, _ in self._run.calls.children.values()), self.own_usage)

    @cached_property
    def own_usage(self) -> Usage:
        """Tokens of the run without sub-agents."""
        return paid_in(self.entries)[0]

    @cached_property
    def own_cost_usd(self) -> float:
        """Dollars of the run without sub-agents."""
        return paid_in(self.entries)[1]

    @property
    def all_messages(self) -> tuple[Message, ...]:
        """The session's messages, as the next request would carry them."""
        return tuple(self._run.view.strand.items)

    @cached_property
    def tool_calls(self) -> list[ToolCallRecord]:
        """Every call of the run that has a result, in order."""
        came = {e.call_id: e for e in self.entries if type(e) is ToolResulted}
        asked = [call for reply in self._replies for call in reply.message.tool_calls]
        return [to_call_record(call, came[call.id]) for call in asked if call.id in came]

    @property
    def active_agent(self) -> str | None:
        """The name of the agent that the conversation is under now, after handoffs."""
        return self._run.plan.name

    @property
    def children(self) -> list[ChildRun]:
        """The runs of agents that it handed work to, each with its session and its cost."""
        return list_children(self._run)

    @property
    def pending(self) -> list[PendingCall]:
        """The calls that a parked run waits for; `resume` takes a decision or a result for each.

        Where it waits for a sub-agent, these are the calls that the sub-agent waits for.
        """
        turn = self._run.turn
        if self.status != "suspended" or turn is None or not turn.open:
            return []
        if self.stop_reason == DETACHED.reason:  # let go of: its calls wait for nobody
            return []
        asked = {e.call_id: e for e in self.entries if type(e) is ToolDecided}
        return list_pending(turn, asked, self.stop_reason or "waiting", self._run.calls.below)

    @cached_property
    def _suspension(self) -> Suspended | None:
        return (
            find_suspension(self.entries, self.stop_reason) if self.status == "suspended" else None
        )

    @property
    def handle(self) -> SuspendedRun | None:
        """The handle of a parked run, for functions that resume it; None if it is not parked."""
        if self.status != "suspended":
            return None
        run = self._run
        return SuspendedRun(session_id=run.session_id, run_id=run.run_id, name=run.plan.name)

    @property
    def reason(self) -> str | None:
        """Why a parked run waits; the resumed turn hears it."""
        return None if (parked := self._suspension) is None else parked.reason

    @property
    def initiator(self) -> str | None:
        """Who suspended a parked run: `self`, `parent`, `operator` or `triggered`."""
        return None if (parked := self._suspension) is None else parked.initiator

    @property
    def conditions(self) -> JsonObject | None:
        """What resumes a parked run by itself; None: somebody must."""
        return None if (parked := self._suspension) is None else parked.conditions

    @property
    def iterations_completed(self) -> int | None:
        """The turns that a parked run has completed."""
        return self._run.iteration if self.status == "suspended" else None

    @cached_property
    def data(self) -> object:
        """The answer as a value, if a schema or JSON was requested; None if it does not fit."""
        typed = self._output_policy
        return None if typed is None else self._read(typed).data

    @property
    def has_output_type(self) -> bool:
        """Whether a schema, a type or JSON was requested for the answer."""
        return self._output_policy is not None

    @property
    def request_id(self) -> str | None:
        """The id of the submission that the run is for; None for a run by hand."""
        return self._run.request_id

    @property
    def _output_policy(self) -> Answering | None:
        return next((p for p in self._run.plan.policies if isinstance(p, Answering)), None)

    def _read(self, typed: Answering) -> Reading:
        for entry in reversed(self.entries):
            if type(entry) is Replied and entry.purpose is None:
                return typed.read(entry.message, entry.stop_reason, self._sentinel)
            if type(entry) is Said and entry.message.role == "assistant":  # a closing answer
                return typed.read(entry.message, "end_turn", self._sentinel)
        return typed.nothing

    @property
    def plan(self) -> EffectPlan | None:
        """With `dry_run="plan"`: what the run would do, to be approved as a whole."""
        return plan_in(self.entries, self.session_id)

    @cached_property
    def trace(self) -> JsonObject:
        """A summary of what happened, entry by entry, as plain data."""
        return {
            "session_id": self.session_id,
            "run_id": self.run_id,
            "status": self.status,
            "stop_reason": self.stop_reason,
            "iterations": self._run.iteration,
            "usage": msgspec.to_builtins(self.usage),
            "cost_usd": self.cost_usd,
            **self._drift,
            "events": [as_dict(entry) for entry in self.entries],
        }

    @property
    def _drift(self) -> dict[str, int]:
        """How often a model with native tools did not use them as they are meant."""
        own = [reply.message.tool_calls for reply in self._replies if reply.purpose is None]
        refused = [entry for entry in self.entries if type(entry) is NativeToolRejected]
        return {
            "native_text_tool_fallbacks": sum(any(map(is_text_call, calls)) for calls in own),
            "native_text_tool_fallback_rejections": len(refused),
            "empty_completion_retries": sum(reply.purpose == EMPTY for reply in self._replies),
        }

    @cached_property
    def transcript(self) -> JsonObject:
        """The conversation of the session as plain data."""
        return transcript_of(self._run.journal.entries)

    @property
    def deferred_user_messages(self) -> list[str]:
        """Follow-up messages that no turn was left for."""
        unanswered: list[str] = []  # taken for a turn that a limit did not allow
        for entry in reversed(self.entries):
            if type(entry) is Replied and entry.purpose is None:
                break
            if type(entry) is InboxTaken and entry.item == "follow_up":
                unanswered.insert(0, str(entry.payload))
        queued = [str(i.payload) for i in self._run.journal.mail if i.kind == "follow_up"]
        return [*unanswered, *queued]

    def raise_for_status(self) -> None:
        """Raise the error that belongs to the status; `done` and `idle` raise nothing."""
        status = self.status
        if status in ("done", "idle"):
            return
        cause = self._outcome.exception
        error = cause if isinstance(cause, errors.WindlassError) else self._as_error()
        error.trace, error.session_id, error.status = self.trace, self.session_id, status
        raise error from cause if cause is not error else None

    def _as_error(self) -> errors.WindlassError:
        """Build the error of the status, where none was raised."""
        status, words = self.status, f"the run ended as {self.status}"
        if self.stop_reason:
            words += f" ({self.stop_reason})"
        if status == "budget_exhausted":
            limits = self._run.ledger.limits
            if self.stop_reason == "tokens" and limits.tokens is not None:
                run, name = self._run, self._run.plan.name or "unknown"
                used = max(run.ledger.tokens, self.own_usage.total_tokens)
                return errors.TokenBudgetExceededError(name, used, limits.tokens)
            exceeded = errors.BudgetExceeded(words)
            exceeded.limit = self.limit
            return exceeded
        if status in ("cancelled", "cancelling"):
            return errors.Aborted(words)
        if status == "suspended":
            parked = errors.Suspended(f"{words}; resume it by its session id")
            parked.pending = tuple(self.pending)
            return parked
        if status == "provider_error":
            return errors.ModelError((self.error or {}).get("message") or words)
        if status == "blocked":
            return errors.GuardrailTripped((self.error or {}).get("message") or words)
        return errors.WindlassError(words)

    @property
    def fields(self) -> Mapping[str, object]:
        """What policies added to the result, by name; each is an attribute too."""
        return self._outcome.fields

    if TYPE_CHECKING:
        # Added by policies where their options are given.
        adaptive_budget: RecordDict
        checks: list[JsonObject]
        completion_judge: RecordDict
        daemon_snapshot_path: str | None
        daemon_state: str
        done_judge: RecordDict
        missing_required_tools: list[str]
        repeated_tool_calls: int
        stall_warnings: list[JsonObject]
        suspected_loop: bool
    else:  # a checker that saw it would take every misspelt attribute for one of a policy

        def __getattr__(self, name: str) -> object:
            """Return what a policy added to the result under this name."""
            if not name.startswith("_"):
                fields = self._outcome.fields
                if name in fields:
                    value = fields[name]
                    return to_record(value) if is_object(value) else value
                if name in SUPERSEDED and hasattr(type(self), "llm"):
                    raise AttributeError(f"result.{name} is now result.{SUPERSEDED[name]}")
            known = [one for one in dir(type(self)) if not one.startswith("_")]
            hint = errors.nearest(name, known, "results")
            raise AttributeError(f"{type(self).__name__} has no {name!r}{hint}")

    def __getitem__(self, name: str) -> Any:
        if not isinstance(cast("object", name), str) or name.startswith("_"):
            raise KeyError(name)
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __repr__(self) -> str:
        text, error = self.final_text, self.error
        shown = text if len(text) <= 60 else text[:57] + "…"
        head = f"{type(self).__name__} {self.status} after {self._run.iteration} turns"
        if error is None:
            return f"<{head}: {shown!r}>"
        said = f", said {shown!r}" if shown else ""
        return f"<{head}: {error.get('category')}: {error.get('message')!s:.200}{said}>"

    def _repr_html_(self) -> str:
        # Loaded by notebooks only.
        from windlass.trace import build, html

        head = f"<b>{html.escape(self.status)}</b> · {self._run.iteration} turns · ${self.cost_usd:.4f}"
        # what is in memory has durations and no times: a journal's rows are the store's to read
        picture = build.picture_of(self.session_id, [build.Append(seams.now(), list(self.entries))])
        return f"<div>{head}</div>{html.to_iframe(picture)}"


class LoopResult(RunResult):
    """The result of `agent_loop`: `result.status`, `result.final_text`, `result.llm`, …"""

    @cached_property
    def llm(self) -> LLMMetrics:
        """Figures of the model calls: iterations, duration, tokens."""
        run, used = self._run, self.own_usage
        duration = round(run.host.elapsed * 1000)
        return LLMMetrics(run.iteration, duration, used.input_tokens, used.output_tokens)

    @cached_property
    def task_ledger(self) -> RecordDict:
        """What the run had to do, and what is done: deliverables, nudges, feedback."""
        return to_record(build_task_ledger(self._run, self.entries))

    @cached_property
    def tools(self) -> ToolSummary:
        """Names of tools called, successful and rejected, and the calling mode."""
        records = [record for record in self.tool_calls if record.name != UNNAMED]
        mode = (self._run.plan.metadata or {}).get("mode", "native")
        return ToolSummary(
            _distinct([r.name for r in records]),
            _distinct([r.name for r in records if r.outcome == "ok" and not r.is_error]),
            _distinct([r.name for r in records if r.outcome in REJECTED or r.is_error]),
            mode,
        )

    def to_dict(self) -> JsonObject:
        """Convert everything to plain data."""
        return {
            "status": self.status,
            "stop_reason": self.stop_reason,
            "limit": self.limit,
            "error": self.error,
            "text": self.text,
            "visible_text": self.visible_text,
            "final_text": self.final_text,
            "session_id": self.session_id,
            "llm": msgspec.to_builtins(self.llm),
            "tools": msgspec.to_builtins(self.tools),
            "cost_usd": self.cost_usd,
            "pending": msgspec.to_builtins(self.pending),
            **describe_suspension(self.handle, self._suspension, self.iterations_completed),
            "deferred_user_messages": self.deferred_user_messages,
            "task_ledger": self.task_ledger,
            "trace": self.trace,
            "transcript": self.transcript,
            **({} if self._output_policy is None else {"data": msgspec.to_builtins(self.data)}),
            **self._outcome.fields,
        }


SUPERSEDED = {
    "iterations": "llm.iterations",
    "duration_ms": "llm.duration_ms",
    "tools_used": "tools.calls",
    "successful_tools": "tools.successful",
    "rejected_tools": "tools.rejected",
    "tool_calling_mode": "tools.mode",
}


class AgentResult(RunResult, Generic[Output]):
    """The result of `Agent.run`: `out.output`, `out.status`, `out.tool_calls`, …"""

    @cached_property
    def output(self) -> Output:
        """The answer: the last text, or a value if the agent has an `output` type.

        Raises `OutputMissing` if there is none, or if the run ended as `provider_error`, `failed`,
        `suspended` or `cancelled`. A run that a limit stopped has the text so far.
        """
        typed = self._output_policy
        reading = None if typed is None else self._read(typed)
        if self.status not in WITHOUT_OUTPUT:
            if reading is None:
                if text := self.final_text:
                    return cast("Output", text)
            elif not reading.problems:
                return reading.data
        problem = None
        if typed is not None and reading is not None and reading.problems:
            kind = getattr(typed.kind, "__name__", "the type asked for")
            problem = f"without a value of {kind}: {reading.problems[0]}"
        raise build_output_missing(self._ending, problem)

    @property
    def _ending(self) -> Ending:
        return Ending(
            status=self.status,
            stop_reason=self.stop_reason,
            error=self.error,
            session_id=self.session_id,
            trace=self.trace,
        )

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The new messages of this run: replies, tool results, and messages to the run."""
        return tuple(new_messages(self.entries))

    @property
    def token_usage(self) -> dict[str, int]:
        """`{"input_tokens": …, "output_tokens": …}` of the run's own calls."""
        used = self.own_usage
        return {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}

    @property
    def turns(self) -> int:
        """The number of model calls that count as turns."""
        return self._run.iteration

    @property
    def loop_detected(self) -> bool:
        """Whether `loop_detection` ended the run because it repeated itself."""
        return self.stop_reason == "loop_detected"


_SPOKEN = frozenset({Said, Replied})


def paid_in(entries: Sequence[JournalEntry]) -> tuple[Usage, float]:
    """Sum the tokens and dollars of the model calls in these entries, with failed ones."""
    calls = [entry for entry in entries if isinstance(entry, (Replied, ReplyFailed))]
    return sum((call.usage for call in calls), NO_USAGE), sum(call.cost_usd for call in calls)


def tree_of(run: Run) -> tuple[Usage, float]:
    """Sum the tokens and dollars of a run and of those under it, so far."""
    usage, usd = paid_in(run.journal.entries[run.first_entry :])
    for below, paid in run.calls.children.values():
        usage, usd = usage + below, usd + paid
    return usage, usd


def _assistant(entry: JournalEntry) -> Message | None:
    """Return the model's message in an entry, if it holds one of the run."""
    if type(entry) is Replied:
        return entry.message if entry.purpose is None else None
    if type(entry) is Said and entry.message.role == "assistant":
        return entry.message
    return None


def _distinct(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))
