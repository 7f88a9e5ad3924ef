"""The scripted model: it gives the replies of the test, in order, and keeps the requests.

As cheap as a fake written by hand: nothing is copied, and a reply is built when it is served.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any, TypeAlias, Union, cast

import msgspec

from windlass import seams
from windlass.errors import ConfigError, ModelError, TestBroken
from windlass.messages import (
    Block,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from windlass.models.base import Emit, Model, Request, Response
from windlass.models.mock import deltas
from windlass.usage import Usage

Piece: TypeAlias = Union[str, Block]
Said: TypeAlias = Union[
    Piece, Sequence[Piece], Message, Response, BaseException, type[BaseException]
]
Reply: TypeAlias = Union[Said, Callable[[Request], Union[Said, Awaitable[Said]]]]

USAGE = Usage(input_tokens=10, output_tokens=5)
_BLOCKS = (Text, Thinking, ToolCall, ToolResult, Image, Document, Opaque)
_OWN_ID = re.compile(r"call_(\d+)\Z")


class ScriptEnded(TestBroken):
    """The scripted model was called more often than it has replies."""


class RequestForbidden(TestBroken):
    """A real model was called inside `no_model_requests()`."""


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Build a tool call for `scripted`: `call("add", a=1, b=2)`; it gets its id when used."""
    return ToolCall("", name, arguments)


def scripted(
    *replies: Reply,
    then: Reply | None = None,
    usage: Usage | Mapping[str, Any] = USAGE,
    delay: float = 0.0,
    stream: bool = False,
    pace: float = 0.0,
    name: str = "scripted",
    provider: str = "scripted",
    native_tools: bool = True,
    price: Callable[[Usage], float] | float = 0.0,
) -> ScriptedModel:
    """Build a model that gives these replies, one per request.

    ```python
    model = scripted("Let me look.", call("add", a=1, b=2), "3")
    model = scripted(["Both at once.", call("a"), call("b")], errors.RateLimited("slow down"), "ok")
    model = scripted(then=lambda request: f"heard {request.messages[-1].text}")
    ```
    A reply is a text, a `call(…)`, a list of them, a `Message`, a `Response`, an exception to
    raise, or a function of the request that returns one of these. `then` is the reply when the
    others are used up; without it that is an error. `model.requests` has the requests.

    `usage` is the usage of every reply, `delay` the seconds before each. `price` is the dollars of
    a million tokens, or a function of the usage; the default is 0. With `stream=True` a reply is
    sent word by word, `pace` seconds apart.
    """
    return ScriptedModel(
        replies,
        then=then,
        usage=usage,
        delay=delay,
        stream=stream,
        pace=pace,
        name=name,
        provider=provider,
        native_tools=native_tools,
        price=price,
    )


