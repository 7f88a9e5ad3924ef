"""Reads that start while the model still writes.

The leading run of calls whose tools only read may start early: each is decided first, in order, and
the first that is not a plain yes ends it. A start is silent until the whole reply has passed; what
the reply does not contain in the end is cancelled and its result thrown away.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from windlass.events import Event, StreamRestarted, ToolCallReady, ToolIntended
from windlass.loop.calls import PATIENCE, execute
from windlass.loop.gate import decide
from windlass.loop.reply import writable
from windlass.loop.run import Run
from windlass.loop.turn import Ready, Turn
from windlass.loop.verdict import Suspend
from windlass.messages import ToolCall, ToolResult
from windlass.tools.tool import Parked


class Eager:
    """The early starts of one reply."""

    __slots__ = ("closed", "deciding", "failed", "queue", "reads", "refused", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.queue: list[ToolCall] = []
        self.reads: list[tuple[ToolCall, Ready, asyncio.Task[ToolResult | Parked]]] = []
        self.deciding: asyncio.Task[None] | None = None
        self.refused: tuple[ToolCall, ToolResult | Suspend] | None = None
        self.failed: Exception | None = None  # what a policy raised fails the run, in its turn
        self.closed = False

    def watch(self, event: Event) -> None:
        """Pass every event on; a call that is ready may start."""
        self.run.emit(event)
        kind = type(event)
        if kind is ToolCallReady and not self.closed:
            self._consider(event.call)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
        elif kind is StreamRestarted:
            self.closed = True  # what was streamed is void; the rest is not worth the risk

    def _consider(self, call: ToolCall) -> None:
        if threading.get_ident() != self.run.host.thread:  # a model may stream from another task
            self.run.host.loop.call_soon_threadsafe(self._consider, call)
            return
        tool = self.run.tools.get(call.name) if writable(call) and not self.closed else None
        if tool is None or tool.effect != "read_only" or tool.handler is None:
            self.closed = True
            return
        self.queue.append(call)
        if self.deciding is None or self.deciding.done():
            self.deciding = self.run.host.loop.create_task(self._start_queued())

    async def _start_queued(self) -> None:
        run = self.run
        while self.queue and not self.closed:
            call = self.queue.pop(0)
            busy = sum(not task.done() for _, _, task in self.reads)
            again = call.id in run.calls.ids or any(call.id == read.id for read, _, _ in self.reads)
            too_many = len(self.reads) >= run.plan.max_calls_per_reply
            if busy >= run.plan.concurrency or again or too_many or not call.id:
                self.closed = True
                return
            try:
                decided = await decide(run, call)
            except Exception as error:
                self.closed, self.failed = True, error
                return
            if not isinstance(decided, Ready):
                self.closed, self.refused = True, (call, decided)
                return
            run.record(ToolIntended(call.id, call.name, "read_only", 1, True))
            self.reads.append((call, decided, run.host.loop.create_task(execute(run, decided))))

    async def hand_over(self, turn: Turn) -> None:
        """Add the reads that the whole reply contains to its turn, and cancel the rest."""
        self.closed = True
        if self.deciding is not None:
            await asyncio.wait({self.deciding})
        if self.failed is not None:
            raise self.failed
        # a read that started early and stands after the limit in the whole reply is thrown away
        within_limit = turn.calls[: self.run.plan.max_calls_per_reply]
        asked = {call.id: (call.name, call.arguments) for call in within_limit}
        reads, self.reads = self.reads, []
        for call, ready, task in reads:
            if asked.get(call.id) == (call.name, call.arguments):
                turn.ready[call.id] = ready
                turn.started += (call.id,)
                calls = self.run.calls
                calls.early_reads = {**calls.early_reads, call.id: task}
            else:
                self.reads.append((call, ready, task))
        if self.refused is not None:
            call, answer = self.refused
            if asked.get(call.id) == (call.name, call.arguments):
                turn.foreseen = {call.id: answer}
        if self.reads:
            self.throw_away()
            await asyncio.wait([task for _, _, task in self.reads], timeout=PATIENCE)

    def throw_away(self) -> None:
        """Cancel the reads that the reply does not contain; they are gone before the run ends."""
        self.closed = True
        tasks: list[asyncio.Task[Any]] = [task for _, _, task in self.reads]
        if self.deciding is not None:
            tasks.append(self.deciding)
        for task in tasks:
            if not task.done():
                task.cancel()
                self.run.calls.linger(task)
