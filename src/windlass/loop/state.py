"""State of a run: its tool calls, what the model is shown, and its host.

The loop's own state, apart from what a `Run` offers to policies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor, Future
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

import msgspec

from windlass.errors import StoreError
from windlass.events import Reminded, ToolDecided
from windlass.json_types import JsonObject
from windlass.loop.resume_input import Decision
from windlass.loop.sinks import Sink, Watcher
from windlass.messages import Message, ToolResult, characters
from windlass.models.base import Frame, Request, Strand, View, silent
from windlass.models.estimates import weigh_frame
from windlass.records import Record
from windlass.usage import Usage

T = TypeVar("T")
EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


class Timer(Protocol):
    """The time limit of the tool calls in a run's own task."""

    task: asyncio.Task[Any]
    seconds: float
    missed: bool  # the limit has passed, and the task was cancelled

    def begin(self, seconds: float, started: float) -> None:
        """Begin the limit of a call that starts."""
        ...

    def cancel(self) -> None:
        """End the limit: the call is over."""
        ...

    def stop(self) -> None:
        """Stop the timer: the run is over."""
        ...


class PendingCall(Record, frozen=True, omit_defaults=True):
    """A call that waits: for the host to run it, or for someone to allow it."""

    id: str  # of the call; of a sub-agent's call with the calls on the way: `call_1/call_2`
    name: str
    arguments: JsonObject
    reason: str
    details: tuple[str, ...] = ()  # of a question of flow control: each value and its origin
    diff: str | None = None  # what a call that writes a file would change
    path: tuple[str, ...] = ()  # of a sub-agent's call: the tools that were called on the way
    session_id: str | None = None  # of the sub-agent


class CallState(msgspec.Struct, eq=False):
    """Tool calls of a run: what they wait for, hold, and have left behind."""

    ids: set[str] = set()  # of every call in the session
    durations_ms: dict[str, float] | None = None  # until the result is on record
    # Most runs have none of what follows: these are replaced, and never changed in place.
    answers: Mapping[str, Mapping[str, Decision]] = EMPTY  # to calls that asked someone
    questions: Mapping[str, ToolDecided] = EMPTY  # an earlier drive parked with them, unanswered
    early_reads: Mapping[str, asyncio.Task[Any]] = EMPTY  # that started while the model wrote
    host_results: Mapping[str, ToolResult] = EMPTY  # of calls that the host runs
    committed: Mapping[str, ToolResult] = EMPTY  # results stored with the effect of their call
    commits: Mapping[str, asyncio.Future[None]] = EMPTY  # under way; done when one has ended
    # Commits that the store could not write: each ends the run, whatever the tool makes of it.
    unwritten: Mapping[str, StoreError] = EMPTY
    coercions: Mapping[str, tuple[str, ...]] = EMPTY  # what was mended, until the result
    errors: Mapping[str, BaseException] = EMPTY  # what handlers raised, until the result
    start_times: Mapping[str, float] = EMPTY  # of calls that may commit
    lingering: frozenset[asyncio.Task[Any]] = frozenset()  # cancelled, and not over yet
    threads: AbstractSet[Future[Any]] = frozenset()  # at work for synchronous tools
    timer: Timer | None = None  # of the calls in the run's own task
    pool: Executor | None = None  # the run's share of the host's threads
    children: Mapping[str, tuple[Usage, float]] = {}  # what each child's tree spent, by session
    below: Mapping[
        str, Sequence[PendingCall]
    ] = {}  # of sub-agents, by the call that waits for them

    def linger(self, task: asyncio.Task[Any]) -> None:
        """Keep track of a cancelled task until it is over; the session stays held."""
        self.lingering |= {task}
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.lingering -= {task}


def without(mapping: Mapping[str, T], key: str) -> Mapping[str, T]:
    """Return the mapping without a key: `calls.errors = without(calls.errors, call_id)`."""
    return {other: value for other, value in mapping.items() if other != key}


class ViewState(msgspec.Struct, eq=False, gc=False):
    """What the model is shown: messages, those held back, and the frame around them."""

    frame: Frame
    strand: Strand = msgspec.field(default_factory=Strand)
    held: tuple[Message, ...] = ()  # added while calls were open; they follow the results
    reminders: tuple[Reminded, ...] = ()  # each with the requests that it still has to go
    rewritten: Sequence[Message] = ()  # the last request of the loop that was not the view
    frame_digest: str = ""  # of the frame on record; empty: none is
    recorded_frame: Frame | None = None  # the frame of that digest
    digests: frozenset[str] = frozenset()  # of frames that were on record before
    weighed: tuple[Strand, int, int] | None = None  # a strand, its first messages, their characters

    def count_characters(self, strand: Strand, size: int) -> int:
        """Count the characters of a strand's first messages; what was counted stays counted."""
        known, counted = 0, 0
        if self.weighed is not None and self.weighed[0] is strand and self.weighed[1] <= size:
            _, known, counted = self.weighed
        if known < size:
            counted += characters(strand.items[known:size])
        self.weighed = (strand, size, counted)
        return counted

    def estimate(self, request: Request) -> int:
        """Estimate the tokens of a request; what was counted stays counted."""
        messages = request.messages
        weight = weigh_frame(request.frame) + characters(request.tail)
        if type(messages) is View:
            weight += self.count_characters(messages.strand, len(messages))
        else:
            weight += characters(messages)
        return weight // 4 + 1


class ThreadOwner(Protocol):
    """Gives the threads for synchronous tools."""

    def pool(self) -> Executor:
        """Return the threads."""
        ...


class HostState(msgspec.Struct, eq=False):
    """What ties a run to its program: its event loop, its threads, and its observers."""

    loop: asyncio.AbstractEventLoop
    thread: int  # of the event loop
    owner: ThreadOwner
    show: Sink = silent
    task: asyncio.Task[Any] | None = None  # that drives the run
    receipts: tuple[Watcher, ...] = ()  # awaited before the next turn
    drains: tuple[Callable[[float | None], Awaitable[None]], ...] = ()
    request_id: str | None = None  # as the host names the request, for the books
    conversation_id: str | None = None
    elapsed: float = 0.0  # seconds that the run has taken, once it is over
    took_over: bool = False  # from a writer that was alive: its children's sessions too
    keeps_waiting: bool = False  # children that wait for a condition stay parked until it holds
