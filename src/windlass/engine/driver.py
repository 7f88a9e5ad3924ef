"""From a plan to an outcome: open the session, start the run, own its task to the end.

How a run goes on that was left is in `resume.py`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

import msgspec

from windlass import seams
from windlass.access.caller import HOST_CALLER, Caller
from windlass.engine.active_runs import DETACHED, under_way
from windlass.engine.children import note_calls_below
from windlass.engine.environment import Environment
from windlass.engine.mcp.hold import connect_servers, release_servers
from windlass.engine.open_questions import (
    OnPending,
    discard_of_killed,
    discard_orphans,
    discard_pending,
    keep_parked,
)
from windlass.engine.orphans import keep_bound
from windlass.engine.ownership import SessionOwner
from windlass.engine.session_opener import SessionOpener
from windlass.errors import StaleWriter, TestBroken
from windlass.events import Reminded, RunEnded, RunStarted, SessionOpened
from windlass.loop.abort import Abort
from windlass.loop.calls import close_recorded
from windlass.loop.kernel import Stage, drive
from windlass.loop.ledger import Ledger
from windlass.loop.lifecycle import disarm_conditions
from windlass.loop.meter import require_price
from windlass.loop.plan import HELD_SERVERS, Plan
from windlass.loop.resume import Standing, continue_session, standing
from windlass.loop.run import Run
from windlass.loop.sinks import Sink
from windlass.loop.spend import read_children
from windlass.loop.state import HostState
from windlass.loop.verdict import Finish, Outcome, Stop, Suspend
from windlass.messages import Message
from windlass.models.meter import RunScope, current_run
from windlass.observe.telemetry import TRACE_MODULE, is_traced
from windlass.policies.preview.mode import MODE
from windlass.store.base import InboxItem, Journal, Store
from windlass.store.memory import MemoryStore

if TYPE_CHECKING:
    from windlass.audit.seal import SealScheduler

_OPEN = Stage.OPEN  # an attribute of an enumeration takes as long as a call
PATIENCE = 0.09  # seconds until a caller who cancelled gets control back, whatever the run does
#: True while a fleet goes on with sessions: a run that waits for a condition stays parked until it
#: holds. Somebody who resumes a run himself ends what it and its sub-agents wait for.
keeps_waiting: ContextVar[bool] = ContextVar("windlass_keeps_waiting", default=False)
CALLBACKS = 10.0  # seconds that async callbacks have to end once their run has


class Start(msgspec.Struct, eq=False):
    """A run that is set up: drive it with `conduct`."""

    run: Run
    at: Stage
    finish: Finish | None
    outcome: Outcome | None = None  # of a run that had ended already
    passing: MemoryStore | None = None  # holds a session that nobody has named
    parks: bool = False  # when its caller is cancelled it is left to be taken up
    agent: object = None  # whose run it is
    parent: Run | None = None  # which has called it as a tool


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a run: its plan, its environment, its caller, and its observers."""

    plan: Plan
    environment: Environment
    store: Store | None = None  # that of the environment
    caller: Caller | None = None  # the host
    deps: Any = None
    sinks: Sequence[Sink] = ()
    ledger: Ledger | None = None  # one of its own, below that of the environment
    take_over: bool = False  # replace a live writer of the session
    owner: SessionOwner | None = None  # to whom a child's session belongs
    parent_id: str | None = None  # the session that a new one is a child of
    keeps_waiting: bool = False  # stay parked, with its children, while conditions do not hold
    run_id: str | None = None
    request_id: str | None = None
    conversation_id: str | None = None
    servers: tuple[Any, ...] = ()  # MCP servers that are held for the run

    def check_store(self) -> Store:
        """Return the store of the run; refuse one that cannot be sealed before it is opened."""
        home = self.store or self.environment.store
        self.environment.keeper_for(home)
        return home

    def open_session(self, home: Store, session_id: str | None) -> Awaitable[Journal]:
        """Open the session of a new run; mostly one that nobody has named, of the host's own."""
        if session_id is None and self.caller is None and self.owner is None:
            return home.open(seams.new_id("session"), parent_id=self.parent_id)
        return self.opener(home, self.parent_id).begin(session_id)

    def opener(self, home: Store, parent_id: str | None = None) -> SessionOpener:
        """Return what opens the session of the run."""
        return SessionOpener(
            home=home,
            environment=self.environment,
            caller=self.caller,
            owner=self.owner,
            take_over=self.take_over,
            parent_id=parent_id,
        )

    def relocate(self, journal: Journal) -> RunRequest:
        """Return the request with its plan in the workspace of the session."""
        if self.plan.relocate is None:
            return self
        return msgspec.structs.replace(self, plan=self.plan.follow(journal.entries))

    def build_run(self, home: Store, journal: Journal) -> Run:
        """Return the run on its open journal, with nothing recorded yet."""
        plan, environment = self.plan, self.environment
        if plan.model.secrets:
            environment.learn(plan.model)
        for model in plan.moments.models:
            environment.learn(model)
        opened = journal.entries[0]
        if self.parent_id is None and type(opened) is SessionOpened and opened.parent_id:
            plan = keep_bound(plan, journal.entries)
        run = Run(
            plan,
            home,
            journal,
            run_id=self.run_id or seams.new_id("run"),
            caller=self.caller or HOST_CALLER,
            deps=self.deps,
            ledger=self.ledger or Ledger(plan.limits, environment.ledger_for(self.caller)),
            host=HostState(
                asyncio.get_running_loop(),
                threading.get_ident(),
                environment,
                request_id=self.request_id,
                conversation_id=self.conversation_id,
                took_over=self.take_over,
                keeps_waiting=self.keeps_waiting,
            ),
            sinks=self.sinks,
            redactor=environment.redactor,
        )
        if self.servers:
            run.cache[HELD_SERVERS] = self.servers
        return run


