"""One run on one session: what it has said and spent, and how it is recorded.

What it is made of stands in its `Plan` (`plan.py`). Policies speak through the run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.detach import detach
from windlass.errors import ConfigError, Locked, StaleWriter, StoreError, safe_repr
from windlass.events import (
    FeedbackInjected,
    JournalEntry,
    Noted,
    Remembered,
    Reminded,
    Replied,
    ReplyFailed,
    Reshaped,
    Said,
    ToolCallUpdate,
    ToolDecided,
    ToolIntended,
    ToolResulted,
)
from windlass.events.policy import Reminder
from windlass.json_types import JsonObject
from windlass.loop.deadline import CallTimer, Deadline
from windlass.loop.decision import refusal_by_tool
from windlass.loop.ledger import NO_LIMITS, Ledger
from windlass.loop.plan import Plan, frame_entry, keepable, plain
from windlass.loop.policy import Policy
from windlass.loop.reminders import add_reminder, reminder_entry
from windlass.loop.resume_input import Answers
from windlass.loop.sinks import (
    REPLY_ENDS,
    CleanShow,
    Receipt,
    Sink,
    Watcher,
    fan_out,
    ignore_event,
)
from windlass.loop.turn import Turn
from windlass.loop.verdict import Stop, Suspend
from windlass.messages import Message, Text, ToolResult
from windlass.models.base import Frame, Model, Request, Response
from windlass.models.view import Strand
from windlass.store.base import Journal, Store
from windlass.tools.result import answer
from windlass.tools.tool import AgentInfo, Tool
from windlass.usage import Usage

if TYPE_CHECKING:
    from windlass.loop.intercept import Around
    from windlass.redaction.redactor import Redactor

T = TypeVar("T")


class Run:
    """A run in progress. Policies get it at every moment."""

    __slots__ = (
        "answers",
        "around",
        "asked",
        "began",
        "books",
        "call_ids",
        "caller",
        "caller_name",
        "children",
        "coerced",
        "committed",
        "committing",
        "conversation_id",
        "deps",
        "drains",
        "early",
        "emit",
        "first_entry",
        "frame",
        "frame_digest",
        "frames",
        "held",
        "host_results",
        "interruption",
        "iteration",
        "journal",
        "ledger",
        "lingering",
        "loop",
        "memory",
        "model",
        "request_id",
        "moments",
        "number",
        "on_record",
        "plan",
        "pool_factory",
        "readings",
        "receipts",
        "record",
        "redactor",
        "reminders",
        "run_id",
        "sent",
        "session_id",
        "show",
        "sized",
        "started_at",
        "store",
        "strand",
        "task",
        "thread",
        "threads",
        "tools",
        "took",
        "took_over",
        "turn",
        "unwritten",
        "watch",
        "input_tokens",
        "output_tokens",
        "_metered",
        "_pool",
        "__weakref__",
    )

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
        sinks: Sequence[Sink] = (),
        redactor: Redactor | None = None,
        pool: Callable[[], Executor],
    ) -> None:
        self.plan, self.store, self.journal = plan, store, journal
        self.model, self.moments, self.frame = plan.model, plan.moments, plan.frame
        self.tools: Mapping[str, Tool] = plan.tools
        self.frame_digest: str = ""  # nothing framed yet
        self.frames: frozenset[str] = _NO_FRAMES  # those that it has put on record and left
        self.on_record: Frame | None = None  # the frame of that digest
        self.run_id, self.session_id, self.deps = run_id, journal.session_id, deps
        self.caller, self.caller_name = caller, str(caller)
        self.around: Around | None = None
        self.ledger, self._metered = ledger, ledger.metered
        self.books = ledger.root
        self.request_id: str | None = None  # as the host names them, for the books
        self.conversation_id: str | None = None
        self.redactor = redactor
        self.strand = Strand()
        self.sent: Sequence[Message] = ()  # the last request that was not the view
        # characters counted so far, for estimates
        self.sized: tuple[Strand, int, int] = (self.strand, 0, 0)
        self.turn: Turn | None = None
        self.iteration = 0  # completed model turns of this run
        self.number = 0  # of the turn under way
        self.first_entry = len(journal.entries)
        self.call_ids: set[str] = set()
        self.memory: JsonObject = {}
        self.readings: dict[Hashable, Any] = {}  # what policies make of the journal
        self.reminders: list[Reminded] = []  # each with the requests that it still has to go
        self.held: list[Message] = []  # said while calls were open; heard after their results
        self.took_over = False  # from a writer that was alive: its children's sessions too
        self.interruption: Stop | Suspend | None = None
        self._no_calls()
        self.pool_factory, self._pool = pool, None
        self.watch: CallTimer | None = None
        self.task: asyncio.Task[Any] | None = None
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.started_at = self.loop.time()
        self.input_tokens = self.output_tokens = 0
        self.children: Mapping[str, tuple[Usage, float]] = _NO_CHILDREN  # what each tree spent
        self.receipts: tuple[Watcher, ...] = ()
        self.show: Sink = ignore_event
        self.emit: Sink = ignore_event
        self.drains: tuple[Callable[[float | None], Awaitable[None]], ...] = ()
        self.record: Callable[[JournalEntry], None] = journal.append
        if sinks or plan.watchers or redactor is not None:
            self._be_watched(sinks, redactor)

    def _no_calls(self) -> None:
        """What becomes of calls, before there are any."""
        self.answers: Answers = {}  # to calls that asked someone
        self.asked: dict[str, ToolDecided] = {}  # what an earlier drive parked with, unanswered
        self.host_results: dict[str, ToolResult] = {}  # of calls that the host runs
        self.committed: dict[str, ToolResult] = {}
        # commits that the store could not write: each ends the run, whatever the tool makes of it
        self.unwritten: dict[str, StoreError] = {}
        self.committing: dict[str, asyncio.Future[None]] = {}  # done when the commit has ended
        # what was mended in arguments, until the result
        self.coerced: dict[str, tuple[str, ...]] = {}
        self.began: dict[str, float] = {}  # when calls began that may commit
        self.took: dict[str, float] = {}  # milliseconds, until the result is on record
        self.early: dict[str, asyncio.Task[Any]] = {}  # reads that started while the model wrote
        self.lingering: set[asyncio.Task[Any]] = set()
        self.threads: set[Future[Any]] = set()

    def _be_watched(self, sinks: Sequence[Sink], redactor: Redactor | None) -> None:
        """What is recorded passes the redactor, and is shown to whoever watches."""
        if self.plan.watchers:
            made = [make(self) for make in self.plan.watchers]
            self.receipts = tuple([each for each in made if isinstance(each, Receipt)])
            sinks = (*sinks, *made)
        if sinks:
            self.show = self.emit = fan_out(sinks)
            if redactor is not None:
                self.emit = CleanShow(redactor, self.show)
        self.drains = tuple([sink.drain for sink in sinks if isinstance(sink, Watcher)])
        self.record = self._record_and_show

    @property
    def metered(self) -> bool:
        """Does a limit need an estimate before each call? That of all runs may be set at any time."""
        return self._metered or self.books.limits is not NO_LIMITS

    def measure(self) -> None:
        """The limits are others now: look again whether calls must be estimated."""
        self._metered = self.ledger.metered

    # ----------------------------------------------------------------- what policies use

    def say(self, text: str, kind: str, ttl: int | None = None) -> None:
        """Tell the model something, after the results of any open calls.

        With `ttl` it is a reminder at the tail of that many requests, and not part of the view.
        """
        for one in (text, kind):
            if type(plain(one, "what a policy says")) is not str:
                raise ConfigError(f"a policy says text, not {safe_repr(one)}")
        if ttl is not None and (type(ttl) is not int or ttl < 1):
            raise ConfigError(f"ttl is a whole number of requests from 1, not {safe_repr(ttl)}")
        self.record(FeedbackInjected(kind, text))
        message = Message("user", (Text(text),), kind)
        if ttl is not None:
            self.reminded(Reminded(message, ttl))
        else:
            self.hear(message)

    def remind(self, reminder: Reminder, source: str = "policy") -> None:
        """Remind the model, at the tail of the next requests: `run.remind(Reminder("Be brief."))`.

        The same words again take the place of those that are still due. What a policy says ends
        with its run; from another source it stays as long as its `ttl` says.
        """
        entry = reminder_entry(reminder, source, self.session_id)
        if threading.get_ident() == self.thread:
            self.reminded(entry)
        else:  # a tool in a thread of its own: it is there before the tool's answer is
            self.loop.call_soon_threadsafe(self.reminded, entry)

    async def ask(self, request: Request, purpose: str, model: Model | None = None) -> Response:
        """A policy's own model call: reserved, settled and journaled, never an iteration.

        `model` is asked in place of the run's own.
        """
        from windlass.loop.model_call import call_model

        return await call_model(self, request, purpose, model=model)

    def reshape(self, span: tuple[int, int], messages: Sequence[Message], why: str) -> None:
        """Replace messages `span[0]` to `span[1]` of the view. Only whole rounds."""
        start, stop = span
        new = tuple(messages)
        if self.redactor is not None:
            new = self.redactor.value(new)
        self.record(Reshaped(start, stop, new, why))
        items = list(self.strand.items)
        items[start:stop] = new
        self.strand = Strand(items)

    def now(self) -> float:
        """The time, for what the model is shown; a replay has that of its record."""
        return seams.now() if self.around is None else self.around.now()

    def note(self, event: JournalEntry | str, data: Any = None) -> None:
        """Put something on the record: one of the events, or a name and data of your own."""
        keepable((event, data), "a note")
        if isinstance(event, (Replied, ReplyFailed)):
            raise ConfigError("a model call is put on record by run.ask, never by a note")
        self.record(Noted(event, detach(data)) if isinstance(event, str) else event)

    def recall(self, policy: Policy[Any]) -> Any:
        """What the policy remembers of this run; a fresh memory at first."""
        value = self.memory.get(policy.name)
        if value is None and policy.memory is not None:
            value = policy.memory()
        return value

    def remember(self, policy: Policy[Any], value: Any) -> None:
        """Keep the policy's memory, journaled with this moment."""
        kept = plain(value, f"what {policy.name} remembers")
        self.memory[policy.name] = value
        self.record(Remembered(policy.name, kept, policy.keeps))

    @property
    def messages(self) -> Sequence[Message]:
        """The view: what the model has seen and said."""
        return self.strand.snapshot()

    # ----------------------------------------------------------------- what the kernel uses

    def hear(self, message: Message) -> None:
        """A message joins the view, or waits for the open calls to be answered first."""
        if self.redactor is not None:
            message = self.redactor.value(message)
        self.record(Said(message))
        if message.role == "assistant":  # of an earlier conversation: its calls keep their ids
            self.call_ids.update([call.id for call in message.tool_calls])
        if self.turn is not None and self.turn.open:
            self.held.append(message)
        else:
            self.strand.items.append(message)

    def reminded(self, entry: Reminded) -> None:
        """A reminder joins those that are due."""
        if self.task is not None and self.task.done():
            return  # a tool that was given up on has outlived the run
        if self.redactor is not None:
            entry = self.redactor.value(entry)
        self.record(entry)
        self.reminders = add_reminder(self.reminders, entry)

    def reframe(self, frame: Frame, why: str) -> None:
        """Put a frame on the record, unless it stands there already: judges come and go."""
        entry = self.plan.framed if frame is self.plan.frame else frame_entry(frame, why)
        digest = entry.digest
        if digest != self.frame_digest:
            if digest not in self.frames:
                self.record(entry if entry.why == why else msgspec.structs.replace(entry, why=why))
            if self.frame_digest:
                self.frames |= {self.frame_digest}
            self.frame_digest = digest
        self.frame = self.on_record = frame

    def deadline(self, seconds: float) -> Deadline:
        """A limit on the time of one call, in the task that asks."""
        task = asyncio.current_task()
        assert task is not None
        if task is not self.task:
            return Deadline(self.loop, task, seconds)
        watch = self.watch
        if watch is None:
            watch = self.watch = CallTimer(self.loop, task)
        watch.begin(seconds)
        return watch

    def interrupt(self, stop: Stop | Suspend) -> None:
        """End the run from outside, now: cancels whatever it waits for."""
        if self.interruption is None:
            self.interruption = stop
            self.halt()

    def halt(self) -> None:
        """Cancel the run's task. One that has not begun sees at its beginning that it is over."""
        if self.task is not None:
            self.task.cancel()
        elif self.interruption is None:
            self.interruption = Stop("cancelled", "cancelled")

    def _record_and_show(self, entry: JournalEntry) -> None:
        if self.redactor is not None:
            entry = self.redactor.value(entry)
            if isinstance(self.emit, CleanShow) and type(entry) in REPLY_ENDS:
                self.emit.flush()
        self.journal.append(entry)
        self.show(entry)

    # ----------------------------------------------------------------- what tool calls use

    @property
    def agent(self) -> AgentInfo:
        """Who the run's tools are called by."""
        plan = self.plan
        return AgentInfo(plan.name or "runner", plan.role or "assistant", self.model.name)

    @property
    def cancelled(self) -> bool:
        """The run is being cancelled."""
        return self.interruption is not None or (
            self.task is not None and self.task.cancelling() > 0
        )

    @property
    def pool(self) -> Executor:
        """Threads for synchronous tools; the run knows which of them are still at work."""
        if self._pool is None:
            self._pool = _Threads(self.pool_factory(), self.threads)
        return self._pool

    def progress(self, call_id: str, data: Any) -> None:
        """Show a tool's progress, from any thread."""
        event = ToolCallUpdate(call_id, "in_progress", data)
        if threading.get_ident() == self.thread:
            self.emit(event)
        else:
            self.loop.call_soon_threadsafe(self.emit, event)

    def again(self, call_id: str, tool: Tool, attempt: int) -> bool:
        """Put on record that a call which failed is tried once more; one that committed is not."""
        if call_id in self.committed or self.cancelled:
            return False
        turn = self.turn
        if turn is not None and (ready := turn.ready.get(call_id)) is not None:
            turn.ready[call_id] = msgspec.structs.replace(ready, attempt=attempt)
        if tool.effect != "transactional":  # its intent is stored with its effect
            self.record(ToolIntended(call_id, tool.name, tool.effect, attempt))
        return True

    async def commit(self, call_id: str, body: Callable[[Any], T]) -> T:
        """Run a body in one transaction with the record of the call."""
        turn = self.turn
        ready = turn.ready.get(call_id) if turn is not None else None
        if turn is None or ready is None:
            raise RuntimeError(f"call {call_id!r} is not running")
        tool = ready.tool
        if call_id in self.committed:
            raise RuntimeError(f"{tool.name} has committed already; a call commits once")
        started = self.began.get(call_id) or seams.monotonic()

        def record(value: T) -> list[JournalEntry]:
            result = msgspec.structs.replace(answer(value), id=call_id, name=tool.name)
            if self.redactor is not None:
                result = self.redactor.value(result)
            self.committed[call_id] = result
            took = (seams.monotonic() - started) * 1000
            entries: list[JournalEntry] = []
            if call_id not in turn.started:
                entries.append(ToolIntended(call_id, tool.name, tool.effect, ready.attempt))
            if result.outcome == "denied":
                entries.append(refusal_by_tool(ready, result, self.caller_name))
            entries.append(ToolResulted(call_id, tool.name, result.outcome, result, took))
            return entries

        ended = self.committing[call_id] = self.loop.create_future()
        try:
            seams.point("tool.before_commit")
            value = await self.journal.commit(body, record)
            seams.point("tool.after_commit")
        except BaseException as error:
            if isinstance(error, StaleWriter) or (
                isinstance(error, StoreError) and error.unwritten and not isinstance(error, Locked)
            ):  # what is locked is so for a while, and the next write waits for it again
                self.unwritten[call_id] = error
            if not self._has_result(call_id):  # who is cancelled late has committed all the same
                self.committed.pop(call_id, None)
            raise
        finally:
            del self.committing[call_id]
            ended.set_result(None)
        return value

    def _has_result(self, call_id: str) -> bool:
        """Is a result of the call on record?"""
        entries = reversed(self.journal.entries)
        return any(type(e) is ToolResulted and e.call_id == call_id for e in entries)


class _Threads(Executor):
    """A run's share of the pool: it remembers what has not come back."""

    def __init__(self, inner: Executor, live: set[Future[Any]]) -> None:
        self._inner, self._live = inner, live

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future = self._inner.submit(fn, *args, **kwargs)
        self._live.add(future)
        future.add_done_callback(self._live.discard)
        return future


_NO_FRAMES: frozenset[str] = frozenset()
_NO_CHILDREN: Mapping[str, tuple[Usage, float]] = {}
