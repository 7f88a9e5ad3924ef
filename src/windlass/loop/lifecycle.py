"""The end of a drive: open calls are answered, policies close, the outcome is recorded.

Whatever happens meanwhile: a store that fails, somebody who cancels once more, threads that stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from windlass.errors import (
    ModelError,
    StaleWriter,
    StoreError,
    WindlassError,
    attribute,
    error_text,
)
from windlass.events import IterationEnd, RunEnded, Suspended
from windlass.json_types import JsonObject
from windlass.loop.calls import PATIENCE, answer, close_calls, close_recorded, drop_early
from windlass.loop.inbox import take_item
from windlass.loop.meter import OutOfBudget
from windlass.loop.plan import Plan
from windlass.loop.policy import invalid_answer
from windlass.loop.run import Run
from windlass.loop.sinks import log
from windlass.loop.verdict import Finish, Outcome, Stop, Suspend, Verdict
from windlass.tools.tool import Tool

if TYPE_CHECKING:
    from windlass.store.wishes import Claim


class Settlement(Protocol):
    """What is to be stored with the begin and the end of a session's run, such as who waits for it."""

    session: str
    claim: Claim | None  # to be stored when the session is opened; None once it is

    def build_body(self, request_id: str | None) -> Callable[[Any], bool]:
        """Return the body for the transaction of the end."""
        ...

    def note(self, more: bool) -> None:
        """Hear what the body has returned, once it is stored."""
        ...


#: Of the run that a fleet drives. Runs of other sessions, such as those of children, take no notice.
settlement: ContextVar[Settlement | None] = ContextVar("windlass_settlement", default=None)

_log = logging.getLogger("windlass.loop")
_ENDED = "session %s: run %s ended as %s (%s) after %d turns%s"


def stop_for_error(run: Run, error: BaseException) -> Stop:
    """Return the verdict on a drive that an error ended."""
    if isinstance(error, OutOfBudget):
        return Stop("budget_exhausted", error.spent.limit)
    turn, kind = run.turn, type(error).__name__
    detail: JsonObject = {
        "category": attribute(error, "category") or "internal",
        "reason": attribute(error, "code") or kind,
        "kind": kind,
        "provider": attribute(error, "provider") or run.model.provider,
        "model": attribute(error, "model") or run.model.name,
        "message": error_text(error),
        "phase": "model" if isinstance(error, ModelError) else "run",
        "tool_format": "text" if (run.plan.metadata or {}).get("mode") == "text" else "native",
        "after_tool_result": turn is not None and bool(turn.results),
    }
    if isinstance(error, ModelError):
        status = attribute(error, "status") or "provider_error"  # an llm_caller may name its own
        return Stop(status, detail["category"], detail)
    if isinstance(error, StoreError):
        detail["category"] = "store"
    elif not isinstance(error, WindlassError):
        log.exception("run %s failed", run.run_id)
    return Stop("failed", detail["kind"], detail)


def _take_cancellations(run: Run) -> None:
    for item in [item for item in run.journal.mail if item.kind == "cancel"]:
        take_item(run, item)


async def end(run: Run, verdict: Verdict | None, exception: BaseException | None) -> Outcome:
    """Answer what is open, let the policies close, and put the outcome on the record."""
    turn, calls, journal = run.turn, run.calls, run.journal
    # The usual end first: a check of an instance takes five times as long as one of a type.
    usual = type(verdict) is Finish
    parked = verdict if not usual and isinstance(verdict, Suspend) else None
    if parked is not None:
        if parked is run.interruption:  # let go of on its way: its calls stay open on the record
            if calls.early_reads:
                drop_early(run)
            if calls.lingering or calls.threads:
                await _last_wait(run)
        outcome = Outcome("suspended", parked.reason)
    else:
        assert usual or isinstance(verdict, (Stop, Finish))
        error = verdict.error if not usual and isinstance(verdict, Stop) else None
        status = verdict.status
        if isinstance(exception, StoreError):  # the run may be ahead of what could be written
            close_recorded(run, verdict.reason or status)
        elif turn is not None and turn.open:
            try:
                await close_calls(run, turn, verdict.reason or status)
            except (Exception, asyncio.CancelledError) as raised:  # of a policy that ended it
                _raise_if_cancelled(raised)
                log.exception("a policy failed at the end of run %s", run.run_id)
                answer(run, turn)
            run.record(IterationEnd(turn.number, "stop", verdict.reason, status))
        if calls.lingering or calls.threads:
            await _last_wait(run)
        if status == "cancelled" and (calls.lingering or calls.threads):
            status = "cancelling"
        outcome = Outcome(status, verdict.reason, error, exception)
    for close in run.plan.moments.end:
        try:
            outcome = await close(run, outcome) or outcome
        except (Exception, asyncio.CancelledError) as raised:
            _raise_if_cancelled(raised)
            log.exception("a policy failed at the end of run %s", run.run_id)
    _log_end(run, outcome)
    try:
        if journal.mail:
            _take_cancellations(run)
        run.record(RunEnded(run.run_id, outcome.status, outcome.stop_reason, outcome.error))
        journal.stays_held = bool(calls.threads or calls.lingering)
        if parked is not None and parked.conditions:
            await _arm(run, parked.conditions)
        elif (found := settlement.get()) is not None:
            await _settle(run, outcome, found)
        journal.flush()
        if not journal.immediate:
            await journal.durable()
        if not journal.stays_held:
            await journal.close()
    except StoreError as error:
        return await _end_again(run, error)
    return outcome


