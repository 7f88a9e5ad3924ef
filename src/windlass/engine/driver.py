"""From a plan to an outcome: open the session, start or take up the run, own its task to the end."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.audit.seal import SealScheduler
from windlass.engine.active_runs import DETACHED, UnderWay, under_way
from windlass.engine.decisions import (
    answerers,
    must_be_open,
    post_decisions,
    take_answers,
)
from windlass.engine.environment import Environment
from windlass.engine.limits import give_up, limits_of
from windlass.engine.open_questions import (
    OnPending,
    check_not_discarded,
    discard_of_killed,
    discard_orphans,
    discard_pending,
    keep_parked,
)
from windlass.engine.ownership import (
    SessionOwner,
    caller_of_resumed,
    check_session_access,
    owner_of,
)
from windlass.engine.session import Opening
from windlass.errors import NoSuchSession, StaleWriter, TestBroken, whole_text
from windlass.events import Reminded, RunEnded, RunResumed, RunStarted
from windlass.events.policy import Reminder
from windlass.loop.abort import Abort
from windlass.loop.calls import close_recorded
from windlass.loop.kernel import Stage, drive
from windlass.loop.ledger import Ledger, Limits
from windlass.loop.meter import require_price
from windlass.loop.plan import Plan
from windlass.loop.resume import (
    Standing,
    continue_session,
    restore_children,
    standing,
    take_up,
)
from windlass.loop.resume_input import Allow, Deny
from windlass.loop.run import Run
from windlass.loop.sinks import Sink
from windlass.loop.spend import read_children
from windlass.loop.verdict import Finish, Outcome, Stop, Suspend
from windlass.messages import Message
from windlass.models.meter import RunScope, current_run
from windlass.observe.telemetry import TRACE_MODULE
from windlass.policies.preview.mode import MODE, as_begun
from windlass.store.base import InboxItem, Journal, Store
from windlass.store.memory import MemoryStore

PATIENCE = 0.09  # seconds until a caller who cancelled gets control back, whatever the run does
CALLBACKS = 10.0  # seconds that async callbacks have to end once their run has


class Start:
    """A run that is set up: drive it with `conduct`."""

    __slots__ = ("agent", "at", "finish", "outcome", "parent", "parks", "passing", "run")

    def __init__(
        self, run: Run, at: Stage, finish: Finish | None, outcome: Outcome | None = None
    ) -> None:
        self.run, self.at, self.finish = run, at, finish
        self.outcome = outcome  # of a run that had ended already
        self.passing: MemoryStore | None = None  # holds a session that nobody has named
        self.parks = False  # when its caller is cancelled it is left to be taken up
        self.agent: object = None  # whose run it is
        self.parent: Run | None = None  # which has called it as a tool


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is made of: its plan, where it runs, in whose name, and who watches."""

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
    run_id: str | None = None
    request_id: str | None = None
    conversation_id: str | None = None

    def check_store(self) -> Store:
        """Return the store of the run; refuse one that cannot be sealed before it is opened."""
        home = self.store or self.environment.store
        self.environment.keeper_for(home)
        return home

    def opening(self, home: Store, parent_id: str | None = None) -> Opening:
        """Return what opens the session of the run."""
        return Opening(
            home=home,
            environment=self.environment,
            caller=self.caller,
            owner=self.owner,
            take_over=self.take_over,
            parent_id=parent_id,
        )

    def build_run(self, home: Store, journal: Journal) -> Run:
        """Return the run on its open journal, with nothing recorded yet."""
        plan, environment = self.plan, self.environment
        environment.learn(plan.model)
        for policy in plan.policies:
            for model in policy.models:
                environment.learn(model)
        run = Run(
            plan,
            home,
            journal,
            run_id=self.run_id or seams.new_id("run"),
            caller=self.caller or Caller.local(),
            deps=self.deps,
            ledger=self.ledger or Ledger(plan.limits, environment.ledger),
            sinks=self.sinks,
            redactor=environment.redactor,
            pool=environment.pool,
        )
        run.host.took_over = self.take_over
        run.host.request_id, run.host.conversation_id = self.request_id, self.conversation_id
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
    plan, environment = request.plan, request.environment
    _check_prices(plan, request.ledger or environment.ledger)
    home = request.check_store()
    journal = await request.opening(home, request.parent_id).begin(session_id)
    try:
        run = request.build_run(home, journal)
        if len(journal.entries) > 1:
            parked = await _continue_history(run, on_pending)
            if parked is not None:
                return Start(run, Stage.OPEN, None, parked)
        run.first_entry = len(journal.entries)
        run.record(_run_started(run))
        run.reframe(plan.frame, "start")
        for message in messages:
            run.hear(message)
        for reminder in reminders:
            run.add_reminder(reminder)
    except BaseException:
        await journal.close()  # nobody else would let the next writer in
        raise
    begun = Start(run, Stage.OPEN, None)
    if session_id is None and type(home) is MemoryStore and MODE not in (plan.metadata or {}):
        begun.passing = home
    return begun


