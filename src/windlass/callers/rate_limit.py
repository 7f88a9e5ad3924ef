"""`with_rate_limit`: all runs together keep a provider's pace, in order of arrival.

A gate stands before each model, for each tenant, address and key (`scope.py`). Calls pass it in the order they came. What is known in advance (so
many requests or tokens a minute) is kept exactly, over any sixty seconds. What is not is learned: a
provider that says 429 closes the gate for as long as it asks, the call goes back to its place in the
line, and the gate opens again a little, not for everybody at once. What the provider says of its
limits with each answer (`…ratelimit-remaining…`) is kept too.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Mapping

from windlass import seams
from windlass.callers.caller import Layer
from windlass.callers.common import tokens_of, who
from windlass.callers.options import number, takes_a_dict, whole
from windlass.callers.scope import ScopedStates, scope_of
from windlass.errors import RateLimited
from windlass.events import StreamRestarted
from windlass.models.base import Emit, Holding, Model, Request, Response
from windlass.models.transport.base import heard
from windlass.models.transport.errors import seconds
from windlass.models.wrappers.base import EmitTracker

MINUTE = 60.0
SLOW_START = 16.0  # calls under way at first; each answer makes room for one more
_numbers = itertools.count()


class Ticket:
    """A call's place in the queue, which it keeps until it is answered."""

    __slots__ = ("admitted_at", "loop", "number", "since", "tokens", "woken")

    def __init__(self, tokens: int) -> None:
        self.number, self.tokens = next(_numbers), tokens
        self.loop = asyncio.get_running_loop()
        self.since = self.admitted_at = seams.monotonic()
        self.woken: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Wake the call to check whether it is its turn."""
        if self.woken is not None and not self.woken.done():
            self.woken.set_result(None)


class Window:
    """A limit over any sixty seconds."""

    __slots__ = ("limit", "log", "used")

    def __init__(self, limit: float) -> None:
        self.limit, self.used = limit, 0.0
        self.log: deque[tuple[float, float]] = deque()

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until there is room; a larger amount fits an empty window."""
        while self.log and self.log[0][0] <= now - MINUTE:
            self.used -= self.log.popleft()[1]
        over = self.used + min(amount, self.limit) - self.limit
        if over <= 1e-9:
            return 0.0
        for at, spent in self.log:
            over -= spent
            if over <= 1e-9:
                return max(at + MINUTE - now, 1e-6)
        return 0.0

    def take(self, amount: float, now: float) -> None:
        """Use some of the limit."""
        self.log.append((now, amount))
        self.used += amount