class ScriptedModel(Model):
    """The model of `scripted`. Failed calls are retried as with any model, without a wait."""

    retry_delay = 0.0

    def __init__(
        self,
        replies: Sequence[Reply],
        *,
        then: Reply | None,
        usage: Usage | Mapping[str, Any],
        delay: float,
        stream: bool,
        pace: float,
        name: str,
        provider: str,
        native_tools: bool,
        price: Callable[[Usage], float] | float = 0.0,
    ) -> None:
        for reply in (*replies, then):
            if reply is not None and not callable(reply):
                _check(reply)
        self.replies = replies
        self.then = then
        self.usage = usage if isinstance(usage, Usage) else msgspec.convert(usage, Usage)
        self.delay, self.stream, self.pace = delay, stream, pace
        self.name, self.provider, self.native_tools = name, provider, native_tools
        self._price = price
        self.requests: list[Request] = []
        self._served = 0
        self._last_id = -1  # not yet looked at what the conversation already holds

    @property
    def left(self) -> int:
        """The number of replies that are left."""
        return len(self.replies) - self._served

    def price(self, usage: Usage) -> float:
        """Return the reply's own price, else that of the script."""
        if usage.cost_usd is not None:
            return usage.cost_usd
        if callable(self._price):
            return self._price(usage)
        return usage.total_tokens * self._price / 1_000_000 if self._price else 0.0

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the next reply."""
        self.requests.append(request)
        reply = self._next(request)
        if self.delay:
            await seams.sleep(self.delay)
        if callable(reply) and not isinstance(reply, type):
            reply = cast("Callable[[Request], Any]", reply)(request)
            if isawaitable(reply):
                reply = cast("Said", await reply)
        response = self._response(cast("Said", reply), request)
        if self.stream:
            for event in deltas(response.message):
                emit(event)
                await seams.sleep(self.pace)
        return response

    def _next(self, request: Request) -> Reply:
        at = self._served
        if at < len(self.replies):
            self._served = at + 1
            return self.replies[at]
        if self.then is None:
            raise ScriptEnded(
                f"the scripted model has {_count(len(self.replies), 'reply', 'replies')} and was "
                f"asked {_count(len(self.requests), 'time', 'times')}; "
                f"the last message was {_last_message(request)}. Add a reply, or then=…"
            )
        return self.then

    def _response(self, said: Said, request: Request) -> Response:
        if isinstance(said, str):
            return Response(Message("assistant", (Text(said),)), self.usage, "end_turn", self.name)
        if isinstance(said, ToolCall):
            message = Message("assistant", (self._with_id(said, request),))
            return Response(message, self.usage, "tool_use", self.name)
        if isinstance(said, (BaseException, type)):
            raise _as_exception(said)
        if isinstance(said, Response):
            return said
        blocks, calls = self._blocks(said, request)
        reason = "tool_use" if calls else "end_turn"
        return Response(Message("assistant", blocks), self.usage, reason, self.name)

    def _blocks(
        self, said: Piece | Sequence[Piece] | Message, request: Request
    ) -> tuple[tuple[Block, ...], bool]:
        pieces: Sequence[Piece]
        if isinstance(said, Message):
            pieces = said.content
        elif isinstance(said, (list, tuple)):
            pieces = cast("Sequence[Piece]", said)
        else:
            _check(said)
            pieces = (cast("Piece", said),)
        blocks: list[Block] = []
        calls = False
        for piece in pieces:
            if isinstance(piece, str):
                piece = Text(piece)
            elif isinstance(piece, ToolCall):
                calls = True
                piece = self._with_id(piece, request)
            blocks.append(piece)
        return tuple(blocks), calls

    def _with_id(self, asked: ToolCall, request: Request) -> ToolCall:
        if asked.id:
            return asked
        if self._last_id < 0:
            self._last_id = highest_id(request.messages)
        self._last_id += 1
        return ToolCall(f"call_{self._last_id}", asked.name, asked.arguments)


def highest_id(messages: Sequence[Message]) -> int:
    """Return the largest N of the ids `call_N` in a conversation.

    A resumed session comes with the calls of an earlier process: new ones are numbered after them.
    """
    highest = 0
    for message in messages:
        for asked in message.tool_calls:
            if own := _OWN_ID.match(asked.id):
                highest = max(highest, int(own[1]))
    return highest


@contextmanager
def no_model_requests() -> Generator[None]:
    """Make requests to real models raise an error inside the block.

    ```python
    with no_model_requests():
        await agent.run("go")  # with a scripted or mock model: fine
    ```
    It holds for the whole process, for all tasks and threads.
    """
    from windlass.models.transport import (
        base as transport_base,  # brings the network code; only now is it needed
    )

    before = transport_base.forbid
    transport_base.forbid = RequestForbidden(
        "a request to a real model inside no_model_requests(); use scripted(…) or provider='mock'"
    )
    try:
        yield
    finally:
        transport_base.forbid = before


# --------------------------------------------------------------------------- details


def _check(reply: object) -> None:
    """Refuse what is no reply when the script is written, not turns later."""
    if isinstance(reply, (list, tuple)):
        for piece in cast("Sequence[object]", reply):
            if not isinstance(piece, (str, *_BLOCKS)):
                raise ConfigError(f"a reply is made of text and calls, not {_describe(piece)}")
    elif not isinstance(reply, (str, *_BLOCKS, Message, Response, BaseException)):
        raise ConfigError(
            f"a reply is text, call(…), a list of them, a Message, a Response, an exception or a "
            f"function of the request, not {_describe(reply)}"
        )


def _describe(thing: object) -> str:
    return f"{thing!r:.60} ({type(thing).__name__})"


def _as_exception(said: BaseException | type) -> BaseException:
    if isinstance(said, BaseException):
        if isinstance(said, ModelError):
            said.attempts = 1  # a retry has counted on it, if the same error was given before
        return said
    if not issubclass(said, BaseException):
        raise ConfigError(f"{said.__name__} is a class but no exception; a reply cannot be one")
    # A model's errors need a message; others do not.
    return said(f"scripted {said.__name__}") if issubclass(said, ModelError) else said()


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _last_message(request: Request) -> str:
    messages = [*request.messages, *request.tail]
    if not messages:
        return "none: the request is empty"
    last = messages[-1]
    text = last.text or " ".join(
        block.text for block in last.content if isinstance(block, ToolResult)
    )
    return f"{last.role}: {text if len(text) <= 200 else text[:200] + '…'!r}"
