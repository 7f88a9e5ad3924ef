"""The transport to a provider: a small interface, and the deadline of a request.

The HTTP client behind it is `http.py`, loaded at the first request. Nothing here knows a wire
format, and nothing here tries again: the client repeats a request once, and only when not a single
byte of an answer came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Protocol

import msgspec

from windlass.errors import BadReply, Timeout

#: A function that gets the headers of every reply, for example for rate limits in them.
heard: ContextVar[Callable[[Mapping[str, str]], None] | None] = ContextVar(
    "windlass_heard", default=None
)

MAX_REPLY: Final = 256 * 1024 * 1024  # of one reply, decompressed


UNREACHABLE: Final = "unreachable"  # code of the error where nobody listens at an address


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds: to connect, between signs of progress, and for the whole turn.

    `first` is how long the first sign may take (None: as long as `idle`). A plain reply shows no
    progress before it is complete, so it is bounded by `total` alone.
    """

    connect: float = 10.0
    idle: float = 60.0
    total: float = 120.0
    first: float | None = None


class HttpReply(Protocol):
    """A reply whose headers have arrived. `close` it in any case."""

    status: int
    headers: Mapping[str, str]  # names in lower case

    async def read(self) -> bytes:
        """Return the next piece of the body, decompressed; empty at the end."""
        ...

    def close(self) -> None:
        """Give the connection back if the body was read to its end, else drop it."""
        ...


class Transport(Protocol):
    """A sender of requests: `await transport.send("POST", url, headers, [b"{}"])`."""

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Sequence[bytes] = (),
        *,
        connect: float = 10.0,
    ) -> HttpReply: ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        ...


async def read_whole(reply: HttpReply, limit: int = MAX_REPLY) -> bytes:
    """Read the whole body: `body = await read_whole(reply)`; `BadReply` above the limit."""
    pieces: list[bytes] = []
    size = 0
    while piece := await reply.read():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise BadReply(f"the reply is larger than {limit:,} bytes")
    return b"".join(pieces)


class Deadline:
    """A time limit for a block, both since the last progress and in total.

    `with Deadline(total=120, idle=60) as deadline: … deadline.progress()`. Noting progress is an
    assignment: the timer looks at it when it is due, so a thousand deltas arm no timer.
    """

    __slots__ = (
        "_cancelling",
        "_end",
        "_expired",
        "_idle",
        "_last",
        "_loop",
        "_now",
        "_start",
        "_task",
        "_timer",
        "_waits",
    )

    def __init__(
        self, *, total: float | None, idle: float | None = None, first: float | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._start = self._last = self._now()
        self._end = None if total is None else self._start + total
        self._idle = idle
        self._waits = first if first is not None else idle  # until the first progress
        self._expired: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    def progress(self) -> None:
        """Restart the idle time: something meaningful arrived."""
        self._last = self._now()
        self._waits = self._idle

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a Deadline bounds a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._arm()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._expired is None:
            return
        # as in asyncio.timeout: a cancellation that came from outside at the same time wins
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Timeout(self._expired) from None

    def _due(self) -> float | None:
        silent = None if self._waits is None else self._last + self._waits
        if silent is None or self._end is None:
            return self._end if silent is None else silent
        return min(silent, self._end)

    def _arm(self) -> None:
        due = self._due()
        if due is not None:
            self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        due, now = self._due(), self._now()
        if due is None or now < due:
            self._arm()
            return
        if self._end is not None and now >= self._end:
            self._expired = f"the turn was not finished after {self._end - self._start:g} s"
        else:
            self._expired = f"the stream was silent for {self._waits:g} s"
        self._task.cancel()


#: Raised in place of every request while it is set; see `windlass.testing.no_model_requests`.
forbid: Exception | None = None
