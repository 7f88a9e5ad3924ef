"""`scope.models.generate` over HTTP: one POST, answered by server-sent events.

An ASGI app, to be run by any ASGI server (`uvicorn shop:app`) or mounted in another app.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeGuard, Unpack, cast

import msgspec

from windlass.access.caller import Caller
from windlass.errors import ConfigError, nearest
from windlass.generate.api import GenerateChunk, GenerateResult
from windlass.generate.options import parse_generate_options
from windlass.generate.resume import OF_THE_SESSION
from windlass.json_types import JsonObject, as_given, is_list
from windlass.loop.resume_input import Allow, AnswerScope, Deny
from windlass.runtime.runtime import Runtime
from windlass.server.identify import Identify, Receive, Scope, Send, identify_caller
from windlass.server.limits import lower_limits
from windlass.server.refusal import RequestRefused, describe_failure, refuse
from windlass.server.turns import MediaUrls, TurnRules
from windlass.tools.function import as_tools

if TYPE_CHECKING:
    from windlass.generate.keywords import GenerateOpts

#: Fields that a client may send; the host decides all others.
CLIENT: Final = (
    "input",
    "stream",
    "tools",
    "tool_mode",
    "max_tool_iterations",
    "max_tokens",
    "max_output_tokens",
    "max_cost_usd",
    "include_tool_trace",
    "conversation",
    "on_pending",
    "resume",
    "decisions",
)
#: Fields that begin an answer, which do not go with those that resume one.
_BEGINS: Final = ("input", "conversation", "on_pending")
BEAT: Final = 15.0  # seconds of silence after which a comment keeps the connection open


def generate_app(
    runtime: Runtime,
    identify: Identify,
    *,
    origins: Sequence[str] = (),
    client_decisions: bool = False,
    media_urls: MediaUrls = (),
    client_history: bool = False,
    max_messages: int = 200,
    max_body_bytes: int = 1 << 20,
    body_timeout: float = 30.0,
    **options: Unpack[GenerateOpts],
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Build an ASGI app that answers `POST {"input": "…"}` with server-sent events.

    ```python
    def who(headers): return CALLERS.get(headers.get("authorization"))   # None: 401
    app = generate_app(scope, who, model="anthropic:claude-sonnet-4-5", max_cost_usd=0.50)
    ```
    `options` are those of `generate`. A client may lower a limit and select tools, nothing more. A
    browser is refused unless its origin is in `origins`.

    If a call waits for approval, the answer is `409 suspended` with a `session_id` and what is
    `pending`; `POST {"resume": "…"}` continues after it was answered. With `client_decisions` the
    client may answer: `{"resume": "…", "decisions": {"call_1": true}}`.

    A client sends messages of the user: text, images and documents. `client_history` also allows
    messages of the assistant and of tools. `media_urls` says which addresses of images and
    documents are allowed (globs, or `fn(url)`); none by default. A body may have `max_body_bytes`
    and must arrive within `body_timeout` seconds. With `include_tool_trace=True` a client may ask
    for the trace.
    """
    if not callable(as_given(identify)):
        raise ConfigError("identify is fn(headers) that answers a Caller, or None for nobody")
    parse_generate_options(dict(options))  # a mistake of the host's is one of now
    turns = TurnRules(
        client_history=client_history, media_urls=media_urls, max_messages=max_messages
    )
    body = _Body(max_body_bytes, body_timeout)
    return _App(runtime, identify, frozenset(origins), client_decisions, turns, body, dict(options))


