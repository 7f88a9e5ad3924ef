"""Where a drive begins: at the end of the journal.

One pass over a session's entries gives the view, the policies' memories, the books, and how far
the last turn had come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from windlass.errors import Corrupt
from windlass.events import (
    INTERRUPTED,
    CallReserved,
    FinishProposed,
    Framed,
    InboxTaken,
    IterationEnd,
    IterationStart,
    JournalEntry,
    Remembered,
    Reminded,
    Replied,
    ReplyFailed,
    RunEnded,
    RunResumed,
    RunStarted,
    SessionReset,
    Suspended,
    ToolDecided,
    ToolIntended,
    ToolMessage,
    ToolResulted,
    ToolShown,
)
from windlass.json_types import JsonObject
from windlass.loop.calls import result_of_interrupted, settle
from windlass.loop.kernel import Stage
from windlass.loop.ledger import Budget
from windlass.loop.plan import BUDGET, digest_of
from windlass.loop.reminders import add_reminder, age_reminders
from windlass.loop.resume_input import (
    Answers,
    decision_of,
    keep_answer,
    result_of,
)
from windlass.loop.run import Run
from windlass.loop.spend import Spending, lost_call_entry
from windlass.loop.turn import Ready, Turn, turn_of
from windlass.loop.verdict import Finish, Stop
from windlass.messages import ToolCall, ToolResult
from windlass.models.base import Strand
from windlass.store.view import ViewFold
from windlass.tools.handlers import own


class Standing:
    """The state of a session: its last run, and how far its last turn came."""

    def __init__(self) -> None:
        self.view = ViewFold()
        self.call_ids: set[str] = set()
        self.frame_digest = ""
        self.frames: set[str] = set()  # those that the last run can refer to
        self.session_memory: JsonObject = {}
        self.run_memory: JsonObject = {}
        self.reminders: tuple[Reminded, ...] = ()
        self.due = 0  # how many of them the next request carries
        self.run: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.reset = False  # since the last run ended
        self.first_entry = 0
        self.iteration = self.number = 0
        self.spending = Spending()
        self.asking = False  # a turn's reply is waited for
        self.lost_turns = 0  # replies that were waited for when the process ended
        self.driving = False  # no end of the last drive is on record
        self.resumed: RunResumed | None = None  # the last time that it was
        self.asking_ms = 0.0
        self.tools_ms: list[list[float]] = []  # of each turn's calls
        self.stage = Stage.OPEN
        self.finish: Finish | None = None
        self.turn: Turn | None = None
        self.decided: dict[str, ToolDecided] = {}
        self.intended: dict[str, ToolIntended] = {}
        self.suspended: Suspended | None = None
        self.asked: dict[str, ToolDecided] = {}  # calls that wait for an answer
        self.answers: Answers = {}  # given on record, and not used yet
        self.host_results: dict[str, ToolResult] = {}

    @property
    def unfinished(self) -> bool:
        """Whether there is a run to resume: killed on its way, or parked."""
        return self.run is not None and (self.ended is None or self.ended.status == "suspended")

    @property
    def has_lost_calls(self) -> bool:
        """Was a call under way when a process of the last run ended, that had reserved for it?"""
        return bool(self.spending.in_flight) or self.spending.lost

    @property
    def parked(self) -> bool:
        """Whether the last run waits for an answer; a reset since then ends that."""
        return self.unfinished and self.ended is not None and not self.reset

    def at_work(self, concurrency: int) -> float:
        """Return the seconds of model calls and tools so far, without pauses."""
        together = sum if concurrency == 1 else max
        return (self.asking_ms + sum(together(each) for each in self.tools_ms if each)) / 1000

    def apply(self, entry: JournalEntry, index: int) -> None:
        """Read one entry."""
        self.view.apply(entry)
        self.spending.apply(entry)
        match entry:
            case RunStarted():
                self._new_run(entry, index)
            case RunEnded():
                self.ended, self.driving, self.asking = entry, False, False
                self.reset = False
            case SessionReset():
                self.reset = True
            case RunResumed():
                self.due = len(self.reminders)
                self._went_on(entry)
            case Framed():
                self.frame_digest = entry.digest
                self.frames.add(entry.digest)
            case Remembered():
                kept = self.session_memory if entry.keeps == "session" else self.run_memory
                kept[entry.policy] = entry.value
            case Reminded():
                self.reminders = add_reminder(self.reminders, entry)
            case IterationStart():
                # the turn before stays in sight until the model answers, as it does without a crash
                self.number, self.stage = entry.number, Stage.ASK
                self.due = len(self.reminders)
                self.ended = self.suspended = None
                self.asking = True
            case CallReserved(purpose=None):
                self.asking = True
            case Replied():
                self._apply_reply(entry)
            case ReplyFailed():
                self._apply_failed_reply(entry)
            case IterationEnd():
                self.stage, self.finish = Stage.OPEN, None
                if self.turn is not None:
                    self.turn.open = False
            case FinishProposed():
                self.stage, self.finish = Stage.FINISH, Finish(entry.reason, entry.status)
            case Suspended():
                self.suspended = entry
                if entry.stage == "turn" or (entry.stage == "end" and not self.open_calls):
                    self.stage, self.finish = Stage.OPEN, None
            case _:
                self._apply_call(entry)

    @property
    def open_calls(self) -> bool:
        """Whether the view has calls without an answer."""
        return self.turn is not None and self.turn.open

    @property
    def open_call_ids(self) -> list[str]:
        """The calls of the last turn that have no result."""
        turn = self.turn
        if turn is None or not turn.open:
            return []
        return [call.id for call in turn.calls if call.id not in turn.results]

    def _new_run(self, entry: RunStarted, index: int) -> None:
        self.run, self.ended, self.first_entry = entry, None, index
        self.frames = {self.frame_digest}
        self.iteration = self.number = self.lost_turns = 0
        self.driving, self.asking, self.resumed = True, False, None
        self.stage, self.turn, self.finish = Stage.OPEN, None, None
        self.asking_ms, self.tools_ms = 0.0, []
        self.run_memory, self.suspended = {}, None
        self.reminders = tuple([one for one in self.reminders if one.lasts])

    def _went_on(self, entry: RunResumed) -> None:
        self.asking_ms += entry.lost_ms
        if self.asking:
            self.lost_turns += 1
        self.asking = entry.at == Stage.ASK.name.lower()
        self.driving, self.resumed = True, entry

    def _apply_failed_reply(self, entry: ReplyFailed) -> None:
        self.asking_ms += entry.duration_ms
        if entry.purpose is None:
            self.lost_turns += entry.category == INTERRUPTED
            self.asking = False

    def attempt(self) -> int:
        """Count the resumes in a row, now included, since anything new was on record."""
        if not self.driving:
            return 0
        last = self.resumed
        if last is None or last.progress != self.spending.tree_progress:
            return 1
        return last.attempt + 1

    def _apply_reply(self, entry: Replied) -> None:
        if entry.purpose != "shadow":  # it was asked beside another
            self.asking_ms += entry.duration_ms
        if entry.purpose is not None:
            return
        self.iteration += 1
        self.asking = False
        self.tools_ms.append([])
        self.reminders = age_reminders(self.reminders, self.due)
        self.turn = turn_of(self.number, entry.message, entry.stop_reason, entry.usage)
        self.turn.shortened = entry.shortened
        self.turn.calls = tuple({call.id: call for call in self.turn.calls}.values())  # each once
        self.call_ids |= {call.id for call in self.turn.calls}
        self.stage = Stage.CHECK
        self.decided, self.intended = {}, {}
        self.asked, self.answers, self.host_results = {}, {}, {}

    def _apply_call(self, entry: JournalEntry) -> None:
        turn = self.turn
        match entry:
            case ToolDecided(call_id=call_id, action="ask"):
                self.asked[call_id] = entry
                # Asked in the middle of the call: it is decided again, and made again.
                self.decided.pop(call_id, None)
                self.intended.pop(call_id, None)
            case ToolDecided(call_id=call_id):
                self.decided[call_id] = entry
                self.asked.pop(call_id, None)
                self.answers.pop(call_id, None)
                self._past_check(call_id)
            case ToolIntended(call_id=call_id):
                self.intended[call_id] = entry
                self._past_check(call_id)
            case ToolResulted(call_id=call_id) if turn is not None:
                turn.results[call_id] = entry.result
                if self.tools_ms:
                    self.tools_ms[-1].append(entry.duration_ms)
                self._past_check(call_id)
            case ToolShown(call_id=call_id) if turn is not None:
                turn.shown[call_id] = entry.result
            case ToolMessage() if turn is not None:
                turn.open, self.stage = False, Stage.JUDGE
                turn.shown.update({i: turn.results[i] for i in entry.calls if i in turn.results})
                turn.shown.update(entry.shown or {})
            case InboxTaken(payload=dict()):
                self._apply_resume_input(entry.item, cast("JsonObject", entry.payload))
            case _:
                pass

    def _apply_resume_input(self, kind: str, payload: JsonObject) -> None:
        for call_id, value in payload.items():
            if kind == "decision":
                asked = self.asked.get(call_id)
                last_ask = None if asked is None else asked.ask
                keep_answer(self.answers, call_id, decision_of(value), last_ask)
            elif kind == "result":
                self.host_results[call_id] = result_of(value)

    def _past_check(self, call_id: str) -> None:
        if self.turn is not None and any(call.id == call_id for call in self.turn.calls):
            self.stage = Stage.GATE


def standing(entries: Sequence[JournalEntry]) -> Standing:
    """Read a session's journal."""
    state = Standing()
    for index, entry in enumerate(entries):
        state.apply(entry, index)
    if state.open_calls and not state.view.open:  # a reset took them out of the view
        assert state.turn is not None
        state.turn.open, state.stage, state.finish = False, Stage.OPEN, None
    return state


