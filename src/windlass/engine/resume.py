"""Go on with the run of a session that was interrupted, parked or killed, where its journal ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.engine.children import note_calls_below
from windlass.engine.decisions import answerers, sort_resume_input, take_answers
from windlass.engine.driver import (
    RunRequest,
    Start,
    check_prices,
    close_open_calls,
    keeps_waiting,
)
from windlass.engine.mcp.hold import connect_servers, release_servers
from windlass.engine.open_questions import check_not_discarded, keep_parked
from windlass.engine.orphans import build_ledger_below, lower_seconds
from windlass.engine.ownership import caller_of_resumed, check_session_access, owner_of
from windlass.errors import NoSuchSession, whole_text
from windlass.events import RunResumed, RunStarted, SessionOpened
from windlass.events.policy import Reminder
from windlass.loop.kernel import Stage
from windlass.loop.ledger import Budget
from windlass.loop.lifecycle import disarm_conditions
from windlass.loop.resume import (
    Standing,
    continue_session,
    give_up,
    limits_of,
    lost_seconds,
    restore_children,
    standing,
    take_up,
)
from windlass.loop.resume_input import Allow, Deny
from windlass.loop.run import Run
from windlass.loop.spend import read_children
from windlass.loop.verdict import Outcome
from windlass.policies.preview.mode import as_begun
from windlass.store.base import Journal, Store
from windlass.store.trigger_rows import is_watched
from windlass.store.wishes import WAKING

log = logging.getLogger("windlass.loop")
_RESUMED: Final = "session %s: run %s resumed at stage %s, attempt %d"


async def resume_run(
    request: RunRequest,
    session_id: str,
    *,
    decisions: Mapping[str, Allow | Deny | bool] | None = None,
    results: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> Start:
    """Go on with the session's last run where its journal ends; one that has ended stays ended.

    It goes on with the limits that it began with, or lower ones of the plan; `budget` replaces them.
    With an owner it is a child's session, which goes on in the caller's name if it belongs to that owner.
    """
    home = request.check_store()
    if keeps_waiting.get() and not request.keeps_waiting:
        request = msgspec.structs.replace(request, keeps_waiting=True)
    journal = await request.opener(home).go_on(session_id)
    try:
        state = standing(journal.entries)
        begun = state.run
        if begun is None:
            raise NoSuchSession(f"session {session_id!r} has never run: start it with a prompt")
        request = request.relocate(journal)
        if request.plan.connect is not None:
            request = await connect_servers(request)
        resumed, resumed_by = _check_caller(request, begun, journal, session_id, decisions)
        if decisions:
            check_not_discarded(journal.entries, decisions)
        if state.unfinished:
            plan = as_begun(resumed.plan, begun.metadata)
            resumed = msgspec.structs.replace(resumed, plan=plan)
        resumed = await _bind_to_parents(resumed, home, journal)
        run = resumed.build_run(home, journal)
        if state.view.open and not state.open_calls:  # so no run leaves it: mend what can be mended
            state = close_open_calls(run, state)
        await read_children(home, journal.session_id, state.spending)
        if not state.unfinished:
            stays = _restore_ended(run, state)
        elif request.keeps_waiting and _still_waits(journal, state):
            outcome = keep_parked(run, state)
            await note_calls_below(run)
            stays = Start(run, Stage.OPEN, None, outcome)
        else:
            limits = limits_of(run.plan.limits, begun.metadata, budget)
            run.ledger.limits = limits if request.parent_id else lower_seconds(limits, run.ledger)
            check_prices(run.plan, run.ledger)
            given = (decisions or {}, results or {})
            return await _go_on(request, run, state, given, resumed_by)
        if request.servers:
            await release_servers(request)
        return stays
    except BaseException:
        await journal.close()
        if request.servers:
            await release_servers(request)
        raise


async def _go_on(
    request: RunRequest,
    run: Run,
    state: Standing,
    answers: tuple[Mapping[str, Allow | Deny | bool], Mapping[str, Any]],
    resumed_by: str | None,
) -> Start:
    """Put on record that the run goes on, with the answers that were given, and where."""
    attempt = state.attempt()
    at, finish = await take_up(run, state)
    given = await sort_resume_input(run, *answers, request.caller)
    await given.post(run)
    _remind_of_suspension(run, state)
    progress = state.spending.tree_progress
    lost_ms = round(lost_seconds(run, state) * 1000)
    stage = at.name.lower()
    run.record(RunResumed(run.run_id, stage, attempt, progress, resumed_by, lost_ms))
    take_answers(run, given.own_results)
    run.reframe(run.plan.frame, "resume")
    await disarm_conditions(run, state.suspended)
    run.journal.flush()
    await run.journal.durable()  # else a run that dies at once would never be given up
    per = request.environment.ledger.period
    if state.has_lost_calls or (state.driving and per is not None):
        await request.environment.store.release_calls(run.session_id)
    log.info(_RESUMED, run.session_id, run.run_id, stage, attempt)
    run.interruption = give_up(run, state, at, attempt, run.plan.resume_attempts)
    return Start(run, at, finish)


def _still_waits(journal: Journal, state: Standing) -> bool:
    """Check whether the run waits for a condition, and nothing was posted that wakes it."""
    parked = state.suspended
    if not state.parked or state.driving or parked is None:
        return False
    if not is_watched(parked.conditions):
        return False
    return not any([item.kind in WAKING for item in journal.mail])


async def _bind_to_parents(request: RunRequest, home: Store, journal: Journal) -> RunRequest:
    """Return the request below the budgets of the sessions that a sub-agent works for."""
    opened = journal.entries[0]
    alone = request.parent_id is None and request.ledger is None
    if not alone or not isinstance(opened, SessionOpened) or opened.parent_id is None:
        return request
    ledger = await build_ledger_below(
        home,
        journal.entries,
        request.plan.limits,
        request.environment.ledger_for(request.caller),
    )
    return request if ledger is None else msgspec.structs.replace(request, ledger=ledger)


def _check_caller(
    request: RunRequest,
    begun: RunStarted,
    journal: Journal,
    session_id: str,
    decisions: Mapping[str, Allow | Deny | bool] | None,
) -> tuple[RunRequest, str | None]:
    """Return the request in the name of who continues, and who resumed it if different.

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
    run.host.elapsed = state.at_work(run.plan.concurrency)
    restore_children(run, state.spending)
    ended = state.ended
    assert ended is not None
    return Start(run, Stage.OPEN, None, Outcome(ended.status, ended.stop_reason, ended.error))


def _remind_of_suspension(run: Run, state: Standing) -> None:
    """Tell the model why it was suspended, if a reason was given."""
    parked = state.suspended
    # A worker that ends parks its runs: the model need not know on which machine it works.
    if parked is not None and parked.initiator == "fleet":
        return
    if parked is not None and parked.reason and not parked.waiting:
        words = f"You go on after you were suspended. The reason: {whole_text(parked.reason)}"
        run.remind(Reminder(words, ttl=1, propagate="none"), "suspend")