class _App:
    def __init__(
        self,
        runtime: Runtime,
        identify: Identify,
        origins: frozenset[str],
        client_decisions: bool,
        turns: TurnRules,
        body: _Body,
        options: JsonObject,
    ) -> None:
        self.runtime, self.identify, self.origins = runtime, identify, origins
        self.client_decisions = client_decisions
        self.turns, self.body, self.options = turns, body, options
        self.offered = _index_tools(options.get("tools"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; acknowledge the lifespan of a server."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        try:
            caller, asked = await self._read(scope, receive)
        except Exception as error:
            await _respond(send, *describe_failure(error))
            return
        traced = asked["include_tool_trace"]
        if asked.pop("stream"):
            await _send_stream(self._chunks(asked, caller), receive, send, traced)
        else:
            await self._whole(asked, caller, receive, send)

    async def _read(self, scope: Scope, receive: Receive) -> tuple[Caller, JsonObject]:
        if scope["method"] != "POST":
            raise RequestRefused(405, "method_not_allowed", "ask with POST")
        headers = _headers(scope["headers"])
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins:
            raise RequestRefused(
                403, "origin_not_allowed", f"requests from {origin} are not answered"
            )
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise RequestRefused(415, "unsupported_media_type", "the body is application/json")
        caller = await identify_caller(self.identify, headers)
        asked = self._parse_body(await self.body.read(receive), caller)
        if self.offered is not None and "tools" not in asked:
            asked["tools"] = self._for(caller, self.offered)
        return caller, asked

    def _for(self, caller: Caller, offered: Mapping[str, Any]) -> list[Any]:
        """Return the host's tools that the caller may use; refuse an unknown name."""
        may = {tool.name for tool in self.runtime.tools(caller)}
        known = {tool.name for tool in self.runtime.tools()}
        for name, tool in offered.items():
            if isinstance(tool, str) and name not in known:
                raise refuse(f"there is no tool {name!r} here{nearest(name, may)}")
        return [t for name, t in offered.items() if not isinstance(t, str) or name in may]

    def _parse_body(self, body: bytes, caller: Caller) -> JsonObject:
        try:
            asked = msgspec.json.decode(body, type=JsonObject)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise refuse(f"the body is no JSON object: {error}") from None
        for name in asked:
            if name not in CLIENT:
                hint = nearest(name, CLIENT, "fields") or f"; there is {', '.join(sorted(CLIENT))}"
                raise refuse(f"there is no field {name!r}{hint}")
        asked = {name: value for name, value in asked.items() if value is not None}
        if "resume" in asked:
            self._check_resume(asked)
        elif "input" not in asked:
            raise refuse("say what you want as `input`")
        else:
            self.turns.check(asked["input"])
        if "tools" in asked:
            asked["tools"] = self._among_ours(asked["tools"], caller)
        return {**asked, **self._choices(asked), **lower_limits(self.options, asked)}

    def _choices(self, asked: Mapping[str, Any]) -> JsonObject:
        """Check the client's choices beside limits; the host's stricter choice wins."""
        stream = _boolean("stream", asked.get("stream", True))
        traced = _boolean("include_tool_trace", asked.get("include_tool_trace", False))
        mode = asked.get("tool_mode", self.options.get("tool_mode", "auto"))
        if mode not in ("auto", "return"):
            raise refuse("tool_mode is one of 'auto', 'return'")
        if self.options.get("tool_mode") == "return":
            mode = "return"
        allowed = self.options.get("include_tool_trace") is True
        return {"stream": stream, "include_tool_trace": traced and allowed, "tool_mode": mode}

    def _check_resume(self, asked: JsonObject) -> None:
        """Check a resume; decisions only where the host lets clients decide."""
        if not isinstance(asked["resume"], str) or not asked["resume"]:
            raise refuse("resume is the session_id of a parked answer")
        for name in _BEGINS:
            if name in asked:
                raise refuse(f"resume takes no {name}")
        if "decisions" not in asked:
            return
        if not self.client_decisions:
            raise RequestRefused(403, "permission_denied", "clients do not decide about calls here")
        asked["decisions"] = _decisions(asked["decisions"])

    def _among_ours(self, tools: object, caller: Caller) -> list[Any]:
        """Return the client's choice among the host's tools, by name."""
        if not _names(tools):
            raise refuse("tools is a list of names")
        names = tools
        may: JsonObject = {tool.name: tool.name for tool in self.runtime.tools(caller)}
        among = may
        if self.offered is not None:
            among = {n: t for n, t in self.offered.items() if not isinstance(t, str) or n in may}
        for name in names:
            if name not in among:
                raise refuse(f"there is no tool {name!r} here{nearest(name, among)}")
        return [among[name] for name in names]

    def _merge_options(self, asked: JsonObject) -> Any:
        """Merge the host's options and the client's; a resumed session keeps its own."""
        typed = {**self.options, **asked}
        if "resume" in asked:
            typed = {name: value for name, value in typed.items() if name not in OF_THE_SESSION}
        return typed

    async def _chunks(self, asked: JsonObject, caller: Caller) -> AsyncIterator[GenerateChunk]:
        models, typed = self.runtime.models, self._merge_options(asked)
        if "resume" in typed:
            stream = models.resume_stream(typed.pop("resume"), caller=caller, **typed)
        else:
            stream = models.generate_stream(typed.pop("input"), caller=caller, **typed)
        try:
            async for chunk in stream:
                yield chunk
        finally:
            await cast("Any", stream).aclose()

    async def _whole(self, asked: JsonObject, caller: Caller, receive: Receive, send: Send) -> None:
        models, typed = self.runtime.models, self._merge_options(asked)
        answering = asyncio.ensure_future(
            models.resume(typed.pop("resume"), caller=caller, **typed)
            if "resume" in typed
            else models.generate(typed.pop("input"), caller=caller, **typed)
        )
        async with _departure(receive) as leaving:
            try:
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:  # the client has left, or the server stops
                if not answering.done():
                    answering.cancel()
                    await asyncio.wait({answering})
        if answering.cancelled():
            return
        failed = answering.exception()
        if failed is None:
            await _respond(send, 200, _plain(answering.result()))
        elif isinstance(failed, Exception):
            failure = describe_failure(failed, with_trace=asked["include_tool_trace"])
            await _respond(send, *failure)
        else:
            raise failed


async def _send_stream(
    chunks: AsyncIterator[GenerateChunk], receive: Receive, send: Send, traced: bool
) -> None:
    """Send pieces as they arrive; a client that has left ends the run at once."""
    head = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    async with _departure(receive) as leaving:
        try:
            async for event in _events(chunks, leaving, traced):
                await send({"type": "http.response.body", "body": event, "more_body": True})
            if not leaving.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            pass  # it left between two looks
        finally:
            await cast("Any", chunks).aclose()


async def _events(
    chunks: AsyncIterator[GenerateChunk], leaving: asyncio.Future[None], traced: bool
) -> AsyncIterator[bytes]:
    piece: asyncio.Future[GenerateChunk] | None = None
    try:
        while not leaving.done():
            if piece is None:
                piece = asyncio.ensure_future(anext(chunks))
            done, _ = await asyncio.wait(
                {piece, leaving}, timeout=BEAT, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                yield b": still here\n\n"
            elif piece in done:
                chunk, piece = piece.result(), None
                yield _event("chunk" if chunk.finish_reason is None else "done", _plain(chunk))
    except StopAsyncIteration:
        return
    except Exception as error:
        yield _event("error", describe_failure(error, with_trace=traced)[1])
    finally:
        if piece is not None and not piece.done():
            piece.cancel()
            await asyncio.wait({piece})


def _event(name: str, document: Any) -> bytes:
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(document) + b"\n\n"


def _plain(thing: GenerateChunk | GenerateResult) -> JsonObject:
    plain = cast("JsonObject", msgspec.to_builtins(thing))
    return {name: value for name, value in plain.items() if value is not None}


def _index_tools(tools: Sequence[Any] | None) -> JsonObject | None:
    """Index the host's tools by name; None for all that the caller may use."""
    if tools is None:
        return None
    found: JsonObject = {}
    for one in tools:
        if isinstance(one, str) and ":" not in one:
            found[one] = one
        else:
            found |= {tool.name: tool for tool in as_tools([one])}
    return found


def _headers(given: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name; repeated ones are joined, so that none is overridden."""
    found: dict[str, str] = {}
    for name, value in given:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _boolean(name: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise refuse(f"{name} is true or false")
    return given


def _decisions(given: object) -> dict[str, Allow | Deny]:
    """Parse decisions by call: true, false, or `{"allow": …, "reason": …, "scope": …}`."""
    try:
        parsed = msgspec.convert(given, dict[str, bool | _DecisionBody])
    except msgspec.ValidationError as error:
        shape = '{call: true | false | {"allow": …, "reason": …, "scope": "once" | "session"}}'
        message = f"decisions is {shape}: {error}"
        raise refuse(message) from None
    plain = {
        call: _DecisionBody(one) if isinstance(one, bool) else one for call, one in parsed.items()
    }
    return {
        call: Allow(reason=one.reason, scope=one.scope)
        if one.allow
        else Deny(one.reason, scope=one.scope)
        for call, one in plain.items()
    }


class _DecisionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A decision as a client writes it."""

    allow: bool
    reason: str | None = None
    scope: AnswerScope = "once"


def _names(value: object) -> TypeGuard[list[str]]:
    if not is_list(value):
        return False
    # no "module:function": a client names tools, it does not load code
    return all(isinstance(one, str) and ":" not in one for one in value)


class _Body:
    """The body of a request: so many bytes at most, within so many seconds."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds

    async def read(self, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(self.seconds):
                return await self._read(receive)
        except TimeoutError:
            raise RequestRefused(
                408, "request_timeout", "the request took too long to arrive"
            ) from None

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise refuse("the request broke off")
            body += message.get("body", b"")
            if len(body) > self.most:
                raise RequestRefused(413, "too_large", f"a request has at most {self.most} bytes")
            if not message.get("more_body"):
                return bytes(body)


@asynccontextmanager
async def _departure(receive: Receive) -> AsyncGenerator[asyncio.Future[None]]:
    """Yield a future that is done once the client has left."""
    leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        yield leaving
    finally:
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _respond(send: Send, status: int, document: Any) -> None:
    body = msgspec.json.encode(document)
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
