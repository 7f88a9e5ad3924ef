"""One exchange, as both sides see it: a question, the bytes of the answer, and what they say.

No socket is in it: a client's transport hands the bytes over piece by piece, so that what is
measured is the client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.events import LiveEvent, TextDelta
from windlass.messages import Message, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings
from windlass.models.wires.base import HttpModel
from windlass.testing.providers import Asked, FakeServer, Reply
from windlass.usage import Usage

Body = dict[str, Any]
Calls = tuple[tuple[str, Any], ...]
PIECE = 7  # characters of a streamed piece, as the fakes cut them

_SCHEMA: Body = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where."},
        "days": {"type": "integer", "description": "How many days ahead."},
    },
    "required": ["city"],
}
_TOOLS = tuple(
    ToolSpec(name, f"Tell the {name} of a city.", _SCHEMA) for name in ("weather", "clock")
)
_SAID = (
    Message("user", (Text("How is the weather in Bern, and how late is it there?"),)),
    Message("assistant", (Text("One moment."), ToolCall("call00001", "clock", {"city": "Bern"}))),
    Message("tool", (ToolResult("call00001", "It is 12:30.", False, "clock"),)),
)
CALLS = (("weather", {"city": "Bern", "days": 2}), ("clock", {"city": "Zürich"}))


class Said(NamedTuple):
    """What an answer says, in nobody's format."""

    text: str
    calls: Calls
    input_tokens: int
    output_tokens: int


class Heard(NamedTuple):
    """The answer, and how many pieces of text it came in."""

    said: Said
    pieces: int


Ask = Callable[[], Awaitable[Heard]]


class Exchange(NamedTuple):
    """A request as it goes out, and the answer's bytes in the order they come in."""

    request: Request
    body: Body
    media: str
    chunks: tuple[bytes, ...]
    streamed: bool

    @property
    def headers(self) -> dict[str, str]:
        """The answer's headers."""
        return {"content-type": self.media, "request-id": "req_1"}


class Vendor(NamedTuple):
    """A wire that both sides speak: our adapter, a fake that writes the bytes, the vendor's client."""

    name: str
    package: str
    ours: Callable[[Any], HttpModel]  # given a transport
    fake: FakeServer
    path: Callable[[bool], str]
    theirs: Callable[[Exchange], Ask]
    settings: Settings = Settings(max_tokens=4096)


def question(settings: Settings, *, streamed: bool) -> Request:
    """A few messages with a tool call in them, new to whoever encodes them."""
    settings = msgspec.structs.replace(settings, stream=streamed)
    return Request(list(_SAID), Frame("You are a travel agent.", _TOOLS, settings))


def answer(pieces: int) -> Reply:
    """Words in so many pieces, then two calls."""
    words = "Sunny ü" * pieces
    return Reply(words, tool_calls=CALLS, usage=Usage(1200, 340))


def exchange(vendor: Vendor, pieces: int, *, streamed: bool) -> Exchange:
    """The exchange over this vendor's wire."""
    request = question(vendor.settings, streamed=streamed)
    sent = b"".join(vendor.ours(None).encode(request))
    body: Body = msgspec.json.decode(sent)
    asked = Asked(0, "POST", vendor.path(streamed), {}, sent, body, 0)
    fake, reply = vendor.fake, answer(pieces)
    if streamed:
        chunks = tuple(fake.written(frame) for frame in fake.frames(asked, reply))
        return Exchange(request, body, fake.media, chunks, True)
    whole = msgspec.json.encode(fake.plain(asked, reply))
    return Exchange(request, body, "application/json", (whole,), False)


# --------------------------------------------------------------------------- our side


class Fed:
    """A transport of ours that brings an exchange's bytes."""

    def __init__(self, given: Exchange) -> None:
        self.given = given

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Sequence[bytes] = (),
        *,
        connect: float = 10.0,
    ) -> FedReply:
        """Take the request, and answer."""
        if not b"".join(body).endswith(b"}"):
            raise AssertionError("half a request")
        return FedReply(self.given)

    async def aclose(self) -> None:
        """Nothing is open."""


class FedReply:
    """The answer, a chunk at a time."""

    status = 200

    def __init__(self, given: Exchange) -> None:
        self.headers: Mapping[str, str] = given.headers
        self._next = iter(given.chunks).__next__

    async def read(self) -> bytes:
        """The next chunk."""
        try:
            return self._next()
        except StopIteration:
            return b""

    def close(self) -> None:
        """Nothing is open."""


def ours(vendor: Vendor, given: Exchange) -> Ask:
    """The call through our adapter. The messages are encoded anew each time, as the vendor's are."""
    model, request = vendor.ours(Fed(given)), given.request

    async def ask() -> Heard:
        heard: list[LiveEvent] = []
        response = await model.respond(request, heard.append)
        calls = tuple((call.name, call.arguments) for call in response.message.tool_calls)
        usage = response.usage
        said = Said(response.text, calls, usage.input_tokens, usage.output_tokens)
        return Heard(said, [type(event) for event in heard].count(TextDelta))

    return ask


# --------------------------------------------------------------------------- the vendors' side


def transport(given: Exchange, client: Any) -> Any:
    """The same bytes for httpx or httpx2, whichever the vendor's client is built on."""

    class Bytes(client.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in given.chunks:
                yield chunk

    class Transport(client.AsyncBaseTransport):
        async def handle_async_request(self, request: Any) -> Any:
            if not request.content.endswith(b"}"):
                raise AssertionError("half a request")
            return client.Response(200, headers=given.headers, stream=Bytes(), request=request)

    return Transport()
