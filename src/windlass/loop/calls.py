"""The calls of a turn: arguments are checked, they run, and each gets one result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from math import inf
from operator import attrgetter
from typing import Any

import msgspec

from windlass import seams
from windlass.events import (
    ToolCallStarted,
    ToolCallUpdate,
    ToolIntended,
    ToolMessage,
    ToolResulted,
    ToolShown,
)
from windlass.loop.policy import invalid_answer
from windlass.loop.run import Run, audit_event, refusal_by_tool
from windlass.loop.state import CallState, Timer, without
from windlass.loop.turn import Ready, Turn, turn_of
from windlass.loop.verdict import Stop, Suspend
from windlass.messages import Message, ToolCall, ToolResult
from windlass.models.base import silent
from windlass.store.view import ViewFold
from windlass.tools.arguments.validate import unparsable
from windlass.tools.handlers import own
from windlass.tools.result import format_traceback, timed_out
from windlass.tools.tool import Parked, PreparedArguments, Tool, ToolContext

_id_of = attrgetter("id")
PATIENCE = 0.05  # seconds a cancelled call gets to end by itself


def prepare_call(run: Run, tool: Tool, call: ToolCall) -> ToolCall | ToolResult:
    """Return the call with valid arguments, or the result that explains the problems."""
    if call.raw is not None:
        problems: tuple[str, ...] = (unparsable(call.raw),)
    else:
        prepared: PreparedArguments = tool.prepare(call.arguments, run.plan.validation)
        problems = prepared.problems
        if not problems:
            if prepared.coerced:
                run.calls.coercions = {**run.calls.coercions, call.id: prepared.coerced}
            if prepared.arguments is call.arguments:
                return call
            return msgspec.structs.replace(call, arguments=prepared.arguments)
    words = "\n".join((f"The arguments for {tool.name} are not valid:", *problems))
    return ToolResult(call.id, words, True, call.name, "invalid")


def run_calls(run: Run, turn: Turn) -> Awaitable[Stop | Suspend | None]:
    """Run what passed the gate, side by side up to the limit; answer in the order asked."""
    ready, results = turn.ready, turn.results
    todo: list[Ready] = []
    for call in turn.calls:
        one = ready.get(call.id)
        if one is not None and call.id not in results:
            todo.append(one)
    if len(todo) > 1 and run.plan.concurrency > 1:
        return _side_by_side(run, turn, todo)
    return _one_by_one(run, turn, todo)


async def _answer_all(
    run: Run, turn: Turn, stop: Stop | None, parked: Parked | None
) -> Stop | Suspend | None:
    """Answer the calls of a turn once all have run, unless one is parked."""
    calls, shown = turn.calls, turn.shown
    if stop is None:
        if parked is not None:
            return Suspend(parked.reason, parked.conditions)
        if len(shown) == len(calls) or (
            (stop := await _show(run, turn)) is None and len(shown) == len(calls)
        ):
            answer(run, turn)
            return None
    await close_calls(run, turn, stop.reason or stop.status if stop else "")
    return stop


async def _one_by_one(run: Run, turn: Turn, todo: list[Ready]) -> Stop | Suspend | None:
    """Run calls in the run's own task, each once its intent is on record."""
    parked: Parked | None = None
    journal, held, task = run.journal, run.calls, run.host.task
    for one in todo:
        if one.tool.handler is None and _is_hosts(run, one):
            parked = parked or _host(one)
            continue
        effects = _intend(run, turn, one)
        journal.flush()  # a tool may take its time: the reply is handed on before it starts
        if effects:
            if not journal.immediate:
                await journal.durable()
            if seams.watched:
                seams.point("tool.after_intent")
        # Mostly nobody watches, and nothing has run already: the call itself is all there is.
        quiet = run.emit is silent and not held.early_reads and not held.host_results
        outcome = await (execute(run, one, task) if quiet else perform(run, one, task))
        if type(outcome) is not ToolResult:
            assert isinstance(outcome, Parked)
            parked = parked or outcome
            continue
        settle(run, turn, one.call, outcome)
        if run.plan.deliberates or len(todo) > 1:  # else the next thing is a flush
            journal.flush()
        if parked is None and not _show_unchanged(run, turn):
            if (stop := await _show(run, turn)) is not None:
                return await _answer_all(run, turn, stop, None)
        if task is not None and task.cancelling():
            raise asyncio.CancelledError  # a tool swallowed it
    if parked is None and len(turn.shown) == len(turn.calls):
        answer(run, turn)
        return None
    return await _answer_all(run, turn, None, parked)