async def _continue_history(run: Run, on_pending: OnPending) -> Outcome | None:
    """Let the run go on from the session's history; return the outcome of one that stays parked."""
    journal = run.journal
    state = standing(journal.entries)
    if state.parked and on_pending == "keep":
        await read_children(run.store, journal.session_id, state.spending)
        return keep_parked(run, state)
    if state.parked:
        await discard_pending(run, state)
        state = standing(journal.entries)
    elif state.view.open:
        await discard_of_killed(run, state)
    state = _close_open_calls(run, state)
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
        None if is_host(caller) else caller.user,
        caller.roles,
    )


# --------------------------------------------------------------------------- a run that goes on


async def resume(
    request: RunRequest,
    session_id: str,
    *,
    decisions: Mapping[str, Allow | Deny | bool] | None = None,
    results: Mapping[str, Any] | None = None,
    budget: Limits | None = None,
) -> Start:
    """Go on with the session's last run where its journal ends; one that has ended stays ended.

    It goes on with the limits that it began with, or lower ones of the plan; `budget` replaces them.
    With an owner it is a child's session, which goes on in the caller's name if it belongs to that owner.
    """
    home = request.check_store()
    journal = await request.opening(home).go_on(session_id)
    try:
        state = standing(journal.entries)
        begun = state.run
        if begun is None:
            raise NoSuchSession(f"session {session_id!r} has never run: start it with a prompt")
        resumed, resumed_by = _check_caller(request, begun, journal, session_id, decisions)
        if decisions:
            check_not_discarded(journal.entries, decisions)
        if state.unfinished:
            plan = as_begun(resumed.plan, begun.metadata)
            resumed = msgspec.structs.replace(resumed, plan=plan)
        run = resumed.build_run(home, journal)
        if state.view.open and not state.open_calls:  # so no run leaves it: mend what can be mended
            state = _close_open_calls(run, state)
        await read_children(home, journal.session_id, state.spending)
        if not state.unfinished:
            return _restore_ended(run, state)
        run.ledger.limits = limits_of(run.plan.limits, begun.metadata, budget)
        _check_prices(run.plan, run.ledger)
        attempt = state.attempt()
        at, finish = await take_up(run, state)
        must_be_open(run, tuple(results or ()))
        if decisions:
            await post_decisions(run, decisions, request.caller)
        _remind_of_suspension(run, state)
        progress = state.spending.tree_progress
        run.record(RunResumed(run.run_id, at.name.lower(), attempt, progress, resumed_by))
        take_answers(run, results)
        run.reframe(run.plan.frame, "resume")
        run.journal.flush()
        await run.journal.durable()  # else a run that dies at once would never be given up
        if state.has_lost_calls:
            await request.environment.store.release_calls(run.session_id)
        run.interruption = give_up(run, state, at, attempt, run.plan.resume_attempts)
        return Start(run, at, finish)
    except BaseException:
        await journal.close()
        raise


