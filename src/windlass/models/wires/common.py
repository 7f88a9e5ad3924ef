"""What the wires share: a model behind HTTP, its requests in pieces, and the start of a decoder.

A request is a head (made once for a frame), the messages (each made once, see `view.py`) and the
tail. Nothing of it depends on anything but the request and the model's own name, so the same
journal gives the same bytes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, ClassVar, Final, Protocol, cast
from urllib.parse import urlsplit, urlunsplit
from weakref import ref

import msgspec

from windlass import seams
from windlass.errors import BadReply, ConfigError, ModelError, StreamBroken
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import Message, Origin, Text, Thinking, ToolCall
from windlass.models import catalog, transport
from windlass.models.base import Emit, Frame, Model, Request, Response, Settings
from windlass.models.capabilities import Capabilities
from windlass.models.endpoints import Endpoint
from windlass.models.failures import Source, error_fields, from_http, from_stream
from windlass.models.matrix import capabilities_of
from windlass.models.sse import MAX_EVENT, SSEDecoder
from windlass.models.transport import Deadline, HttpReply, Timeouts, Transport
from windlass.models.view import pieces
from windlass.redact import Secret, looks_secret
from windlass.usage import Usage

_AUTH: Final = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
_REQUEST_ID: Final = ("request-id", "x-request-id", "x-amzn-requestid")
_GRACE: Final = 0.05  # seconds for a stream's last frame, so that its connection can be used again
_BOM: Final = b"\xef\xbb\xbf"
_ERROR_BODY: Final = 1024 * 1024


class Framed(msgspec.Struct, frozen=True):
    """A frame as a wire writes it, up to the first message."""

    head: bytes
    names: dict[str, str]  # tools under a name of the wire's own: wire -> ours


class HttpModel(Model):
    """A model behind an HTTP wire. The wires say what a request and a reply look like."""

    remote = True
    wire: ClassVar[str]

    def __init__(
        self,
        name: str,
        *,
        endpoint: Endpoint,
        api_key: str | Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        timeout: float | None = None,
        timeouts: Timeouts | None = None,
        transport: Transport | None = None,
    ) -> None:
        if not name:
            raise ConfigError(f"provider {endpoint.name!r} needs a model name")
        self.name, self.provider = name, endpoint.name
        self.endpoint = endpoint
        self.info = catalog.lookup(endpoint.name, name)
        self.caps = capabilities_of(endpoint.name, name)
        self.native_tools = self.caps.native_tools
        if self.info is not None:
            self.context_window = self.info.context_window
        self.base_url = base_url or endpoint.base_url
        self.url = self._url(self.base_url)
        self.headers: dict[str, str | Secret] = {
            key.lower(): Secret(value) if key.lower() in _AUTH or looks_secret(key) else value
            for key, value in (headers or {}).items()
        }
        self.timeouts = timeouts or Timeouts()
        self.timeout = timeout if timeout is not None else self.timeouts.total
        self._key = Secret(api_key) if api_key is not None else None
        self._own_url = base_url is not None
        self._transport = transport
        self._origin = Origin(self.provider, name)
        self._cached = f"{self.wire}/{self.provider}/{name}"
        self._frames: dict[int, tuple[ref[Frame], Framed]] = {}

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do, by its row."""
        return self.caps

    # ----------------------------------------------------------------------- keys

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The key and whatever secret headers there are, for the redactor."""
        found = [held.reveal() for held in self.headers.values() if isinstance(held, Secret)]
        found += [words[-1] for value in found if len(words := value.split()) > 1]  # Bearer …
        key = self._api_key()
        return (*found, key) if key is not None else tuple(found)

    def _api_key(self) -> str | None:
        if self._key is None:
            found = (os.environ.get(variable) for variable in self.endpoint.key_env)
            if value := next(filter(None, found), None):
                self._key = Secret(value)
        return self._key.reveal().strip() or None if self._key is not None else None

    def check(self) -> None:
        """Raise `ConfigError` when the provider wants a key and there is none."""
        if not self.endpoint.key_env or self._own_url or self._api_key() is not None:
            return
        if not _AUTH.isdisjoint(self.headers):
            return
        raise ConfigError(f"{self.provider} needs an API key: {self.endpoint.key_hint}")

    def _source(self) -> Source:
        return Source(self.provider, self.name, self.endpoint.key_hint, self.secrets)

    # ----------------------------------------------------------------------- what a wire says

    def _url(self, base: str) -> str:
        raise NotImplementedError

    def _auth(self, key: str) -> dict[str, str]:
        raise NotImplementedError

    def _head(self, frame: Frame) -> bytes:
        """The request up to its first message, behind which comes a comma if there is one."""
        raise NotImplementedError

    def _message(self, message: Message) -> bytes:
        """The message and a comma, or nothing at all."""
        raise NotImplementedError

    def _hoisted(self, messages: Sequence[Message]) -> int:
        """How many of the first messages belong into the system prompt."""
        return 0

    def decoder(self, request: Request, emit: Emit) -> Decoder:
        """What turns the bytes of the reply into a `Response`; no network needed."""
        raise NotImplementedError

    # ----------------------------------------------------------------------- the request

    def encode(self, request: Request) -> list[bytes]:
        """The request's body in pieces: `b"".join(model.encode(request))` is JSON."""
        messages, frame = request.messages, request.frame
        skip = self._hoisted(messages) if messages and messages[0].role == "system" else 0
        if skip:
            said = [frame.system or "", *(message.text for message in messages[:skip])]
            frame = msgspec.structs.replace(frame, system="\n\n".join(filter(None, said)))
            head = self._head(frame)
            above = {id(message) for message in messages[:skip]}
            body = pieces(
                messages,
                f"{self._cached}/{skip}",
                lambda message: b"" if id(message) in above else self._message(message),
            )
        else:
            head = self.framed(frame).head
            body = pieces(messages, self._cached, self._message)
        body.insert(0, head)
        for message in request.tail:
            body.append(self._message(message))
        for at in range(len(body) - 1, -1, -1):
            if body[at]:
                body[at] = body[at].removesuffix(b",")
                break
        body.append(b"]}")
        return body

    def framed(self, frame: Frame) -> Framed:
        """The frame's bytes, made once as long as somebody holds the frame."""
        key = id(frame)
        found = self._frames.get(key)
        if found is not None and found[0]() is frame:
            return found[1]
        framed = self._make(frame)
        self._frames[key] = (ref(frame, lambda _gone: self._frames.pop(key, None)), framed)
        return framed

    def _make(self, frame: Frame) -> Framed:
        names = {safe: t.name for t in frame.tools if (safe := safe_name(t.name)) != t.name}
        return Framed(self._head(frame), names)

    # ----------------------------------------------------------------------- the call

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Ask the provider, streamed or plain as the settings say."""
        self.check()
        settings = request.frame.settings
        total = settings.timeout if settings.timeout is not None else self.timeout
        idle = self.timeouts.idle if settings.stream else None
        body = self.encode(request)
        request_id: str | None = None
        try:
            with Deadline(total=total, idle=idle, first=self._patience(total)) as deadline:
                url, headers = await self._addressed(settings, body)
                reply = await (self._transport or transport.shared()).send(
                    "POST", url, headers, body, connect=self.timeouts.connect
                )
                request_id = next(
                    (reply.headers[n] for n in _REQUEST_ID if n in reply.headers), None
                )
                if (listener := transport.heard.get()) is not None:
                    listener(reply.headers)
                try:
                    return await self._read(reply, self.decoder(request, emit), deadline)
                finally:
                    reply.close()
        except ModelError as error:
            error.provider, error.model = error.provider or self.provider, error.model or self.name
            error.request_id = error.request_id or request_id
            raise

    async def _read(self, reply: HttpReply, decoder: Decoder, deadline: Deadline) -> Response:
        if not 200 <= reply.status < 300:
            explained = await transport.read_whole(reply, _ERROR_BODY)
            raise from_http(reply.status, reply.headers, explained, self._source())
        try:
            while chunk := await reply.read():
                if decoder.feed(chunk):
                    deadline.progress()
                if decoder.done:
                    break
        except StreamBroken:
            if not decoder.complete:
                raise
        response = decoder.finish()
        if decoder.done:
            await _drain(reply)
        return response

    def _patience(self, total: float) -> float | None:
        """How long the first event may take: a model may think, or read a long prompt, in silence."""
        slow = self.info is not None and self.info.reasoning
        return total if slow or not self.endpoint.key_env else self.timeouts.first

    async def _addressed(
        self, settings: Settings, body: Sequence[bytes]
    ) -> tuple[str, dict[str, str]]:
        """Where this request goes and under which headers: a wire may sign, or fetch a token."""
        return self.url, self._headers()

    def _headers(self) -> dict[str, str]:
        key = self._api_key()
        return {
            "content-type": "application/json",
            "user-agent": "windlass",
            **({} if key is None else self._auth(key)),
            **{
                name: value.reveal() if isinstance(value, Secret) else value
                for name, value in self.headers.items()
            },
        }

    async def aclose(self) -> None:
        """Close a transport of this model's own; the shared one closes with its event loop."""
        if self._transport is not None:
            await self._transport.aclose()

    def price(self, usage: Usage) -> float:
        """Dollars, as billed or else by the catalog."""
        if usage.cost_usd is not None:
            return usage.cost_usd
        return 0.0 if self.info is None else self.info.price(usage)


