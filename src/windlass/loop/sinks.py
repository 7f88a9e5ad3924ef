"""Observers of a run: they see its events without secrets, and cannot fail or delay it.

A callback may be async: what it awaits goes on beside the run, in order, and is over before the run
returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias

from windlass.detach import detach
from windlass.events import (
    AnswerDelta,
    Event,
    Replied,
    ReplyFailed,
    StreamRestarted,
    TextDelta,
    ThinkingDelta,
)

if TYPE_CHECKING:
    from windlass.redaction.redactor import Redactor

Sink: TypeAlias = Callable[[Event], None]
REPLY_ENDS = (Replied, ReplyFailed)
_TEXTS = frozenset(
    {TextDelta, ThinkingDelta, AnswerDelta}
)  # most events, and nothing in them can be changed

log = logging.getLogger("windlass")


def fan_out(sinks: Sequence[Sink]) -> Sink:
    """Join several sinks in one; what a sink raises is logged and goes no further."""
    if len(sinks) == 1 and getattr(sinks[0], "trusted", False):
        return sinks[0]

    def show(event: Event) -> None:
        for sink in sinks:
            try:
                sink(event)
            except Exception:
                log.exception("a sink failed on %s; the run goes on", type(event).__name__)

    return show


class Watcher:
    """A callback as a sink. `look(event)` calls it for its events and returns its answer."""

    __slots__ = ("_look", "_waiting", "_worker")

    def __init__(self, look: Callable[[Event], Any]) -> None:
        self._look = look
        self._waiting: deque[Awaitable[Any]] = deque()
        self._worker: asyncio.Task[None] | None = None

    def __call__(self, event: Event) -> None:
        # a copy: what is on the record, or about to run, is not theirs to change
        answer = self._look(event if type(event) in _TEXTS else detach(event))
        if answer is not None and isawaitable(answer):
            self._waiting.append(answer)
            if self._worker is None or self._worker.done():
                self._worker = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._waiting:
            try:
                await self._waiting.popleft()
            except Exception:
                log.exception("a callback failed; the run goes on")

    async def wait_until_idle(self) -> None:
        """Wait until every call so far is over; giving up harms none of them."""
        worker = self._worker
        if worker is not None and not worker.done():
            await asyncio.wait({worker})

    async def drain(self, patience: float | None = None) -> None:
        """Wait until every call is over; those that outlast the patience are cancelled."""
        worker = self._worker
        if worker is None or worker.done():
            return
        try:
            await asyncio.wait({worker}, timeout=patience)
        finally:
            if not worker.done():
                worker.cancel()
                while self._waiting:
                    close = getattr(self._waiting.popleft(), "close", None)
                    if close is not None:
                        close()


class Receipt(Watcher):
    """A watcher whose work a run waits for before its next turn, where it is told to."""

    __slots__ = ()


class CleanShow:
    """Shows live events without secrets, also where one is cut in two by the stream."""

    __slots__ = ("_answer", "_redactor", "_show", "_text", "_thinking", "_tool")

    def __init__(self, redactor: Redactor, show: Sink) -> None:
        self._redactor, self._show = redactor, show
        self._text, self._thinking = redactor.stream(), redactor.stream()
        self._answer, self._tool = redactor.stream(), ""

    def __call__(self, event: Event) -> None:
        if type(event) is TextDelta:
            if shown := self._text.feed(event.text):
                self._show(TextDelta(shown))
        elif type(event) is ThinkingDelta:
            if shown := self._thinking.feed(event.text):
                self._show(ThinkingDelta(shown))
        elif type(event) is AnswerDelta:
            self._tool = event.tool
            if shown := self._answer.feed(event.text):
                self._show(AnswerDelta(event.tool, shown))
        else:
            if type(event) is StreamRestarted:
                self._text, self._thinking = self._redactor.stream(), self._redactor.stream()
                self._answer = self._redactor.stream()
            self._show(self._redactor.value(event))

    def flush(self) -> None:
        """Show what was held back as the possible beginning of a secret: the reply is over."""
        if shown := self._thinking.flush():
            self._show(ThinkingDelta(shown))
        if shown := self._text.flush():
            self._show(TextDelta(shown))
        if shown := self._answer.flush():
            self._show(AnswerDelta(self._tool, shown))
