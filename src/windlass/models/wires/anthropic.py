"""Anthropic's Messages wire, `POST /v1/messages`: requests out, replies and streams in.

Also what other servers offer under the same name. Thinking goes back with the signature it came
with, and blocks that only Anthropic understands go back as they came, both only to the provider
and model that made them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from windlass.errors import BadReply, ConfigError, ContextOverflow
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import (
    Block,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from windlass.models.base import Emit, Frame, Request, Response, Settings, StopReason
from windlass.models.endpoints import ENDPOINTS, Endpoint
from windlass.models.failures import from_stream
from windlass.models.transport import Timeouts, Transport
from windlass.models.wires.common import (
    Decoder,
    HttpModel,
    arguments,
    as_dict,
    as_list,
    as_text,
    call_id,
    dumps,
    joined,
    safe_name,
    whole,
)
from windlass.redact import Secret
from windlass.usage import Usage

VERSION: Final = "2023-06-01"
MAX_TOKENS: Final = 16_384  # of a reply, where the settings do not say: the wire wants a number
_STOPS: Final[dict[str, StopReason]] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "end_turn",  # without a call in it the turn is over, whatever the word says
    "pause_turn": "pause_turn",
    "refusal": "refusal",
}


class AnthropicMessages(HttpModel):
    """A Claude model: `w.models.anthropic("claude-sonnet-4-5", api_key=…)`."""

    wire = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        api_key: str | Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        timeout: float | None = None,
        provider: str = "anthropic",
        endpoint: Endpoint | None = None,
        timeouts: Timeouts | None = None,
        transport: Transport | None = None,
    ) -> None:
        known = endpoint or ENDPOINTS.get(provider) or ENDPOINTS["anthropic"]
        if known.name != provider and endpoint is None:
            known = msgspec.structs.replace(known, name=provider)
        super().__init__(
            name,
            endpoint=known,
            api_key=api_key,
            base_url=base_url,
            headers=headers,
            timeout=timeout,
            timeouts=timeouts,
            transport=transport,
        )

    def _url(self, base: str) -> str:
        return joined(
            base, "/messages", when=lambda own: own if own.endswith("/v1") else own + "/v1"
        )

    def _auth(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def _headers(self) -> dict[str, str]:
        return {"anthropic-version": VERSION, **super()._headers()}

    def decoder(self, request: Request, emit: Emit) -> MessagesDecoder:
        """The decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.framed(request.frame).names
        return MessagesDecoder(self._source(), self._origin, names, emit)

    # ----------------------------------------------------------------------- the frame

    def _head(self, frame: Frame) -> bytes:
        settings = frame.settings
        thinking, effort = self._thinking(settings)
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": self._max_tokens(settings, thinking),
            "stream": settings.stream,
        }
        if frame.system and frame.system.strip():
            body["system"] = frame.system
        if frame.tools:
            body["tools"] = [
                {
                    "name": safe_name(tool.name),
                    "description": tool.description,
                    "input_schema": _schema(tool.parameters),
                }
                for tool in frame.tools
            ]
            if choice := _choice(settings, thinking is not None and thinking != _OFF, frame):
                body["tool_choice"] = choice
        if thinking is not None:
            body["thinking"] = thinking
        if effort is not None:
            body["output_config"] = {"effort": effort}
        if self.info is None or self.info.sampling:
            if thinking is None or thinking == _OFF:  # a thinking model sets its own temperature
                _given(body, temperature=settings.temperature, top_k=settings.top_k)
            _given(body, top_p=settings.top_p)
        if settings.stop:
            body["stop_sequences"] = settings.stop
        if settings.extra:
            body.update(settings.extra)
        body.pop("messages", None)
        return dumps(body)[:-1] + b',"messages":['

    def _thinking(self, settings: Settings) -> tuple[dict[str, Any] | None, str | None]:
        """What to say of thinking, and how hard to think."""
        asked = settings.thinking
        if asked is None:
            return None, None
        mode = self.info.thinking if self.info is not None else "budget"
        if asked is False:
            return (_OFF if mode not in ("", "always") else None), None
        options = asked if isinstance(asked, dict) else {}
        if "type" in options:
            return options, None
        if options.get("mode") == "disabled":
            return (_OFF if mode != "always" else None), None
        effort = options.get("effort")
        budget = options.get("budget_tokens")
        if not mode:
            return None, None
        if mode in ("adaptive", "always") or (mode == "both" and budget is None):
            return {"type": "adaptive"}, effort
        limit = settings.max_tokens or MAX_TOKENS
        return {
            "type": "enabled",
            "budget_tokens": budget or max(1024, min(8192, limit // 2)),
        }, None

    def _max_tokens(self, settings: Settings, thinking: dict[str, Any] | None) -> int:
        if settings.max_tokens is not None:
            return settings.max_tokens
        limit = MAX_TOKENS + whole((thinking or {}).get("budget_tokens"))
        ceiling = self.info.max_output if self.info is not None else None
        return limit if ceiling is None else min(limit, ceiling)

    # ----------------------------------------------------------------------- messages

    def _hoisted(self, messages: Sequence[Message]) -> int:
        count = 0
        while count < len(messages) and messages[count].role == "system":
            count += 1
        return count

    def _message(self, message: Message) -> bytes:
        blocks = list(self._blocks(message.content))
        if not blocks:
            return b""  # an empty message is refused
        if message.role == "assistant":
            return b'{"role":"assistant","content":' + dumps(blocks) + b"},"
        if len(blocks) > 1:
            # results come first: anything before them hides them from the calls they answer
            blocks.sort(key=lambda block: block["type"] != "tool_result")
        return b'{"role":"user","content":' + dumps(blocks) + b"},"

    def _blocks(self, content: Sequence[Block]) -> Iterator[dict[str, Any]]:
        for block in content:
            match block:
                case Text(text):
                    if text and not text.isspace():
                        yield {"type": "text", "text": text}
                case ToolCall():
                    call = {
                        "type": "tool_use",
                        "id": safe_name(block.id),
                        "name": safe_name(block.name),
                        "input": block.arguments,
                    }
                    if block.origin == self._origin:
                        call.update(as_dict(block.opaque))
                    yield call
                case ToolResult():
                    yield _result(block)
                case Thinking(text, opaque, origin):
                    if origin == self._origin and "signature" in (signed := as_dict(opaque)):
                        yield {"type": "thinking", "thinking": text, **signed}
                case Opaque(origin, data):
                    if origin == self._origin and "type" in (native := as_dict(data)):
                        yield native
                case Image():
                    yield _image(block)
                case Document():
                    yield _document(block)


_OFF: Final[dict[str, Any]] = {"type": "disabled"}


def _given(body: dict[str, Any], **values: Any) -> None:
    body.update({key: value for key, value in values.items() if value is not None})


def _schema(parameters: dict[str, Any]) -> dict[str, Any]:
    if parameters.get("type") == "object":
        return parameters
    return {"type": "object", "properties": {}, **parameters}


def _choice(settings: Settings, thinking: bool, frame: Frame) -> dict[str, Any] | None:
    asked = settings.tool_choice
    choice: dict[str, Any] | None
    match asked:
        case None:
            choice = None
        case "auto" | "none":
            choice = {"type": asked}
        case "required" | "any":
            choice = {"type": "any"}
        case {"name": str(name)}:
            choice = {"type": "tool", "name": safe_name(name)}
        case str(name) if any(tool.name == name for tool in frame.tools):
            choice = {"type": "tool", "name": safe_name(name)}
        case _:
            raise ConfigError(
                f"tool_choice is 'auto', 'none', 'required' or {{'name': …}}, not {asked!r}"
            )
    if thinking and choice is not None and choice["type"] in ("any", "tool"):
        choice = {"type": "auto"}  # a thinking model may not be forced
    if settings.parallel_tool_calls is False and (choice is None or choice["type"] != "none"):
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return choice


def _result(result: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": safe_name(result.id)}
    if isinstance(result.content, str):
        if result.content:
            block["content"] = result.content
    elif result.is_error:
        block["content"] = result.text  # an error is told in words: pictures in it are refused
    else:
        parts: list[dict[str, Any]] = []
        for part in result.content:
            if isinstance(part, Text):
                if part.text and not part.text.isspace():
                    parts.append({"type": "text", "text": part.text})
            else:
                parts.append(_image(part) if isinstance(part, Image) else _document(part))
        if parts:
            block["content"] = parts
    if result.is_error:
        block["is_error"] = True
    return block


def _image(image: Image) -> dict[str, Any]:
    url, data, media_type = image.url, image.data, image.media_type
    if url is not None and url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        media_type, url = head.partition(";")[0] or media_type, None
    if url is not None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    source = {"type": "base64", "media_type": media_type, "data": data or ""}
    return {"type": "image", "source": source}


def _document(document: Document) -> dict[str, Any]:
    source: dict[str, Any]
    if document.url is not None:
        source = {"type": "url", "url": document.url}
    elif document.media_type.startswith("text/"):
        text = base64.b64decode(document.data or "").decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        source = {"type": "base64", "media_type": document.media_type, "data": document.data or ""}
    block: dict[str, Any] = {"type": "document", "source": source}
    if document.title is not None:
        block["title"] = document.title
    return block


# --------------------------------------------------------------------------- replies


class _Open:
    """A block that is still being written."""

    __slots__ = ("block", "json", "parts")

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = block
        self.parts: list[str] = []  # text or thinking
        self.json: list[str] = []  # a call's arguments


class MessagesDecoder(Decoder):
    """Anthropic's reply, streamed or plain.

    A call whose arguments were cut off by `max_tokens` keeps their text in `raw` and has no
    arguments, so that the loop answers it as invalid and nobody runs half of it. Even an empty
    `{}` counts as cut when it is the last thing in such a reply: some servers write that for what
    they had not yet begun.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: dict[int, _Open] = {}
        self._blocks: dict[int, Block] = {}
        self._held: ToolCall | None = None  # without arguments: perhaps complete, perhaps cut
        self._usage: dict[str, Any] = {}
        self._stop: str | None = None
        self._model: str | None = None
        self._id: str | None = None

    def _event(self, name: str, data: bytes) -> bool:
        event = self._json(data)
        match event.get("type") or name:
            case "content_block_delta":
                self._delta(whole(event.get("index")), as_dict(event.get("delta")))
            case "ping":
                return False
            case "content_block_start":
                self._release()
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
                    self._release()
            case "message_stop":
                self.done = self.complete = True
            case "error":
                raise from_stream(event.get("error") or event, self.source)
            case _:
                pass  # an event of tomorrow
        return True

    def _about(self, message: dict[str, Any]) -> None:
        self._id = as_text(message.get("id")) or None
        self._model = as_text(message.get("model")) or None
        self._stop = as_text(message.get("stop_reason")) or None
        self._take_usage(message.get("usage"))

    def _start(self, index: int, block: dict[str, Any]) -> None:
        self._open[index] = opened = _Open(block)
        kind = block.get("type")
        if kind == "text" and (text := as_text(block.get("text"))):
            opened.parts.append(text)
            self.emit(TextDelta(text))
        elif kind == "thinking" and (text := as_text(block.get("thinking"))):
            opened.parts.append(text)
            self.emit(ThinkingDelta(text))

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        opened = self._open.get(index)
        if opened is None:
            return  # of a block that was never opened, or is already closed
        match delta.get("type"):
            case "text_delta":
                text = as_text(delta.get("text"))
                opened.parts.append(text)
                self.emit(TextDelta(text))
            case "input_json_delta":
                opened.json.append(as_text(delta.get("partial_json")))
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
        if isinstance(made, ToolCall) and made.raw is None:
            if made.arguments:
                self.emit(ToolCallReady(made))
            else:
                self._held = made

    def _release(self) -> None:
        if self._held is not None:
            self.emit(ToolCallReady(self._held))
            self._held = None

    def _block(self, block: dict[str, Any]) -> Block:
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
        return self._made([self._blocks[index] for index in sorted(self._blocks)])

    def _whole(self, body: dict[str, Any]) -> Response:
        self._about(body)
        if "content" not in body:
            raise BadReply(f"the reply holds no message: {dumps(body)[:200]!r}")
        return self._made([self._block(dict(as_dict(b))) for b in as_list(body["content"])])

    def _made(self, content: list[Block]) -> Response:
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
            Message("assistant", tuple(content)), self._counted(), stop, self._model, self._id
        )

    def _counted(self) -> Usage:
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


def _merge(block: dict[str, Any], delta: dict[str, Any]) -> None:
    """A delta of a kind nobody here knows: text is appended, lists grow, the rest is replaced."""
    for key, value in delta.items():
        if key == "type" or value is None:
            continue
        before = block.get(key)
        if isinstance(before, str) and isinstance(value, str):
            block[key] = before + value
        elif isinstance(before, list) and isinstance(value, list):
            block[key] = [*cast("list[Any]", before), *cast("list[Any]", value)]
        else:
            block[key] = value