async def _drain(reply: HttpReply) -> None:
    try:
        with Deadline(total=_GRACE):
            while await reply.read():
                pass
    except ModelError:
        pass  # the answer is here; a connection that does not end in time is dropped


# --------------------------------------------------------------------------- replies


class Framing(Protocol):
    """Takes a stream apart into named pieces, whatever the network did to its bytes."""

    def feed(self, chunk: bytes) -> Sequence[tuple[str, bytes]]:
        """The pieces that this chunk completes."""
        ...


class Decoder:
    """Bytes of a reply in, a `Response` out: `feed` every chunk, then `finish`.

    The bytes decide what they are: an event stream, or one JSON body, whatever was asked for and
    whatever the content type says.
    """

    def __init__(
        self, source: Source, origin: Origin, names: Mapping[str, str], emit: Emit
    ) -> None:
        self.source, self.origin, self.names, self.emit = source, origin, names, emit
        self.done = False  # the terminal event came: nothing after it matters
        self.complete = False  # all of the answer is here, even if the stream breaks now
        self._frames: Framing | None = None
        self._body: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; whether they brought anything but pings and comments."""
        frames = self._frames
        if frames is None:
            if (frames := self._begin(chunk)) is None:
                return self._size > 0
            chunk = b"".join(self._body)
            self._body.clear()
        progress = False
        for name, data in frames.feed(chunk):
            if self.done:
                break
            progress = self._event(name, data) or progress
        return progress

    def finish(self) -> Response:
        """The reply, or the error that it is."""
        if self._frames is not None:
            if not (self.done or self.complete):
                raise StreamBroken("the stream ended before the reply did")
            return self._response()
        text = b"".join(self._body).strip()
        if not text:
            raise BadReply("the reply is empty")
        if text.startswith(b"<"):
            words = " ".join(
                re.sub(r"<[^>]*>", " ", text[:2000].decode("utf-8", "replace")).split()
            )
            raise BadReply(f"a web page came instead of a reply: {self.source.clean(words[:200])}")
        body = self._json(text)
        if body.get("error") or body.get("type") == "error":
            raise from_stream(body.get("error") or error_fields(body), self.source)
        return self._told(self._whole(body))

    def _begin(self, chunk: bytes) -> Framing | None:
        """A decoder for an event stream once the bytes look like one; else they are one body."""
        self._body.append(chunk)
        if self._size == 0:
            start = b"".join(self._body)
            if _BOM.startswith(start) or not (start := start.removeprefix(_BOM).lstrip()):
                return None
            self._frames = self._framing(start)
            if self._frames is not None:
                return self._frames
        self._size += len(chunk)
        if self._size > MAX_EVENT:
            raise BadReply(f"the reply is larger than {MAX_EVENT:,} bytes")
        return None

    def _framing(self, start: bytes) -> Framing | None:
        """What takes a stream apart that begins like this; None where it is one JSON body."""
        return SSEDecoder() if start[0] in b":edir" else None  # a comment, event, data, id, retry

    def _json(self, data: bytes) -> dict[str, Any]:
        try:
            value = _decode(data)
        except (ValueError, RecursionError):
            try:
                value = _valid(json.loads(data.decode("utf-8", "replace"), strict=False))
            except (ValueError, RecursionError):
                shown = self.source.clean(data[:120].decode("utf-8", "replace"))
                raise BadReply(f"the reply is not JSON, or cut off: {shown!r}") from None
        if not isinstance(value, dict):
            raise BadReply(f"the reply is not a JSON object: {value!r:.120}")
        return cast("dict[str, Any]", value)

    def _told(self, response: Response) -> Response:
        """Emit a reply that came whole, as if it had been streamed."""
        for block in response.message.content:
            if type(block) is Text:
                self.emit(TextDelta(block.text))
            elif type(block) is Thinking and block.text:
                self.emit(ThinkingDelta(block.text))
            elif type(block) is ToolCall and block.raw is None:
                self.emit(ToolCallReady(block))
        return response

    def _event(self, name: str, data: bytes) -> bool:
        raise NotImplementedError

    def _response(self) -> Response:
        raise NotImplementedError

    def _whole(self, body: dict[str, Any]) -> Response:
        raise NotImplementedError


_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


def arguments(raw: object) -> tuple[dict[str, Any], str | None]:
    """A call's arguments, and their own text where they are no JSON object.

    Nothing, `null`, `""` and `"{}"` all mean no arguments; an object that was encoded twice is
    decoded twice.
    """
    if isinstance(raw, dict):
        return cast("dict[str, Any]", raw), None
    if raw is None:
        return {}, None
    if not isinstance(raw, str):
        return {}, dumps(raw).decode()
    value: object = raw
    for _ in range(2):
        if isinstance(value, str):
            if not value.strip():
                return {}, None
            value = _parsed(value)
    if isinstance(value, dict):
        return cast("dict[str, Any]", value), None
    return ({}, None) if value is None else ({}, raw)


def _parsed(text: str) -> object:
    """The JSON value, or `NotImplemented` for what is none."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):  # half a surrogate pair is a ValueError too
        pass
    try:
        # models forget to escape line breaks inside strings; NaN is no value for a tool
        return _valid(json.loads(text, strict=False, parse_constant=_no_constant))
    except (ValueError, RecursionError):
        return NotImplemented


