"""The attempts of a run, read from its journal: the same after a crash as before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from windlass.events import JournalEntry, Noted, Replied, ReplyFailed, ToolResulted
from windlass.json_types import as_object
from windlass.loop.facts import Facts, Take
from windlass.messages import ToolCall
from windlass.usage import NO_USAGE, Usage

#: The notes that mark an attempt in the journal.
STARTED: Final = "attempt_started"
ENDED: Final = "attempt_ended"
#: Outcomes of calls that were never made.
NOT_MADE: Final = frozenset({"denied", "not_run", "unknown_tool"})


class AttemptRecord(msgspec.Struct, eq=False):
    """An attempt as the journal has it."""

    number: int
    iterations: int = 0
    outputs: dict[str, ToolCall] = {}  # calls of the output tool, by id
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    is_over: bool = False
    call_id: str | None = None  # of the output that was validated
    errors: tuple[str, ...] = ()

    @property
    def last_output(self) -> ToolCall | None:
        """The last call of the output tool that counts."""
        return next(reversed(self.outputs.values()), None)

    @property
    def validated_call(self) -> ToolCall | None:
        """The call whose value was checked, or the last there is."""
        return self.last_output if self.call_id is None else self.outputs.get(self.call_id)


class AttemptHistory(Facts):
    """Every attempt of a run, in order."""

    def __init__(self, output_tool: str) -> None:
        self.output_tool = output_tool
        self.attempts: list[AttemptRecord] = []

    @property
    def current(self) -> AttemptRecord | None:
        """The attempt under way, or the last one."""
        return self.attempts[-1] if self.attempts else None

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts so far."""
        return sum([attempt.usage for attempt in self.attempts], NO_USAGE)

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {
            Noted: self._read_note,
            Replied: self._read_reply,
            ReplyFailed: self._read_price,
            ToolResulted: self._read_result,
        }

    def read(self, entries: Iterable[JournalEntry]) -> AttemptHistory:
        """Read the entries of a run that is over."""
        takes = self.takes()
        for entry in entries:
            if (take := takes.get(type(entry))) is not None:
                take(entry)
        return self

    def _read_note(self, note: Noted) -> None:
        if note.name not in (STARTED, ENDED):
            return
        data = as_object(note.data)
        number = data.get("attempt")
        if note.name == STARTED and isinstance(number, int):
            self.attempts.append(AttemptRecord(number))
        elif note.name == ENDED and self.attempts:
            ended = self.attempts[-1]
            ended.is_over, ended.call_id = True, data.get("call_id")
            ended.errors = tuple([str(error) for error in data.get("errors") or ()])

    def _read_reply(self, reply: Replied) -> None:
        self._read_price(reply)
        if reply.purpose is not None or not self.attempts:
            return
        current = self.attempts[-1]
        current.iterations += 1
        for call in reply.message.tool_calls:
            if call.name == self.output_tool:
                current.outputs[call.id] = call

    def _read_price(self, reply: Replied | ReplyFailed) -> None:
        if self.attempts:
            current = self.attempts[-1]
            current.usage += reply.usage
            current.cost_usd += reply.cost_usd

    def _read_result(self, result: ToolResulted) -> None:
        if result.outcome in NOT_MADE and self.attempts:
            self.attempts[-1].outputs.pop(result.call_id, None)
