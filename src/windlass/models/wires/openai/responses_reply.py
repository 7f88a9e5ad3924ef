"""Decoder of OpenAI's Responses replies, streamed or plain, into one `Response`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from windlass.errors import BadReply, StreamBroken
from windlass.events import TextDelta, ThinkingDelta
from windlass.json_types import JsonObject
from windlass.messages import Block, Message, Opaque, Text, Thinking, ToolCall
from windlass.models.base import Response, StopReason
from windlass.models.transport.errors import from_stream
from windlass.models.wires.decoder import Decoder
from windlass.models.wires.json_values import (
    amount,
    arguments,
    as_dict,
    as_list,
    as_text,
    call_id,
    dumps,
    whole,
)
from windlass.models.wires.openai.tools import SEARCH_ID
from windlass.usage import NO_USAGE, Usage

_REASONS: Final[dict[str, StopReason]] = {
    "max_output_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "refusal",
}
# what of a call has a place of its own, or names something that is stored at the provider
_CALL: Final = frozenset({"type", "id", "call_id", "name", "arguments", "status"})


class _Item:
    """An item of the answer that is still being streamed."""

    __slots__ = ("data", "done", "parts")

    def __init__(self, data: JsonObject) -> None:
        self.data = data
        self.done = False  # the server has sent it whole
        self.parts: dict[tuple[str, int], list[str]] = {}  # what was streamed: kind and place

    def join_parts(self, kind: str) -> list[str]:
        """Join the streamed pieces of this kind, part by part."""
        return ["".join(self.parts[key]) for key in sorted(self.parts) if key[0] == kind]

    def to_item(self) -> JsonObject:
        """Return the item as the server completed it, or build it from its pieces."""
        data = self.data
        if self.done or not self.parts:
            return data
        if data.get("type") == "function_call":
            return {**data, "arguments": "".join(self.join_parts("arguments"))}
        if data.get("type") == "reasoning":
            texts = [
                (field, kind, text)
                for field, kind in (("summary", "summary_text"), ("content", "reasoning_text"))
                for text in self.join_parts(kind)
            ]
            parts: JsonObject = {"summary": []}
            for field, kind, text in texts:
                parts.setdefault(field, []).append({"type": kind, "text": text})
            return {**data, **parts}
        content = [{"type": "output_text", "text": text} for text in self.join_parts("output_text")]
        content += [{"type": "refusal", "refusal": text} for text in self.join_parts("refusal")]
        return {"role": "assistant", **data, "content": content}


class ResponsesDecoder(Decoder):
    """A reply of the Responses API.

    The object in the last event is the answer; the deltas are there to be shown. Where a server
    leaves that object's output empty, the finished items are the answer, and where it does not
    even finish them, their pieces. A call that the server calls incomplete, or that the token
    limit cut, keeps its text in `raw`, as on the other wires.
    """

    def __init__(self, *args: Any, limit: int | None = None, search: str | None = None) -> None:
        super().__init__(*args)
        self._limit = limit  # of tokens, as asked for
        self._search = search  # the tool that answers searches of the client
        self._items: list[_Item] = []
        self._known: dict[str | int, _Item] = {}  # by id and by place
        self._ready: list[ToolCall] = []  # already emitted
        self._final: JsonObject = {}

    # ----------------------------------------------------------------------- streams

    def _event(self, name: str, data: bytes) -> bool:
        if data.startswith(b"[DONE]"):  # routers end their streams with it
            if not self._items or not all(item.done for item in self._items):
                raise StreamBroken("the stream ended before the reply did")
            self.done = self.complete = True
            return True
        event = self._json(data)
        match kind := as_text(event.get("type")) or name:
            case "response.output_text.delta":
                self._add_delta(event, "output_text", TextDelta)
            case "response.refusal.delta":
                self._add_delta(event, "refusal", TextDelta)
            case "response.function_call_arguments.delta":
                piece = as_text(event.get("delta"))
                self._pieces(event, "arguments").append(piece)
                self._show_arguments(as_text(self._item(event).data.get("name")), piece)
            case "response.function_call_arguments.done":
                if (given := event.get("arguments")) is not None:
                    text = given if isinstance(given, str) else dumps(given).decode()
                    self._pieces(event, "arguments")[:] = [text]
            case "response.reasoning_summary_text.delta":
                self._add_delta(event, "summary_text", ThinkingDelta)
            case "response.reasoning_text.delta":
                self._add_delta(event, "reasoning_text", ThinkingDelta)
            case "response.output_item.added":
                self._release_call()
                self._item(event).data = dict(as_dict(event.get("item")))
            case "response.output_item.done":
                self._finish_item(self._item(event), as_dict(event.get("item")))
            case (
                "response.completed"
                | "response.incomplete"
                | "response.failed"
                | "response.cancelled"
                | "response.done"
            ):
                status = kind.removeprefix("response.")
                self._end({"status": status, **as_dict(event.get("response"))})
            case "response.created" | "response.in_progress" | "response.queued":
                self._final = as_dict(event.get("response"))
            case "keepalive" | "ping":
                return False
            case _:
                if error := event.get("error") or (kind == "error" and _flat(event)):
                    raise from_stream(error, self.source)
        return True

    def _item(self, event: JsonObject) -> _Item:
        """Find or begin the item that an event is about: by id, by index, or the latest one.

        Servers leave either out, give an item another id in every event, or one place to all.
        """
        kind = as_text(event.get("type"))
        id = as_text(event.get("item_id")) or as_text(as_dict(event.get("item")).get("id"))
        place = event.get("output_index")
        new = isinstance(place, int) and place not in self._known
        item = self._known.get(id) if id and not new else None
        if item is None and not new and not kind.endswith("item.added"):
            last = self._items[-1] if self._items and not id else None
            other = self._known.get(place) if isinstance(place, int) else last
            item = None if other is None or other.done else other
        if item is None:
            item = _Item({"type": _kind(kind), "id": id} if id else {"type": _kind(kind)})
            self._items.append(item)
        if id:
            self._known[id] = item
        if isinstance(place, int):
            self._known[place] = item
        return item

    def _pieces(self, event: JsonObject, kind: str) -> list[str]:
        place = event.get("summary_index" if kind == "summary_text" else "content_index")
        return self._item(event).parts.setdefault((kind, whole(place)), [])

    def _add_delta(
        self, event: JsonObject, kind: str, told: type[TextDelta] | type[ThinkingDelta]
    ) -> None:
        text = as_text(event.get("delta"))
        pieces = self._pieces(event, kind)
        if told is ThinkingDelta and not pieces and len(self._item(event).parts) > 1:
            self.emit(ThinkingDelta("\n\n"))  # the next paragraph of its thoughts
        pieces.append(text)
        self.emit(told(text))

    def _finish_item(self, item: _Item, data: JsonObject) -> None:
        self._release_call()
        streamed = item.join_parts("output_text") + item.join_parts("refusal")
        item.data = dict(data) if data.get("type") else {**item.data, **data}
        item.done = True
        if _is_call(item.data):
            item.data["call_id"] = call_id(item.data.get("call_id"))
        for block in self._blocks(item.data):
            if type(block) is Text and not streamed:
                self.emit(TextDelta(block.text))
            elif type(block) is Thinking and block.text and not item.parts:
                self.emit(ThinkingDelta(block.text))
            elif type(block) is ToolCall:
                self._finish_call(block, sure=self._sure(item.data))

    def _announce_call(self, call: ToolCall) -> None:
        self._ready.append(call)
        super()._announce_call(call)

    def _end(self, response: JsonObject) -> None:
        _check(response, self)
        self._final = response
        self.done = self.complete = True

    # ----------------------------------------------------------------------- the whole

    def _response(self) -> Response:
        output = [as_dict(item) for item in as_list(self._final.get("output"))]
        streamed = [item.to_item() for item in self._items]
        for item, known in zip(output, streamed, strict=False):
            both = _is_call(item) and item.get("type") == known.get("type")
            if both and not item.get("call_id"):  # a generated id is not generated twice
                item["call_id"] = known.get("call_id")
        reply = self._reply(output or streamed)
        if not streamed:
            return self._emit_whole_reply(reply)
        ready = [(call.id, call.name, call.arguments) for call in self._ready]
        for call in reply.message.tool_calls:
            if (call.id, call.name, call.arguments) in ready:
                ready.remove((call.id, call.name, call.arguments))
            elif call.raw is None:
                self._announce_call(call)
        return reply

    def _whole(self, body: JsonObject) -> Response:
        _check(body, self)
        if "output" not in body:
            raise BadReply(f"the reply holds no output: {dumps(body)[:200]!r}")
        self._final = body
        return self._reply([as_dict(item) for item in as_list(body["output"])])

    def _reply(self, items: list[JsonObject]) -> Response:
        stop = self._stop_reason(items)
        content = [block for item in items for block in self._blocks(item)]
        if stop == "refusal":  # what it had begun to ask for is not to be run
            content = [block for block in content if type(block) is not ToolCall]
        if stop == "max_tokens" and content and type(last := content[-1]) is ToolCall:
            if last.raw is None and not last.arguments and not self._sure(items[-1]):
                content[-1] = msgspec.structs.replace(last, raw="")
        calls = [block for block in content if type(block) is ToolCall]
        if calls and not (stop == "max_tokens" and calls[-1].raw is not None):
            stop = "tool_use"
        final = self._final
        return Response(
            Message("assistant", tuple(content)),
            _parse_usage(as_dict(final.get("usage"))),
            stop,
            as_text(final.get("model")) or None,
            as_text(final.get("id")) or None,
        )

    def _stop_reason(self, items: list[JsonObject]) -> StopReason:
        for item in items:
            for part in as_list(item.get("content")) if item.get("type") == "message" else ():
                if as_text(as_dict(part).get("refusal")).strip():
                    return "refusal"
        if self._final.get("status") != "incomplete":
            most = whole(as_dict(self._final.get("usage")).get("output_tokens"))
            full = self._limit is not None and most >= self._limit
            return "max_tokens" if full and not self._candid else "end_turn"
        reason = as_text(as_dict(self._final.get("incomplete_details")).get("reason"))
        return _REASONS.get(reason, "unknown")

    @property
    def _candid(self) -> bool:
        """Whether the server says when it stopped early: llama.cpp calls everything completed."""
        return "incomplete_details" in self._final

    def _sure(self, item: JsonObject) -> bool:
        """Check whether a call without arguments is complete, not cut off before them."""
        return self._candid and item.get("status") == "completed"

    # ----------------------------------------------------------------------- items

    def _blocks(self, item: JsonObject) -> list[Block]:
        match item.get("type"):
            case "function_call":
                return [self._call(item)]
            case "tool_search_call" if item.get("execution") == "client" and self._search:
                id = SEARCH_ID + call_id(item.get("call_id"))
                values, raw = self._parse_arguments(item)
                mark = {"type": "tool_search_call"}
                return [ToolCall(id, self._search, values, raw, mark, self.origin)]
            case "message" if item.get("role", "assistant") == "assistant":
                return self._message(item)
            case "reasoning":
                parts = as_list(item.get("summary")) or as_list(item.get("content"))
                texts = [as_text(as_dict(part).get("text")) for part in parts]
                return [Thinking("\n\n".join(filter(None, texts)), item, self.origin)]
            case _:
                return [Opaque(self.origin, item)] if item else []

    def _message(self, item: JsonObject) -> list[Block]:
        blocks: list[Block] = []
        for part in map(as_dict, as_list(item.get("content"))):
            if text := as_text(part.get("text")) or as_text(part.get("refusal")):
                blocks.append(Text(text))
        if blocks and (phase := item.get("phase")):
            # goes back on the same message, or the model takes its asides for its answer
            blocks.insert(0, Opaque(self.origin, {"type": "message", "phase": phase}))
        return blocks

    def _parse_arguments(self, item: JsonObject) -> tuple[JsonObject, str | None]:
        """Parse a call's arguments; return only their text where the call was cut off."""
        given = item.get("arguments")
        if item.get("status") == "incomplete":
            return {}, given if isinstance(given, str) else dumps(given).decode()
        return arguments(given)

    def _call(self, item: JsonObject) -> ToolCall:
        values, raw = self._parse_arguments(item)
        name = as_text(item.get("name"))
        rest = {k: v for k, v in item.items() if k not in _CALL and v is not None}
        return ToolCall(
            call_id(item.get("call_id")),
            self.names.get(name, name),
            values,
            raw,
            rest or None,
            self.origin if rest else None,
        )