async def _side_by_side(run: Run, turn: Turn, todo: list[Ready]) -> Stop | Suspend | None:
    """Run several calls at a time; only this function records what becomes of them."""
    waiting, parked, stop = list(todo), None, None
    at_work: dict[asyncio.Task[ToolResult | Parked], Ready] = {}
    try:
        while at_work or (waiting and stop is None):
            batch: list[Ready] = []
            while waiting and stop is None and len(at_work) + len(batch) < run.plan.concurrency:
                ready = waiting.pop(0)
                if _is_hosts(run, ready):
                    parked = parked or _host(ready)
                else:
                    batch.append(ready)
            if batch:
                effects = [_intend(run, turn, ready) for ready in batch]
                run.journal.flush()
                if any(effects):
                    await run.journal.durable()
                    seams.point("tool.after_intent")
                for ready in batch:
                    at_work[run.host.loop.create_task(perform(run, ready))] = ready
            if not at_work:
                continue
            landed, _ = await asyncio.wait(at_work, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in at_work if task in landed]:
                ready = at_work.pop(task)
                result = task.result()
                if isinstance(result, Parked):
                    parked = parked or result
                else:
                    settle(run, turn, ready.call, result)
            run.journal.flush()
            if stop is None and parked is None:
                stop = await _show(run, turn)
    except BaseException:  # cancelled, or a policy failed: nothing may stay at work
        await _abandon(run, turn, at_work)
        raise
    return await _answer_all(run, turn, stop, parked)


async def _abandon(
    run: Run, turn: Turn, at_work: Mapping[asyncio.Task[ToolResult | Parked], Ready]
) -> None:
    """Cancel running calls; finished ones count, and those that do not end are kept track of.

    A commit that has begun is waited for: it decides what the call's result is.
    """
    for task in at_work:
        task.cancel()
    await _wait_for(run, at_work, PATIENCE)
    ids = [ready.call.id for ready in at_work.values()]
    await _wait_for(run, [run.calls.commits[one] for one in ids if one in run.calls.commits])
    run.calls.lingering |= {task for task in at_work if not task.done()}
    for task, ready in at_work.items():
        if task.done() and not task.cancelled() and task.exception() is None:
            result = task.result()
            if not isinstance(result, Parked):
                settle(run, turn, ready.call, result)


async def _wait_for(run: Run, futures: Iterable[asyncio.Future[Any]], seconds: float = inf) -> None:
    """Wait so long for them, however often the run is cancelled meanwhile."""
    until = run.host.loop.time() + seconds
    while pending := [future for future in futures if not future.done()]:
        left = until - run.host.loop.time()
        if left <= 0:
            return
        try:
            await asyncio.wait(pending, timeout=None if left == inf else left)
        except asyncio.CancelledError:
            continue


def _is_hosts(run: Run, ready: Ready) -> bool:
    """Check whether the host must run the call and has not answered yet."""
    return ready.tool.handler is None and ready.call.id not in run.calls.host_results


def _intend(run: Run, turn: Turn, ready: Ready) -> bool:
    """Record the intent of a call. True: it may have an effect, so the record must be stored."""
    call_id, tool, record = ready.call.id, ready.tool, run.record
    if tool.handler is None:
        return False  # the host has run it: there is nothing to intend
    effect = tool.effect
    if effect != "transactional" and call_id not in turn.started:
        record(ToolIntended(call_id, tool.name, effect, ready.attempt))
        turn.started += (call_id,)
    return effect != "read_only"


def _host(ready: Ready) -> Parked:
    return Parked(f"{ready.tool.name} is run by the host", {"results": [ready.call.id]})


async def perform(
    run: Run, ready: Ready, task: asyncio.Task[Any] | None = None
) -> ToolResult | Parked:
    """Run one call, or wait for the read that started while the model still wrote."""
    call = ready.call
    if call.id in run.calls.host_results:
        return _from_host(run, call)
    if run.emit is not silent:
        run.emit(ToolCallStarted(call.id, call.name, own(call.arguments)))
        run.emit(ToolCallUpdate(call.id, "in_progress"))
    early = run.calls.early_reads.get(call.id)
    if early is not None:
        run.calls.early_reads = without(run.calls.early_reads, call.id)
        return await early
    return await execute(run, ready, task)


