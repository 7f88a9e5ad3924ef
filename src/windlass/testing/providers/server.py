"""The base of fake providers: checks each request, runs the script, acts out the fault.

What a provider's requests and answers look like is in its own file; this one knows HTTP.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from aiohttp import web

from windlass import errors
from windlass.models.wires.rules import Rejected as Rejected
from windlass.testing.providers.faults import (
    HTML,
    Body,
    Fault,
    Faults,
    Hangup,
    Headers,
    Pieces,
    Silence,
    Status,
    Twist,
    WireName,
    choose,
    retry_headers,
)
from windlass.testing.providers.frames import (
    Data,
    Frame,
    Reframe,
    Rewrite,
    encode,
)
from windlass.testing.providers.reply import (
    Asked,
    Reply,
    Script,
    as_script,
)

T = TypeVar("T")
LONGEST = 30.0  # seconds a silent connection is held at most
LARGEST = 64 * 2**20  # bytes of a request


class FakeServer:
    """The base class of fake providers, such as `FakeAnthropic` and `FakeOpenAI`.

    `requests` has everything that arrived, `refused` what the provider would refuse. An error in
    the script is raised when the server closes.
    """

    wire: ClassVar[WireName]
    path: ClassVar[str]
    base: ClassVar[str]  # what a client's base_url ends in
    ping: ClassVar[bytes]
    media: ClassVar[str] = "text/event-stream; charset=utf-8"  # of a stream
    rewrites: ClassVar[Mapping[str, Rewrite]]
    reframes: ClassVar[Mapping[str, Reframe]]

    def __init__(
        self, script: Script | Reply | str, *, faults: Faults = None, api_key: str | None = None
    ) -> None:
        self.script, self.faults, self.api_key = as_script(script), faults, api_key
        self.requests: list[Asked] = []
        self.refused: list[Rejected] = []
        self.port = 0
        self._mistake: Exception | None = None
        self._closing = asyncio.Event()
        self._came = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._connections: WeakKeyDictionary[asyncio.BaseTransport, int] = WeakKeyDictionary()
        self._opened = 0

    @property
    def url(self) -> str:
        """The `base_url` to give to a client."""
        return f"http://127.0.0.1:{self.port}{self.base}"

    async def arrived(self, count: int = 1, *, within: float = LONGEST) -> Asked:
        """Wait for request number `count`, counted from 1; for example to cancel its caller."""
        async with asyncio.timeout(within):
            while len(self.requests) < count:
                self._came.clear()
                await self._came.wait()
        return self.requests[count - 1]

    async def __aenter__(self):
        app = web.Application(client_max_size=LARGEST)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._mistake is not None and kind is None:
            raise self._mistake

    # ----------------------------------------------------------------- overridden by each provider

    def check(self, asked: Asked) -> None:
        """Raise `Rejected` for what the provider would refuse."""
        raise NotImplementedError

    def plain(self, asked: Asked, reply: Reply) -> Data:
        """Build the whole answer as one JSON object."""
        raise NotImplementedError

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        """Build the answer as a stream of events."""
        raise NotImplementedError

    def error(self, problem: Rejected) -> Data:
        """Build an error in the provider's shape."""
        raise NotImplementedError

    def headers(self, asked: Asked) -> dict[str, str]:
        """Build the headers of every answer."""
        raise NotImplementedError

    def serves(self, asked: Asked) -> bool:
        """Check whether anything is served at this path."""
        return asked.path == self.path

    def streams(self, asked: Asked) -> bool:
        """Check whether the client wants a stream."""
        return asked.streamed

    def written(self, frame: Frame) -> bytes:
        """Encode one event of the stream."""
        return encode(frame)

    # ----------------------------------------------------------------- the exchange

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        asked = await self._record(request)
        try:
            self._route(asked)
            self.check(asked)
            fault = choose(self.faults, asked.index, asked)
            reply = self.script(asked.json, asked.headers)
            chunks = self._chunks(asked, reply, fault)
        except Rejected as problem:
            self.refused.append(problem)
            return self._refusal(asked, problem, {})
        except Exception as mistake:
            self._mistake = self._mistake or mistake
            return self._refusal(asked, Rejected(f"the script failed: {mistake!r}"), {})
        if isinstance(fault, Status):
            return self._status(asked, fault)
        return await self._answer(request, asked, chunks, fault)

    async def _record(self, request: web.Request) -> Asked:
        body = await request.read()
        try:
            json: Any = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            json = None
        transport = request.transport
        if transport is not None and transport not in self._connections:
            self._connections[transport] = self._opened
            self._opened += 1
        asked = Asked(
            index=len(self.requests),
            method=request.method,
            path=request.path,
            headers={name.lower(): value for name, value in request.headers.items()},
            body=body,
            json=json,
            connection=self._connections[transport] if transport is not None else -1,
            query=request.query_string,
        )
        self.requests.append(asked)
        self._came.set()
        return asked

    def _route(self, asked: Asked) -> None:
        if not self.serves(asked):
            raise Rejected(f"no such path: {asked.path}", status=404)
        if asked.method != "POST":
            raise Rejected(f"{asked.method} is not allowed on {asked.path}", status=405)
        if not isinstance(asked.json, dict):
            raise Rejected("the request body is not a valid JSON object")

    def _refusal(self, asked: Asked, problem: Rejected, more: dict[str, str]) -> web.Response:
        return web.Response(
            status=problem.status,
            body=msgspec.json.encode(self.error(problem)),
            headers={**self.headers(asked), "content-type": "application/json", **more},
        )

    def _status(self, asked: Asked, fault: Status) -> web.Response:
        more = retry_headers(fault, self.wire)
        if fault.body is not None:
            more = {"content-type": "text/html", **more}
            return web.Response(status=fault.status, body=fault.body, headers=more)
        problem = Rejected(fault.message or "", status=fault.status, code=fault.code)
        if fault.dialect != "retry_info":
            return self._refusal(asked, problem, more)
        detail = {
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": f"{fault.retry_after:g}s",
        }
        error = {"code": fault.status, "message": "Quota.", "status": "RESOURCE_EXHAUSTED"}
        body = msgspec.json.encode([{"error": {**error, "details": [detail]}}])
        more["content-type"] = "application/json"
        return web.Response(status=fault.status, body=body, headers=more)

    async def _answer(
        self, request: web.Request, asked: Asked, chunks: list[bytes], fault: Fault | None
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=self._head(asked, fault))
        try:
            await self._act(request, response, chunks, fault)
        except ConnectionError:
            pass  # the client did not wait for the end
        return response

    def _head(self, asked: Asked, fault: Fault | None) -> dict[str, str]:
        kind = "application/json"
        if self.streams(asked) and fault != Body("ignores_stream"):
            kind = self.media
        if fault == Body("html"):
            kind = "text/html; charset=utf-8"
        headers = {**self.headers(asked), "content-type": kind}
        if isinstance(fault, Body) and fault.kind.endswith("gzip"):
            headers["content-encoding"] = "gzip"
        return {**headers, **fault.headers} if isinstance(fault, Headers) else headers

    # ----------------------------------------------------------------- the bytes

    def _chunks(self, asked: Asked, reply: Reply, fault: Fault | None) -> list[bytes]:
        match fault:
            case Body("html"):
                return [HTML]
            case Body("empty"):
                return []
            case Body("null"):
                return [self.written(Frame("null")) if self.streams(asked) else b"null"]
            case Body("cut_json") if self.streams(asked):
                return [self.written(frame) for frame in _with_cut_frame(self.frames(asked, reply))]
            case Body("bad_utf8"):
                return [_with_bad_byte(chunk) for chunk in self._right(asked, reply, None)]
            case Body("gzip"):
                return _compress(self._right(asked, reply, None))
            case Body("cut_gzip"):
                packed = _compress(self._right(asked, reply, None))
                return packed[: len(packed) // 2]
            case Body("ignores_stream"):
                return [msgspec.json.encode(self.plain(asked, reply))]
            case Body("cut_json"):
                whole = msgspec.json.encode(self.plain(asked, reply))
                return [whole[: len(whole) // 2]]
            case Twist(how):
                return self._right(asked, reply, how)
            case Pieces():
                return _in_pieces(b"".join(self._right(asked, reply, None)), fault)
            case _:
                return self._right(asked, reply, None)

    def _right(self, asked: Asked, reply: Reply, twist: str | None) -> list[bytes]:
        if not self.streams(asked):
            answer = self.plain(asked, reply)
            if twist is not None:
                answer = _find_twist(twist, self.rewrites)(answer)
            return [msgspec.json.encode(answer)]
        frames = self.frames(asked, reply)
        if twist is not None:
            frames = _find_twist(twist, self.reframes)(frames)
        return [self.written(frame) for frame in frames]

    async def _act(
        self,
        request: web.Request,
        response: web.StreamResponse,
        chunks: list[bytes],
        fault: Fault | None,
    ) -> None:
        if fault == Hangup("before_headers"):
            return _hang_up(request)
        if isinstance(fault, Silence) and fault.when == "before_headers":
            await self._pause(LONGEST)
            return _hang_up(request)
        await self._prepare(request, response, chunks, fault)
        match fault:
            case Hangup("after_headers"):
                return _hang_up(request)
            case Hangup("mid_body"):
                whole = b"".join(chunks)
                await response.write(whole[: len(whole) // 2])
                return _hang_up(request)
            case Silence():
                await self._stay_silent(request, response, chunks, fault)
            case _:
                await self._write(response, chunks, fault.pause if isinstance(fault, Pieces) else 0)
        await response.write_eof()
        if fault == Hangup("after_reply"):
            _hang_up(request)
        return None

    async def _prepare(
        self,
        request: web.Request,
        response: web.StreamResponse,
        chunks: list[bytes],
        fault: Fault | None,
    ) -> None:
        streamed = response.headers["content-type"] == self.media
        if not streamed and not isinstance(fault, (Silence, Pieces)):
            response.content_length = sum(map(len, chunks))
        await response.prepare(request)

    async def _stay_silent(
        self,
        request: web.Request,
        response: web.StreamResponse,
        chunks: list[bytes],
        fault: Silence,
    ) -> None:
        if fault.when == "mid_body":
            half = len(chunks) // 2
            first = chunks[:half] if half else [chunks[0][: len(chunks[0]) // 2]]
            await self._write(response, first, 0)
        if not fault.pings:
            await self._pause(LONGEST)
            return _hang_up(request)
        streamed = len(chunks) > 1
        for _ in range(fault.ends or int(LONGEST / fault.every)):
            await response.write(self.ping if streamed else b"\n")
            await self._pause(fault.every)
            if self._closing.is_set():
                break
        if not fault.ends:
            return _hang_up(request)
        await self._write(response, chunks, 0)
        return None

    async def _write(self, response: web.StreamResponse, chunks: list[bytes], pause: float) -> None:
        for chunk in chunks:
            await response.write(chunk)
            await self._pause(pause)
            if self._closing.is_set():
                return

    async def _pause(self, seconds: float) -> None:
        if not seconds:
            return await asyncio.sleep(0)  # a client that reads slowly gets its turn
        try:
            async with asyncio.timeout(seconds):  # the loop's clock, and closing ends it
                await self._closing.wait()
        except TimeoutError:
            pass


def _find_twist(twist: str, known: Mapping[str, T]) -> T:
    if twist not in known:
        raise LookupError(f"no twist {twist!r} in this mode{errors.nearest(twist, known)}")
    return known[twist]


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()  # what was written still goes out; what comes later does not


def _with_cut_frame(frames: list[Frame]) -> list[Frame]:
    middle = frames[len(frames) // 2]
    text = middle.data if isinstance(middle.data, str) else msgspec.json.encode(middle.data)
    text = text if isinstance(text, str) else text.decode()
    middle.data = text[: len(text) - len(text) // 3]
    return frames


def _compress(chunks: list[bytes]) -> list[bytes]:
    """Compress with gzip, flushed after each chunk so that a stream still flows."""
    pack = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    packed = [pack.compress(chunk) + pack.flush(zlib.Z_SYNC_FLUSH) for chunk in chunks]
    return [*packed, pack.flush()]


def _with_bad_byte(chunk: bytes) -> bytes:
    return re.sub(rb'"model(?:Version)?":"', lambda name: name[0] + b"\xff", chunk, count=1)


def _in_pieces(whole: bytes, fault: Pieces) -> list[bytes]:
    if not fault.inside_characters:
        return [whole[at : at + fault.size] for at in range(0, len(whole), fault.size)]
    # a byte of the form 10xxxxxx goes on with the character before it
    inside = [at for at, byte in enumerate(whole) if byte & 0xC0 == 0x80]
    edges = [0, *inside, len(whole)]
    return [whole[a:b] for a, b in zip(edges, edges[1:], strict=False)]
