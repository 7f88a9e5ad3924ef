"""Base of the HTTP wires: a model's endpoint, its transport, and requests in pieces.

A request is a head (made once for a frame), the messages (each made once, see `view.py`) and the
tail. Nothing of it depends on anything but the request and the model's own name, so the same
journal gives the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, Final, TypedDict, TypeVar, Unpack
from weakref import ref

import msgspec

from windlass.errors import BadReply, ConfigError, ModelError, StreamBroken, nearest
from windlass.json_types import JsonObject
from windlass.messages import Message, Origin
from windlass.models.base import Emit, Frame, Model, Request, Response, Settings, pieces
from windlass.models.estimates import check_usage
from windlass.models.meter import receive_part
from windlass.models.registry import prices
from windlass.models.registry.capabilities import Capabilities, Lowering, Wire
from windlass.models.registry.config import Endpoint
from windlass.models.registry.registry import capabilities_of
from windlass.models.registry.scope import ENDPOINTS, environ
from windlass.models.transport import base as transport
from windlass.models.transport.base import (
    Deadline,
    HttpReply,
    Timeouts,
    Transport,
)
from windlass.models.transport.errors import Source, from_http
from windlass.models.wires.decoder import Decoder
from windlass.models.wires.json_values import (
    as_dict,
    join_url,
    loads,
    safe_name,
)
from windlass.redaction.redactor import Secret, looks_secret, secrets_in
from windlass.slices import SHORT
from windlass.usage import Usage

_AUTH: Final = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
_REQUEST_ID: Final = ("request-id", "x-request-id", "x-amzn-requestid")
_GRACE: Final = 0.05  # seconds for a stream's last frame, so that its connection can be used again
_ERROR_BODY: Final = 1024 * 1024
_T = TypeVar("_T")


class EncodedFrame(msgspec.Struct, frozen=True):
    """A frame as encoded by a wire, up to the first message."""

    head: bytes
    names: dict[str, str]  # tools with a name of the wire's own: wire name -> tool name


class Access(TypedDict, total=False):
    """Options that reach a model, the same on every wire; None counts as absent.

    Without an `endpoint` the provider's is taken, at the address that the environment gives it.
    """

    api_key: str | Secret | None
    base_url: str | None
    headers: Mapping[str, str | Secret] | None
    timeout: float | None  # seconds for a whole answer
    provider: str | None
    endpoint: Endpoint | None
    timeouts: Timeouts | None
    transport: Transport | None


class HttpModel(Model):
    """Base class of a model behind HTTP. Wires define how a request and a reply look."""

    remote = True
    reports_parts = True
    wire: ClassVar[Wire]
    home: ClassVar[str]  # the provider where none is named
    rules: ClassVar[str]  # the module whose `check(body)` refuses what the provider refuses
    makes_addresses: ClassVar[bool] = False  # from the model's name: `chat_endpoint` has no meaning
    image_types: ClassVar[tuple[str, ...]] = ()  # that the provider takes; empty: not known
    moves_result_media: ClassVar[bool] = True  # out of a tool's result, into a message of the user
    streams_json: ClassVar[bool] = False  # as lines of JSON, not as server-sent events
    least_output: ClassVar[int] = 1  # tokens: the smallest `max_tokens` that it takes
    # For `windlass doctor`: ways to ask for thinking, the likeliest first; what some servers want in a
    # history, tried one after the other; what marks a piece of a call's arguments in a stream.
    thinking_forms: ClassVar[tuple[Lowering, ...]] = ()
    history_needs: ClassVar[tuple[JsonObject, ...]] = ()
    argument_mark: ClassVar[bytes | None] = None

    def __init__(self, name: str, **access: Unpack[Access]) -> None:
        for keyword in access:
            if keyword not in Access.__annotations__:
                raise ConfigError(
                    f"{self.wire} models take no {keyword}={nearest(keyword, Access.__annotations__)}"
                )
        provider, endpoint = access.get("provider") or self.home, access.get("endpoint")
        base_url = access.get("base_url") or None
        if endpoint is None:
            endpoint = self._endpoint(provider, base_url)
            base_url = base_url or endpoint.address(environ())
        if not name:
            raise ConfigError(f"provider {endpoint.name!r} needs a model name")
        self.name, self.provider = name, endpoint.name
        self.endpoint = endpoint
        self.info = prices.lookup(endpoint.name, name)
        self.tariff = prices.tariff(endpoint.name, name)
        self.caps = capabilities_of(endpoint.name, name)
        self.native_tools = self.caps.native_tools
        if self.info is not None:
            self.context_window = self.info.context_window
        self.base_url = base_url or endpoint.base_url
        chat = endpoint.chat_endpoint
        self.url = join_url(self.base_url, chat, when=str) if chat else self._url(self.base_url)
        self.headers: dict[str, str | Secret] = {
            key.lower(): Secret(value) if key.lower() in _AUTH or looks_secret(key) else value
            for key, value in {**endpoint.headers, **(access.get("headers") or {})}.items()
        }
        self.timeouts = access.get("timeouts") or Timeouts()
        timeout, api_key = access.get("timeout"), access.get("api_key")
        self.timeout = timeout if timeout is not None else self.timeouts.total
        self._key = Secret(api_key) if api_key is not None else None
        self._own_url = base_url is not None
        self._transport = access.get("transport")
        self._origin = Origin(self.provider, name)
        # encoded messages are kept under this: another row writes the same message in another way
        self._cached = f"{self.wire}/{self.provider}/{name}/{hash(self.caps)}"
        self._frames: dict[int, tuple[ref[Frame], EncodedFrame]] = {}

    @classmethod
    def _endpoint(cls, provider: str, base_url: str | None) -> Endpoint:
        """Return the endpoint of a provider by name; an unknown one gets the wire's default."""
        if (known := ENDPOINTS.get(provider)) is not None:
            return known
        return msgspec.structs.replace(ENDPOINTS[cls.home], name=provider)

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do, by its row."""
        return self.caps

    @property
    def address(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The URL, with the headers that are no secret: they may name an organization."""
        plain = sorted((k, v) for k, v in self.headers.items() if not isinstance(v, Secret))
        return f"{self.url} {plain}" if plain else self.url

    # ----------------------------------------------------------------------- keys

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The key and whatever secret headers there are, for the redactor."""
        found = [held.reveal() for held in self.headers.values() if isinstance(held, Secret)]
        found += [words[-1] for value in found if len(words := value.split()) > 1]  # Bearer …
        if "@" in self.base_url:
            found += secrets_in("base_url", self.base_url)
        key = self._api_key()
        return (*found, key) if key is not None else tuple(found)

    def _api_key(self) -> str | None:
        if self._key is None:  # whose Runtime asks, has its own
            env = environ()
            found = next(filter(None, map(env.get, self.endpoint.key_env)), None)
        else:
            found = self._key.reveal()
        return found.strip() or None if found is not None else None

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

    def rule_options(self, body: JsonObject) -> JsonObject:
        """Return the keyword arguments of `check` in the module `rules` for this model."""
        return {}

    def _url(self, base: str) -> str:
        raise NotImplementedError

    def _auth(self, key: str) -> dict[str, str]:
        raise NotImplementedError

    def _head(self, frame: Frame) -> bytes:
        """Encode the request up to its first message, without a comma after it."""
        raise NotImplementedError

    def _message(self, message: Message) -> bytes:
        """Encode a message followed by a comma, or return no bytes for an empty one."""
        raise NotImplementedError

    def _count_system_messages(self, messages: Sequence[Message]) -> int:
        """Count the leading messages that belong to the system prompt."""
        return 0

    def decoder(self, request: Request, emit: Emit) -> Decoder:
        """Build the decoder that turns the reply's bytes into a `Response`; needs no network."""
        raise NotImplementedError

    # ----------------------------------------------------------------------- the request

    def encode(self, request: Request) -> list[bytes]:
        """Encode the request's body in pieces: `b"".join(model.encode(request))` is JSON."""
        messages, frame = request.messages, request.frame
        skip = (
            self._count_system_messages(messages)
            if messages and messages[0].role == "system"
            else 0
        )
        if skip:
            system_texts = [frame.system or "", *(message.text for message in messages[:skip])]
            frame = msgspec.structs.replace(frame, system="\n\n".join(filter(None, system_texts)))
            head = self._head(frame)
            above = {id(message) for message in messages[:skip]}
            body = pieces(
                messages,
                f"{self._cached}/{skip}",
                lambda message: b"" if id(message) in above else self._message(message),
            )
        else:
            head = self.encode_frame(frame).head
            body = self._pieces(messages)
        body.insert(0, head)
        body += self._tail(request)
        for at in range(len(body) - 1, -1, -1):
            if body[at]:
                body[at] = body[at].removesuffix(b",")
                break
        body.append(b"]}")
        return body

    def _pieces(self, messages: Sequence[Message]) -> list[bytes]:
        """Encode the messages; those encoded before are taken from the cache."""
        return pieces(messages, self._cached, self._message)

    def _tail(self, request: Request) -> list[bytes]:
        return [self._message(message) for message in request.tail]

    def encode_frame(self, frame: Frame) -> EncodedFrame:
        """Encode the frame, once for as long as the frame object is alive."""
        key = id(frame)
        found = self._frames.get(key)
        if found is not None and found[0]() is frame:
            return found[1]
        framed = self._make(frame)
        self._frames[key] = (ref(frame, lambda _gone: self._frames.pop(key, None)), framed)
        return framed

    def _make(self, frame: Frame) -> EncodedFrame:
        names = {safe: t.name for t in frame.tools if (safe := safe_name(t.name)) != t.name}
        return EncodedFrame(self._head(frame), names)

    # ----------------------------------------------------------------------- the call

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Call the provider, streamed or plain as the settings say."""
        self.check()
        settings, body = request.frame.settings, self.encode(request)
        response = await self._exchange(settings, body, self.decoder(request, emit))
        return check_usage(self, request, response, sum(map(len, body)))

    async def _exchange(
        self, settings: Settings, body: Sequence[bytes], decoder: Decoder, at: str | None = None
    ) -> Response:
        """Send a body and read the reply; `at` is another address than the usual one."""

        async def read(reply: HttpReply, deadline: Deadline) -> Response:
            try:
                return await self._read(reply, decoder, deadline)
            except BaseException:
                if 200 <= reply.status < 300:  # what has come is paid for
                    receive_part(decoder.partial())
                raise

        return await self._send(settings, body, at, read)

    async def _question(self, settings: Settings, body: Sequence[bytes], at: str) -> JsonObject:
        """Post a question outside the conversation, such as a token count, and return its object."""

        async def read(reply: HttpReply, _deadline: Deadline) -> JsonObject:
            answer = await transport.read_whole(reply, _ERROR_BODY)
            if not 200 <= reply.status < 300:
                raise from_http(reply.status, reply.headers, answer, self._source())
            try:
                return as_dict(loads(answer))
            except (ValueError, RecursionError):
                raise BadReply("the answer is not JSON") from None

        plain = msgspec.structs.replace(settings, stream=False)
        return await self._send(plain, body, at, read)

    async def _send(
        self,
        settings: Settings,
        body: Sequence[bytes],
        at: str | None,
        read: Callable[[HttpReply, Deadline], Awaitable[_T]],
    ) -> _T:
        total = settings.timeout if settings.timeout is not None else self.timeout
        idle = self.timeouts.idle if settings.stream else None
        request_id: str | None = None
        try:
            with Deadline(total=total, idle=idle, first=self._patience(total)) as deadline:
                url, headers = await self._address_request(settings, body, at)
                try:
                    reply = await (self._transport or shared_transport()).send(
                        "POST", url, headers, body, connect=self.timeouts.connect
                    )
                except asyncio.CancelledError:  # or out of time: the provider may be at work
                    receive_part(None)
                    raise
                request_id = next(
                    (reply.headers[n] for n in _REQUEST_ID if n in reply.headers), None
                )
                if (listener := transport.heard.get()) is not None:
                    listener(reply.headers)
                try:
                    return await read(reply, deadline)
                finally:
                    reply.close()
        except ModelError as error:
            if error.code == transport.UNREACHABLE and not self.endpoint.key_env:
                error.args = (f"{error}; {self._server_hint()}",)
            error.provider, error.model = error.provider or self.provider, error.model or self.name
            error.request_id = error.request_id or request_id
            raise

    async def _read(self, reply: HttpReply, decoder: Decoder, deadline: Deadline) -> Response:
        if not 200 <= reply.status < 300:
            explained = await transport.read_whole(reply, _ERROR_BODY)
            raise from_http(reply.status, reply.headers, explained, self._source())
        try:
            read, feed, progress = reply.read, decoder.feed, deadline.progress
            taken = 0
            while chunk := await read():
                if (size := len(chunk)) > SHORT:
                    await _feed_slices(chunk, decoder, deadline)
                elif feed(chunk):
                    progress()
                if decoder.done:
                    break
                # what has come already is read without waiting: others want to run as well
                if (taken := taken + size) >= SHORT:
                    taken = 0
                    await asyncio.sleep(0)
        except StreamBroken:
            if not decoder.complete:
                raise
        response = decoder.finish()
        if decoder.done:
            await _drain(reply)
        return response

    def _server_hint(self) -> str:
        """Return the advice shown when a local or self-hosted server does not answer."""
        if self._own_url or not self.endpoint.base_env:
            return "is the server running?"
        return f"start the server, or say in {self.endpoint.base_env[0]} where it is"

    def _patience(self, total: float) -> float | None:
        """Return how long the first event may take: thinking and long prompts delay it."""
        return total if self.caps.thinking or not self.endpoint.key_env else self.timeouts.first

    async def _address_request(
        self, settings: Settings, body: Sequence[bytes], at: str | None = None
    ) -> tuple[str, dict[str, str]]:
        """Return the URL and headers of a request; a wire may sign it or fetch a token here."""
        return at or self.url, self._headers()

    def _key_headers(self, key: str) -> dict[str, str]:
        """Build the header of the API key, as the provider is configured or as the wire has it."""
        configured = self.endpoint.auth(key)
        return self._auth(key) if configured is None else configured

    def _headers(self) -> dict[str, str]:
        auth: dict[str, str] = {}
        if (key := self._api_key()) is not None:
            configured = self.endpoint.auth(key)
            auth = self._auth(key) if configured is None else configured
        return {
            "content-type": "application/json",
            "user-agent": "windlass",
            **{name.lower(): value for name, value in self.endpoint.headers.items()},
            **auth,
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
        """Return the dollars of a usage, as billed or else by the price catalogue."""
        if usage.cost_usd is not None:
            return usage.cost_usd
        return prices.price_usage(self.tariff, self.provider, self.name, usage)

    def unpriced(self) -> Model | None:
        """Return the model itself if nothing gives its price; self-hosted servers are free."""
        return None if self.tariff.known or self.provider in prices.FREE else self


async def _feed_slices(chunk: bytes, decoder: Decoder, deadline: Deadline) -> None:
    """Feed a long chunk in slices, between which others run."""
    for at in range(0, len(chunk), SHORT):
        if at:
            await asyncio.sleep(0)
        if decoder.feed(chunk[at : at + SHORT]):
            deadline.progress()
        if decoder.done:
            return


async def _drain(reply: HttpReply) -> None:
    try:
        with Deadline(total=_GRACE):
            while await reply.read():
                pass
    except ModelError:
        pass  # the answer is here; a connection that does not end in time is dropped


_shared: Transport | None = None


def shared_transport() -> Transport:
    """Return the transport of the process: one pool of connections for each event loop."""
    global _shared
    if _shared is None:
        # The HTTP client is heavy, and many models never send a request.
        from windlass.models.transport.http import AiohttpTransport

        _shared = AiohttpTransport()
    return _shared


async def aclose() -> None:
    """Close what the shared transport holds open on this event loop.

    A loop that is shut down the usual way (`asyncio.run`) does this by itself.
    """
    if _shared is not None:
        await _shared.aclose()
