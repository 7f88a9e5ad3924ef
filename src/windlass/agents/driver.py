"""From a plan to an outcome: open the session, start or take up the run, own its task to the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from windlass import seams
from windlass.access.caller import Caller
from windlass.agents.abort import Abort
from windlass.agents.runtime import Runtime
from windlass.errors import ConfigError, NoSuchSession
from windlass.events import (
    InboxTaken,
    RunResumed,
    RunStarted,
    ToolMessage,
    ToolResulted,
)
from windlass.loop.calls import unanswered
from windlass.loop.kernel import Stage, drive
from windlass.loop.ledger import Ledger
from windlass.loop.resume import Standing, continue_session, standing, take_up
from windlass.loop.run import Plan, Run, Sink
from windlass.loop.verdict import Finish, Outcome, Stop
from windlass.messages import Message
from windlass.store.base import InboxItem, Journal, Store

PATIENCE = 0.09  # seconds until a caller who cancelled gets control back, whatever the run does


class Allow:
    """An answer to an ask: the call may run. `resume(id, decisions={call_id: w.Allow()})`"""

    allowed, reason = True, None

    def __init__(self, by: str = "approved") -> None:
        self.by = by


class Deny:
    """An answer to an ask: the call may not run, and the model is told why."""

    allowed = False

    def __init__(self, reason: str | None = None, by: str = "denied") -> None:
        self.reason, self.by = reason, by


class Start:
    """A run that is set up: drive it with `conduct`."""

    __slots__ = ("at", "finish", "outcome", "run")

    def __init__(
        self, run: Run, at: Stage, finish: Finish | None, outcome: Outcome | None = None
    ) -> None:
        self.run, self.at, self.finish = run, at, finish
        self.outcome = outcome  # of a run that had ended already


async def start(
    plan: Plan,
    messages: Sequence[Message],
    runtime: Runtime,
    *,
    session_id: str | None = None,
    store: Store | None = None,
    caller: Caller | None = None,
    deps: Any = None,
    sinks: Sequence[Sink] = (),
    ledger: Ledger | None = None,
    run_id: str | None = None,
    parent_id: str | None = None,
) -> Start:
    """Begin a new run. On a session with history it goes on from there."""
    home = store or runtime.store
    journal = await home.open(session_id or seams.new_id("session"), parent_id=parent_id)
    run = _run(plan, home, journal, runtime, caller, deps, sinks, ledger, run_id)
    if len(journal.entries) > 1:
        state = standing(journal.entries)
        continue_session(run, state)
        _close_old_calls(run, state)
    model = plan.model
    run.first_entry = len(journal.entries)
    run.record(
        RunStarted(
            run.run_id,
            plan.door,
            run.caller_name,
            model.provider,
            model.name,
            plan.name,
            plan.metadata,
        )  # fmt: skip
    )
    run.reframe(plan.frame, "start")
    for message in messages:
        run.hear(message)
    return Start(run, Stage.OPEN, None)


async def resume(
    plan: Plan,
    session_id: str,
    runtime: Runtime,
    *,
    store: Store | None = None,
    caller: Caller | None = None,
    deps: Any = None,
    sinks: Sequence[Sink] = (),
    ledger: Ledger | None = None,
    decisions: Mapping[str, Allow | Deny | bool] | None = None,
    results: Mapping[str, Any] | None = None,
) -> Start:
    """Go on with the session's last run where its journal ends; one that has ended stays ended."""
    home = store or runtime.store
    journal = await home.open(session_id, create=False)
    try:
        state = standing(journal.entries)
        if state.run is None:
            raise NoSuchSession(f"session {session_id!r} has never run: start it with a prompt")
        run = _run(plan, home, journal, runtime, caller, deps, sinks, ledger, state.run.run_id)
        if not state.unfinished:
            continue_session(run, state)
            run.first_entry, run.iteration = state.first_entry, state.iteration
            run.input_tokens, run.output_tokens = state.input_tokens, state.output_tokens
            ended = state.ended
            assert ended is not None
            outcome = Outcome(ended.status, ended.stop_reason, ended.error)
            return Start(run, Stage.OPEN, None, outcome)
        at, finish = await take_up(run, state)
        run.record(RunResumed(state.run.run_id, at.name.lower()))
        _answer_asks(run, decisions, results)
        run.reframe(plan.frame, "resume")
        return Start(run, at, finish)
    except BaseException:
        await journal.close()
        raise


def _run(
    plan: Plan,
    home: Store,
    journal: Journal,
    runtime: Runtime,
    caller: Caller | None,
    deps: Any,
    sinks: Sequence[Sink],
    ledger: Ledger | None,
    run_id: str | None,
) -> Run:
    if plan.model.secrets:
        runtime.learn(tuple(plan.model.secrets))
    return Run(
        plan,
        home,
        journal,
        run_id=run_id or seams.new_id("run"),
        caller=caller or Caller.local(),
        deps=deps,
        ledger=ledger or Ledger(plan.limits, runtime.ledger),
        sinks=sinks,
        redactor=runtime.redactor,
        pool=runtime.pool,
    )