class Gate:
    """The pace of one model, shared by the runs of a scope."""

    def __init__(self, requests: float | None, tokens: float | None) -> None:
        self.requests = Window(requests) if requests is not None else None
        self.tokens = Window(tokens) if tokens is not None else None
        self.line: list[tuple[int, Ticket]] = []
        self.under_way = 0
        self.room = SLOW_START  # for calls under way
        self.interval = 0.0  # seconds between two calls, once the provider has complained
        self.last = self.cut_at = float("-inf")
        self.closed_until = 0.0
        self.complaints = 0  # in a row
        self.answers = 0  # since the last complaint
        self.left: dict[str, tuple[float, float]] = {}  # kind: what is left, until when
        self._lock = threading.RLock()  # event loops of several threads may share a gate

    async def enter(self, ticket: Ticket) -> None:
        """Wait for the call's turn."""
        entry = (ticket.number, ticket)
        with self._lock:
            heapq.heappush(self.line, entry)
        try:
            while (wait := self._turn(ticket)) != 0:
                ticket.woken = ticket.loop.create_future()
                timer = ticket.loop.call_later(wait, ticket.wake) if wait is not None else None
                try:
                    await ticket.woken
                finally:
                    if timer is not None:
                        timer.cancel()
        except BaseException:
            with self._lock:
                self.line.remove(entry)
                heapq.heapify(self.line)
            self._wake_first()
            raise
        self._wake_first()

    def _turn(self, ticket: Ticket) -> float | None:
        """Return 0 to go, the seconds after which to check again, or None to wait for a wake-up."""
        with self._lock:
            if self.line[0][1] is not ticket or self.under_way >= int(self.room):
                return None
            now = seams.monotonic()
            wait = max(self.closed_until - now, self.last + self.interval - now, 0.0)
            if self.requests is not None:
                wait = max(wait, self.requests.wait(1, now))
            if self.tokens is not None:
                wait = max(wait, self.tokens.wait(ticket.tokens, now))
            for kind, (left, until) in list(self.left.items()):
                if until <= now:
                    del self.left[kind]
                elif left < (1 if kind == "requests" else ticket.tokens):
                    wait = max(wait, until - now)
            if wait > 0:
                return wait
            heapq.heappop(self.line)
            self.under_way += 1
            self.last = ticket.admitted_at = now
            if self.requests is not None:
                self.requests.take(1, now)
            if self.tokens is not None:
                self.tokens.take(ticket.tokens, now)
            for kind, (left, until) in self.left.items():
                self.left[kind] = (left - (1 if kind == "requests" else ticket.tokens), until)
            return 0

    def is_idle(self) -> bool:
        """Check that no call waits or runs, and that nothing is to be remembered."""
        with self._lock:
            now = seams.monotonic()
            windows = (self.requests, self.tokens)
            return (
                not self.line
                and not self.under_way
                and max(self.closed_until, self.last + MINUTE) <= now
                and all(
                    one is None or not one.log or one.log[-1][0] <= now - MINUTE for one in windows
                )
            )

    def leave(self) -> None:
        """Record that a call has ended."""
        with self._lock:
            self.under_way -= 1
        self._wake_first()

    def on_answer(self, ticket: Ticket, tokens: int) -> None:
        """Speed up a little after an answer of the provider."""
        with self._lock:
            self.complaints = 0
            self.answers += 1
            self.room += 1
            self.interval = self.interval * 0.98 if self.interval > 0.001 else 0.0
            if self.tokens is not None and tokens > ticket.tokens:
                self.tokens.take(tokens - ticket.tokens, seams.monotonic())

    def on_rate_limited(self, ticket: Ticket, retry_after: float | None) -> None:
        """Close the gate after a 429 for as long as the provider asks, and reopen slowly."""
        with self._lock:
            now = seams.monotonic()
            if ticket.admitted_at >= self.cut_at:  # else it was sent before the limit was known
                self.complaints += 1
                self.room = max(1.0, min(self.room, self.under_way) / 2)
                if self.answers and self.cut_at > 0:
                    pace = (now - self.cut_at) / self.answers
                    self.interval = max(pace * 1.1, self.interval)
                self.cut_at, self.answers = now, 0
            if retry_after is None or retry_after < 0.01:
                retry_after = (
                    min(2.0 ** min(self.complaints - 1, 6), MINUTE) if self.complaints else 1.0
                )
            self.closed_until = max(self.closed_until, now + retry_after)

    def hear(self, headers: Mapping[str, str]) -> None:
        """Read the remaining limits from the headers of a reply."""
        for kind in ("requests", "tokens"):
            limits = [
                limit
                for name in headers
                if (limit := _parse_remaining(name, kind, headers)) is not None
            ]
            if limits:
                left, wait = min(limits)
                with self._lock:
                    others = max(self.under_way - 1, 0) if kind == "requests" else 0
                    until = seams.monotonic() + min(wait, MINUTE)
                    self.left[kind] = (left - others, until)

    def _wake_first(self) -> None:
        with self._lock:
            ticket = self.line[0][1] if self.line else None
        if ticket is None:
            return
        if ticket.loop is asyncio.get_running_loop():
            ticket.wake()
        else:
            try:
                ticket.loop.call_soon_threadsafe(ticket.wake)
            except RuntimeError:  # its loop is closed: nothing waits there any more
                with self._lock:
                    self.line = [entry for entry in self.line if entry[1] is not ticket]
                    heapq.heapify(self.line)
                self._wake_first()