def _check_caller(
    request: RunRequest,
    begun: RunStarted,
    journal: Journal,
    session_id: str,
    decisions: Mapping[str, Allow | Deny | bool] | None,
) -> tuple[RunRequest, str | None]:
    """Return the request in the name of who goes on, and who resumed it if that is another.

    The ids are those of the run that goes on. Whoever answers must have access to the session.
    """
    caller, resumed_by = request.caller, None
    if request.owner is None:
        known = owner_of(journal.entries)
        for who in answerers(decisions or {}, caller):
            check_session_access(known, who, session_id, request.environment, "answer")
        caller, resumed_by = caller_of_resumed(begun, known, caller)
    resumed = msgspec.structs.replace(
        request,
        caller=caller,
        run_id=begun.run_id,
        request_id=begun.request_id,
        conversation_id=begun.conversation_id,
    )
    return resumed, resumed_by


def _restore_ended(run: Run, state: Standing) -> Start:
    """Return a run that has ended, with its outcome, totals and messages."""
    continue_session(run, state)
    run.first_entry, run.iteration = state.first_entry, state.iteration
    restore_children(run, state.spending)
    ended = state.ended
    assert ended is not None
    return Start(run, Stage.OPEN, None, Outcome(ended.status, ended.stop_reason, ended.error))


def _remind_of_suspension(run: Run, state: Standing) -> None:
    """Tell the model why it was suspended, if somebody gave a reason."""
    parked = state.suspended
    if parked is not None and parked.reason and not parked.waiting:
        words = f"You go on after you were suspended. The reason: {whole_text(parked.reason)}"
        run.remind(Reminder(words, ttl=1, propagate="none"), "suspend")


def _check_prices(plan: Plan, above: Ledger) -> None:
    """Refuse models without a price where dollars are limited, before anything is begun."""
    if plan.limits.usd is None and not above.priced:
        return
    require_price(plan.model)
    for policy in plan.policies:
        for model in policy.models:
            require_price(model)


def _close_open_calls(run: Run, state: Standing) -> Standing:
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
    """Drive the run in a task of its own. Cancelling the caller ends or parks it, on the record."""
    run = begun.run
    if begun.outcome is not None:
        await run.journal.close()
        return begun.outcome
    seals = None if begun.passing is not None else environment.keeper_for(run.store)
    if seals is not None:
        seals.on_run_started(run.session_id)
    handle = _RunHandle(run, abort, leave, timeout, begun.parks)
    going = UnderWay(run, begun.agent, handle.park)
    under_way.add(going)
    driving = _with_spans(run, handle.drive(begun.at, begun.finish), environment)
    task = run.host.loop.create_task(driving, context=environment.new_context())
    try:
        await handle.done
    except asyncio.CancelledError:
        await _end_cancelled(begun, task)
        raise
    finally:
        handle.release()
        under_way.discard(going)
        if not task.done():
            run.calls.lingering.add(task)  # stubborn: it ends when it ends, and its session waits
        if run.calls.threads or run.calls.lingering:
            environment.linger(run)
        if seals is not None:
            seals.over(run.session_id)
    if not task.done():
        stop = run.interruption
        return Outcome("cancelling", stop.reason if stop else "cancelled")
    outcome = handle.outcome or task.result()
    if run.calls.children and outcome.status != "suspended":
        await discard_orphans(run)
    await _wait_for_observers(run, seals)
    if begun.passing is not None and outcome.status != "suspended":
        begun.passing.let_go(run.session_id)
    if isinstance(outcome.exception, (TestBroken, StaleWriter)):
        outcome.exception.session_id = run.session_id
        raise outcome.exception
    return outcome


def _with_spans(
    run: Run, driving: Coroutine[Any, Any, Outcome], environment: Environment
) -> Coroutine[Any, Any, Outcome]:
    """Let OpenTelemetry trace the run, if the program uses it; a replay is not traced."""
    if run.around is not None or TRACE_MODULE not in sys.modules:
        return driving
    # Loaded only by programs that trace.
    from windlass.observe.otel import trace_run

    return trace_run(run, driving, lambda: environment.config)