# --------------------------------------------------------------------------- a new run


async def start(
    request: RunRequest,
    messages: Sequence[Message],
    session_id: str | None = None,
    *,
    reminders: Sequence[Reminded] = (),
    on_pending: OnPending = "keep",
) -> Start:
    """Begin a new run. On a session with history it goes on from there.

    `reminders` are passed on by the run that delegates the task. A session whose last run is parked
    takes no prompt and stays as it is, unless what it waits for is to be discarded.
    """
    plan, journal = request.plan, None
    above = request.ledger or request.environment.ledger_for(request.caller)
    try:
        if plan.connect is not None and session_id is None:
            request = await connect_servers(request)
            plan = request.plan
        check_prices(plan, above)
        home = request.check_store()
        journal = await request.open_session(home, session_id)
        if plan.relocate is not None:
            request = request.relocate(journal)
            plan = request.plan
        if plan.connect is not None:  # in the workspace of the session
            request = await connect_servers(request)
            plan = request.plan
            check_prices(plan, above)
        run = request.build_run(home, journal)
        if len(journal.entries) > 1:
            parked = await _continue_history(run, on_pending)
            if parked is not None:
                if request.servers:
                    await release_servers(request)
                return Start(run, _OPEN, None, parked)
            run.first_entry = len(journal.entries)
        run.record(_run_started(run))
        run.reframe(plan.frame, "start")
        for message in messages:
            run.hear(message)
        for reminder in reminders:
            run.add_reminder(reminder)
    except BaseException:
        if journal is not None:
            await journal.close()  # nobody else would let the next writer in
        if request.servers:
            await release_servers(request)
        raise
    begun = Start(run, _OPEN, None)
    if session_id is None and type(home) is MemoryStore and MODE not in (plan.metadata or {}):
        begun.passing = home
    return begun


async def _continue_history(run: Run, on_pending: OnPending) -> Outcome | None:
    """Continue the session's history; return the outcome of a run that stays parked."""
    journal = run.journal
    state = standing(journal.entries)
    if state.parked and on_pending == "keep":
        await read_children(run.store, journal.session_id, state.spending)
        outcome = keep_parked(run, state)
        await note_calls_below(run)
        return outcome
    if state.parked:
        await discard_pending(run, state)
        await disarm_conditions(run, state.suspended)
        state = standing(journal.entries)
    elif state.view.open:
        await discard_of_killed(run, state)
    state = close_open_calls(run, state)
    continue_session(run, state)
    return None


def _run_started(run: Run) -> RunStarted:
    plan, caller = run.plan, run.caller
    return RunStarted(
        run.run_id,
        plan.door,
        run.caller_name,
        plan.model.provider,
        plan.model.name,
        plan.name,
        plan.metadata,
        caller.tenant,
        run.host.request_id,
        run.host.conversation_id,
        None if caller is HOST_CALLER else caller.user,
        caller.roles,
    )


