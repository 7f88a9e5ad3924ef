"""The model under examination: called within time and cost limits, its replies kept.

A `Tee` stands in its transport, since some facts (how a stream ends, in how many pieces arguments
come) are gone once a reply is decoded.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from windlass import seams
from windlass.errors import ModelError, Timeout
from windlass.events import LiveEvent
from windlass.json_types import JsonObject
from windlass.messages import Message, Text, ToolSpec
from windlass.models.base import Frame, Model, Request, Response, Settings
from windlass.models.registry.capabilities import Capabilities
from windlass.models.transport.base import HttpReply, Transport
from windlass.models.wires.base import HttpModel, shared_transport
from windlass.usage import Usage

T = TypeVar("T")
Status: TypeAlias = Literal["pass", "fail", "unsupported", "skipped"]
KEPT = 256 * 1024  # bytes of one reply that are looked at
LONGEST = 60.0  # seconds of one call
PATIENCE = 10.0  # seconds to wait after a rate limit
A_CALL = Usage(700, 300)  # what a probe uses, roughly; it is held against the limit before the call


class Finding(msgspec.Struct, frozen=True):
    """The finding of one probe: `Finding("tools", "pass", "one call, arguments as asked")`."""

    name: str
    status: Status
    detail: str
    seconds: float = 0.0
    facts: JsonObject = {}  # fields of the capability row that this proves


class Exchange(msgspec.Struct, frozen=True):
    """A reply, and how it arrived."""

    response: Response
    events: list[LiveEvent]
    raw: bytes
    first_s: float | None  # seconds to the first piece of the body
    total_s: float


class Enough(Exception):
    """The time or the cost limit is used up."""


class Make(Protocol):
    """A factory of the model, under another name or with another key."""

    def __call__(self, name: str | None = None, api_key: str | None = None) -> Model: ...


class ProbedModel:
    """A model that is probed: `seen = await patient.ask("Say hello.", stream=False)`."""

    def __init__(self, make: Make, *, timeout: float, max_usd: float) -> None:
        self.make = make
        self.model = make()
        self.tee = Tee()
        self.max_usd, self.spent = max_usd, 0.0
        self.calls, self.tokens = 0, 0
        self.ends = seams.monotonic() + timeout
        self.memory: JsonObject = {}  # what one probe leaves for the next

    @property
    def caps(self) -> Capabilities:
        """The capabilities known so far."""
        return self.model.capabilities

    @property
    def wire(self) -> type[HttpModel]:
        """The class of the model's wire, which defines what is particular to it."""
        return type(self.model) if isinstance(self.model, HttpModel) else HttpModel

    @property
    def is_http(self) -> bool:
        """Whether the model uses one of Windlass's HTTP wires."""
        return isinstance(self.model, HttpModel)

    def with_caps(self, **facts: Any) -> Model:
        """Return a copy of the model with other capabilities."""
        other = copy.copy(self.model)
        if isinstance(other, HttpModel):
            other.caps = msgspec.structs.replace(other.caps, **facts)
            other._frames = {}  # pyright: ignore[reportPrivateUsage] - made for the other facts
        return other

    def expresses(self, model: Model, one: Settings, other: Settings) -> bool:
        """Check whether two settings make different requests; only then can they be probed."""
        if not isinstance(model, HttpModel):
            return False
        messages = [_user("x")]
        return model.encode(Request(messages, Frame(None, (), one))) != model.encode(
            Request(messages, Frame(None, (), other))
        )

    async def ask(
        self,
        said: str | Sequence[Message],
        *,
        system: str | None = None,
        tools: tuple[ToolSpec, ...] = (),
        model: Model | None = None,
        **settings: Any,
    ) -> Exchange:
        """Call the model once; repeat once after an error that may pass."""
        messages = [_user(said)] if isinstance(said, str) else list(said)
        settings.setdefault("max_tokens", self.reply_tokens)
        for attempt in (1, 2):
            left = self._may_ask()
            chosen = Settings(timeout=min(LONGEST, left), **settings)
            request = Request(messages, Frame(system, tools, chosen))
            try:
                return await self._call_model(model or self.model, request)
            except ModelError as error:
                if attempt == 2 or error.category not in ("rate_limit", "overloaded"):
                    raise
                wait = min(error.retry_after or 1.0, PATIENCE)
                if wait >= self.ends - seams.monotonic():
                    raise
                await seams.sleep(wait)
        raise AssertionError("unreachable")

    async def within(self, asked: Awaitable[T]) -> T:
        """Await another request within the same time and cost limits."""
        try:
            left = self._may_ask()
        except Enough:
            if isinstance(asked, Coroutine):
                asked.close()
            raise
        try:
            async with asyncio.timeout(min(LONGEST, left)):
                answer = await asked
            self.calls += answer is not None  # None: there was no such endpoint
            return answer
        except TimeoutError:
            raise Timeout(f"no answer within {min(LONGEST, left):g} s") from None

    @property
    def reply_tokens(self) -> int:
        """The length limit of a reply: a model that thinks first needs more room."""
        return 2048 if self.caps.thinking or self.caps.always_thinks else 512

    def _may_ask(self) -> float:
        left = self.ends - seams.monotonic()
        if left <= 0:
            raise Enough("the time is used up")
        if self.spent + self.model.price(A_CALL) > self.max_usd:
            raise Enough(f"the next call could pass ${self.max_usd:g}")
        return left

    async def _call_model(self, model: Model, request: Request) -> Exchange:
        tee, events = self.tee, list[LiveEvent]()
        tee.clear()
        if isinstance(model, HttpModel):
            model = copy.copy(model)
            tee.inner = model._transport or shared_transport()  # pyright: ignore[reportPrivateUsage]
            model._transport = tee  # pyright: ignore[reportPrivateUsage]
        self.calls += 1
        started = seams.monotonic()
        response = await model.respond(request, events.append)
        total = seams.monotonic() - started
        self.charge(response.usage)
        first = None if tee.first is None else tee.first - started
        return Exchange(response, events, bytes(tee.raw), first, total)

    def charge(self, usage: Usage) -> None:
        """Add the usage to the cost."""
        self.tokens += usage.total_tokens
        self.spent += self.model.price(usage)


class Tee:
    """A transport that keeps a copy of what passes through another."""

    def __init__(self) -> None:
        self.inner: Transport | None = None
        self.clear()

    def clear(self) -> None:
        """Discard the last reply."""
        self.raw = bytearray()
        self.first: float | None = None
        self.status: int | None = None

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Sequence[bytes] = (),
        *,
        connect: float = 10.0,
    ) -> HttpReply:
        """Send through the inner transport and keep a copy of the reply."""
        assert self.inner is not None
        reply = await self.inner.send(method, url, headers, body, connect=connect)
        self.status = reply.status
        return _RecordedReply(reply, self._keep)

    async def aclose(self) -> None:
        """Do nothing: the inner transport owns the connections."""

    def _keep(self, piece: bytes) -> None:
        if self.first is None:
            self.first = seams.monotonic()
        if len(self.raw) < KEPT:
            self.raw += piece


class _RecordedReply:
    def __init__(self, reply: HttpReply, keep: Callable[[bytes], None]) -> None:
        self.reply, self.keep = reply, keep
        self.status, self.headers = reply.status, reply.headers

    async def read(self) -> bytes:
        if piece := await self.reply.read():
            self.keep(piece)
        return piece

    def close(self) -> None:
        self.reply.close()


def _user(text: str) -> Message:
    return Message("user", (Text(text),))
