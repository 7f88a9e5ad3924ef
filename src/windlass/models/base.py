"""The interface of a model: answer a request, and emit progress meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from windlass.events import LiveEvent
from windlass.json_types import JsonObject
from windlass.messages import Message, ToolSpec
from windlass.models.registry.capabilities import Capabilities
from windlass.usage import NO_USAGE, Usage

Emit: TypeAlias = Callable[[LiveEvent], None]
StopReason: TypeAlias = Literal[
    "end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn", "unknown"
]


def silent(_event: object) -> None:
    """Ignore an event; the `emit` of callers that do not stream and of runs nobody watches."""


class Settings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Settings of a request. None leaves the choice to the provider."""

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
    timeout: float | None = None  # seconds for the whole turn
    task_kind: str | None = None  # for the caller; no wire sends it
    extra: JsonObject | None = None  # merged into the provider's own request body


class Frame(msgspec.Struct, frozen=True, weakref=True):
    """The part of a request before the messages; every change of it is recorded."""

    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    settings: Settings = Settings()


class Request(msgspec.Struct, frozen=True):
    """A request to a model: a frame, the messages so far, and a tail for this call alone.

    `messages` may be a growing view's snapshot; wires keep what they encoded of it and encode only
    what is new.
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
        """The tools on offer."""
        return self.frame.tools

    @property
    def settings(self) -> Settings:
        """How to answer."""
        return self.frame.settings


class Response(msgspec.Struct, frozen=True, gc=False):
    """The answer: `Response(Message("assistant", "hi"), Usage(10, 2), "end_turn")`."""

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
        """The text of the answer."""
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


_PLAIN, _WORDS = Capabilities(), Capabilities(native_tools=False)


class Model:
    """Base class of models. Your own model overrides `respond`:

    ```python
    class Parrot(w.Model):
        async def respond(self, request, emit):
            return w.Response(w.Message("assistant", request.messages[-1].text))
    ```
    """

    provider: str = "custom"
    name: str = "custom"
    native_tools: bool = True
    remote: bool = False  # behind a network, so that a failed call is worth trying again
    context_window: int | None = None
    reports_parts: bool = False  # it reports by itself the received part of a broken reply

    #: Where it is asked. Calls to two addresses share nothing: no cached reply, no circuit, no pace.
    address: ClassVar[str] | str = ""

    #: Keys that must never be written anywhere; the redactor asks for them.
    secrets: ClassVar[tuple[str, ...]] | tuple[str, ...] = ()

    def check(self) -> None:
        """Raise `ConfigError` when no call could succeed, for example without a key."""

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Answer the request. `emit(event)` is a plain call that never blocks."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to respond")

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do."""
        return _PLAIN if self.native_tools else _WORDS

    async def count_tokens(self, request: Request) -> int | None:
        """Count the tokens of this request at the provider; None where it has no such count."""
        return None

    async def complete(self, completion: Completion, emit: Emit) -> Response | None:
        """Continue a text without a chat; None where the model only answers messages."""
        return None

    async def aclose(self) -> None:
        """Close the model's connections."""

    def price(self, usage: Usage) -> float:
        """Return the dollars of this usage; 0 where the price is unknown.

        A model of your own overrides it, with `return 0.0` where it is free: a limit in dollars
        is refused without it.
        """
        return usage.cost_usd or 0.0

    def unpriced(self) -> Model | None:
        """Return the first model a call may use whose price is unknown in advance, or None.

        A model has a price where `price` is overridden.
        """
        return self if type(self).price is Model.price else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.provider}:{self.name}>"
