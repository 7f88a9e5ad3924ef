"""The interface of a model: a request and its messages, the reply, and who answers.

A request carries its messages without a copy: a growing strand, and snapshots of it. A wire keeps the
bytes it made of a strand beside it, so that every message is encoded once however many requests carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, cast, overload

import msgspec

from windlass.events import LiveEvent
from windlass.json_types import JsonObject
from windlass.messages import Message, Text, ToolSpec
from windlass.models.registry.capabilities import Capabilities
from windlass.usage import NO_USAGE, Usage

Emit: TypeAlias = Callable[[LiveEvent], None]
StopReason: TypeAlias = Literal[
    "end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn", "unknown"
]


def silent(_event: object) -> None:
    """Ignore an event; the `emit` of callers that do not stream and of runs nobody watches."""


class Settings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Settings of a request: `temperature`, `max_tokens`, …; None: the provider's default."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | JsonObject | None = None  # auto, none, required, {"name": …}
    parallel_tool_calls: bool | None = None
    thinking: bool | JsonObject | None = None  # {"mode": …, "effort": …, "budget_tokens": …}
    interleaved_thinking: bool | None = (
        None  # think between calls too, where that must be asked for
    )
    beta: tuple[str, ...] | None = None  # features that a provider has one name in a header
    response_format: Literal["json"] | None = None  # by the provider's own JSON mode
    schema: JsonObject | None = None  # JSON Schema of the answer, by the provider's own means
    tool_search: str | None = None  # the provider's own search: bm25, regex, hosted, client
    cache: bool | None = None  # mark what to cache; None: where a provider charges for misses
    stream: bool = True
    timeout: float | None = None  # seconds for the whole call, with its retries
    task_kind: str | None = None  # for the caller; no wire sends it
    extra: JsonObject | None = None  # merged into the provider's own request body


class Frame(msgspec.Struct, frozen=True, weakref=True):
    """The system prompt, tools and settings of a request; every change is recorded."""

    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    settings: Settings = Settings()


# --------------------------------------------------------------------------- messages of a request


class Strand(msgspec.Struct, eq=False, gc=False):
    """A list of messages that only grows. Any other change makes a new strand."""

    items: list[Message] = []
    encoded: dict[str, EncodedMessages] | None = None
    derived: dict[str, Strand] | None = None
    audited: int = 0  # messages in which every call is known to have its result
    weights: list[int] | None = None  # running total of characters, for size estimates
    bound: tuple[int, int] = (0, 0)  # messages, and tokens that these are at most

    def append(self, message: Message) -> None:
        """Append a message; text of the user after complete rounds leaves no call to check."""
        if self.audited == len(self.items) and message.role == "user":
            for block in message.content:
                if type(block) is not Text:
                    break
            else:
                self.audited += 1
        self.items.append(message)

    def snapshot(self) -> View:
        """Return the messages as they are now, without later ones."""
        return View(self, len(self.items))

    def drop_last(self) -> Message:
        """Remove the last message, and its encoded bytes."""
        self.encoded = self.derived = None
        self.audited = 0
        self.weights, self.bound = None, (0, 0)
        return self.items.pop()


if TYPE_CHECKING:

    class _ViewBase(Sequence[Message]):
        def __init__(self, strand: Strand, size: int) -> None: ...

else:
    # One is made for every request: a struct takes a third of the time of a class with `__init__`,
    # and no struct can have `Sequence` as a base.
    class _ViewBase(msgspec.Struct, eq=False, gc=False):
        strand: Strand
        size: int

        __contains__, __reversed__ = Sequence.__contains__, Sequence.__reversed__
        index, count = Sequence.index, Sequence.count


class View(_ViewBase):
    """The first `size` messages of a strand: `View(strand, 2)`."""

    strand: Strand
    size: int

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self.size)
            if step < 0:  # a list would read a stop of -1 as its last item
                return self.strand.items[: self.size][index]
            return self.strand.items[start:stop:step]
        if index < 0:
            index += self.size
        if not 0 <= index < self.size:
            raise IndexError(index)
        return self.strand.items[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.strand.items[: self.size])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<View of {self.size} messages>"


cast("Any", Sequence).register(View)


class EncodedMessages:
    """The bytes of a strand's messages: blocks of 64 joined, and the last few one by one.

    Joining keeps the list short, so that the request of a long run is built as fast as that of a
    short one.
    """

    __slots__ = ("blocks", "recent")

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.recent: list[bytes] = []

    def add(self, piece: bytes) -> None:
        """Append the bytes of the next message."""
        if len(self.recent) >= _BLOCK:  # never empty after that: the last piece stays a small one
            self.blocks.append(b"".join(self.recent))
            self.recent = []
        self.recent.append(piece)


_BLOCK = 64


def pieces(
    messages: Sequence[Message], key: str, encode: Callable[[Message], bytes]
) -> list[bytes]:
    """Encode the messages under `key` (a wire and its model); only new ones cost work.

    Several messages may share a piece; joined, the pieces are the messages in their order.
    """
    if not isinstance(messages, View):
        return [encode(message) for message in messages]
    strand, size = messages.strand, messages.size
    done = _find_encoded(strand, key)
    joined = len(done.blocks) * _BLOCK
    for message in strand.items[joined + len(done.recent) : size]:
        done.add(encode(message))
    joined = len(done.blocks) * _BLOCK
    if size > joined:
        return [*done.blocks, *done.recent[: size - joined]]
    # a snapshot from before the last block was joined
    whole = size // _BLOCK
    return [*done.blocks[:whole], *map(encode, strand.items[whole * _BLOCK : size])]


def _find_encoded(strand: Strand, key: str) -> EncodedMessages:
    """Return the bytes of the strand's messages under the key; none at first."""
    if strand.encoded is None:
        strand.encoded = {}
    done = strand.encoded.get(key)
    if done is None:
        done = strand.encoded[key] = EncodedMessages()
    return done


