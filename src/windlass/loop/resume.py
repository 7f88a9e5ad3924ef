"""Where a drive begins: at the place the journal ends.

One pass over a session's entries gives the view, the policies' memories, the books, and how far
the last turn had come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from windlass.errors import Corrupt
from windlass.events import (
    FinishProposed,
    Framed,
    InboxTaken,
    IterationEnd,
    IterationStart,
    JournalEntry,
    Remembered,
    Reminded,
    Replied,
    RunEnded,
    RunResumed,
    RunStarted,
    Suspended,
    ToolDecided,
    ToolIntended,
    ToolMessage,
    ToolResulted,
    ToolShown,
)
from windlass.loop.answers import Decision, decision_of, result_of
from windlass.loop.calls import settle, unanswered
from windlass.loop.kernel import Stage
from windlass.loop.plan import digest_of
from windlass.loop.reminding import aged, joined
from windlass.loop.run import Run
from windlass.loop.turn import Ready, Turn
from windlass.loop.verdict import Finish
from windlass.messages import ToolCall, ToolResult
from windlass.models.view import Strand
from windlass.store.fold import ViewFold
from windlass.tools.handlers import own


class Standing:
    """How a session stands: what its last run was, and how far its last turn had come."""

    def __init__(self) -> None:
        self.view = ViewFold()
        self.call_ids: set[str] = set()
        self.frame_digest = ""
        self.frames: set[str] = set()  # those that the last run can refer to
        self.session_memory: dict[str, Any] = {}
        self.run_memory: dict[str, Any] = {}
        self.reminders: list[Reminded] = []
        self.due = 0  # how many of them the next request carries
        self.run: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.first_entry = 0
        self.iteration = self.number = 0
        self.input_tokens = self.output_tokens = 0
        self.usd = 0.0
        self.asking_ms = 0.0
        self.tools_ms: list[list[float]] = []  # of each turn's calls
        self.stage = Stage.OPEN
        self.finish: Finish | None = None
        self.turn: Turn | None = None
        self.decided: dict[str, ToolDecided] = {}
        self.intended: dict[str, ToolIntended] = {}
        self.suspended: Suspended | None = None
        self.asked: dict[str, ToolDecided] = {}  # calls that wait for an answer
        self.answers: dict[str, Decision] = {}  # given on record, and not used yet
        self.host_results: dict[str, ToolResult] = {}

    @property
    def unfinished(self) -> bool:
        """Is there a run to go on with: killed on its way, or parked?"""
        return self.run is not None and (self.ended is None or self.ended.status == "suspended")

    def at_work(self, concurrency: int) -> float:
        """Seconds of model calls and tools so far; what was parked or dead meanwhile is not work."""
        together = sum if concurrency == 1 else max
        return (self.asking_ms + sum(together(each) for each in self.tools_ms if each)) / 1000

    def apply(self, entry: JournalEntry, index: int) -> None:
        """Take one entry into account."""
        self.view.apply(entry)
        match entry:
            case RunStarted():
                self._new_run(entry, index)
            case RunEnded():
                self.ended = entry
            case RunResumed():
                self.due = len(self.reminders)
            case Framed():
                self.frame_digest = entry.digest
                self.frames.add(entry.digest)
            case Remembered():
                kept = self.session_memory if entry.keeps == "session" else self.run_memory
                kept[entry.policy] = entry.value
            case Reminded():
                self.reminders = joined(self.reminders, entry)
            case IterationStart():
                # the turn before stays in sight until the model answers, as it does without a crash
                self.number, self.stage = entry.number, Stage.ASK
                self.due = len(self.reminders)
                self.ended = self.suspended = None
            case Replied():
                self._replied(entry)
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
                self._called(entry)

    @property
    def open_calls(self) -> bool:
        """Are there calls in the view that have no answer?"""
        return self.turn is not None and self.turn.open

    def _new_run(self, entry: RunStarted, index: int) -> None:
        self.run, self.ended, self.first_entry = entry, None, index
        self.frames = {self.frame_digest}
        self.iteration = self.number = self.input_tokens = self.output_tokens = 0
        self.usd, self.stage, self.turn, self.finish = 0.0, Stage.OPEN, None, None
        self.asking_ms, self.tools_ms = 0.0, []
        self.run_memory, self.suspended = {}, None
        self.reminders = [one for one in self.reminders if one.lasts]

    def _replied(self, entry: Replied) -> None:
        self.input_tokens += entry.usage.input_tokens
        self.output_tokens += entry.usage.output_tokens
        self.usd += entry.cost_usd
        if entry.purpose != "shadow":  # it was asked beside another
            self.asking_ms += entry.duration_ms
        if entry.purpose is not None:
            return
        self.iteration += 1
        self.tools_ms.append([])
        self.reminders = aged(self.reminders, self.due)
        self.turn = Turn(self.number, entry.message, entry.stop_reason, entry.usage)
        self.turn.calls = tuple({call.id: call for call in self.turn.calls}.values())  # each once
        self.call_ids |= {call.id for call in self.turn.calls}
        self.stage = Stage.CHECK
        self.decided, self.intended = {}, {}
        self.asked, self.answers, self.host_results = {}, {}, {}

    def _called(self, entry: JournalEntry) -> None:
        turn = self.turn
        match entry:
            case ToolDecided(call_id=call_id, action="ask"):
                self.asked[call_id] = entry
                self.answers.pop(call_id, None)  # it was to an earlier question
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
                self._woken(entry.item, cast("dict[str, Any]", entry.payload))
            case _:
                pass

    def _woken(self, kind: str, payload: dict[str, Any]) -> None:
        for call_id, value in payload.items():
            if kind == "decision":
                self.answers[call_id] = decision_of(value)
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
    """A new run on a session that has been used before: its view, its ids, its lasting memories."""
    run.strand = Strand(list(state.view.messages))
    run.call_ids = state.call_ids
    for message in state.view.messages:  # some of them nobody here has asked for
        run.call_ids.update([call.id for call in message.tool_calls])
    run.frame_digest = state.frame_digest
    run.reminders = [one for one in state.reminders if one.lasts]
    _recall(run, state.session_memory)


async def take_up(run: Run, state: Standing) -> tuple[Stage, Finish | None]:
    """Go on with a run where it stopped."""
    continue_session(run, state)
    run.frames = frozenset(state.frames)
    _recall(run, state.run_memory)
    run.first_entry = state.first_entry
    run.iteration, run.number = state.iteration, state.number
    run.input_tokens, run.output_tokens = state.input_tokens, state.output_tokens
    run.reminders = state.reminders
    tokens = state.input_tokens + state.output_tokens
    run.ledger.restore(state.iteration, tokens, state.usd, state.at_work(run.plan.concurrency))
    run.turn = turn = state.turn
    if turn is not None and turn.open:
        run.held = list(state.view.held)
        run.answers, run.host_results = state.answers, state.host_results
        run.asked = state.asked
        for call in turn.calls:
            if call.id not in turn.results:
                _stand(run, turn, call, state)
    return state.stage, state.finish


def _stand(run: Run, turn: Turn, call: ToolCall, state: Standing) -> None:
    """A call without a result: ready to run again, to be gated, or lost with its outcome unknown."""
    decided, intended = state.decided.get(call.id), state.intended.get(call.id)
    tool = run.tools.get(call.name)
    if decided is None or decided.action != "allow":
        return
    host = tool is not None and tool.handler is None
    if intended is not None and intended.effect == "plain" and not host:
        turn.started.add(call.id)
        settle(run, turn, call, unanswered(run, turn, call, "the process ended"))
        return
    if tool is None:
        return  # a policy brings it, or it is gone: the gate will see
    arguments = own(call.arguments if decided.arguments is None else decided.arguments)
    if digest_of(arguments) != decided.digest:
        return  # the record does not have what was decided (a secret was taken out): decide again
    call = msgspec.structs.replace(call, arguments=arguments)
    attempt = intended.attempt + 1 if intended is not None else 1
    turn.ready[call.id] = Ready(call, tool, attempt)


def _recall(run: Run, memories: dict[str, Any]) -> None:
    for policy in run.plan.policies:
        if policy.name in memories:
            value = memories[policy.name]
            kind = policy.memory
            try:
                run.memory[policy.name] = (
                    msgspec.convert(value, kind) if kind is not None else value
                )
            except msgspec.ValidationError as error:
                raise Corrupt(f"what {policy.name} remembers is damaged: {error}") from error