def check_prices(plan: Plan, above: Ledger) -> None:
    """Refuse models without a price where dollars are limited, before anything is begun."""
    if plan.limits.usd is None and not (above.root.limited and above.priced):
        return
    require_price(plan.model)
    for model in plan.moments.models:
        require_price(model)


def close_open_calls(run: Run, state: Standing) -> Standing:
    """Answer the calls that an earlier run left open; return how the session stands then."""
    if state.view.open:
        close_recorded(run, "the earlier run ended")
        state = standing(run.journal.entries)
    return state


# --------------------------------------------------------------------------- the run's task


async def conduct(
    begun: Start,
    environment: Environment,
    *,
    abort: Abort | None = None,
    leave: Abort | None = None,
    timeout: float | None = None,
) -> Outcome:
    """Drive the run in its own task; cancelling the caller ends or parks it."""
    run, passing, outcome = begun.run, begun.passing, begun.outcome
    if outcome is not None:
        await run.journal.close()
        return outcome
    host, calls = run.host, run.calls
    seals = None if passing is not None else environment.keeper_for(run.store)
    if seals is not None:
        seals.on_run_started(run.session_id)
    started = seams.monotonic()
    handle = _RunHandle(begun, abort, leave, timeout)
    under_way.add(handle)
    driving = drive(run, begun.at, begun.finish, handle)
    del begun  # it is not needed while the run goes on
    if TRACE_MODULE in sys.modules and run.around is None and is_traced():  # a replay is not
        driving = _with_spans(run, driving, environment)
    scope, context = _build_scope(run), environment.new_context()
    if scope is not current_run.get():
        context = context or copy_context()
        context.run(current_run.set, scope)
    task = host.loop.create_task(driving, context=context)
    try:
        await _next_round()  # a run that waits for nothing has ended by then
        if not handle.is_over:
            await handle.create_end_future()
    except asyncio.CancelledError:
        await _end_cancelled(handle, task)
        raise
    finally:
        handle.release()
        under_way.discard(handle)
        if not (is_over := task.done()):
            calls.lingering |= {task}  # stubborn: it ends when it ends, and its session waits
        if calls.threads or calls.lingering:
            environment.linger(run)
        if seals is not None:
            seals.over(run.session_id)
    if not is_over:
        stop = run.interruption
        return Outcome("cancelling", stop.reason if stop else "cancelled")
    outcome = handle.outcome or task.result()
    host.elapsed = run.ledger.seconds + seams.monotonic() - started
    if calls.children:
        await (note_calls_below if outcome.status == "suspended" else discard_orphans)(run)
    if host.receipts or host.drains or seals is not None:
        await _wait_for_observers(run, seals)
    if passing is not None and outcome.status != "suspended":
        passing.let_go(run.session_id)
    if outcome.exception is not None and isinstance(outcome.exception, (TestBroken, StaleWriter)):
        outcome.exception.session_id = run.session_id
        raise outcome.exception
    return outcome


def _build_scope(run: Run) -> RunScope | None:
    """Return the scope of the code in the run; mostly there is nothing to say of it."""
    tenant, redactor = run.caller.tenant, run.redactor
    return None if tenant is redactor is None else RunScope(tenant, redactor)


@types.coroutine
def _next_round() -> Generator[None, None, None]:
    """Let every task go on that is ready; `asyncio.sleep(0)` does the same in two steps more."""
    yield


def _with_spans(
    run: Run, driving: Coroutine[Any, Any, Outcome], environment: Environment
) -> Coroutine[Any, Any, Outcome]:
    """Let OpenTelemetry trace the run."""
    # Loaded only by programs that trace.
    from windlass.observe.otel import trace_run

    return trace_run(run, driving, lambda: environment.config)


async def _end_cancelled(handle: _RunHandle, task: asyncio.Task[Outcome]) -> None:
    """End or park the run whose caller was cancelled, and wait a moment for it."""
    run, parent = handle.run, handle.parent
    if handle.parks or (parent is not None and parent.interruption is DETACHED):
        run.interrupt(DETACHED)
    run.halt()
    await _patiently(task)
    if run.calls.children and task.done() and _has_ended(run):
        await discard_orphans(run)
    if run.host.drains:
        await _drain(run, PATIENCE)


def _has_ended(run: Run) -> bool:
    """Check whether the end of the run is on record, and is not that it is parked."""
    last = run.journal.entries[-1]
    return type(last) is RunEnded and last.status != "suspended"