def continue_session(run: Run, state: Standing) -> None:
    """Begin a new run on a used session: its view, its call ids, its lasting memories."""
    run.view.strand = Strand(list(state.view.messages))
    run.calls.ids = state.call_ids
    for message in state.view.messages:  # some of them were not requested here
        run.calls.ids.update([call.id for call in message.tool_calls])
    run.view.frame_digest = state.frame_digest
    run.view.reminders = tuple([one for one in state.reminders if one.lasts])
    _recall(run, state.session_memory)


async def take_up(run: Run, state: Standing) -> tuple[Stage, Finish | None]:
    """Go on with a run where it stopped."""
    continue_session(run, state)
    run.view.digests = frozenset(state.frames)
    _recall(run, state.run_memory)
    run.first_entry = state.first_entry
    run.iteration, run.number = state.iteration, state.number
    run.view.reminders = state.reminders
    _restore_books(run, state)
    run.turn = turn = state.turn
    if turn is not None and turn.open:
        run.view.held = tuple(state.view.held)
        run.calls.answers, run.calls.host_results = state.answers, state.host_results
        run.calls.questions = state.asked
        for call in turn.calls:
            if call.id not in turn.results:
                _stand(run, turn, call, state)
    return state.stage, state.finish


def _restore_books(run: Run, state: Standing) -> None:
    """Enter what the run and its children have spent; settle what was under way on the record."""
    spending = state.spending
    usage, seconds = spending.tree_usage, state.at_work(run.plan.concurrency)
    turns = state.iteration + state.lost_turns
    if state.asking:
        turns += 1
        state.lost_turns += 1
    seconds += lost_seconds(run, state)
    run.ledger.restore(turns, usage.total_tokens, spending.tree_usd, seconds)
    restore_children(run, spending)
    for reserved in spending.in_flight:
        entry = lost_call_entry(reserved)
        run.record(entry)


