"""Recorded effects of policies, repeated for replays without the policies."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from windlass.errors import ModelError
from windlass.events import (
    IterationEnd,
    JournalEntry,
    Reminded,
    Replied,
    ReplyFailed,
    Reshaped,
    Said,
)
from windlass.json_types import JsonObject
from windlass.loop.policy import Policy, TryAgain
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Stop, Verdict
from windlass.messages import ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request
from windlass.tools.tool import Tool


class RunRecord(Protocol):
    """The part of a run's record that this needs."""

    requests: dict[int, Request]
    calls: list[tuple[int, Replied | ReplyFailed]]
    shown: dict[str, ToolResult]
    verdicts: dict[int, IterationEnd]
    between: dict[int, list[JournalEntry]]
    run: Any


class AsRecorded(Policy[Any]):
    """A policy that repeats the recorded messages, reshapes and decisions, turn by turn.

    The frame, the tail and rewritten messages of a request are the record's own; all that the
    kernel makes of replies, results and words is made anew. `replaced` is the frame that somebody
    wants to try another in place of.
    """

    def __init__(self, record: RunRecord, replaced: Frame | None, before: int = 0) -> None:
        self.record, self.replaced, self.before = record, replaced, before
        self.turns = [
            n for n, entry in record.calls if type(entry) is Replied and entry.purpose is None
        ]

    def _next(self, run: Run) -> int | None:
        """Return the number of the entry that answers the next request."""
        asked = run.iteration - self.before
        return self.turns[asked] if asked < len(self.turns) else None

    async def before_turn(self, run: Run) -> Stop | None:
        """Repeat what was said since the last reply; end where the record does."""
        number = self._next(run)
        if number is None and not self._fails():
            ended = self.record.run.ended
            return None if ended is None else Stop(ended.status, ended.stop_reason, ended.error)
        for entry in self._since(number):
            match entry:
                case Said() if entry.message.kind not in (None, "continue"):
                    run.hear(entry.message)
                case Reminded():
                    run.add_reminder(entry)
                case Reshaped() if entry.why != "history_repaired":
                    run.reshape((entry.start, entry.stop), entry.messages, entry.why)
                case _:
                    pass
        return None

    def _fails(self) -> bool:
        """Check whether the last recorded call failed."""
        last = self.turns[-1] if self.turns else -1
        return any(
            at > last and type(entry) is ReplyFailed and entry.purpose is None
            for at, entry in self.record.calls
        )

    def _since(self, number: int | None) -> list[JournalEntry]:
        """Return the entries since the last turn's reply: a judge's call does not count."""
        gathered: list[JournalEntry] = []
        number = self.record.calls[-1][0] if number is None else number
        for at, entry in self.record.calls:
            if at <= number:
                gathered = [*gathered, *self.record.between[at]]
            if at < number and entry.purpose is None and type(entry) is Replied:
                gathered = []
        return gathered

    async def before_model(self, run: Run, request: Request) -> Request:
        """Restore the parts of the request that policies had shaped."""
        number = self._next(run)
        recorded = self.record.requests.get(number) if number is not None else None
        if recorded is None:
            return request
        frame = recorded.frame
        if self.replaced is not None and frame == self.replaced:
            frame = run.plan.frame
        reply = dict(self.record.calls)[number or 0]
        messages = request.messages
        if isinstance(reply, Replied) and reply.rewritten is not None:
            messages = recorded.messages
        return msgspec.structs.replace(request, messages=messages, frame=frame, tail=recorded.tail)

    async def on_model_error(self, run: Run, error: ModelError) -> TryAgain | None:
        """Try again, where the record goes on with a reply."""
        return TryAgain() if self._next(run) is not None else None

    async def after_reply(self, run: Run, turn: Turn) -> KeepGoing | None:
        """Drop a reply that was dropped in the record."""
        verdict = self.record.verdicts.get(turn.number)
        if verdict is not None and verdict.verdict == "dropped":
            return KeepGoing(verdict.reason, drop=True)
        return None

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the result as the model was shown it."""
        return self.record.shown.get(call.id, result)

    async def after_turn(self, run: Run, turn: Turn) -> Verdict | None:
        """Repeat the recorded decision."""
        verdict = self.record.verdicts.get(turn.number)
        if verdict is None:
            return KeepGoing() if self._next(run) is not None else None
        match verdict.verdict:
            case "finish":
                return Finish(verdict.reason or "natural", verdict.status or "done")
            case "stop":
                return Stop(verdict.status or "stopped", verdict.reason)
            case _:
                return KeepGoing(verdict.reason)


def stand_in(spec: ToolSpec) -> Tool:
    """Build a tool that is only recorded: it takes anything, and is never run."""

    async def never(_arguments: JsonObject) -> str:
        raise AssertionError("a recorded tool does not run")

    return Tool(
        name=spec.name, description=spec.description, parameters={"type": "object"}, handler=never
    )