def _close_old_calls(run: Run, state: Standing) -> None:
    """An earlier run left calls open (killed, or parked and never resumed): answer them first."""
    turn = state.turn
    if turn is None or not turn.open:
        return
    turn.started.update(state.intended)
    for call in turn.calls:
        if call.id not in turn.results:
            result = unanswered(run, turn, call, "the earlier run ended")
            run.record(ToolResulted(call.id, call.name, result.outcome, result))
            turn.results[call.id] = result
    run.record(ToolMessage(tuple(call.id for call in turn.calls)))
    shown = tuple(turn.results[call.id] for call in turn.calls)
    run.strand.items.append(Message("tool", shown))
    run.strand.items.extend(state.view.held)


def _answer_asks(
    run: Run,
    decisions: Mapping[str, Allow | Deny | bool] | None,
    results: Mapping[str, Any] | None,
) -> None:
    """What woke the run: given now, or left in the inbox by someone else."""
    for call_id, decision in (decisions or {}).items():
        answer = decision if not isinstance(decision, bool) else Allow() if decision else Deny()
        run.record(InboxTaken(call_id, "decision", {"allowed": answer.allowed}))
        run.answers[call_id] = answer
    for call_id, value in (results or {}).items():
        run.host_results[call_id] = value
    for item in list(run.journal.mail):
        payload = item.fields
        if item.kind in ("decision", "result"):
            run.journal.take(item)
            run.record(InboxTaken(item.id, item.kind))
            for call_id, value in payload.items():
                if item.kind == "result":
                    run.host_results[call_id] = value
                else:
                    run.answers[call_id] = _decision(value)
    turn = run.turn
    unknown = set(results or ()) - {call.id for call in turn.calls} if turn else set(results or ())
    if unknown:
        waiting = ", ".join(c.id for c in turn.calls if c.id not in turn.results) if turn else ""
        raise ConfigError(f"no open call {sorted(unknown)[0]!r}; open are: {waiting or 'none'}")


def _decision(value: Any) -> Allow | Deny:
    if isinstance(value, dict):
        answer = cast("dict[str, Any]", value)
        return Allow() if answer.get("action") == "allow" else Deny(answer.get("reason"))
    return Allow() if value is True or value == "allow" else Deny()


# --------------------------------------------------------------------------- the run's task


async def conduct(
    begun: Start, runtime: Runtime, *, abort: Abort | None = None, timeout: float | None = None
) -> Outcome:
    """Drive the run in a task of its own. Cancelling the caller cancels the run, on the record."""
    run = begun.run
    if begun.outcome is not None:
        await run.journal.close()
        return begun.outcome
    loop = run.loop
    done: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not done.done():
            done.set_result(None)

    release = _brakes(run, abort, timeout, wake)
    task = run.task = loop.create_task(drive(run, begun.at, begun.finish))
    task.add_done_callback(wake)
    try:
        await done
    except asyncio.CancelledError:
        task.cancel()
        await _patiently(task)
        raise
    finally:
        release()
        if not task.done():
            run.lingering.add(task)  # stubborn: it ends when it ends, and its session waits
        if run.threads or run.lingering:
            runtime.linger(run)
    if not task.done():
        stop = run.interruption
        return Outcome("cancelling", stop.reason if stop else "cancelled")
    return task.result()


async def _patiently(task: asyncio.Task[Any]) -> None:
    """Wait a little for a cancelled task, however often we are cancelled ourselves."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while not task.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            continue


def _brakes(
    run: Run, abort: Abort | None, timeout: float | None, give_up: Callable[[], None]
) -> Callable[[], None]:
    """Whatever may stop the run from outside: an abort, a deadline, a cancel in the inbox."""
    loop = run.loop
    timers: list[asyncio.TimerHandle] = []

    def stop(verdict: Stop) -> None:
        run.interrupt(verdict)
        timers.append(loop.call_later(PATIENCE, give_up))

    seconds = run.ledger.limits.seconds
    if seconds is not None:
        timers.append(loop.call_later(seconds, stop, Stop("budget_exhausted", "seconds")))
    if timeout is not None:
        timers.append(loop.call_later(timeout, stop, Stop("cancelled", "timeout")))

    def pull(reason: str) -> None:
        if threading.get_ident() == run.thread:
            stop(Stop("cancelled", reason))
        else:
            loop.call_soon_threadsafe(stop, Stop("cancelled", reason))

    if abort is not None:
        abort.listen(pull)

    def on_mail() -> None:
        item: InboxItem | None = next((i for i in run.journal.mail if i.kind == "cancel"), None)
        if item is not None:
            stop(Stop("cancelled", str(item.payload or "cancelled")))

    run.journal.on_mail = on_mail
    if run.journal.mail:
        on_mail()

    def release() -> None:
        for timer in timers:
            timer.cancel()
        if abort is not None:
            abort.forget(pull)
        run.journal.on_mail = None

    return release
