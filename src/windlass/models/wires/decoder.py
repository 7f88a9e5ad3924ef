"""Base class of decoders: bytes of a reply in, a `Response` out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from windlass.errors import BadReply, ModelError, StreamBroken
from windlass.events import AnswerDelta, TextDelta, ThinkingDelta, ToolCallReady
from windlass.json_types import JsonObject, is_object
from windlass.messages import Message, Origin, Text, Thinking, ToolCall
from windlass.models.base import Emit, Response, silent
from windlass.models.structured_output import TOOL
from windlass.models.transport.errors import Source, error_fields, from_stream
from windlass.models.transport.sse import MAX_EVENT, SSEDecoder
from windlass.models.wires.json_values import loads

_BOM: Final = b"\xef\xbb\xbf"


class Framing(Protocol):
    """A splitter of a stream into named pieces, however the network cut its bytes."""

    def feed(self, chunk: bytes) -> Sequence[tuple[str, bytes]]:
        """Return the pieces that this chunk completes."""
        ...


class Decoder:
    """Bytes of a reply in, a `Response` out: `feed` every chunk, then `finish`.

    The bytes decide what they are: an event stream, or one JSON body, whatever was asked for and
    whatever the content type is.
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
        self._held: ToolCall | None = None  # without arguments: perhaps complete, perhaps cut

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; return whether they held more than pings and comments."""
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
            if self._event(name, data):
                progress = True
        return progress

    def finish(self) -> Response:
        """Return the complete reply, or raise the error that it carries."""
        if self._frames is not None:
            if not (self.done or self.complete):
                raise StreamBroken("the stream ended before the reply did")
            return self._response()
        text = b"".join(self._body).strip()
        if not text:
            raise BadReply("the reply is empty")
        if text.startswith(b"<"):
            shown = " ".join(
                re.sub(r"<[^>]*>", " ", text[:2000].decode("utf-8", "replace")).split()
            )
            raise BadReply(f"a web page came instead of a reply: {self.source.clean(shown[:200])}")
        body = self._json(text)
        if body.get("error") or body.get("type") == "error":
            raise from_stream(body.get("error") or error_fields(body), self.source)
        return self._emit_whole_reply(self._whole(body))

    def partial(self) -> Response | None:
        """Return what arrived of a reply that was cut off: blocks and usage; None for nothing."""
        self.emit = silent
        if self._frames is None:
            body = b"".join(self._body).strip()
            if not body.startswith(b"{"):
                return None
            return Response(Message("assistant", (Text(body.decode("utf-8", "replace")),)))
        try:
            return self._response()
        except ModelError:
            return None

    def _begin(self, chunk: bytes) -> Framing | None:
        """Choose between an event stream and one body by the first bytes."""
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
        """Build the splitter of a stream that begins like this; None for one JSON body."""
        return SSEDecoder() if start[0] in b":edir" else None  # a comment, event, data, id, retry

    def _json(self, data: bytes) -> JsonObject:
        try:
            value = loads(data)
        except (ValueError, RecursionError):
            shown = self.source.clean(data[:120].decode("utf-8", "replace"))
            raise BadReply(f"the reply is not JSON, or cut off: {shown!r}") from None
        if not is_object(value):
            raise BadReply(f"the reply is not a JSON object: {value!r:.120}")
        return value

    def _chunk(self, name: str, data: bytes) -> JsonObject:
        """Parse an event of OpenAI's shape; raise the error that it carries or is."""
        chunk = self._json(data)
        if error := chunk.get("error"):
            raise from_stream(error, self.source)
        if name == "error":
            raise from_stream(chunk, self.source)
        return chunk

    def _emit_whole_reply(self, response: Response) -> Response:
        """Emit a reply that came whole, as if it had been streamed."""
        for block in response.message.content:
            if type(block) is Text:
                self.emit(TextDelta(block.text))
            elif type(block) is Thinking and block.text:
                self.emit(ThinkingDelta(block.text))
            elif type(block) is ToolCall and block.raw is None:
                self.emit(ToolCallReady(block))
        return response

    def _show_arguments(self, name: str, piece: str) -> None:
        """Show a piece of a call's arguments, where the call is a typed answer."""
        if name.startswith(TOOL) and piece:
            self.emit(AnswerDelta(self.names.get(name, name), piece))

    def _finish_call(self, call: ToolCall, *, sure: bool = False) -> None:
        """Announce a finished call; hold one without arguments until it cannot have been cut off."""
        if call.raw is not None:
            return
        if call.arguments or sure:
            self._announce_call(call)
        else:
            self._held = call

    def _release_call(self) -> None:
        """Announce the call that was held: more came after it, so it is complete."""
        if self._held is not None:
            held, self._held = self._held, None
            self._announce_call(held)

    def _announce_call(self, call: ToolCall) -> None:
        self.emit(ToolCallReady(call))

    def _event(self, name: str, data: bytes) -> bool:
        raise NotImplementedError

    def _response(self) -> Response:
        raise NotImplementedError

    def _whole(self, body: JsonObject) -> Response:
        raise NotImplementedError