async def _settle(run: Run, outcome: Outcome, found: Settlement) -> None:
    """Store what goes with the end of the run: both, or neither."""
    if found.session != run.session_id:
        return
    if outcome.status in ("suspended", "cancelling"):  # it has not ended
        return
    try:
        found.note(await run.journal.commit(found.build_body(run.request_id), lambda _: ()))
    except StoreError:
        raise
    except Exception:  # whoever drives the run settles it afterwards
        log.exception("the wish of session %s is not settled yet", run.session_id)


async def _arm(run: Run, conditions: JsonObject) -> None:
    """Store what wakes the session, together with the end of its run: both, or neither."""
    # Zones and calendars are loaded by the first run that waits for a condition.
    arming = import_module("windlass.store.armed_conditions")
    if run.redactor is not None:
        conditions = run.redactor.value(conditions)
    body = arming.build_arming(
        run.session_id, conditions, run.store.read_clock(), run.caller.tenant
    )
    if body is None:
        return
    try:
        await run.journal.commit(body, lambda _: ())
    except StoreError:
        raise
    except Exception:  # a store of somebody else, without our tables
        log.exception("nobody watches the conditions of session %s", run.session_id)


async def disarm_conditions(run: Run, parked: Suspended | None) -> None:
    """Forget what would have woken the session, together with what was appended so far."""
    if parked is None or not parked.conditions:
        return
    arming = import_module("windlass.store.armed_conditions")
    try:
        await run.journal.commit(arming.build_disarming(run.session_id), lambda _: ())
    except StoreError:
        raise
    except Exception:
        log.exception("the conditions of session %s stay", run.session_id)


def _log_end(run: Run, outcome: Outcome) -> None:
    """Log how a run ended: what was done as a detail, a limit, a park or a failure as news."""
    status, reason = outcome.status, outcome.stop_reason
    if status == "done":
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug(_ENDED, run.session_id, run.run_id, status, reason, run.iteration, "")
    elif status == "suspended":
        _log.info("session %s: run %s is parked: %s", run.session_id, run.run_id, reason)
    else:
        error = outcome.error
        words = "" if error is None else f": {error.get('message')}"
        _log.info(_ENDED, run.session_id, run.run_id, status, reason, run.iteration, words)


def _raise_if_cancelled(error: BaseException) -> None:
    """Raise a `CancelledError` of this task; one of a policy's own is an ordinary error."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


async def _end_again(run: Run, error: StoreError) -> Outcome:
    """Write the end without what was in it, where it was taken back because of that."""
    stop = stop_for_error(run, error)
    outcome = Outcome("failed", stop.reason, stop.error, error)
    try:
        if type(run.journal.entries[-1]) is RunEnded:  # it waits for a disk, or is refused for good
            if not (run.calls.threads or run.calls.lingering):
                await run.journal.close()
            return outcome
        close_recorded(run, outcome.stop_reason or outcome.status)
        run.record(RunEnded(run.run_id, outcome.status, outcome.stop_reason, outcome.error))
        run.journal.flush()
        await run.journal.durable()
        if not (run.calls.threads or run.calls.lingering):
            await run.journal.close()
    except StaleWriter:
        pass  # the session has another writer, which owns the record
    except StoreError:
        log.exception("the end of run %s is not on record", run.run_id)
    return outcome


async def _last_wait(run: Run) -> None:
    """Wait a moment for what was cancelled; the rest outlives the run."""
    waits: set[asyncio.Future[Any]] = {*run.calls.lingering}
    waits |= {asyncio.wrap_future(thread) for thread in run.calls.threads if not thread.done()}
    if waits:
        await asyncio.wait(waits, timeout=PATIENCE)
        run.calls.lingering = frozenset([task for task in run.calls.lingering if not task.done()])


async def await_uncancelled(ending: Any) -> Outcome:
    """Await the end of a run, however often this task is cancelled meanwhile."""
    task = asyncio.ensure_future(ending)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:
            break
    if cancelled and (current := asyncio.current_task()) is not None:
        while current.cancelling():
            current.uncancel()
    return task.result()


# How a drive begins, and how a run goes on under another plan.


async def start(run: Run) -> None:
    """Let the policies begin; the tools they bring join the others."""
    brought: list[Tool] = []
    plan = run.plan
    for begin in run.plan.moments.start:
        tools = await begin(run)
        if run.plan is not plan:
            return  # a policy has replaced the plan, and the new policies have begun
        for tool in tools or ():
            if not isinstance(tool, Tool):
                raise invalid_answer(begin, tool, "a list of tools or None")
            if tool.name not in run.plan.denied:
                brought.append(tool)
    if brought:
        run.tools = {**run.tools, **{tool.name: tool for tool in brought}}
        frame = run.frame
        specs = (*frame.tools, *(tool.spec for tool in brought))
        run.reframe(type(frame)(frame.system, specs, frame.settings), "policy tools")


async def adopt(run: Run, plan: Plan, why: str) -> None:
    """Continue under another plan; policies keep their memory by name, those of a parent stay."""
    if run.plan.inherited:
        plan = plan.below(run.plan.inherited)
    if plan.limits != run.plan.limits:  # else those stay that the run goes on with
        run.ledger.limits = plan.limits
    run.plan, run.model = plan, plan.model
    run.tools = plan.tools
    run.reframe(plan.frame, why)
    if run.plan.moments.start:
        await start(run)
