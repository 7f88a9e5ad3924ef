"""Streams of a run. A stream only observes: the run has its own task."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, Literal, TypeVar

from windlass.detach import detach
from windlass.engine.driver import Start, conduct
from windlass.engine.environment import Environment
from windlass.engine.results import RunResult
from windlass.engine.stream_events import RunEvent, StreamEvent, StreamEventAdapter
from windlass.errors import ConfigError
from windlass.events import Event, Replied, RunEnded, TextDelta
from windlass.loop.abort import Abort
from windlass.loop.verdict import Outcome
from windlass.output.partial_view import PartialValue
from windlass.output.protocol import Answering

Result = TypeVar("Result", bound=RunResult)


class _Pipe:
    """A queue of events from the run to a reader; emitting is an append."""

    __slots__ = ("events", "finished", "waiter")
    trusted = True

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.waiter: asyncio.Future[None] | None = None
        self.finished = False

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if self.waiter is not None:
            self.wake()

    def wake(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def more(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            raise RuntimeError("somebody reads this stream already; events go to one reader")
        self.waiter = asyncio.get_running_loop().create_future()
        await self.waiter


class RunStream(Generic[Result]):
    """A running agent: `async with agent.stream("…") as run: async for text in run.text(): …`."""

    def __init__(
        self,
        begin: Callable[[_Pipe], Awaitable[Start]],
        finish: Callable[[Start, Outcome], Result],
        environment: Environment,
        *,
        abort: Abort | None = None,
        timeout: float | None = None,
    ) -> None:
        self._begin, self._finish, self._environment = begin, finish, environment
        self._abort, self._timeout = abort, timeout
        self._leave = Abort()
        self._pipe = _Pipe()
        self._streamed = False  # a reader has seen pieces of the reply that is being written
        self._started: Start | None = None
        self._task: asyncio.Task[Outcome] | None = None

    async def __aenter__(self) -> RunStream[Result]:
        if self._started is not None:
            raise RuntimeError("a stream is one run: call agent.stream(…) again for another")
        self._started = await self._begin(self._pipe)
        loop = asyncio.get_running_loop()
        driving = conduct(
            self._started,
            self._environment,
            abort=self._abort,
            leave=self._leave,
            timeout=self._timeout,
        )
        self._task = loop.create_task(driving)
        self._task.add_done_callback(self._on_task_done)
        return self

    async def __aexit__(self, *_: object) -> None:
        task = self._task
        assert task is not None
        self._leave.abort("the stream was left")  # a run that has ended takes no notice
        cancelled = False
        while not task.done():  # its end is recorded first
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    def _on_task_done(self, task: asyncio.Task[Outcome]) -> None:
        self._pipe.finished = True
        self._pipe.wake()
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it; result() raises it

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield every event, as it happens."""
        self._check_entered()
        pipe, events = self._pipe, self._pipe.events
        while True:
            while events:  # one by one: what a reader leaves is there for the next
                event = events.popleft()
                if type(event) is TextDelta:
                    self._streamed = True
                elif type(event) is Replied and event.purpose is None:
                    self._streamed = False
                yield detach(event)
            if pipe.finished:
                return
            await pipe.more()

    async def text(self) -> AsyncIterator[str]:
        """Yield the text of the answer in pieces; in one piece if the model does not stream.

        If a reply broke off and is requested again, its text comes again; `StreamRestarted` among
        the events says where.
        """
        self._check_entered()
        pipe, events = self._pipe, self._pipe.events
        while True:
            while events:
                event = events.popleft()
                if type(event) is TextDelta:
                    self._streamed = True
                    yield event.text
                elif type(event) is Replied and event.purpose is None:
                    streamed, self._streamed = self._streamed, False
                    if not streamed and (whole := event.message.text):
                        yield whole
            if pipe.finished:
                return
            await pipe.more()

    async def partial(self) -> AsyncIterator[PartialValue[Any]]:
        """Yield a typed answer as far as it has come: `async for partial in run.partial(): …`

        A reader that is slower than the model gets the newest value only. The last one `is_complete`.
        """
        run = self._check_entered().run
        typed = next((each for each in run.plan.policies if isinstance(each, Answering)), None)
        if typed is None:
            raise ConfigError("partial() shows a typed answer: give the agent an output type")
        view = typed.build_partial_view((run.plan.metadata or {}).get("sentinel"))
        pipe, events = self._pipe, self._pipe.events
        while True:
            while events:
                if (mark := view.feed(events.popleft())) is not None:
                    yield mark
            if view.has_more and (newest := view.show()) is not None:
                yield newest
            if pipe.finished and not events:
                return
            if not events:
                await pipe.more()

    async def events(
        self,
    ) -> AsyncIterator[RunEvent | StreamEvent[Literal["done"], Result]]:
        """Yield the run as seven kinds of events: `event.type`, `event.data`; `done` is the last.

        Read either these, all events (`async for event in run`), or the text.
        """
        started = self._check_entered()
        view = StreamEventAdapter(started.run.plan.name or "unknown", self._streamed)
        async for event in self:
            for told in view.read(event):
                yield told
        result = await self.result()
        if result.budget_exceeded and not view.over_budget:  # of seconds: they run out on their own
            seconds = started.run.ledger.limits.seconds or 0.0
            yield view.budget_event("seconds", seconds, seconds)
        elif (error := result.exception) is not None and not result.budget_exceeded:
            yield StreamEvent("error", error)
        yield StreamEvent("done", result)

    async def result(self) -> Result:
        """Wait for the end, and return the result."""
        started = self._check_entered()
        assert self._task is not None
        return self._finish(started, await asyncio.shield(self._task))

    async def steer(self, text: str) -> None:
        """Send a message that the model reads before its next call."""
        await self._post("steer", text)

    async def follow_up(self, text: str) -> None:
        """Send a message that the model reads when the run would end."""
        await self._post("follow_up", text)

    async def cancel(self, reason: str = "cancelled") -> None:
        """Cancel the run; its status is then `cancelled`. An ended run is not changed."""
        if type(self._check_entered().run.journal.entries[-1]) is not RunEnded:
            await self._post("cancel", reason)

    @property
    def session_id(self) -> str:
        """The session it runs on."""
        return self._check_entered().run.session_id

    async def _post(self, kind: Any, text: str) -> None:
        run = self._check_entered().run
        cleaned = text if run.redactor is None else run.redactor.text(text)
        await run.store.post(self.session_id, kind, cleaned)

    def _check_entered(self) -> Start:
        if self._started is None:
            raise RuntimeError(
                "a stream begins with its block: `async with agent.stream(…) as run:`"
            )
        return self._started
