"""Decoder of Bedrock's Converse replies, as frames or plain, into one `Response`."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Final

import msgspec

from windlass.errors import BadReply, ContextOverflow
from windlass.events import TextDelta, ThinkingDelta
from windlass.json_types import JsonObject
from windlass.messages import Block, Message, Opaque, Text, Thinking, ToolCall
from windlass.models.base import Response, StopReason
from windlass.models.transport.errors import from_stream
from windlass.models.transport.eventstream import EventStreamDecoder
from windlass.models.wires.decoder import Decoder, Framing
from windlass.models.wires.json_values import (
    arguments,
    as_dict,
    as_list,
    as_text,
    call_id,
    dumps,
    whole,
)
from windlass.usage import NO_USAGE, Usage

_STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end_turn",
    "tool_use": "end_turn",  # without a call the turn is over, whatever the stop reason is
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "refusal",
    "content_filtered": "refusal",
    "model_context_window_exceeded": "max_tokens",
}
_MALFORMED: Final = ("malformed_model_output", "malformed_tool_use")


class _TextPiece(msgspec.Struct, gc=False):
    text: str


class _Piece(msgspec.Struct, gc=False):
    """The most frequent event of a stream, decoded without a dict in between."""

    at: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(name="contentBlockIndex")
    delta: _TextPiece


_pieces: Final = msgspec.json.Decoder(_Piece).decode


class _Open:
    """A block that is still being streamed. Text and reasoning begin without a start event."""

    __slots__ = ("hidden", "input", "signature", "start", "text", "thought", "whole")

    def __init__(self) -> None:
        self.start: JsonObject = {}
        self.text: list[str] = []
        self.thought: list[str] = []
        self.signature: list[str] = []
        self.hidden: list[str] = []  # reasoning that only the provider can read
        self.input: list[Any] = []  # a call's arguments, in pieces of text
        self.whole: list[Any] = []  # what a tool of the provider's own answered

    def block(self) -> JsonObject:
        """Build the block as a plain reply would hold it."""
        if "toolUse" in self.start:
            use = as_dict(self.start["toolUse"])
            arguments = next((piece for piece in map(as_dict, self.input) if piece), None)
            return {"toolUse": {**use, "input": arguments or "".join(map(as_text, self.input))}}
        if "toolResult" in self.start:
            return {"toolResult": {**as_dict(self.start["toolResult"]), "content": self.whole}}
        if self.hidden:
            return {"reasoningContent": {"redactedContent": _join_base64(self.hidden)}}
        if self.thought or self.signature:
            reasoning: JsonObject = {"text": "".join(self.thought)}
            if self.signature:
                reasoning["signature"] = "".join(self.signature)
            return {"reasoningContent": {"reasoningText": reasoning}}
        return self.start or {"text": "".join(self.text)}


class ConverseDecoder(Decoder):
    """Bedrock's reply, as frames or plain.

    All of the answer is there at `messageStop`; what was counted comes after it. A call whose
    arguments were cut off by the token limit keeps their text in `raw`, as on the other wires.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: dict[int, _Open] = {}
        self._blocks: dict[int, Block] = {}
        self._usage: JsonObject = {}
        self._stop: str = ""
        self._stream: EventStreamDecoder | None = None

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; a chunk is mostly one frame, which is read without a list."""
        stream = self._stream
        if stream is None or self.done or (frame := stream.take(chunk)) is None:
            return super().feed(chunk)
        name, data = frame
        return self._event(name, data)

    def _framing(self, start: bytes) -> Framing | None:
        if start[0] == 0:  # the length of a frame, high first
            self._stream = EventStreamDecoder()
        return self._stream

    def _event(self, name: str, data: bytes) -> bool:
        if name == "contentBlockDelta":
            try:
                piece = _pieces(data)
            except (ValueError, RecursionError):
                pass  # not a piece of text
            else:
                if text := piece.delta.text:
                    opened = self._open.get(piece.at) or self._block_at(piece.at)
                    opened.text.append(text)
                    self.emit(TextDelta(text))
                    return True
        if ":" in name:  # exception:…, error:…
            if self.complete:
                return True  # the answer is here
            raise self._failure(name, data)
        event = self._json(data)
        at = whole(event.get("contentBlockIndex"))
        match name:
            case "contentBlockDelta":
                self._delta(self._block_at(at), as_dict(event.get("delta")))
            case "contentBlockStart":
                self._release_call()
                self._block_at(at).start = as_dict(event.get("start"))
            case "contentBlockStop":
                self._close(at)
            case "messageStop":
                self._stop = as_text(event.get("stopReason"))
                self.complete = True
                if _STOPS.get(self._stop) != "max_tokens":
                    self._release_call()
            case "metadata":
                self._usage = as_dict(event.get("usage"))
                self.done = self.complete
            case "initial-response":
                return False
            case _:
                pass  # messageStart has nothing new, and the rest is for the future
        return True

    def _failure(self, name: str, data: bytes) -> Exception:
        kind, _, detail = name.partition(":")
        if kind == "error":
            return from_stream({"message": detail}, self.source)
        body = self._json(data or b"{}")
        message = as_text(body.get("message")) or as_text(body.get("Message")) or detail
        return from_stream({"message": message, "type": detail}, self.source)

    def _block_at(self, at: int) -> _Open:
        if at not in self._open:
            self._open[at] = _Open()
        return self._open[at]

    def _delta(self, opened: _Open, delta: JsonObject) -> None:
        if text := as_text(delta.get("text")):
            opened.text.append(text)
            self.emit(TextDelta(text))
            return  # a delta holds one thing
        if use := as_dict(delta.get("toolUse")):
            opened.input.append(use.get("input"))
            name = as_dict(opened.start.get("toolUse")).get("name")
            self._show_arguments(as_text(name), as_text(use.get("input")))
        if reasoning := as_dict(delta.get("reasoningContent")):
            if thought := as_text(reasoning.get("text")):
                opened.thought.append(thought)
                self.emit(ThinkingDelta(thought))
            if signature := as_text(reasoning.get("signature")):
                opened.signature.append(signature)
            if hidden := as_text(reasoning.get("redactedContent")):
                opened.hidden.append(hidden)
        opened.whole.extend(as_list(delta.get("toolResult")))

    def _close(self, at: int) -> None:
        opened = self._open.pop(at, None)
        if opened is None:
            return
        self._blocks[at] = made = self._made_of(opened.block())
        if isinstance(made, ToolCall):
            self._finish_call(made)

    def _made_of(self, block: JsonObject) -> Block:
        if "text" in block:
            return Text(as_text(block["text"]))
        if "toolUse" in block:
            use = as_dict(block["toolUse"])
            if use.get("type") not in (None, "tool_use"):
                return Opaque(self.origin, _native(use))  # of a tool that the provider runs itself
            return self._call(use)
        if "reasoningContent" in block:
            reasoning = as_dict(block["reasoningContent"])
            if "redactedContent" in reasoning:
                return Thinking("", reasoning, self.origin)
            reasoning_text = as_dict(reasoning.get("reasoningText"))
            rest = {k: v for k, v in reasoning_text.items() if k != "text"}
            return Thinking(as_text(reasoning_text.get("text")), rest or None, self.origin)
        if "citationsContent" in block:
            parts = as_list(as_dict(block["citationsContent"]).get("content"))
            return Text("".join([as_text(as_dict(part).get("text")) for part in parts]))
        return Opaque(self.origin, block)

    def _call(self, use: JsonObject) -> ToolCall:
        values, raw = arguments(use.get("input"))
        name = as_text(use.get("name"))
        rest = {k: v for k, v in use.items() if k not in ("toolUseId", "name", "input")}
        return ToolCall(
            call_id(use.get("toolUseId")),
            self.names.get(name, name),
            values,
            raw,
            rest or None,
            self.origin if rest else None,
        )

    # ----------------------------------------------------------------------- the whole

    def _response(self) -> Response:
        for at in sorted(self._open):
            self._close(at)
        if _STOPS.get(self._stop) != "max_tokens":
            self._release_call()
        return self._build_response([self._blocks[at] for at in sorted(self._blocks)])

    def _whole(self, body: JsonObject) -> Response:
        message = as_dict(as_dict(body.get("output")).get("message"))
        if "content" not in message:
            raise BadReply(f"the reply holds no message: {dumps(body)[:200]!r}")
        self._stop = as_text(body.get("stopReason"))
        self._usage = as_dict(body.get("usage"))
        return self._build_response(
            [self._made_of(as_dict(b)) for b in as_list(message["content"])]
        )

    def _build_response(self, content: list[Block]) -> Response:
        content = [block for block in content if not (type(block) is Text and not block.text)]
        if self._stop in _MALFORMED:
            raise BadReply("the model wrote what Bedrock cannot read", code=self._stop)
        if self._stop == "model_context_window_exceeded" and not any(
            type(block) is Text for block in content
        ):
            raise ContextOverflow("the messages fill the model's context window", code=self._stop)
        stop = _STOPS.get(self._stop or "end_turn", "unknown")
        if stop == "max_tokens" and content and type(last := content[-1]) is ToolCall:
            if last.raw is None and not last.arguments:
                content[-1] = msgspec.structs.replace(last, raw="")
        if stop == "refusal":  # what it had begun to ask for is not to be run
            content = [block for block in content if type(block) is not ToolCall]
        calls = [block for block in content if type(block) is ToolCall]
        if calls and not (stop == "max_tokens" and calls[-1].raw is not None):
            stop = "tool_use"
        return Response(Message("assistant", tuple(content)), self._parse_usage(), stop)

    def _parse_usage(self) -> Usage:
        usage = self._usage
        if not usage:
            return NO_USAGE
        read = whole(usage.get("cacheReadInputTokens"))
        write = whole(usage.get("cacheWriteInputTokens"))
        fresh, out = whole(usage.get("inputTokens")), whole(usage.get("outputTokens"))
        return Usage(fresh + read + write, out, read, write)


def _native(use: JsonObject) -> JsonObject:
    values, raw = arguments(use.get("input"))
    return {"toolUse": {**use, "input": values if raw is None else use.get("input")}}


def _join_base64(pieces: list[str]) -> str:
    """Join base64 pieces that were encoded separately into one."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        return base64.b64encode(b"".join(map(base64.b64decode, pieces))).decode()
    except ValueError:
        return "".join(pieces)