def encode_in_context(
    messages: Sequence[Message], key: str, encode: Callable[[Sequence[Message], int], bytes]
) -> list[bytes]:
    """Encode messages whose bytes depend on those before them: `encode(all, index)`."""
    if not isinstance(messages, View):
        return [encode(messages, at) for at in range(len(messages))]
    items, size = messages.strand.items, messages.size
    done = _find_encoded(messages.strand, key)
    for at in range(len(done.blocks) * _BLOCK + len(done.recent), size):
        done.add(encode(items, at))
    joined = len(done.blocks) * _BLOCK
    if size > joined:
        return [*done.blocks, *done.recent[: size - joined]]
    whole = size // _BLOCK
    rest = range(whole * _BLOCK, size)
    return [*done.blocks[:whole], *[encode(items, at) for at in rest]]


def derive(
    messages: Sequence[Message], key: str, convert: Callable[[Message], Message]
) -> Sequence[Message]:
    """Convert each message once, however many requests carry it."""
    if not isinstance(messages, View):
        return [convert(message) for message in messages]
    strand = messages.strand
    if strand.derived is None:
        strand.derived = {}
    other = strand.derived.get(key)
    if other is None:
        other = strand.derived[key] = Strand()
    for message in strand.items[len(other.items) : messages.size]:
        other.items.append(convert(message))
    return View(other, messages.size)


# --------------------------------------------------------------------------- requests and replies


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request to a model: a frame, the messages, and a tail for this call only.

    `messages` may be a snapshot of a growing view; wires keep the bytes of messages that they have
    encoded, and encode only new ones.
    """

    messages: Sequence[Message]
    frame: Frame = Frame()
    tail: tuple[Message, ...] = ()

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return self.frame.system

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the model may call."""
        return self.frame.tools

    @property
    def settings(self) -> Settings:
        """The settings of the call."""
        return self.frame.settings


class Response(msgspec.Struct, frozen=True, gc=False):
    """A reply: `Response(Message("assistant", "hi"), Usage(10, 2), "end_turn")`."""

    message: Message
    usage: Usage = NO_USAGE
    stop_reason: StopReason = "end_turn"
    model: str | None = None  # as the provider names it
    native_id: str | None = None  # the provider's id of the reply
    provider: str | None = None  # the model that answered, if not the one called
    via: str | None = None  # how, where not by asking: "cache", "fallback", "escalation"
    asides: tuple[Aside, ...] = ()  # other replies that were paid for on the way
    attempts: int = 1  # how often the provider was asked for it
    notes: tuple[Any, ...] = ()  # events that go on record with the reply
    shortened: str | None = None  # the limit of a budget that cut the reply short: "tokens", "usd"

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.message.text


