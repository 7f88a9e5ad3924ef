"""The loop: ask the model, run the tools it asked for, let policies decide what is next.

Nothing optional lives here. A turn is open, ask, check, gate, run, judge; a drive begins wherever
the journal ends, so resuming has no path of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from enum import IntEnum
from typing import Any, Protocol

from windlass.errors import ConfigError, ModelError
from windlass.events import (
    BudgetExhausted,
    FinishProposed,
    IterationEnd,
    IterationStart,
    Suspended,
)
from windlass.loop.calls import close_calls, drop_early, run_calls
from windlass.loop.eager import Eager
from windlass.loop.gate import gate, open_gate
from windlass.loop.inbox import hear_item, last_word, take_mail
from windlass.loop.lifecycle import await_uncancelled, end, start, stop_for_error
from windlass.loop.model_call import RunCall, call_model
from windlass.loop.policy import FEW_ENTRIES, invalid_answer
from windlass.loop.reminders import age_reminders
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Outcome, Stop, Suspend, Verdict, strongest
from windlass.messages import Message, Opaque, Text
from windlass.models.base import Emit, Request, Strand, View

MOST_MENDED = 8  # times in one turn; a policy that says TryAgain for ever does not hold the run


class Stage(IntEnum):
    """The stage of a turn at which a drive begins."""

    OPEN = 0
    ASK = 1
    CHECK = 2
    GATE = 3
    RUN = 4
    JUDGE = 5
    FINISH = 6  # an end was proposed; those who must agree have not been asked


# Names of their own: an attribute of an enumeration takes as long as a call, and these are for every turn.
_OPEN, _ASK, _CHECK = Stage.OPEN, Stage.ASK, Stage.CHECK


class Owner(Protocol):
    """Whoever waits for a run."""

    def on_end(self, outcome: Outcome | None) -> None:
        """Take the outcome of the run, in its last step; None if an exception leaves it."""
        ...


async def drive(run: Run, at: Stage, finish: Finish | None, owner: Owner) -> Outcome:
    """Drive the run until it ends or parks. Cancellation ends it too, on the record."""
    host = run.host
    task = host.task = host.task or asyncio.current_task()
    assert task is not None
    outcome: Outcome | None = None
    exception: BaseException | None = None
    try:
        try:
            if run.interruption is not None:
                raise asyncio.CancelledError
            moments = run.plan.moments
            if moments.starts_new or (moments.start and len(run.journal.entries) >= FEW_ENTRIES):
                await start(run)
            verdict: Verdict | None = None
            while verdict is None or type(verdict) is KeepGoing:
                verdict = await _turn(run, at, finish)
                at, finish = _OPEN, None
                if task.cancelling():
                    raise asyncio.CancelledError  # somebody below swallowed it
        except asyncio.CancelledError:
            while task.cancelling():
                task.uncancel()
            verdict = run.interruption or Stop("cancelled", "cancelled")
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:
            if run.redactor is not None:
                run.redactor.scrub(error)
            exception = error
            verdict = stop_for_error(run, error)
        if run.calls.timer is not None:
            run.calls.timer.stop()
        ending = end(run, verdict, exception)
        if run.journal.immediate and not _end_waits(run):
            outcome = await ending  # nothing in it waits, so nothing can disturb it
        else:
            outcome = await await_uncancelled(ending)
        return outcome
    finally:
        owner.on_end(outcome)


def _end_waits(run: Run) -> bool:
    """Check whether the end of the run may wait for anything but the store."""
    moments, turn = run.plan.moments, run.turn
    if moments.end or run.calls.lingering or run.calls.threads or run.calls.early_reads:
        return True
    return bool(moments.after_tool) and turn is not None and turn.open


async def _turn(run: Run, at: Stage, finish: Finish | None) -> Verdict:
    """Take one turn from where it stands to its verdict."""
    journal, moments = run.journal, run.plan.moments
    if at is _OPEN:
        verdict = await _may_open(run) if moments.before_turn or journal.mail else None
        if verdict is not None or (verdict := _open(run)) is not None:
            return verdict
        await _ask(run)
    elif at is _ASK:
        if (verdict := _out_of_budget(run)) is not None:
            return verdict
        await _ask(run)
    turn = run.turn
    assert turn is not None
    if turn.shortened is not None and at <= _CHECK:
        return await _cut_short(run, turn, turn.shortened)
    if turn.calls:
        checks = moments.checks_calls or (moments.looks_for and _has_call(turn, moments.looks_for))
    else:
        texts = moments.looks_for_texts
        checks = moments.checks_texts or (texts and _has_text(turn, texts))
    if checks and at <= _CHECK and (verdict := await _check(run, turn)) is not None:
        return verdict
    if turn.open:
        if not open_gate(run, turn) and (waiting := await gate(run, turn)) is not None:
            return _park(run, waiting, "gate", turn)
        verdict = await run_calls(run, turn)
        if verdict is not None:
            if isinstance(verdict, Suspend):
                return _park(run, verdict, "run", turn)
            return await _close_turn(run, turn, verdict)
    if finish is None:
        verdict = await _vote(run, turn) if moments.after_turn else None
        if verdict is None:  # nobody spoke: go on after calls, else finish
            if turn.calls or turn.stop_reason == "pause_turn":
                return _record_verdict(run, turn, _GO_ON)
            verdict = _NATURAL
        if type(verdict) is Suspend:
            return _park(run, verdict, "end", turn)
        if type(verdict) is not Finish:
            return _record_verdict(run, turn, verdict)
        finish = verdict
    if run.plan.moments.before_finish or journal.mail:  # a voter may have changed the plan
        return await _may_finish(run, turn, finish)
    return _record_verdict(run, turn, finish)


def _has_call(turn: Turn, names: frozenset[str]) -> bool:
    """Check whether the reply calls one of these tools."""
    for call in turn.calls:  # noqa: SIM110 - done every turn: `any` takes three times as long
        if call.name in names:
            return True
    return False


def _has_text(turn: Turn, texts: frozenset[str]) -> bool:
    """Check whether the reply has one of these texts in it."""
    said = turn.message.text
    for text in texts:  # noqa: SIM110 - as above
        if text in said:
            return True
    return False


async def _may_open(run: Run) -> Stop | Suspend | None:
    """Ask whether a turn may begin: the inbox first, then the policies."""
    if run.journal.mail and (verdict := take_mail(run)) is not None:
        return _park(run, verdict, "turn", None) if isinstance(verdict, Suspend) else verdict
    for door in run.plan.moments.before_turn:
        verdict = await door(run)
        if type(verdict) is Suspend:
            return _park(run, verdict, "turn", None)
        if verdict is not None:
            if type(verdict) is not Stop:
                raise invalid_answer(door, verdict, "Stop, Suspend or None")
            return verdict
    return None


def _open(run: Run) -> Stop | None:
    """Begin a turn, if the limits leave room for it."""
    ledger, record = run.ledger, run.record
    turns = ledger.max_iterations
    if ledger.root.limited or (turns is not None and ledger.iterations >= turns):
        if (stop := _out_of_budget(run)) is not None:
            return stop
    run.number = number = run.iteration + 1
    record(IterationStart(number))
    return None


def _out_of_budget(run: Run) -> Stop | None:
    """Stop a run whose limits leave no room for another turn."""
    ledger = run.ledger
    spent = ledger.out_of_turns()
    if spent is None and ledger.metered:
        spent = ledger.reached_limit()
    if spent is not None:
        run.record(BudgetExhausted(spent.limit, spent.allowed, spent.used))
        reason = "max_iterations" if spent.limit == "iterations" else spent.limit
        return Stop("budget_exhausted", reason)
    return None


async def _cut_short(run: Run, turn: Turn, limit: str) -> Verdict:
    """End a turn with a reply that a budget cut short: it is no answer."""
    spent = run.ledger.standing(limit)
    run.record(BudgetExhausted(limit, spent.allowed, spent.used))
    return await _close_turn(run, turn, Stop("budget_exhausted", limit))


def _ask(run: Run) -> Awaitable[object]:
    """Ask for the next turn; what the reply will read may be read while it is written."""
    items = run.view.strand.items
    if items and items[-1].role == "assistant":
        paused = run.turn is not None and run.turn.stop_reason == "pause_turn"
        if not paused or all(
            type(block) is not Opaque for block in items[-1].content
        ):  # a request never ends in the model's own words
            run.hear(Message("user", (Text("Continue."),), "continue"))
    return _ask_eagerly(run) if run.plan.eager else _request_turn(run, run.emit)


async def _ask_eagerly(run: Run) -> None:
    eager = Eager(run)
    try:
        await eager.hand_over(await _request_turn(run, eager.watch))
    finally:
        eager.throw_away()  # whatever the reply did not take over


async def _request_turn(run: Run, emit: Emit) -> Turn:
    """Ask the model for the next turn; a failed call is offered to the policies that can mend it."""
    view, mended = run.view, 0
    due: int = 0
    tail: tuple[Message, ...] = ()
    if view.reminders:
        due = len(view.reminders)  # what is said from here on is for the next request
        tail = tuple([one.message for one in view.reminders])
    while True:
        strand = view.strand
        request = Request(View(strand, len(strand.items)), view.frame, tail)
        for shape in run.plan.moments.before_model:
            shaped = await shape(run, request)
            if shaped is not None and shaped is not request:
                if type(shaped) is not Request:
                    raise invalid_answer(shape, shaped, "a Request or None")
                if not shaped.messages and not shaped.tail:
                    raise ConfigError(
                        f"policy {shape.__self__.name!r} left nothing of the request: no provider "
                        "answers one without messages"
                    )
                request = shaped
        try:
            response = await call_model(RunCall.of(run, request), run.model, request, None, emit)
        except ModelError as error:
            mended += 1
            if mended > MOST_MENDED or not await _recover_from_error(run, error):
                raise
            continue
        if due:
            view.reminders = age_reminders(view.reminders, due)
        run.iteration += 1
        run.ledger.iterations += 1
        message = response.message
        view.strand.items.append(message)
        if run.plan.deliberates:
            run.journal.flush()
        calls = message.tool_calls
        run.turn = turn = Turn(
            run.number,
            message,
            response.stop_reason,
            response.usage,
            calls,
            bool(calls),
            response.shortened,
        )
        return turn


async def _recover_from_error(run: Run, error: ModelError) -> bool:
    for mend in run.plan.moments.on_model_error:
        if await mend(run, error) is not None:
            return True
    return False


async def _check(run: Run, turn: Turn) -> Verdict | None:
    """Ask the policies before any call of the reply runs."""
    for door in run.plan.moments.after_reply:
        verdict = await door(run, turn)
        if verdict is None:
            continue
        if type(verdict) is Suspend:
            return _park(run, verdict, "gate" if turn.open else "end", turn)
        if type(verdict) is KeepGoing and verdict.drop:
            _drop(run, turn)
            run.record(IterationEnd(turn.number, "dropped", verdict.reason))
            return verdict
        if type(verdict) is not Stop and type(verdict) is not KeepGoing:
            raise invalid_answer(door, verdict, "Stop, Suspend, KeepGoing or None")
        return await _close_turn(run, turn, verdict)
    return None


def _drop(run: Run, turn: Turn) -> None:
    """Remove the reply from the view; messages about it stay."""
    kept = [message for message in run.view.strand.items if message is not turn.message]
    run.view.strand = Strand([*kept, *run.view.held])
    run.view.held = ()
    turn.open = False
    if run.calls.early_reads:
        drop_early(run)


async def _vote(run: Run, turn: Turn) -> Verdict | None:
    """Ask every policy about the turn; the strongest verdict counts."""
    votes: list[Verdict] = []
    for voter in run.plan.moments.after_turn:
        vote = await voter(run, turn)
        if vote is not None:
            if not isinstance(vote, Stop | Suspend | KeepGoing | Finish):
                raise invalid_answer(voter, vote, "a verdict or None")
            votes.append(vote)
    return strongest(votes) if votes else None


async def _may_finish(run: Run, turn: Turn, finish: Finish) -> Verdict:
    """Ask the policies that must agree to a proposed end; a follow-up takes its turn."""
    doors = run.plan.moments.before_finish
    if doors:
        run.record(FinishProposed(finish.reason, finish.status))
    for door in doors:
        verdict = await door(run, turn, finish)
        if type(verdict) is Suspend:
            return _park(run, verdict, "end", turn)
        if verdict is not None:
            if type(verdict) is not KeepGoing and type(verdict) is not Stop:
                raise invalid_answer(door, verdict, "KeepGoing, Stop, Suspend or None")
            return await _close_turn(run, turn, verdict)
    if run.journal.mail and (word := last_word(run)) is not None:
        run.record(IterationEnd(turn.number, "keep_going", word.kind))
        hear_item(run, word)
        return KeepGoing(word.kind)
    return _record_verdict(run, turn, finish)


async def _close_turn(run: Run, turn: Turn, verdict: Verdict) -> Verdict:
    """Put the turn's verdict on the record; calls it leaves open are answered first."""
    if turn.open:
        status = verdict.status if isinstance(verdict, (Stop, Finish)) else None
        await close_calls(run, turn, verdict.reason or status or "keep_going")
    return _record_verdict(run, turn, verdict)


def _record_verdict(run: Run, turn: Turn, verdict: Verdict) -> Verdict:
    """Record the verdict on a turn whose calls are answered."""
    record = run.record
    record(IterationEnd(turn.number, verdict.word, verdict.reason, verdict.status))
    return verdict


def _park(run: Run, suspend: Suspend, stage: Any, turn: Turn | None) -> Suspend:
    waiting = tuple(c.id for c in turn.calls if c.id not in turn.results) if turn else ()
    run.record(Suspended(suspend.reason, stage, suspend.initiator, suspend.conditions, waiting))
    return suspend


_GO_ON = KeepGoing()
_NATURAL = Finish()