async def _end_cancelled(begun: Start, task: asyncio.Task[Outcome]) -> None:
    """End or park the run whose caller was cancelled, and wait a moment for it."""
    run, parent = begun.run, begun.parent
    if begun.parks or (parent is not None and parent.interruption is DETACHED):
        run.interrupt(DETACHED)
    run.halt()
    await _patiently(task)
    if run.calls.children and task.done() and _has_ended(run):
        await discard_orphans(run)
    if run.host.drains:
        await _drain(run, PATIENCE)


def _has_ended(run: Run) -> bool:
    """Tell whether the end of the run is on record, and is not that it is parked."""
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
    """Async callbacks end before the run returns; one that hangs does not keep it for ever."""
    until = run.host.loop.time() + patience
    for drain in run.host.drains:
        await drain(max(0.0, until - run.host.loop.time()))


async def _patiently(task: asyncio.Task[Any]) -> None:
    """Wait a little for a cancelled task, however often we are cancelled ourselves."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while not task.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            continue


class _RunHandle:
    """The caller's hold on a run: it waits for the end, and may bring it about.

    An abort, a deadline or a cancel in the inbox stops the run; one that takes no notice within
    `PATIENCE` is left to itself.
    """

    __slots__ = ("_aborts", "_timers", "done", "outcome", "run")

    def __init__(
        self,
        run: Run,
        abort: Abort | None,
        leave: Abort | None,
        timeout: float | None,
        parks: bool,
    ) -> None:
        self.run = run
        self.done: asyncio.Future[None] = run.host.loop.create_future()
        # Kept here: a task that was cancelled in its own last step ends as cancelled, whatever it
        # returns.
        self.outcome: Outcome | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._aborts: list[tuple[Abort, Callable[[str], None]]] = []
        seconds = run.ledger.limits.seconds
        if seconds is not None:
            left = max(0.0, seconds - run.ledger.seconds)
            self._at(left, Stop("budget_exhausted", "seconds"))
        if timeout is not None:
            self._at(timeout, Stop("cancelled", "timeout"))
        if abort is not None:
            self._listen(abort)
        if leave is not None:
            self._listen(leave, self._on_detach if parks else self._pull)
        run.journal.on_mail = self._on_mail
        if run.journal.mail:
            self._on_mail()

    async def drive(self, at: Stage, finish: Finish | None) -> Outcome:
        """The run's own task."""
        current_run.set(RunScope(self.run.caller.tenant, self.run.redactor))
        try:
            self.outcome = await drive(self.run, at, finish)
            return self.outcome
        finally:
            self._wake()  # in this very step: whoever waits goes on in the next

    def release(self) -> None:
        """The run has ended, or is left to itself."""
        for timer in self._timers:
            timer.cancel()
        for abort, heard in self._aborts:
            abort.forget(heard)
        self.run.journal.on_mail = None

    def _wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def park(self) -> None:
        """Let go of the run, from any thread: whoever resumes it goes on where its journal ends."""
        self._soon(DETACHED)

    def _stop(self, verdict: Stop | Suspend) -> None:
        self.run.interrupt(verdict)
        self._timers.append(self.run.host.loop.call_later(PATIENCE, self._wake))

    def _at(self, seconds: float, verdict: Stop) -> None:
        self._timers.append(self.run.host.loop.call_later(seconds, self._stop, verdict))

    def _listen(self, abort: Abort, heard: Callable[[str], None] | None = None) -> None:
        heard = heard or self._pull
        self._aborts.append((abort, heard))
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

    def _on_mail(self) -> None:
        mail = self.run.journal.mail
        item: InboxItem | None = next((item for item in mail if item.kind == "cancel"), None)
        if item is not None:
            self._stop(Stop("cancelled", str(item.payload or "cancelled")))
