"""A typed answer while it is being written, read from the events of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from windlass.events import AnswerDelta, Event, IterationStart, Replied, StreamRestarted, TextDelta
from windlass.json_types import is_object
from windlass.messages import Message
from windlass.output.partial import PartialReader
from windlass.output.partial_schema import PartialSchema
from windlass.output.schema import WRAPPED

if TYPE_CHECKING:
    from windlass.output.plan import Reading

Value = TypeVar("Value")


class PartialValue(msgspec.Struct, Generic[Value], frozen=True, kw_only=True):
    """The answer as far as it has come: `async for partial in run.partial(): print(partial.value)`

    While it is being written, objects are `PartialObject`s: fields that have not come are missing. With
    `is_complete` it is the answer itself, of its own type. Within one attempt nothing is taken back.
    `is_reset` says that what was shown before is void: the model answers again, in another attempt.
    """

    value: Value | Any = msgspec.UNSET
    attempt: int = 1
    is_reset: bool = False
    is_complete: bool = False


class PartialView:
    """Reads the events of a run and keeps the answer as far as it has come."""

    def __init__(
        self,
        schema: PartialSchema,
        read: Callable[[Message, str], Reading],
        *,
        tool: str,
        wrapped: bool,
    ) -> None:
        """Watch the text for the answer, and the calls of a tool, which count more."""
        self._schema, self._read = schema, read
        self._tool, self._wrapped = tool, wrapped
        self._reader, self._by_call = PartialReader(schema, begins_anywhere=True), False
        self._attempt = 1
        self._has_told = False  # something of this attempt was shown
        self.has_more = False  # there is more to show than was shown

    def feed(self, event: Event) -> PartialValue[Any] | None:
        """Take an event; return what must be shown at once: a reset, or the whole answer."""
        kind = type(event)
        if kind is TextDelta:
            assert isinstance(event, TextDelta)
            if not self._by_call and self._reader.feed(event.text):
                self.has_more = True
        elif isinstance(event, AnswerDelta):
            return self._take_arguments(event)
        elif kind is StreamRestarted or kind is IterationStart:
            return self._restart()
        elif isinstance(event, Replied) and event.purpose is None:
            return self._complete(event)
        return None

    def show(self) -> PartialValue[Any] | None:
        """Return the answer as far as it has come, if there is more than before."""
        if not self.has_more:
            return None
        self.has_more = False
        value = self._reader.snapshot()
        if self._wrapped:
            value = value.get(WRAPPED, msgspec.UNSET) if is_object(value) else msgspec.UNSET
        if value is msgspec.UNSET:
            return None
        self._has_told = True
        return PartialValue(value=value, attempt=self._attempt)

    def _take_arguments(self, event: AnswerDelta) -> PartialValue[Any] | None:
        if event.tool != self._tool:
            return None
        mark = None
        if not self._by_call:  # what looked like the answer was text beside it
            mark = self._restart()
            self._reader, self._by_call = PartialReader(self._schema), True
        if self._reader.feed(event.text):
            self.has_more = True
        return mark

    def _restart(self) -> PartialValue[Any] | None:
        """Begin another attempt; what was shown of the one before is void."""
        self._reader = PartialReader(self._schema, begins_anywhere=True)
        self._by_call = self.has_more = False
        if not self._has_told:
            return None
        self._has_told = False
        self._attempt += 1
        return PartialValue(attempt=self._attempt, is_reset=True)

    def _complete(self, reply: Replied) -> PartialValue[Any] | None:
        if reply.message.tool_calls:
            return None
        reading = self._read(reply.message, reply.stop_reason)
        if reading.problems:
            return None
        self.has_more, self._has_told = False, True
        return PartialValue(value=reading.data, attempt=self._attempt, is_complete=True)