async def execute(
    run: Run, ready: Ready, task: asyncio.Task[Any] | None = None
) -> ToolResult | Parked:
    """Make the call under its time limit; whatever happens but cancellation is a result.

    `task` is the run's own, where that makes the call; else it is made in a task of its own.
    """
    call, tool, calls = ready.call, ready.tool, run.calls
    call_id, decided, attempt = call.id, call.arguments, ready.attempt
    context: ToolContext[Any] = ToolContext(
        run.deps, run.caller, run.session_id, run.run_id, call_id, tool.name, run, attempt, decided
    )
    # what stands around a tool gets a copy, so that a change in place is seen as one
    arguments = decided if type(tool).call is Tool.call else own(decided)
    if seams.watched:
        seams.point("tool.before_call")
    started = seams.monotonic()
    seconds = tool.timeout
    if seconds is None:
        seconds = run.plan.tool_timeout
    deadline: Deadline | Timer | None = None
    if seconds is not None:
        deadline = calls.timer
        if task is not None and deadline is not None:
            deadline.begin(seconds, started)
        else:
            deadline = _limit_time(run, seconds, started, task)
    if tool.transactional:
        calls.start_times = {**calls.start_times, call_id: started}
    try:
        if run.around is None:
            result = await tool.call(arguments, context)
        else:
            result = await run.around.call(tool, arguments, context)
        if deadline is not None and deadline.missed:
            deadline.task.uncancel()  # stopped too late, it answered all the same
    except asyncio.CancelledError:
        if deadline is None or not deadline.missed or run.interruption is not None:
            raise
        if deadline.task.uncancel() > 0:
            raise  # somebody else cancels as well
        result = timed_out(tool.name, tool.effect, deadline.seconds)
    finally:
        if deadline is not None:
            deadline.cancel()
    took = (seams.monotonic() - started) * 1000
    if calls.durations_ms is None:
        calls.durations_ms = {call_id: took}
    else:
        calls.durations_ms[call_id] = took
    if seams.watched:
        seams.point("tool.after_call")
    if calls.committed and (committed := calls.committed.get(call_id)) is not None:
        return committed
    if calls.unwritten and (unwritten := calls.unwritten.get(call_id)) is not None:
        raise unwritten  # no answer of the tool's makes up for it
    if type(result) is not ToolResult and isinstance(result, Parked):
        return result
    return ToolResult(call_id, result.content, result.is_error, call.name, result.outcome)


def _from_host(run: Run, call: ToolCall) -> ToolResult:
    given = run.calls.host_results[call.id]
    run.calls.host_results = without(run.calls.host_results, call.id)
    return msgspec.structs.replace(given, id=call.id, name=call.name)


# --------------------------------------------------------------------------- time limits


def _limit_time(
    run: Run, seconds: float, started: float, own: asyncio.Task[Any] | None
) -> Deadline | Timer:
    """Begin the time limit of a call in a task of its own, or of the first in the run's."""
    if own is None:
        task = asyncio.current_task()
        assert task is not None
        return Deadline(run.host.loop, task, seconds)
    timer = run.calls.timer = CallTimer(run.host.loop, own)
    timer.begin(seconds, started)
    return timer


