"""One run on one session: what it is made of, what it has said and spent, and how it is recorded.

A `Plan` is what does not change while runs go on; it is assembled once and shared by many. The
`Run` is the state of one. Policies speak through it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor, Future
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.errors import ConfigError, Corrupt, shown
from windlass.events import (
    FeedbackInjected,
    Framed,
    JournalEntry,
    Noted,
    Remembered,
    Reminded,
    Replied,
    ReplyFailed,
    Reshaped,
    Said,
    ToolCallUpdate,
    ToolIntended,
    ToolResulted,
)
from windlass.loop.answers import Decision
from windlass.loop.deadline import Deadline, Watch
from windlass.loop.ledger import NO_LIMITS, Ledger, Limits
from windlass.loop.policy import Policy, moments_of
from windlass.loop.turn import Turn
from windlass.loop.verdict import Stop
from windlass.loop.watch import REPLY_ENDS, CleanShow, Receipt, Sink, Watcher, fan_out, unwatched
from windlass.messages import Message, Text, ToolResult, ToolSpec
from windlass.models.base import Frame, Model, Request, Response, Settings
from windlass.models.view import Strand
from windlass.store.base import Journal, Store
from windlass.tools.answer import answer
from windlass.tools.base import AgentInfo, Tool, Validation
from windlass.tools.text import to_text

if TYPE_CHECKING:
    from windlass.loop.around import Around
    from windlass.redact import Redactor

T = TypeVar("T")


class Plan:
    """What a run is made of: frozen, assembled once, shared by many runs."""

    __slots__ = ("concurrency", "deliberates", "denied", "digest", "door", "eager", "frame",
                 "framed", "limits", "metadata", "model", "moments", "name", "policies",
                 "reply_tokens", "role", "tool_timeout", "tools", "validation", "watchers")  # fmt: skip

    def __init__(
        self,
        model: Model,
        *,
        door: str = "agent",
        name: str | None = None,
        system: str | None = None,
        tools: Sequence[Tool] = (),
        settings: Settings | None = None,
        policies: Sequence[Policy[Any]] = (),
        limits: Limits = NO_LIMITS,
        concurrency: int = 1,
        eager: bool = True,
        tool_timeout: float | None = 120.0,
        validation: Validation = "strict",
        metadata: dict[str, Any] | None = None,
        offered: tuple[ToolSpec, ...] | None = None,  # None: all of them, as they are
        role: str | None = None,
        denied: frozenset[str] = frozenset(),  # tools that nobody may bring into a run
        watchers: Sequence[Callable[[Run], Watcher]] = (),  # make those who watch each run
    ) -> None:
        self.model, self.door, self.name, self.metadata = model, door, name, metadata
        self.role, self.denied, self.watchers = role, denied, tuple(watchers)
        self.policies = tuple(policies)
        self.moments = moments = moments_of(self.policies)
        self.deliberates = moments.deliberates
        self.limits, self.concurrency = limits, concurrency
        self.validation: Validation = validation
        self.tool_timeout = tool_timeout
        settings = settings or _SETTINGS
        self.reply_tokens = settings.max_tokens or 16384
        offer = _offer(system, tuple(tools), settings, offered)
        self.tools: Mapping[str, Tool] = offer.tools
        self.eager = eager and offer.reads
        self.frame, self.framed, self.digest = offer.frame, offer.framed, offer.framed.digest

    def of(self, model: Model) -> Plan:
        """The same plan for another model."""
        other = object.__new__(Plan)
        other.model, other.door, other.name, other.metadata = (
            model, self.door, self.name, self.metadata
        )  # fmt: skip
        other.role, other.denied, other.watchers = self.role, self.denied, self.watchers
        other.policies, other.moments, other.limits = self.policies, self.moments, self.limits
        other.deliberates, other.concurrency = self.deliberates, self.concurrency
        other.validation, other.tool_timeout = self.validation, self.tool_timeout
        other.tools, other.eager, other.reply_tokens = self.tools, self.eager, self.reply_tokens
        other.frame, other.framed, other.digest = self.frame, self.framed, self.digest
        return other


class _Offer(NamedTuple):
    """What a model is shown, in the forms that a run needs."""

    tools: Mapping[str, Tool]
    reads: bool  # some of them only read
    frame: Frame
    framed: Framed


_SETTINGS = Settings()
_offers: dict[tuple[str | None, tuple[int, ...], int, int], _Offer] = {}


def _offer(
    system: str | None,
    tools: tuple[Tool, ...],
    settings: Settings,
    specs: tuple[ToolSpec, ...] | None,
) -> _Offer:
    """Kept for a while: agents are made again and again with the same parts."""
    key = (system, tuple(map(id, tools)), id(settings), id(specs))
    known = _offers.get(key)  # it holds the parts, so that their ids stay theirs
    if known is None:
        if specs is None:
            specs = tuple([tool.spec for tool in tools])
        frame = Frame(system, specs, settings)
        reads = any([tool.effect == "read_only" for tool in tools])
        if len(_offers) >= 256:
            _offers.clear()
        by_name = {tool.name: tool for tool in tools}
        known = _offers[key] = _Offer(by_name, reads, frame, framed(frame))
    return known


def framed(frame: Frame, why: str = "start") -> Framed:
    """The entry that puts a frame on the record."""
    tools = tuple([cast("dict[str, Any]", msgspec.to_builtins(tool)) for tool in frame.tools])
    settings = cast("dict[str, Any]", msgspec.to_builtins(frame.settings))
    return Framed(digest_of((frame.system, tools, settings)), frame.system, tools, settings, why)


def frame_of(entry: Framed) -> Frame:
    """The frame that an entry put on the record."""
    try:
        return Frame(
            entry.system,
            tuple(msgspec.convert(tool, ToolSpec) for tool in entry.tools),
            msgspec.convert(entry.settings, Settings),
        )
    except msgspec.ValidationError as error:
        raise Corrupt(f"frame {entry.digest!r} on record is none: {error}") from error


def plain(value: Any, what: str) -> Any:
    """The value as plain data; what no journal can hold is refused where it is handed over."""
    keepable(value, what)
    return msgspec.to_builtins(value)


def keepable(value: Any, what: str) -> None:
    """Refuse what no journal can hold."""
    try:
        _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"{what} is kept in the journal and must be plain data: {error}"
        ) from error


def digest_of(value: object) -> str:
    """A short fingerprint of anything that JSON can hold."""
    try:
        data = _encode(value)
    except (ValueError, TypeError, RecursionError):  # what no JSON can hold has a text all the same
        data = to_text(value).encode()
    state = _blank()  # a copy is made in half the time of a new one
    state.update(data)
    return state.hexdigest()


class Run:
    """A run in progress. Policies get it at every moment."""

    __slots__ = ("answers", "around", "audited", "began", "books", "call_ids", "caller", "caller_name", "coerced", "committed", "conversation_id", "deps", "drains", "early",
                 "emit",                  "first_entry", "frame", "frame_digest", "frames", "held", "host_results", "interruption",
                 "iteration", "journal", "ledger", "lingering", "loop", "memory", "model",
                 "request_id",
                 "moments", "number", "on_record", "plan", "pool_factory", "readings", "receipts", "record", "redactor", "reminders", "run_id",
                 "session_id", "show", "sized", "started_at", "store", "strand", "task", "thread", "threads", "tools", "took", "turn", "watch",
                 "input_tokens", "output_tokens", "_metered", "_pool", "__weakref__")  # fmt: skip

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
        self.audited = 0
        self.sized: tuple[Strand, int, int] = (
            self.strand,
            0,
            0,
        )  # characters counted so far, for estimates
        self.turn: Turn | None = None
        self.iteration = 0  # completed model turns of this run
        self.number = 0  # of the turn under way
        self.first_entry = len(journal.entries)
        self.call_ids: set[str] = set()
        self.memory: dict[str, Any] = {}
        self.readings: dict[Hashable, Any] = {}  # what policies make of the journal
        self.reminders: list[tuple[Message, int]] = []
        self.held: list[Message] = []  # said while calls were open; heard after their results
        self.interruption: Stop | None = None
        self.answers: dict[str, Decision] = {}  # to calls that asked someone
        self.host_results: dict[str, ToolResult] = {}  # of calls that the host runs
        self.committed: dict[str, ToolResult] = {}
        self.coerced: dict[
            str, tuple[str, ...]
        ] = {}  # what was mended in arguments, until the result
        self.began: dict[str, float] = {}  # when calls began that may commit
        self.took: dict[str, float] = {}  # milliseconds, until the result is on record
        self.early: dict[str, asyncio.Task[Any]] = {}  # reads that started while the model wrote
        self.lingering: set[asyncio.Task[Any]] = set()
        self.threads: set[Future[Any]] = set()
        self.pool_factory, self._pool = pool, None
        self.watch: Watch | None = None
        self.task: asyncio.Task[Any] | None = None
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.started_at = self.loop.time()
        self.input_tokens = self.output_tokens = 0
        self.receipts: tuple[Watcher, ...] = ()
        if plan.watchers:
            made = [make(self) for make in plan.watchers]
            self.receipts = tuple([each for each in made if isinstance(each, Receipt)])
            sinks = (*sinks, *made)
        self.show: Sink = fan_out(sinks) if sinks else unwatched
        self.emit: Sink = self.show
        self.drains: tuple[Callable[[float | None], Awaitable[None]], ...] = ()
        if sinks or redactor is not None:
            self.drains = tuple([sink.drain for sink in sinks if isinstance(sink, Watcher)])
            if sinks and redactor is not None:
                self.emit = CleanShow(redactor, self.show)
            self.record: Callable[[JournalEntry], None] = self._record_and_show
        else:
            self.record = journal.append

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
                raise ConfigError(f"a policy says text, not {shown(one)}")
        self.record(FeedbackInjected(kind, text))
        message = Message("user", (Text(text),), kind)
        if ttl is not None:
            if self.redactor is not None:
                message = self.redactor.value(message)
            self.record(Reminded(message, ttl))
            self.reminders.append((message, ttl))
        else:
            self.hear(message)

    async def ask(self, request: Request, purpose: str, model: Model | None = None) -> Response:
        """A policy's own model call: reserved, settled and journaled, never an iteration.

        `model` is asked in place of the run's own.
        """
        from windlass.loop.ask import call_model

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
        self.strand, self.audited = Strand(items), 0

    def note(self, event: JournalEntry | str, data: Any = None) -> None:
        """Put something on the record: one of the events, or a name and data of your own."""
        keepable((event, data), "a note")
        if isinstance(event, (Replied, ReplyFailed)):
            raise ConfigError("a model call is put on record by run.ask, never by a note")
        self.record(Noted(event, data) if isinstance(event, str) else event)

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

    def reframe(self, frame: Frame, why: str) -> None:
        """Put a frame on the record, unless it stands there already: judges come and go."""
        entry = self.plan.framed if frame is self.plan.frame else framed(frame, why)
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
            watch = self.watch = Watch(self.loop, task)
        watch.begin(seconds)
        return watch

    def interrupt(self, stop: Stop) -> None:
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
            turn.ready[call_id] = ready._replace(attempt=attempt)
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
            entry = ToolResulted(call_id, tool.name, result.outcome, result, took)
            if call_id in turn.started:
                return [entry]
            return [ToolIntended(call_id, tool.name, tool.effect, ready.attempt), entry]

        try:
            seams.point("tool.before_commit")
            value = await self.journal.commit(body, record)
            seams.point("tool.after_commit")
        except BaseException:
            self.committed.pop(call_id, None)
            raise
        return value


def aged(reminders: list[tuple[Message, int]], due: int) -> list[tuple[Message, int]]:
    """The reminders after a reply: the first `due` were sent, and live one request less."""
    return [(m, ttl - 1) for m, ttl in reminders[:due] if ttl > 1] + reminders[due:]


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
_blank = blake2b(digest_size=16).copy
_encode = msgspec.json.Encoder(order="deterministic").encode