def _parse_remaining(
    name: str, kind: str, headers: Mapping[str, str]
) -> tuple[float, float] | None:
    """Parse a header with the remaining amount of a kind; return it and its seconds.

    The limit on replies (`output`) is not tracked.
    """
    if "ratelimit" not in name or "remaining" not in name or kind not in name or "output" in name:
        return None
    wait = seconds(headers.get(name.replace("remaining", "reset"), ""))
    try:
        return (float(headers[name]), wait) if wait is not None else None
    except ValueError:
        return None


class RateLimitedModel(Holding):
    """A model behind its gate."""

    def __init__(self, model: Model, layer: RateLimit) -> None:
        super().__init__(model)
        self.layer, self.max_wait = layer, layer.max_wait

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the answer when it is this call's turn; a refused call keeps its place."""
        gate = self.layer.gates.get(scope_of(self.model))
        ticket = Ticket(tokens_of(request))
        while True:
            await self._enter(gate, ticket)
            watched = EmitTracker(emit)
            listening = heard.set(_listener(gate))
            try:
                response = await self.model.respond(request, watched)
            except RateLimited as error:
                gate.on_rate_limited(ticket, error.retry_after)
                waits = gate.closed_until - ticket.since
                if waits > self.max_wait:
                    raise
                if watched.anything:
                    emit(StreamRestarted(f"{error.category}: {error}"))
            else:
                gate.on_answer(ticket, response.usage.input_tokens + response.usage.output_tokens)
                return response
            finally:
                heard.reset(listening)
                gate.leave()

    async def _enter(self, gate: Gate, ticket: Ticket) -> None:
        left = ticket.since + self.max_wait - seams.monotonic()
        try:
            async with asyncio.timeout(left):
                await gate.enter(ticket)
        except TimeoutError:
            raise RateLimited(
                f"no turn for {who(self.model)} within {self.max_wait:g} s: "
                f"{len(gate.line)} calls wait",
                provider=self.provider,
                model=self.name,
                retry_after=self.max_wait,
            ) from None


def _listener(gate: Gate) -> Callable[[Mapping[str, str]], None]:
    """Build a listener for the headers of this call, not of calls that its tools make."""
    task = asyncio.current_task()

    def hear(headers: Mapping[str, str]) -> None:
        if asyncio.current_task() is task:
            gate.hear(headers)

    return hear


class RateLimit(Layer):
    """The layer of `with_rate_limit`, with one gate for each scope."""

    name = "with_rate_limit"

    def __init__(self, requests: float | None, tokens: float | None, max_wait: float) -> None:
        self.requests, self.tokens, self.max_wait = requests, tokens, max_wait
        self.gates = ScopedStates(lambda: Gate(requests, tokens), Gate.is_idle)

    def wrap(self, model: Model) -> Model:
        """Wrap the model in its gate."""
        return RateLimitedModel(model, self)


@takes_a_dict
def with_rate_limit(
    *,
    requests_per_minute: float | None = None,
    tokens_per_minute: int | None = None,
    max_wait: float = 600.0,
) -> Layer:
    """Keep a provider's rate limit over all runs: `with_rate_limit(requests_per_minute=50)`.

    Calls are made in the order in which they came. The limits hold for any sixty seconds, per
    model, tenant, address and key, so no tenant waits for another. Without numbers the layer learns
    from the provider's answers. A call that gets a 429 keeps its place and is made again; after
    `max_wait` seconds of waiting it raises `RateLimited`. Put it inside `with_retry`, and share the
    layer between runs with the same key.
    """
    return RateLimit(
        None
        if requests_per_minute is None
        else number("requests_per_minute", requests_per_minute, 1),
        None if tokens_per_minute is None else float(whole("tokens_per_minute", tokens_per_minute)),
        number("max_wait", max_wait),
    )
