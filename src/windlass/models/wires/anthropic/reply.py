"""Decoder of Anthropic's replies, streamed or plain, into one `Response`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from windlass.errors import BadReply, ContextOverflow
from windlass.events import TextDelta, ThinkingDelta
from windlass.json_types import JsonObject, is_list
from windlass.messages import Block, Message, Opaque, Text, Thinking, ToolCall
from windlass.models.base import Response, StopReason
from windlass.models.transport.errors import from_stream
from windlass.models.wires.decoder import Decoder
from windlass.models.wires.json_values import (
    arguments,
    as_dict,
    as_list,
    as_text,
    call_id,
    dumps,
    whole,
)
from windlass.usage import Usage

_STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "end_turn",  # without a call the turn is over, whatever the stop reason is
    "pause_turn": "pause_turn",
    "refusal": "refusal",
}


class _TextPiece(msgspec.Struct, tag_field="type", tag="text_delta", gc=False):
    text: str


class _Piece(msgspec.Struct, tag_field="type", tag="content_block_delta", gc=False):
    """The most frequent event of a stream, decoded without a dict in between."""

    index: Annotated[int, msgspec.Meta(ge=0)]
    delta: _TextPiece


_pieces: Final = msgspec.json.Decoder(_Piece).decode


class _Open:
    """A block that is still being streamed."""

    __slots__ = ("block", "json", "parts")

    def __init__(self, block: JsonObject) -> None:
        self.block = block
        self.parts: list[str] = []  # text or thinking
        self.json: list[str] = []  # a call's arguments


class MessagesDecoder(Decoder):
    """Anthropic's reply, streamed or plain.

    A call whose arguments were cut off by `max_tokens` keeps their text in `raw` and has no
    arguments, so that the loop answers it as invalid and half of it never runs. Even an empty
    `{}` counts as cut when it is the last thing in such a reply: some servers write that for what
    they had not yet begun.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: dict[int, _Open] = {}
        self._blocks: dict[int, Block] = {}
        self._usage: JsonObject = {}
        self._stop: str | None = None
        self._model: str | None = None
        self._id: str | None = None

    def _event(self, name: str, data: bytes) -> bool:
        if name == "content_block_delta":
            try:
                piece = _pieces(data)
            except (ValueError, RecursionError):
                pass  # not a piece of text
            else:
                if (opened := self._open.get(piece.index)) is not None:
                    opened.parts.append(text := piece.delta.text)
                    self.emit(TextDelta(text))
                return True
        event = self._json(data)
        match event.get("type") or name:
            case "content_block_delta":
                self._delta(whole(event.get("index")), as_dict(event.get("delta")))
            case "ping":
                return False
            case "content_block_start":
                self._release_call()
                self._start(whole(event.get("index")), as_dict(event.get("content_block")))
            case "content_block_stop":
                self._close(whole(event.get("index")))
            case "message_start":
                self._about(as_dict(event.get("message")))
            case "message_delta":
                delta = as_dict(event.get("delta"))
                self._stop = as_text(delta.get("stop_reason")) or self._stop
                self._take_usage(event.get("usage"))
                if self._stop != "max_tokens":
                    self._release_call()
            case "message_stop":
                self.done = self.complete = True
            case "error":
                raise from_stream(event.get("error") or event, self.source)
            case _:
                pass  # an event of tomorrow
        return True

    def _about(self, message: JsonObject) -> None:
        self._id = as_text(message.get("id")) or None
        self._model = as_text(message.get("model")) or None
        self._stop = as_text(message.get("stop_reason")) or None
        self._take_usage(message.get("usage"))

    def _start(self, index: int, block: JsonObject) -> None:
        self._open[index] = opened = _Open(block)
        kind = block.get("type")
        if kind == "text" and (text := as_text(block.get("text"))):
            opened.parts.append(text)
            self.emit(TextDelta(text))
        elif kind == "thinking" and (text := as_text(block.get("thinking"))):
            opened.parts.append(text)
            self.emit(ThinkingDelta(text))

    def _delta(self, index: int, delta: JsonObject) -> None:
        opened = self._open.get(index)
        if opened is None:
            return  # of a block that was never opened, or is already closed
        match delta.get("type"):
            case "text_delta":
                text = as_text(delta.get("text"))
                opened.parts.append(text)
                self.emit(TextDelta(text))
            case "input_json_delta":
                piece = as_text(delta.get("partial_json"))
                opened.json.append(piece)
                self._show_arguments(as_text(opened.block.get("name")), piece)
            case "thinking_delta":
                text = as_text(delta.get("thinking"))
                opened.parts.append(text)
                self.emit(ThinkingDelta(text))
            case "signature_delta":
                signed = as_text(opened.block.get("signature"))
                opened.block["signature"] = signed + as_text(delta.get("signature"))
            case "citations_delta":
                before = as_list(opened.block.get("citations"))
                opened.block["citations"] = [*before, delta.get("citation")]
            case _:
                _merge(opened.block, delta)

    def _close(self, index: int) -> None:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        block = opened.block
        if opened.parts:
            kind = "thinking" if block.get("type") == "thinking" else "text"
            block[kind] = "".join(opened.parts)
        if opened.json:
            block["input"] = "".join(opened.json)
        made = self._block(block)
        self._blocks[index] = made
        if isinstance(made, ToolCall):
            self._finish_call(made)

    def _block(self, block: JsonObject) -> Block:
        kind = block.get("type")
        if kind == "text":
            return Text(as_text(block.get("text")))
        if kind == "thinking":
            rest = {k: v for k, v in block.items() if k not in ("type", "thinking")}
            return Thinking(as_text(block.get("thinking")), rest, self.origin)
        if kind == "tool_use":
            values, raw = arguments(block.get("input"))
            name = as_text(block.get("name"))
            rest = {k: v for k, v in block.items() if k not in ("type", "id", "name", "input")}
            return ToolCall(
                call_id(block.get("id")),
                self.names.get(name, name),
                values,
                raw,
                rest or None,
                self.origin if rest else None,
            )
        if isinstance(given := block.get("input"), str):
            values, raw = arguments(given)  # a tool that the provider runs itself
            block = {**block, "input": values if raw is None else given}
        return Opaque(self.origin, block)

    def _take_usage(self, usage: object) -> None:
        # cumulative: the last value of each key counts, never a sum
        self._usage.update({k: v for k, v in as_dict(usage).items() if v is not None})

    def _response(self) -> Response:
        for index in sorted(self._open):
            self._close(index)
        return self._build_response([self._blocks[index] for index in sorted(self._blocks)])

    def _whole(self, body: JsonObject) -> Response:
        self._about(body)
        if "content" not in body:
            raise BadReply(f"the reply holds no message: {dumps(body)[:200]!r}")
        return self._build_response(
            [self._block(dict(as_dict(b))) for b in as_list(body["content"])]
        )

    def _build_response(self, content: list[Block]) -> Response:
        if self._stop == "model_context_window_exceeded" and not any(
            type(block) is Text and block.text for block in content
        ):
            raise ContextOverflow("the messages fill the model's context window", code=self._stop)
        stop: StopReason = _STOPS.get(self._stop or "end_turn", "unknown")
        if self._stop == "model_context_window_exceeded":
            stop = "max_tokens"
        content = [block for block in content if not (type(block) is Text and not block.text)]
        if stop == "max_tokens" and content and type(last := content[-1]) is ToolCall:
            if last.raw is None and not last.arguments:
                content[-1] = msgspec.structs.replace(last, raw="")
        if stop == "refusal":  # what it had begun to ask for is not to be run
            content = [block for block in content if type(block) is not ToolCall]
        calls = [block for block in content if type(block) is ToolCall]
        if calls and not (stop == "max_tokens" and calls[-1].raw is not None):
            stop = "tool_use"
        return Response(
            Message("assistant", tuple(content)), self._parse_usage(), stop, self._model, self._id
        )

    def _parse_usage(self) -> Usage:
        usage = self._usage
        read = whole(usage.get("cache_read_input_tokens"))
        write = whole(usage.get("cache_creation_input_tokens"))
        thought = as_dict(usage.get("output_tokens_details"))
        return Usage(
            whole(usage.get("input_tokens")) + read + write,
            whole(usage.get("output_tokens")),
            read,
            write,
            whole(thought.get("thinking_tokens")),
        )


def _merge(block: JsonObject, delta: JsonObject) -> None:
    """Merge a delta of an unknown type: append text, extend lists, replace the rest."""
    for key, value in delta.items():
        if key == "type" or value is None:
            continue
        before = block.get(key)
        if isinstance(before, str) and isinstance(value, str):
            block[key] = before + value
        elif is_list(before) and is_list(value):
            block[key] = [*before, *value]
        else:
            block[key] = value