def _no_constant(name: str) -> object:
    raise ValueError(name)


def call_id(given: object) -> str:
    """The provider's id of a call, or one of our own where it gave none."""
    return given if isinstance(given, str) and given else seams.new_id("call")


# A reply may hold anything anywhere; these read it as what it should be, or as nothing.


def as_dict(value: object) -> dict[str, Any]:
    """The object, or an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The array, or an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The text, or none."""
    return value if isinstance(value, str) else ""


def amount(value: object) -> float | None:
    """The sum in dollars, or None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        return None
    return float(value)


def whole(value: object) -> int:
    """The count, or 0."""
    return value if type(value) is int and value > 0 else 0


# --------------------------------------------------------------------------- requests


def dumps(value: object) -> bytes:
    """JSON bytes of anything, also of text that is no valid Unicode and of very large numbers."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        plain = msgspec.to_builtins(value)
        return json.dumps(_valid(plain), ensure_ascii=False, separators=(",", ":")).encode()


def _valid(value: Any) -> Any:
    """The value with halves of surrogate pairs replaced: no journal and no wire could carry them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_valid(k): _valid(v) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_valid(item) for item in cast("Sequence[Any]", value)]
    return value


_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_MARKED: Final = re.compile(r"-x[0-9a-f]{10}\Z")


@lru_cache(maxsize=8192)
def safe_name(name: str, limit: int = 64) -> str:
    """A name every provider takes: itself, or a readable stem with a mark made of the whole name.

    A function of the name alone, so that a message reads the same in every request. A name that
    already looks marked is marked again, so that two names never meet.
    """
    if len(name) <= limit and _NAME.match(name) and not _MARKED.search(name):
        return name
    mark = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    stem = re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[: limit - 12].strip("_-") or "tool"
    return f"{stem}-x{mark}"


def joined(base: str, path: str, *, when: Callable[[str], str]) -> str:
    """`base` with `path` after what `when` makes of its own path; a query stays at the end."""
    parts = urlsplit(base)
    own = parts.path.rstrip("/")
    if not own.endswith(path):
        own = when(own) + path
    return urlunsplit((parts.scheme, parts.netloc, own, parts.query, ""))
