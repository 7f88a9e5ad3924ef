"""One run on one session: what policies use of it, and how it is recorded.

What it is made of stands in its `Plan` (`plan.py`), what the loop keeps of it in `state.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from windlass import seams
from windlass.access.caller import HOST_CALLER, Caller
from windlass.detach import detach
from windlass.errors import ConfigError, Locked, StaleWriter, StoreError, safe_repr
from windlass.events import (
    ArtifactWritten,
    FeedbackInjected,
    JournalEntry,
    Noted,
    Remembered,
    Reminded,
    Replied,
    ReplyFailed,
    Reshaped,
    Said,
    ToolCallAudit,
    ToolCallUpdate,
    ToolDecided,
    ToolIntended,
    ToolResulted,
)
from windlass.events.policy import Reminder
from windlass.json_types import JsonObject
from windlass.loop.facts import FactReader, Facts
from windlass.loop.ledger import Ledger
from windlass.loop.model_call import RunCall, call_model
from windlass.loop.plan import Plan, as_journaled, check_storable, digest_of, frame_entry, to_plain
from windlass.loop.policy import Policy
from windlass.loop.reminders import add_reminder, reminder_entry
from windlass.loop.sinks import (
    REPLY_ENDS,
    CleanShow,
    Receipt,
    Sink,
    Watcher,
    fan_out,
)
from windlass.loop.state import EMPTY, CallState, HostState, ViewState, without
from windlass.loop.turn import Ready, Turn
from windlass.loop.verdict import Stop, Suspend
from windlass.messages import Message, Text, ToolResult
from windlass.models.base import Frame, Model, Request, Response, Strand, View, silent
from windlass.store.base import InboxItem, Journal, Store
from windlass.tools.result import answer
from windlass.tools.tool import AgentInfo, Tool
from windlass.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from windlass.loop.intercept import Around
    from windlass.redaction.redactor import Redactor

T = TypeVar("T")
_Kind = TypeVar("_Kind", bound=Facts)


class Run:
    """A run in progress; policies get it in every method.

    `run.say("…", "note")`, `run.messages`, `run.entries`, `run.ledger`, `run.recall(policy)`.
    """

    def __init__(
        self,
        plan: Plan,
        store: Store,
        journal: Journal,
        *,
        run_id: str,
        caller: Caller,
        deps: Any = None,
        ledger: Ledger,
        host: HostState,
        sinks: Sequence[Sink] = (),
        redactor: Redactor | None = None,
    ) -> None:
        self.plan, self.store, self.journal = plan, store, journal
        self.model, self.redactor, self.ledger = plan.model, redactor, ledger
        self.tools: Mapping[str, Tool] = plan.tools
        self.run_id, self.session_id, self.deps = run_id, journal.session_id, deps
        self.caller = caller
        self.caller_name = caller.user if caller is HOST_CALLER else str(caller)
        self.turn: Turn | None = None
        self.iteration = 0  # completed model turns of this run
        self.number = 0  # of the turn under way
        self.first_entry = len(journal.entries)  # where the run begins in its session's journal
        # What policies remember, by their names: replaced, and never changed in place.
        self.memory: Mapping[str, Any] = EMPTY
        self.cache: dict[Hashable, Any] = {}  # what policies computed; gone with the process
        self.interruption: Stop | Suspend | None = None  # an end that came from outside
        self.around: Around | None = None  # makes the calls in the run's place
        self.host, self.calls, self.view = host, CallState(), ViewState(plan.frame)
        self.emit: Sink = silent
        self.record: Callable[[JournalEntry], None] = journal.append
        if sinks or plan.watchers or redactor is not None:
            self._attach_sinks(sinks, redactor)

    def _attach_sinks(self, sinks: Sequence[Sink], redactor: Redactor | None) -> None:
        """Redact what is recorded, and show it to observers."""
        if self.plan.watchers:
            made = [make(self) for make in self.plan.watchers]
            self.host.receipts = tuple([each for each in made if isinstance(each, Receipt)])
            sinks = (*sinks, *made)
        if sinks:
            self.host.show = self.emit = fan_out(sinks)
            if redactor is not None:
                self.emit = CleanShow(redactor, self.host.show)
        self.host.drains = tuple([sink.drain for sink in sinks if isinstance(sink, Watcher)])
        self.record = self._record_and_show

    def filter_events(self, build: Callable[[Sink], Sink]) -> None:
        """Put a sink before the observers; they see what it lets through."""
        if self.emit is silent:
            return
        show = self.host.show = build(self.host.show)
        self.emit = show if self.redactor is None else CleanShow(self.redactor, show)

    # ----------------------------------------------------------------- what policies use

    def say(self, text: str, kind: str, ttl: int | None = None) -> None:
        """Add a message for the model, after the results of open calls.

        With `ttl` it is a reminder at the end of that many requests, and not part of the view.
        """
        for one in (text, kind):
            if type(to_plain(one, "what a policy says")) is not str:
                raise ConfigError(f"a policy says text, not {safe_repr(one)}")
        if ttl is not None and (type(ttl) is not int or ttl < 1):
            raise ConfigError(f"ttl is a whole number of requests from 1, not {safe_repr(ttl)}")
        self.record(FeedbackInjected(kind, text))
        message = Message("user", (Text(text),), kind)
        if ttl is not None:
            self.add_reminder(Reminded(message, ttl))
        else:
            self.hear(message)

    def remind(self, reminder: Reminder, source: str = "policy") -> None:
        """Add a reminder to the end of the next requests: `run.remind(Reminder("Be brief."))`.

        A reminder with the same text replaces the earlier one. A reminder of a policy ends with its
        run; one from another source lives as long as its `ttl`.
        """
        entry = reminder_entry(reminder, source, self.session_id)
        if threading.get_ident() == self.host.thread:
            self.add_reminder(entry)
        else:  # a tool in a thread of its own: it is there before the tool's answer is
            self.host.loop.call_soon_threadsafe(self.add_reminder, entry)

    async def ask(self, request: Request, purpose: str, model: Model | None = None) -> Response:
        """Make a model call for the policy: recorded and paid for, not counted as a turn.

        `model` is called in place of the run's model.
        """
        return await call_model(RunCall.of(self, request), model or self.model, request, purpose)

    def reshape(self, span: tuple[int, int], messages: Sequence[Message], why: str) -> None:
        """Replace messages `span[0]` to `span[1]` of the view. Only whole rounds."""
        start, stop = span
        new = tuple(messages)
        if self.redactor is not None:
            new = self.redactor.value(new)
        self.record(Reshaped(start, stop, new, why))
        items = list(self.view.strand.items)
        items[start:stop] = new
        self.view.strand = Strand(items)

    def now(self) -> float:
        """Return the time, for texts that the model reads; a replay returns the recorded time."""
        return seams.now() if self.around is None else self.around.now()

    def note(self, event: JournalEntry | str, data: Any = None) -> None:
        """Record something: an event, or a name and data of your own."""
        check_storable((event, data), "a note")
        if isinstance(event, (Replied, ReplyFailed)):
            raise ConfigError("a model call is put on record by run.ask, never by a note")
        self.record(Noted(event, detach(data)) if isinstance(event, str) else event)

    def recall(self, policy: Policy[Any]) -> Any:
        """Return what the policy remembers of this run; an empty memory at first."""
        value = self.memory.get(policy.name)
        if value is None and policy.memory is not None:
            value = policy.memory()
        return value

    def remember(self, policy: Policy[Any], value: Any) -> None:
        """Store the policy's memory in the journal."""
        kept = to_plain(value, f"what {policy.name} remembers")
        self.memory = {**self.memory, policy.name: value}
        self.record(Remembered(policy.name, kept, policy.keeps))

    @property
    def messages(self) -> View:
        """The view: the messages that the model has seen and written."""
        return self.view.strand.snapshot()

    @property
    def frame(self) -> Frame:
        """The system prompt, tools and settings of the requests."""
        return self.view.frame

    @property
    def entries(self) -> Sequence[JournalEntry]:
        """The recorded entries of the session, oldest first; `facts` reads each entry once."""
        return self.journal.entries

    @property
    def own_entries(self) -> Sequence[JournalEntry]:
        """The recorded entries of this run."""
        return self.journal.entries[self.first_entry :]

    @property
    def usage(self) -> Usage:
        """The tokens of the run's own model calls so far, also of failed ones."""
        calls = [each for each in self.own_entries if isinstance(each, (Replied, ReplyFailed))]
        return sum([call.usage for call in calls], NO_USAGE)

    def facts(self, kind: Callable[..., _Kind], given: Hashable = None) -> _Kind:
        """Return the facts of this kind, up to date: `run.facts(Tally).successful`."""
        cache = self.cache
        found: _Kind | None = cache.get(kind if given is None else (kind, given))
        if found is None:
            found = _begin_facts(self, kind, given)
        else:  # asked many times in a turn, when there may be nothing to read
            reader: FactReader = cache[FactReader]
            entries = self.journal.entries
            if reader.place != len(entries):
                reader.read(entries)
        return found

    @property
    def inbox(self) -> Sequence[InboxItem]:
        """The items that others posted to the session and that were not taken yet."""
        return self.journal.mail

    def take(self, item: InboxItem) -> None:
        """Take an item out of the inbox, together with what is recorded next."""
        self.journal.take(item)

    def flush(self) -> None:
        """Pass what is recorded to the store, before something slow."""
        self.journal.flush()

    async def store_record(self) -> None:
        """Wait until everything recorded is stored."""
        self.journal.flush()
        await self.journal.durable()

    # ----------------------------------------------------------------- what the kernel uses

    @property
    def reply_tokens(self) -> int:
        """The most tokens of a reply without a limit."""
        return self.plan.reply_tokens

    def hear(self, message: Message) -> None:
        """Add a message to the view, or hold it until the open calls have results."""
        if self.redactor is not None:
            message = self.redactor.value(message)
        self.record(Said(message))
        if message.role == "assistant":  # of an earlier conversation: its calls keep their ids
            self.calls.ids.update([call.id for call in message.tool_calls])
        if self.turn is not None and self.turn.open:
            self.view.held += (message,)
        else:
            self.view.strand.append(message)

    def add_reminder(self, entry: Reminded) -> None:
        """Add a reminder to those that are due."""
        if self.host.task is not None and self.host.task.done():
            return  # a tool that was given up on has outlived the run
        if self.redactor is not None:
            entry = self.redactor.value(entry)
        self.record(entry)
        self.view.reminders = add_reminder(self.view.reminders, entry)

    def reframe(self, frame: Frame, why: str) -> None:
        """Record a frame, unless it is recorded already: judges come and go."""
        view = self.view
        entry = self.plan.framed if frame is self.plan.frame else frame_entry(frame, why)
        digest = entry.digest
        if digest != view.frame_digest:
            if digest not in view.digests:
                self.record(entry if entry.why == why else msgspec.structs.replace(entry, why=why))
            if view.frame_digest:
                view.digests |= {view.frame_digest}
            view.frame_digest = digest
        view.frame = view.recorded_frame = frame

    def interrupt(self, stop: Stop | Suspend) -> None:
        """End the run from outside at once: cancel what it waits for."""
        if self.interruption is None:
            self.interruption = stop
            self.halt()

    def halt(self) -> None:
        """Cancel the run's task; a run that has not begun ends at its beginning."""
        if self.host.task is not None:
            self.host.task.cancel()
        elif self.interruption is None:
            self.interruption = Stop("cancelled", "cancelled")

    def _record_and_show(self, entry: JournalEntry) -> None:
        if self.redactor is not None:
            entry = self.redactor.value(entry)
            if isinstance(self.emit, CleanShow) and type(entry) in REPLY_ENDS:
                self.emit.flush()
        self.journal.append(entry)
        self.host.show(entry)

    # ----------------------------------------------------------------- what tool calls use

    @property
    def agent(self) -> AgentInfo:
        """The agent that calls the run's tools."""
        plan = self.plan
        return AgentInfo(plan.name or "runner", plan.role or "assistant", self.model.name)

    @property
    def request_id(self) -> str | None:
        """The request that the run belongs to, as the host names it."""
        return self.host.request_id

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the run belongs to, as the host names it."""
        return self.host.conversation_id

    @property
    def cancelled(self) -> bool:
        """Whether the run is being cancelled."""
        task = self.host.task
        return self.interruption is not None or (task is not None and task.cancelling() > 0)

    @property
    def pool(self) -> Executor:
        """Threads for synchronous tools; the run tracks those that are still working."""
        if self.calls.pool is None:
            self.calls.threads = live = set[Future[Any]]()
            self.calls.pool = _Threads(self.host.owner.pool(), live)
        return self.calls.pool

    def progress(self, call_id: str, data: Any) -> None:
        """Show a tool's progress, from any thread."""
        event = ToolCallUpdate(call_id, "in_progress", data)
        if threading.get_ident() == self.host.thread:
            self.emit(event)
        else:
            self.host.loop.call_soon_threadsafe(self.emit, event)

    def again(self, call_id: str, tool: Tool, attempt: int) -> bool:
        """Record that a failed call is tried again; a committed call is not."""
        if call_id in self.calls.committed or self.cancelled:
            return False
        turn = self.turn
        if turn is not None and (ready := turn.ready.get(call_id)) is not None:
            turn.ready[call_id] = msgspec.structs.replace(ready, attempt=attempt)
        if tool.effect != "transactional":  # its intent is stored with its effect
            self.record(ToolIntended(call_id, tool.name, tool.effect, attempt))
        return True

    def keep_error(self, call_id: str, error: BaseException) -> None:
        """Keep the exception of a call until its result is recorded."""
        self.calls.errors = {**self.calls.errors, call_id: error}

    def write_artifact(self, title: str, text: str | None, data: Any, kind: str) -> str:
        """Record an artifact, from any thread; return its id."""
        made = f"artifact_{digest_of([self.session_id, kind, title])[:12]}"
        kept = as_journaled(data, "an artifact's data")
        entry = ArtifactWritten(made, kind, title, text, kept, self.plan.name)
        if threading.get_ident() == self.host.thread:
            self.note(entry)
        else:
            self.host.loop.call_soon_threadsafe(self.note, entry)
        return made

    async def commit(self, call_id: str, body: Callable[[Any], T]) -> T:
        """Run a body in one transaction with the record of the call."""
        calls, turn = self.calls, self.turn
        ready = turn.ready.get(call_id) if turn is not None else None
        if turn is None or ready is None:
            raise RuntimeError(f"call {call_id!r} is not running")
        tool = ready.tool
        if call_id in calls.committed:
            raise RuntimeError(f"{tool.name} has committed already; a call commits once")
        started = calls.start_times.get(call_id) or seams.monotonic()

        def record(value: T) -> list[JournalEntry]:
            result = msgspec.structs.replace(answer(value), id=call_id, name=tool.name)
            if self.redactor is not None:
                result = self.redactor.value(result)
            calls.committed = {**calls.committed, call_id: result}
            took = (seams.monotonic() - started) * 1000
            entries: list[JournalEntry] = []
            if call_id not in turn.started:
                entries.append(ToolIntended(call_id, tool.name, tool.effect, ready.attempt))
            if result.outcome == "denied":
                entries.append(refusal_by_tool(ready, result, self.caller_name))
            entries.append(ToolResulted(call_id, tool.name, result.outcome, result, took))
            return entries

        ended = self.host.loop.create_future()
        calls.commits = {**calls.commits, call_id: ended}
        try:
            seams.point("tool.before_commit")
            value = await self.journal.commit(body, record)
            seams.point("tool.after_commit")
        except BaseException as error:
            # What is locked is so for a while, and the next write waits for it again.
            if isinstance(error, StaleWriter) or (
                isinstance(error, StoreError) and error.unwritten and not isinstance(error, Locked)
            ):
                calls.unwritten = {**calls.unwritten, call_id: error}
            if not self._has_result(call_id):  # a late cancellation does not undo the commit
                calls.committed = without(calls.committed, call_id)
            raise
        finally:
            calls.commits = without(calls.commits, call_id)
            ended.set_result(None)
        return value

    def _has_result(self, call_id: str) -> bool:
        """Check whether a result of the call is recorded."""
        entries = reversed(self.journal.entries)
        return any(type(e) is ToolResulted and e.call_id == call_id for e in entries)


