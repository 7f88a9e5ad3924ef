"""Decoder of Ollama's replies, streamed as lines or plain, into one `Response`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from windlass.errors import BadReply, StreamBroken
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.json_types import JsonObject
from windlass.messages import Block, Message, Text, Thinking, ToolCall
from windlass.models.base import Response, StopReason
from windlass.models.transport.errors import from_stream
from windlass.models.transport.ndjson import LineDecoder
from windlass.models.wires.decoder import Decoder, Framing
from windlass.models.wires.json_values import (
    arguments,
    as_dict,
    as_list,
    as_text,
    call_id,
    whole,
)
from windlass.usage import NO_USAGE, Usage

_BRACE: Final = 0x7B
_STOPS: Final[dict[str, StopReason]] = {
    "": "end_turn",
    "stop": "end_turn",  # also with calls
    "length": "max_tokens",
}


class _LineMessage(msgspec.Struct, gc=False):
    content: str
    thinking: Any = None
    tool_calls: Any = None


class _Piece(msgspec.Struct, gc=False):
    """The most frequent line of a stream, decoded without a dict in between."""

    message: _LineMessage
    done: Any = None
    error: Any = None


_pieces: Final = msgspec.json.Decoder(_Piece).decode


class LinesDecoder(Decoder):
    """Ollama's reply: a stream of lines, or the one line of a plain reply.

    Calls come whole, so a token limit never leaves half of one. `done` ends the reply; until then
    it is broken, whatever came.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._text: list[str] = []
        self._thought: list[str] = []
        self._calls: list[ToolCall] = []
        self.streamed = True  # whether lines were asked for
        self._begun = False
        self._last: JsonObject = {}

    def _framing(self, start: bytes) -> Framing | None:
        return LineDecoder() if self.streamed and start[0] == _BRACE else None

    def finish(self) -> Response:
        """Return the complete reply, or raise the error that it carries."""
        body = b"".join(self._body).strip()
        if self._frames is None and body[:1] == b"{":
            self._plain(body)
        lines = self._frames
        if isinstance(lines, LineDecoder) and not self.done and (rest := lines.rest):
            try:
                self._event("", rest)  # the last line may end without a line break
            except BadReply:
                if self._begun:
                    raise StreamBroken("the stream ended inside a line") from None
                raise
        if self._begun and not self.streamed and not self.done:
            raise BadReply("the reply is not done")
        return super().finish() if not self.done else self._response()

    def _plain(self, body: bytes) -> None:
        """Decode a body that is one object, or the lines of a server that always streams."""
        try:
            whole = self._json(body)
        except BadReply:
            self._frames = LineDecoder()
            for name, line in self._frames.feed(body):
                self._event(name, line)
        else:
            self._take(whole)

    def _event(self, name: str, data: bytes) -> bool:
        try:
            line = _pieces(data)
        except (ValueError, RecursionError):
            self._take(self._json(data))  # not a piece of text
            return True
        message = line.message
        text = message.content
        if not text or message.thinking or message.tool_calls or line.error or line.done:
            self._take(self._json(data))
        else:
            self._begun = True
            self._text.append(text)
            self.emit(TextDelta(text))
        return True

    def _take(self, line: JsonObject) -> None:
        if error := line.get("error"):
            raise from_stream(error, self.source)
        self._begun = True
        message = as_dict(line.get("message")) or {**line, "content": line.get("response")}
        if thought := as_text(message.get("thinking")):
            self._thought.append(thought)
            self.emit(ThinkingDelta(thought))
        if text := as_text(message.get("content")):
            self._text.append(text)
            self.emit(TextDelta(text))
        for call in as_list(message.get("tool_calls")):
            self._call(as_dict(call))
        if line.get("done") is True:
            self._last = line
            self.done = self.complete = True

    def _call(self, call: JsonObject) -> None:
        function = as_dict(call.get("function"))
        name = as_text(function.get("name"))
        values, raw = arguments(function.get("arguments"))
        made = ToolCall(call_id(call.get("id")), self.names.get(name, name), values, raw)
        self._calls.append(made)
        if raw is None:
            self.emit(ToolCallReady(made))

    def _response(self) -> Response:
        blocks: list[Block] = []
        if thought := "".join(self._thought):
            blocks.append(Thinking(thought, None, self.origin))
        if text := "".join(self._text):
            blocks.append(Text(text))
        stop = _STOPS.get(as_text(self._last.get("done_reason")), "unknown")
        if self._calls:
            blocks.extend(self._calls)
            stop = "tool_use"
        message = Message("assistant", tuple(blocks))
        return Response(
            message, self._parse_usage(), stop, as_text(self._last.get("model")) or None
        )

    def _parse_usage(self) -> Usage:
        # a prompt that was cached as a whole is not counted by the server
        last = self._last
        read, written = last.get("prompt_eval_count"), last.get("eval_count")
        if not (read or written):
            return NO_USAGE
        spent = whole(last.get("prompt_eval_duration")) + whole(last.get("eval_duration"))
        return Usage(whole(read), whole(written), gpu_ms=spent / 1_000_000)