def lost_seconds(run: Run, state: Standing) -> float:
    """Return how long the drive that was killed may have worked after its last row."""
    return run.journal.lost_seconds if state.driving else 0.0


def restore_children(run: Run, spending: Spending) -> None:
    """Enter what each of the run's children has used so far, for the result."""
    run.calls.children = {
        child_id: (child.tree_usage, child.tree_usd)
        for child_id, child in spending.children.items()
    }


def _stand(run: Run, turn: Turn, call: ToolCall, state: Standing) -> None:
    """Restore a call without a result: it runs again, is decided again, or is lost."""
    decided, intended = state.decided.get(call.id), state.intended.get(call.id)
    tool = run.tools.get(call.name)
    if decided is None or decided.action != "allow":
        return
    host = tool is not None and tool.handler is None
    if intended is not None and intended.effect == "plain" and not host:
        turn.started += (call.id,)
        settle(run, turn, call, result_of_interrupted(run, turn, call, "the process ended"))
        return
    if tool is None:
        return  # a policy brings it, or it is gone: the gate will see
    arguments = own(call.arguments if decided.arguments is None else decided.arguments)
    if digest_of(arguments) != decided.digest:
        return  # the record does not have what was decided (a secret was taken out): decide again
    call = msgspec.structs.replace(call, arguments=arguments)
    attempt = intended.attempt + 1 if intended is not None else 1
    turn.ready[call.id] = Ready(call, tool, attempt)