def _is_call(item: JsonObject) -> bool:
    """Check whether an item is a call that the client answers, and so needs an id."""
    kind = item.get("type")
    return kind == "function_call" or (
        kind == "tool_search_call" and item.get("execution") == "client"
    )


def _check(response: JsonObject, decoder: Decoder) -> None:
    """Raise the error of a reply that holds no answer."""
    status = response.get("status")
    if error := response.get("error"):
        raise from_stream(error, decoder.source)
    if status in ("failed", "cancelled"):
        raise from_stream({"message": f"the reply is {status}, without a reason"}, decoder.source)
    if status in ("queued", "in_progress"):
        raise BadReply(f"the reply is not there yet but {status}: leave background out of extra")


def _kind(event: str) -> str:
    """Derive the type of an unannounced item from the event that mentions it."""
    if "arguments" in event:
        return "function_call"
    return "reasoning" if "reasoning" in event else "message"


def _flat(event: JsonObject) -> JsonObject:
    """Return the fields of an `error` event that carries them itself."""
    return {key: value for key, value in event.items() if key != "type"} or {"message": "no reason"}


def _parse_usage(usage: JsonObject) -> Usage:
    if not usage:
        return NO_USAGE
    read = as_dict(usage.get("input_tokens_details"))
    return Usage(
        whole(usage.get("input_tokens")),
        whole(usage.get("output_tokens")),
        whole(read.get("cached_tokens")),
        whole(read.get("cache_write_tokens")),
        whole(as_dict(usage.get("output_tokens_details")).get("reasoning_tokens")),
        amount(usage.get("cost")),
    )