def _begin_facts(run: Run, kind: Callable[..., _Kind], given: Hashable) -> _Kind:
    """Begin to collect facts of one more kind, with what is on record already."""
    entries, cache = run.journal.entries, run.cache
    reader: FactReader | None = cache.get(FactReader)
    if reader is None:
        reader = cache[FactReader] = FactReader(run.first_entry)
    if reader.place != len(entries):
        reader.read(entries)
    found = cache[kind if given is None else (kind, given)] = (
        kind() if given is None else kind(given)
    )
    reader.join(found, entries)
    return found


class _Threads(Executor):
    """A run's share of the pool: it remembers what has not come back."""

    def __init__(self, inner: Executor, live: set[Future[Any]]) -> None:
        self._inner, self._live = inner, live

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future = self._inner.submit(fn, *args, **kwargs)
        self._live.add(future)
        future.add_done_callback(self._live.discard)
        return future


# --------------------------------------------------------------------------- refusals of tools

ROLES = "roles"  # the rule of a refusal by the roles of the Runtime


def audit_event(entry: ToolDecided) -> ToolCallAudit:
    """Build the live event of a decision, for auditors."""
    audit = {
        "event_type": f"tool_{entry.action}",
        "rule": entry.rule,
        "reason": entry.reason,
        "policyDecision": entry.policy_decision,
    }
    return ToolCallAudit(entry.call_id, entry.tool, audit)


def refusal_by_tool(ready: Ready, result: ToolResult, caller: str) -> ToolDecided:
    """Build the decision of a tool that refused a call which had passed the gate."""
    call, reason = ready.call, _reason_in(result.text)
    rule = ready.tool.name if reason is None else ROLES
    why = result.text if reason is None else reason
    digest = digest_of(call.arguments)
    receipt = {"action": "deny", "rule": rule, "rationale": why}
    return ToolDecided(call.id, ready.tool.name, "deny", rule, caller, digest, why, receipt=receipt)


def _reason_in(text: str) -> str | None:
    """Return why the caller may not make the call, if the result has a reason."""
    try:
        decoded: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    fields = cast("JsonObject", decoded)
    if fields.get("error") != "permission_denied" or not isinstance(fields.get("reason"), str):
        return None
    return fields["reason"]