async def _wait_for_observers(run: Run, seals: SealScheduler | None) -> None:
    """Wait for receipts, async callbacks and seals of a run that has ended."""
    undisturbed = run.interruption is None
    if undisturbed:
        for receipts in run.host.receipts:
            await receipts.wait_until_idle()  # they are owed, however long it takes
    if run.host.drains:
        await _drain(run, CALLBACKS if undisturbed else PATIENCE)
    if seals is not None and undisturbed:
        await seals.wait_until_sealed()


async def _drain(run: Run, patience: float) -> None:
    """Wait for async callbacks before the run returns, up to a limit."""
    until = run.host.loop.time() + patience
    for drain in run.host.drains:
        await drain(max(0.0, until - run.host.loop.time()))


async def _patiently(task: asyncio.Task[Any]) -> None:
    """Wait a little for a cancelled task, however often this one is cancelled."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while not task.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            continue


class _RunHandle:
    """The caller's handle of a run: it waits for the end, and may bring it about.

    An abort, a deadline or a cancel in the inbox stops the run; one that takes no notice within
    `PATIENCE` is left to itself.
    """

    __slots__ = (
        "_aborts",
        "_done",
        "_timers",
        "agent",
        "is_over",
        "outcome",
        "parent",
        "parks",
        "run",
    )

    def __init__(
        self, begun: Start, abort: Abort | None, leave: Abort | None, timeout: float | None
    ) -> None:
        self.run = run = begun.run
        self.agent, self.parent, self.parks = begun.agent, begun.parent, begun.parks
        self.is_over = False  # for the caller: the run may be left to itself
        self._done: asyncio.Future[None] | None = None  # a caller waits for it
        # Kept here: a task that was cancelled in its own last step ends as cancelled, whatever it
        # returns.
        self.outcome: Outcome | None = None
        self._timers: tuple[asyncio.TimerHandle, ...] = ()
        self._aborts: tuple[tuple[Abort, Callable[[str], None]], ...] = ()
        seconds = run.ledger.limits.seconds
        if seconds is not None:
            left, spent = seconds - run.ledger.seconds, Stop("budget_exhausted", "seconds")
            if left > 0:
                self._at(left, spent)
            else:
                run.interrupt(spent)  # nothing is begun that there is no time for
        if timeout is not None:
            self._at(timeout, Stop("cancelled", "timeout"))
        if abort is not None:
            self._listen(abort)
        if leave is not None:
            self._listen(leave, self._on_detach if begun.parks else self._pull)
        run.journal.on_mail = self
        if run.journal.mail:
            self()

    def on_end(self, outcome: Outcome | None) -> None:
        """Keep the outcome of the run, and wake who waits for it."""
        self.outcome = outcome
        self._wake()

    def create_end_future(self) -> asyncio.Future[None]:
        """Return a future that is done once the run is over, or is left to itself."""
        self._done = done = self.run.host.loop.create_future()
        return done

    def release(self) -> None:
        """Release the timers and listeners of the run."""
        for timer in self._timers:
            timer.cancel()
        for abort, heard in self._aborts:
            abort.forget(heard)
        self.run.journal.on_mail = None

    def _wake(self) -> None:
        self.is_over = True
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def park(self) -> None:
        """Detach from the run, from any thread; it can be resumed where its journal ends."""
        self._soon(DETACHED)

    def _stop(self, verdict: Stop | Suspend) -> None:
        self.run.interrupt(verdict)
        self._timers += (self.run.host.loop.call_later(PATIENCE, self._wake),)

    def _at(self, seconds: float, verdict: Stop) -> None:
        self._timers += (self.run.host.loop.call_later(seconds, self._stop, verdict),)

    def _listen(self, abort: Abort, heard: Callable[[str], None] | None = None) -> None:
        heard = heard or self._pull
        self._aborts += ((abort, heard),)
        abort.listen(heard)

    def _pull(self, reason: str) -> None:
        self._soon(Stop("cancelled", reason))

    def _on_detach(self, _reason: str) -> None:
        self._soon(DETACHED)

    def _soon(self, verdict: Stop | Suspend) -> None:
        if threading.get_ident() == self.run.host.thread:
            self._stop(verdict)
        else:
            self.run.host.loop.call_soon_threadsafe(self._stop, verdict)

    def __call__(self) -> None:
        """Look at the mail that has arrived; a method of its own would be one more object a run."""
        mail = self.run.journal.mail
        item: InboxItem | None = next((item for item in mail if item.kind == "cancel"), None)
        if item is not None:
            self._stop(Stop("cancelled", str(item.payload or "cancelled")))