class Deadline:
    """A time limit that cancels a task; `missed` tells that it did."""

    __slots__ = ("_timer", "missed", "seconds", "task")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], seconds: float
    ) -> None:
        self.task, self.seconds, self.missed = task, seconds, False
        self._timer: asyncio.Handle | None = loop.call_later(seconds, self._miss)

    def cancel(self) -> None:
        """End the limit: the call is over, in time or not."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _miss(self) -> None:
        self.missed = True
        self.task.cancel()


class CallTimer(Deadline):
    """The deadlines of a run's own task, one after another, on one timer.

    Most calls are over long before their limit, so the timer is not moved for each: it looks at the
    time when it rings, and rings again later if a newer call is still within its limit. It is set
    when the task first waits: a run whose calls all answer at once needs none.
    """

    __slots__ = ("_loop", "_rings_at", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        self.task, self.seconds, self.missed = task, 0.0, False
        self._loop, self._until, self._rings_at = loop, 0.0, inf
        self._timer = None

    def begin(self, seconds: float, started: float) -> None:
        """Begin the limit of a call that starts."""
        self.seconds, self.missed = seconds, False
        self._until = until = started + seconds
        if until < self._rings_at:
            self._ring_at(until)

    def cancel(self) -> None:
        self._until = 0.0

    def stop(self) -> None:
        """Stop the timer: the run is over."""
        super().cancel()
        self._rings_at = inf

    def _ring_at(self, time: float) -> None:
        super().cancel()
        self._rings_at, self._timer = time, self._loop.call_soon(self._set)

    def _set(self) -> None:
        left = self._rings_at - seams.monotonic()
        self._timer = self._loop.call_later(max(0.0, left), self)

    def __call__(self) -> None:
        """Ring: a method of its own would be one more object for each run."""
        self._rings_at, self._timer = inf, None
        if not self._until:
            return
        if seams.monotonic() >= self._until:
            self._miss()
        else:
            self._ring_at(self._until)


# --------------------------------------------------------------------------- results


def settle(
    run: Run, turn: Turn, call: ToolCall, result: ToolResult, *, recorded: bool = False
) -> None:
    """Record the result of a call, and show it to observers."""
    call_id, name = call.id, call.name
    calls, record = run.calls, run.record
    if result.id != call_id or result.name != name:
        result = msgspec.structs.replace(result, id=call_id, name=name)
    if run.redactor is not None:
        result = run.redactor.value(result)
    turn.results[call_id] = result
    outcome = result.outcome
    if not recorded and call_id not in calls.committed:
        coerced: tuple[str, ...] = ()
        if calls.coercions and call_id in calls.coercions:
            coerced = calls.coercions[call_id]
            calls.coercions = without(calls.coercions, call_id)
        took = _take_duration(calls, call_id)
        if outcome == "denied" and (ready := turn.ready.get(call_id)) is not None:
            refusal = refusal_by_tool(ready, result, run.caller_name)
            record(refusal)
            run.emit(audit_event(refusal))
        raised = None
        if calls.errors and (error := calls.errors.get(call_id)) is not None:
            calls.errors = without(calls.errors, call_id)
            raised = _describe_error(run, error) if result.is_error else None
        record(ToolResulted(call_id, name, outcome, result, took, coerced, raised))
    if run.emit is not silent:
        if call_id in calls.committed:  # its record was stored with its effect; nobody saw it yet
            took = _take_duration(calls, call_id)
            if outcome == "denied" and (ready := turn.ready.get(call_id)) is not None:
                refusal = refusal_by_tool(ready, result, run.caller_name)
                run.emit(refusal)
                run.emit(audit_event(refusal))
            run.emit(ToolResulted(call_id, name, outcome, result, took))
        run.emit(ToolCallUpdate(call_id, "failed" if result.is_error else "completed"))


def _take_duration(calls: CallState, call_id: str) -> float:
    """Return how long a call took, in milliseconds, and forget it; 0 for one that was not made."""
    durations = calls.durations_ms
    if durations is None:
        return 0.0
    took = durations.pop(call_id, 0.0)
    if not durations:
        calls.durations_ms = None
    return took


def _show_unchanged(run: Run, turn: Turn) -> bool:
    """Show the results that have landed, up to the first that a policy may change.

    False: there is such a one, and `_show` goes on from there.
    """
    leaving, shown, results = run.plan.moments.leaving, turn.shown, turn.results
    for call in turn.calls:
        call_id = call.id
        if call_id in shown:
            continue
        result = results.get(call_id)
        if result is None:
            return True
        for leaves in leaving:
            if not leaves(run, call, result):
                return False
        shown[call_id] = result
    return True


def _describe_error(run: Run, error: BaseException) -> str:
    """Format the traceback of what a tool raised, without secrets."""
    text = format_traceback(error)
    return text if run.redactor is None else run.redactor.text(text)


async def _show(run: Run, turn: Turn) -> Stop | None:
    """Pass results through `after_tool` in the order asked, as far as they have landed."""
    stop: Stop | None = None
    calls, shown, results, before = turn.calls, turn.shown, turn.results, 0
    several = len(calls) > 1
    for call in calls:
        call_id = call.id
        if call_id in shown:
            continue
        result = results.get(call_id)
        if result is None:
            return stop
        whole = result
        if several:
            before = len(run.journal.entries)
        for after in run.plan.moments.after_tool:
            answered = await after(run, call, result)
            if type(answered) is ToolResult:
                result = answered
            elif type(answered) is Stop:
                stop = stop or answered
            elif answered is not None:
                raise invalid_answer(after, answered, "a ToolResult, Stop or None")
        shown[call_id] = result
        if several and (result is not whole or len(run.journal.entries) > before):
            run.record(ToolShown(call_id, result))
        if stop is not None:
            return stop
    return stop


async def close_calls(run: Run, turn: Turn, reason: str) -> None:
    """Give every call without a result one that tells why, and answer them all (I1)."""
    if run.calls.early_reads:
        drop_early(run)
    for call in turn.calls:
        if call.id not in turn.results:
            settle(run, turn, call, result_of_interrupted(run, turn, call, reason))
    while len(turn.shown) < len(turn.calls):
        await _show(run, turn)
    answer(run, turn)


def drop_early(run: Run) -> None:
    """Cancel reads that started early and are not needed any more."""
    for task in run.calls.early_reads.values():
        task.cancel()
    run.calls.lingering |= frozenset(run.calls.early_reads.values())
    run.calls.early_reads = {}


def close_recorded(run: Run, reason: str) -> None:
    """Answer the calls that are open on the record, whatever the run itself has seen of them."""
    entries = run.journal.entries
    fold = ViewFold().apply_all(entries)
    if run.turn is not None:
        run.turn.open = False
    if not fold.open:
        return
    turn = turn_of(run.number, fold.messages[-1], "")
    turn.calls = tuple({call.id: call for call in turn.calls}.values())  # each once
    turn.started = tuple([e.call_id for e in entries if type(e) is ToolIntended])
    for call in turn.calls:
        if call.id not in fold.results:
            result = result_of_interrupted(run, turn, call, reason)
            run.record(ToolResulted(call.id, call.name, result.outcome, result))
    run.record(ToolMessage(tuple([call.id for call in turn.calls])))


def result_of_interrupted(run: Run, turn: Turn, call: ToolCall, reason: str) -> ToolResult:
    """Build what the model reads about a call that did not come to its end."""
    committed = run.calls.committed.get(call.id)
    if committed is not None:
        return committed
    tool = run.tools.get(call.name)
    effects = call.id in turn.started and (tool is None or tool.effect != "read_only")
    return build_unfinished_result(call, reason, effects=effects)


def build_unfinished_result(call: ToolCall, reason: str, *, effects: bool) -> ToolResult:
    """Build the result of a call that is not run, or that had started and may have had effects."""
    if effects:
        words = (
            f"Interrupted ({reason}): {call.name} had started and its outcome is unknown. "
            "Check before trying again."
        )
        return ToolResult(call.id, words, True, call.name, "interrupted")
    return ToolResult(call.id, f"Not run: {reason}.", True, call.name, "not_run")


def answer(run: Run, turn: Turn) -> None:
    """Add the results to the view as one tool message, then the messages held back."""
    if not turn.open:
        return
    shown, results, view = turn.shown, turn.results, run.view
    # Mostly one call, whose id is there as a tuple already.
    one = len(turn.calls) == len(turn.started) == 1
    ids = turn.started if one else tuple(map(_id_of, turn.calls))
    if len(shown) < len(ids):
        shown.update({call_id: results[call_id] for call_id in ids if call_id not in shown})
    changed: dict[str, ToolResult] | None = None
    if shown != results:
        changed = {one: shown[one] for one in ids if shown[one] is not results[one]} or None
    run.record(ToolMessage(ids, changed))
    turn.open = False
    turn.ready.clear()  # nobody needs it any more
    if changed is None:
        turn.shown = results  # which is the same
    strand = view.strand
    items = strand.items
    place = len(items) - 1
    items.append(Message("tool", tuple(map(shown.__getitem__, ids))))
    # Every call of the reply has its answer here, so that nobody has to look for it again.
    if strand.audited == place and items[place] is turn.message:
        strand.audited = place + 2
    if view.held:
        items += view.held
        view.held = ()