class Completion(msgspec.Struct, frozen=True):
    """A text to continue, and what may follow it: `Completion("let total = ", ";")`."""

    prefix: str
    suffix: str | None = None
    system: str | None = None
    settings: Settings = Settings()


class Aside(msgspec.Struct, frozen=True):
    """A paid reply that is not the answer: a shadow model's, or one that was rejected."""

    purpose: str
    response: Response
    cost_usd: float = 0.0
    duration_ms: float = 0.0


RETRY_DELAY: Final = 2.0  # seconds
_PLAIN, _WORDS = Capabilities(), Capabilities(native_tools=False)


class Model:
    """The base class of models; a model of your own overrides `respond`.

    ```python
    class Parrot(w.Model):
        async def respond(self, request, emit):
            return w.Response(w.Message("assistant", request.messages[-1].text))
    ```
    """

    provider: str = "custom"
    name: str = "custom"
    native_tools: bool = True
    remote: bool = False  # a provider behind a network, which may work on a request given up
    retries_calls: bool = False  # it makes failed calls again itself
    retry_delay: float = RETRY_DELAY  # before the first retry of a failed call
    context_window: int | None = None
    reports_parts: bool = False  # it reports by itself the received part of a broken reply

    #: Where it is asked. Calls to two addresses share nothing: no cached reply, no circuit, no pace.
    address: ClassVar[str] | str = ""

    #: Keys that must never be written anywhere; the redactor asks for them.
    secrets: ClassVar[tuple[str, ...]] | tuple[str, ...] = ()

    def check(self) -> None:
        """Raise `ConfigError` when no call could succeed, for example without a key."""

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the reply to a request; raise a `ModelError` if there is none.

        Call `emit(event)` while you answer, with a `TextDelta` for each piece of text and a
        `ToolCallReady` for each complete call. `emit` is not async and never blocks.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how to respond")

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do."""
        return _PLAIN if self.native_tools else _WORDS

    async def count_tokens(self, request: Request) -> int | None:
        """Count the tokens of this request at the provider; None if it cannot count."""
        return None

    async def complete(self, completion: Completion, emit: Emit) -> Response | None:
        """Continue a text without a chat; None if the model only answers messages."""
        return None

    async def aclose(self) -> None:
        """Close the model's connections."""

    def price(self, usage: Usage) -> float:
        """Return the dollars of this usage; 0 if the price is unknown.

        A model of your own overrides it, with `return 0.0` if it is free. Without it, a limit in
        dollars is refused.
        """
        return usage.cost_usd or 0.0

    def unpriced(self) -> Model | None:
        """Return the first model that a call may use whose price is unknown, or None.

        A model has a price if it overrides `price`.
        """
        return self if type(self).price is Model.price else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.provider}:{self.name}>"


class Holding(Model):
    """A model around a model; a wrapper of your own overrides `respond`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.provider, self.name = model.provider, model.name
        self.native_tools, self.context_window = model.native_tools, model.context_window
        self.remote, self.retries_calls = model.remote, model.retries_calls
        self.retry_delay = model.retry_delay

    @property
    def address(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the held model."""
        return self.model.address

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The held model's keys: a key may be read from the environment as late as its first call."""
        return self.model.secrets

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Call the held model."""
        return await self.model.respond(request, emit)

    @property
    def capabilities(self) -> Capabilities:
        """The held model's capabilities."""
        return self.model.capabilities

    async def count_tokens(self, request: Request) -> int | None:
        """Count the tokens at the held model."""
        return await self.model.count_tokens(request)

    async def complete(self, completion: Completion, emit: Emit) -> Response | None:
        """Continue a text with the held model."""
        return await self.model.complete(completion, emit)

    def check(self) -> None:
        """Check the held model."""
        self.model.check()

    def price(self, usage: Usage) -> float:
        """Price the usage at the held model."""
        return self.model.price(usage)

    def unpriced(self) -> Model | None:
        """Return the held model if its price is unknown."""
        return self.model.unpriced()

    @property
    def reports_parts(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the held model reports parts of broken replies."""
        return self.model.reports_parts

    async def aclose(self) -> None:
        """Close the held model's connections."""
        await self.model.aclose()
