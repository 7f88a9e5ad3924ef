"""Decoder of Chat Completions replies, streamed or plain, into one `Response`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from windlass.errors import BadReply
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
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
from windlass.usage import NO_USAGE, Usage

STOPS: Final[dict[str, StopReason]] = {
    "": "end_turn",
    "stop": "end_turn",
    "eos": "end_turn",
    "end_turn": "end_turn",
    "tool_calls": "end_turn",  # decided by whether there are calls, not by this value
    "function_call": "end_turn",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
}


_SEARCH: Final = ("tool_search_call", "tool_search_output")


class _Call:
    """A call that is still being streamed."""

    __slots__ = ("given", "id", "index", "name", "parts")

    def __init__(self, index: object, id: str, name: str) -> None:
        self.index, self.id, self.name = index, id, name
        self.parts: list[str] = []
        self.given: object = None  # arguments that came as an object, not as text

    @property
    def raw(self) -> object:
        return self.given if self.given is not None else "".join(self.parts)

    @property
    def full(self) -> bool:
        """Its arguments are a whole object by now."""
        if self.given is not None:
            return True
        text = "".join(self.parts).strip()
        return bool(text) and arguments(text)[1] is None


def first_choice(choices: list[Any], chosen: object) -> tuple[object, JsonObject | None]:
    """Return the index of the choice that is read, and its piece; some servers omit indexes."""
    for choice in map(as_dict, choices):
        index = choice.get("index")
        chosen = index if chosen is None else chosen
        if index is None or index == chosen:
            return chosen, choice
    return chosen, None


class ChatDecoder(Decoder):
    """A Chat Completions reply.

    Calls are told apart by index and id together: servers give every parallel call index 0, leave
    the index out, or use one id for all. A call cut off by the token limit keeps its text in `raw`,
    as on the other wire.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thought: list[str] = []
        self._field: str | None = None  # where plain reasoning came from
        self._details: list[JsonObject] = []
        self._searches: list[JsonObject] = []
        self._calls: list[_Call] = []
        self._last: _Call | None = None
        self._made: dict[int, ToolCall] = {}  # by index in _calls: those already emitted
        self._chosen: object = None  # the number of the choice that is read, once one has come
        self._finish: str | None = None
        self._usage: JsonObject = {}
        self._model: str | None = None
        self._id: str | None = None

    # ----------------------------------------------------------------------- streams

    def _event(self, name: str, data: bytes) -> bool:
        if data.startswith(b"[DONE]"):
            self.done = self.complete = True
            return True
        chunk = self._chunk(name, data)
        if self._id is None:
            self._id = as_text(chunk.get("id")) or None
            self._model = as_text(chunk.get("model")) or None
        usage = chunk.get("usage") or as_dict(chunk.get("x_groq")).get("usage")
        if usage:
            self._usage = as_dict(usage)
        if (choice := self._first(as_list(chunk.get("choices")))) is not None:
            if delta := as_dict(choice.get("delta")):
                self._delta(delta)
            if finish := as_text(choice.get("finish_reason")):
                self._finish = finish
                self.complete = True
        return True

    def _first(self, choices: list[Any]) -> JsonObject | None:
        """Return the piece of the choice that came first, which is the answer."""
        self._chosen, found = first_choice(choices, self._chosen)
        return found

    def _delta(self, delta: JsonObject) -> None:
        if content := delta.get("content"):
            self._add_content(content)
        if calls := delta.get("tool_calls"):
            for call in map(as_dict, as_list(calls)):
                if call.get("type") in _SEARCH:  # the provider's own, passed on by a router
                    self._searches.append(call)
                else:
                    self._call_delta(call)
        if details := delta.get("reasoning_details"):
            for detail in as_list(details):
                self._detail(as_dict(detail))
        for field in ("reasoning_content", "reasoning"):
            if thought := as_text(delta.get(field)):
                self._field = field
                self._thought.append(thought)
                self.emit(ThinkingDelta(thought))
                break
        if refusal := as_text(delta.get("refusal")):
            self._refusal.append(refusal)
            self.emit(TextDelta(refusal))
        legacy = as_dict(delta.get("function_call"))
        if legacy.get("name") or (legacy and self._calls):
            self._call_delta({"index": 0, "function": legacy})

    def _add_content(self, content: object) -> None:
        if isinstance(content, str):
            self._text.append(content)
            self.emit(TextDelta(content))
            return
        for part in as_list(content):  # Mistral: a list of parts, thinking among them
            part = as_dict(part)
            if text := as_text(part.get("text")):
                self._add_content(text)
            for thought in as_list(part.get("thinking")):
                if text := as_text(as_dict(thought).get("text")):
                    self._field = "content"  # goes back as a part of the content
                    self._thought.append(text)
                    self.emit(ThinkingDelta(text))

    def _call_delta(self, delta: JsonObject) -> None:
        function = as_dict(delta.get("function"))
        id, name = as_text(delta.get("id")), as_text(function.get("name"))
        given = function.get("arguments")
        call = self._target(delta.get("index"), id, name, given)
        if call is not self._last:
            if self._last is not None:
                self._tell(self._last)
            self._last = call
        call.name = call.name or name
        call.id = call.id or id
        if isinstance(given, str):
            call.parts.append(given)
            self._show_arguments(call.name, given)
        elif given is not None:
            call.given = given

    def _target(self, index: object, id: str, name: str, given: object) -> _Call:
        """Find the call that a delta belongs to, or begin one."""
        found = None
        for call in reversed(self._calls):
            same_index = index is None or call.index is None or call.index == index
            if same_index and (not id or not call.id or call.id == id):
                found = call
                break
        if found is None or (
            # another name begins another call; so does a name that comes with arguments where
            # one call is already whole, since some servers repeat the name in every piece
            name and found.name and (name != found.name or (given and found.full))
        ):
            found = _Call(index, id, name)
            self._calls.append(found)
        return found

    def _tell(self, call: _Call) -> None:
        at = self._calls.index(call)
        if at not in self._made and call.full:
            self._made[at] = made = self._call(call.id, call.name, call.raw)
            self.emit(ToolCallReady(made))

    def _detail(self, detail: JsonObject) -> None:
        """Merge a piece into its reasoning entry: text is appended, other fields are set once."""
        for known in self._details:
            if (known.get("index"), known.get("type")) == (detail.get("index"), detail.get("type")):
                if known.get("index") is None:
                    break
                for key, value in detail.items():
                    if key in ("text", "summary", "data") and isinstance(value, str):
                        known[key] = as_text(known.get(key)) + value
                    elif value is not None and value != "":
                        known[key] = value
                return
        self._details.append(detail)

    # ----------------------------------------------------------------------- the whole

    def _response(self) -> Response:
        cut = self._stop_reason() == "max_tokens"
        calls: list[ToolCall] = []
        for at, call in enumerate(self._calls):
            made = self._made.get(at)
            if made is None or made.arguments != arguments(call.raw)[0]:
                made = self._call(call.id, call.name, call.raw)
                if made.raw is None and (made.arguments or not cut):
                    self.emit(ToolCallReady(made))
            calls.append(made)
        return self._reply(calls)

    def _whole(self, body: JsonObject) -> Response:
        choices = as_list(body.get("choices"))
        if not choices:
            raise BadReply(f"the reply holds no choice: {dumps(body)[:200]!r}")
        choice = as_dict(choices[0])
        if error := choice.get("error"):
            raise from_stream(error, self.source)
        message = as_dict(choice.get("message"))
        emit, self.emit = self.emit, _quiet  # emitted once, when the whole is built
        self._finish = as_text(choice.get("finish_reason"))
        self._usage = as_dict(body.get("usage"))
        self._id, self._model = as_text(body.get("id")) or None, as_text(body.get("model")) or None
        legacy = as_dict(message.get("function_call"))
        self._delta({k: v for k, v in message.items() if k not in ("tool_calls", "function_call")})
        self.emit = emit
        every = [as_dict(call) for call in as_list(message.get("tool_calls"))]
        asked = [call for call in every if call.get("type") not in _SEARCH]
        self._searches = [call for call in every if call.get("type") in _SEARCH]
        if not asked and legacy.get("name"):
            asked = [{"function": legacy}]
        calls = [
            self._call(call.get("id"), as_text(f.get("name")), f.get("arguments"))
            for call in asked
            if (f := as_dict(call.get("function")))
        ]
        return self._reply(calls)

    def _call(self, id: object, name: str, raw: object) -> ToolCall:
        values, broken = arguments(raw)
        return ToolCall(call_id(id), self.names.get(name, name), values, broken)

    def _stop_reason(self) -> StopReason:
        if "".join(self._refusal).strip():
            return "refusal"
        return STOPS.get(self._finish or "", "unknown")

    def _reply(self, calls: list[ToolCall]) -> Response:
        stop = self._stop_reason()
        blocks: list[Block] = []
        if thinking := self._thinking():
            blocks.append(thinking)
        blocks += [Opaque(self.origin, item) for item in self._searches]
        if text := "".join([*self._text, *self._refusal]):
            blocks.append(Text(text))
        if stop == "refusal":
            calls = []  # what it had begun to ask for is not to be run
        if stop == "max_tokens" and calls and calls[-1].raw is None and not calls[-1].arguments:
            calls[-1] = msgspec.structs.replace(calls[-1], raw="")
        if calls and not (stop == "max_tokens" and calls[-1].raw is not None):
            stop = "tool_use"
        blocks.extend(calls)
        if not blocks and not self._finish and not self._usage and stop != "refusal":
            raise BadReply("the reply is empty: neither text nor a tool call")
        message = Message("assistant", tuple(blocks))
        return Response(message, parse_usage(self._usage), stop, self._model, self._id)

    def _thinking(self) -> Thinking | None:
        text = "".join(self._thought)
        if self._details:
            return Thinking(text, {"reasoning_details": self._details}, self.origin)
        if not text:
            return None
        opaque = {"field": self._field} if self._field else None
        return Thinking(text, opaque, self.origin)


def parse_usage(usage: JsonObject) -> Usage:
    """Parse the token counts, whichever names the server uses."""
    if not usage:
        return NO_USAGE
    prompt = as_dict(usage.get("prompt_tokens_details"))
    completion = as_dict(usage.get("completion_tokens_details"))
    return Usage(
        whole(usage.get("prompt_tokens")),
        whole(usage.get("completion_tokens")),
        whole(
            prompt.get("cached_tokens")
            or usage.get("prompt_cache_hit_tokens")
            or usage.get("num_cached_tokens")
        ),
        whole(prompt.get("cache_write_tokens")),
        whole(completion.get("reasoning_tokens")),
        amount(usage.get("cost")),
    )


def _quiet(_event: object) -> None:
    pass