def _recall(run: Run, memories: JsonObject) -> None:
    for policy in run.plan.policies:
        if policy.name in memories:
            value = memories[policy.name]
            kind = policy.memory
            try:
                kept = msgspec.convert(value, kind) if kind is not None else value
                run.memory = {**run.memory, policy.name: kept}
            except msgspec.ValidationError as error:
                raise Corrupt(f"what {policy.name} remembers is damaged: {error}") from error


# --------------------------------------------------------------------------- its limits

_LIMITS = ("iterations", "tokens", "usd", "seconds")


def limits_of(
    planned: Budget, metadata: Mapping[str, Any] | None, given: Budget | None = None
) -> Budget:
    """Return the limits of a resumed run: as it began, or lower; `given` replaces them."""
    if given is not None:
        turns = planned.iterations if given.iterations is None else given.iterations
        return msgspec.structs.replace(given, iterations=turns)
    recorded = (metadata or {}).get(BUDGET)
    if recorded is None:
        return planned
    try:
        begun = msgspec.convert(recorded, Budget)
    except msgspec.ValidationError as error:
        raise Corrupt(f"the budget that the run began with is damaged: {error}") from error
    return Budget(
        **{name: _lower(getattr(planned, name), getattr(begun, name)) for name in _LIMITS}
    )


def _lower(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def give_up(run: Run, state: Standing, at: Stage, attempt: int, most: int | None) -> Stop | None:
    """Stop a run that has died too often without a new reply or result."""
    if most is None or attempt <= most:
        return None
    under_way = _under_way(run, state, at)
    message = (
        f"the process ended {attempt} times in a row without a new reply or result while "
        f"{under_way} was under way"
    )
    return Stop("failed", "poison", {"category": "poison", "message": message, "call": under_way})


def _under_way(run: Run, state: Standing, at: Stage) -> str:
    in_flight = state.spending.in_flight
    if in_flight and in_flight[0].purpose is not None:
        asked = in_flight[0]
        return f"a call of {asked.provider}:{asked.model} ({asked.purpose})"
    if at <= Stage.ASK:
        return f"the model call of turn {state.number} to {run.model.provider}:{run.model.name}"
    turn = run.turn
    waiting = [call for call in turn.calls if call.id not in turn.results] if turn else []
    if waiting:
        return ", ".join(f"the call of {call.name} ({call.id})" for call in waiting)
    return f"the end of turn {state.number}"
