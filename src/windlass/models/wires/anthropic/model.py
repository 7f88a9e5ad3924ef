"""Anthropic's Messages wire, `POST /v1/messages`: requests, replies and streams.

Also what other servers offer under the same name. Thinking goes back with the signature it came
with, and blocks that only Anthropic understands go back as they came, both only to the provider
and model that made them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from windlass.errors import BadReply, ConfigError, safe_repr
from windlass.json_types import JsonObject, is_object
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
from windlass.models.base import Emit, Frame, Request, Settings
from windlass.models.wires.anthropic.cache import (
    LOOK_BACK,
    add_cache_mark,
    last_answered,
    mark_before,
    mark_of,
)
from windlass.models.wires.anthropic.reply import MessagesDecoder
from windlass.models.wires.base import HttpModel
from windlass.models.wires.claude import (
    claude_betas,
    claude_thinking,
    close_objects,
    is_forced,
    open_object,
    opener,
)
from windlass.models.wires.json_values import (
    as_dict,
    dumps,
    inline,
    join_url,
    loads,
    safe_name,
    schema,
    set_given,
    wanted_tool,
    whole,
)

# Parts of a Messages request: results, pictures and documents.


_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TEXTS: Final = ("text/", "application/json", "application/xml")


def result_block(result: ToolResult) -> JsonObject:
    """Build the `tool_result` block of a tool's result."""
    block: JsonObject = {"type": "tool_result", "tool_use_id": safe_name(result.id)}
    if isinstance(result.content, str):
        if result.content:
            block["content"] = result.content
    elif result.is_error:
        block["content"] = result.text  # an error is text: images in it are refused
    else:
        parts: list[JsonObject] = []
        for part in result.content:
            if not isinstance(part, Text):
                parts.append(file_block(part))
            elif part.text and not part.text.isspace():
                parts.append({"type": "text", "text": part.text})
        if parts:
            block["content"] = parts
    if result.is_error:
        block["is_error"] = True
    return block


def file_block(file: Image | Document) -> JsonObject:
    """Convert an image or document to a block, or to text where the wire cannot carry it."""
    kind = "image" if isinstance(file, Image) else "document"
    inline_data = inline(file)
    source: JsonObject | None
    if inline_data is None:
        source = {"type": "url", "url": file.url}
    else:
        source = _inline_image(*inline_data) if kind == "image" else _inline_document(*inline_data)
    if source is None:
        return {
            "type": "text",
            "text": _words(file, inline_data[0] if inline_data else file.media_type),
        }
    block: JsonObject = {"type": kind, "source": source}
    if isinstance(file, Document) and file.title is not None:
        block["title"] = file.title
    return block


def _inline_image(media_type: str, data: str) -> JsonObject | None:
    if media_type not in _IMAGES:
        return None
    return {"type": "base64", "media_type": media_type, "data": data}


def _inline_document(media_type: str, data: str) -> JsonObject | None:
    if media_type.startswith(_TEXTS):
        text = base64.b64decode(data).decode("utf-8", "replace")
        if not text or text.isspace():
            return None
        return {"type": "text", "media_type": "text/plain", "data": text}
    if media_type != "application/pdf":
        return None
    return {"type": "base64", "media_type": media_type, "data": data}


def _words(file: Image | Document, media_type: str) -> str:
    name = "Image" if isinstance(file, Image) else file.title or "Document"
    return f"{name}: ({media_type}, which cannot be shown here)"


VERSION: Final = "2023-06-01"
# a conversation begins with a user message, which may not be empty
_OPENING: Final = b'{"role":"user","content":[{"type":"text","text":"Begin."}]},'
_MODEL_FIRST: Final = b'{"role":"assistant"'
MAX_TOKENS: Final = 16_384  # of a reply, where the settings have none: the wire needs a number
_SEARCHES: Final = ("bm25", "regex")
# what a request to count tokens may hold
_COUNTED: Final = frozenset(
    "model system tools tool_choice thinking output_config cache_control mcp_servers"
    " context_management speed".split()
)


class AnthropicMessages(HttpModel):
    """A Claude model: `w.models.anthropic("claude-sonnet-4-5", api_key=…)`."""

    wire = home = "anthropic"
    rules = "windlass.models.wires.anthropic.rules"
    image_types = ("image/jpeg", "image/png", "image/gif", "image/webp")
    moves_result_media = False
    thinking_forms = ("claude",)
    argument_mark = rb'"partial_json"\s*:\s*"(?!")'

    def _url(self, base: str) -> str:
        return join_url(
            base, "/messages", when=lambda own: own if own.endswith("/v1") else own + "/v1"
        )

    def _auth(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def _headers(self) -> dict[str, str]:
        return {"anthropic-version": VERSION, **super()._headers()}

    async def _address_request(
        self, settings: Settings, body: Sequence[bytes], at: str | None = None
    ) -> tuple[str, dict[str, str]]:
        url, headers = await super()._address_request(settings, body, at)
        forced = is_forced(settings)
        thinks = claude_thinking(self.caps, settings, MAX_TOKENS, forced=forced)
        if names := claude_betas(self.caps, settings, on=thinks.on):
            own = [name.strip() for name in headers.get("anthropic-beta", "").split(",")]
            headers["anthropic-beta"] = ",".join(dict.fromkeys(filter(None, [*own, *names])))
        return url, headers

    def decoder(self, request: Request, emit: Emit) -> MessagesDecoder:
        """Build the decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.encode_frame(request.frame).names
        return MessagesDecoder(self._source(), self._origin, names, emit)

    async def count_tokens(self, request: Request) -> int | None:
        """Count the request's tokens at Anthropic; None where the model has no such count."""
        if not self.caps.counts_tokens:
            return None
        self.check()
        head, *rest = self.encode(request)
        fields = as_dict(loads(head + b"]}"))
        fields = {name: value for name, value in fields.items() if name in _COUNTED}
        body = [dumps(fields)[:-1] + b',"messages":[', *rest]
        path, mark, query = self.url.partition("?")
        at = f"{path}/count_tokens{mark}{query}"
        answer = await self._question(request.frame.settings, body, at)
        if type(total := answer.get("input_tokens")) is not int:
            raise BadReply(f"the count of tokens is no number: {total!r:.80}")
        return total

    # ----------------------------------------------------------------------- the request

    def encode(self, request: Request) -> list[bytes]:
        """Encode the request's body in pieces: `b"".join(model.encode(request))` is JSON.

        What is cached ends where the messages end: behind them the tail may change every time.
        """
        if self._began_without_thought(request):
            bare = msgspec.structs.replace(request.frame.settings, thinking=False)
            frame = msgspec.structs.replace(request.frame, settings=bare)
            request = Request(request.messages, frame, request.tail)
        body = self._add_cache_marks(super().encode(request), request)
        if next(filter(None, body[1:-1]), b"").startswith(_MODEL_FIRST):
            body.insert(1, _OPENING)
        return body

    def _add_cache_marks(self, body: list[bytes], request: Request) -> list[bytes]:
        """Add cache marks to the body where the prompt is to be cached."""
        settings = request.frame.settings
        mark = mark_of(settings, self.caps.prompt_caching)
        if mark is None:
            return body
        messages = request.messages
        skip = (
            self._count_system_messages(messages)
            if messages and messages[0].role == "system"
            else 0
        )
        tail = len(body) - 1 - len(request.tail)
        held = body[1:tail]
        self._mark_far(held, messages, skip, mark)
        if self.provider == "anthropic" and not request.tail:
            # Anthropic finds the last block by itself; other servers may not know the field
            body[-1] = b'],"cache_control":' + dumps(mark) + b"}"
        else:
            self._mark_last(held, messages, skip, mark)
        body[1:tail] = held
        return body

    def _began_without_thought(self, request: Request) -> bool:
        """Check whether the current turn began without thinking; it must then continue so.

        This happens after a switch from another model.
        """
        settings = request.frame.settings
        if not settings.thinking or not claude_thinking(self.caps, settings, MAX_TOKENS).budgeted:
            return False
        if (first := opener(request.messages)) is None:
            return False
        block = next(self._blocks(first.content), {"type": ""})
        return block["type"] not in ("thinking", "redacted_thinking")

    def _mark_last(
        self, held: list[bytes], messages: Sequence[Message], skip: int, mark: JsonObject
    ) -> None:
        for at in range(len(messages) - 1, skip - 1, -1):
            if next(self._blocks(messages[at].content), None) is not None:
                if messages[at].role == "assistant":
                    return  # it continues its own reply, where not every block takes a mark
                place = next(n for n in range(len(held) - 1, -1, -1) if held[n])
                held[place] = add_cache_mark(held[place], mark)
                return

    def _mark_far(
        self, held: list[bytes], messages: Sequence[Message], skip: int, mark: JsonObject
    ) -> None:
        """Mark the end of the previous request in a turn of very many blocks.

        The provider looks back over a limited number of blocks and would not find the
        cached part.
        """
        before = last_answered(messages, skip)
        if before is None:
            return
        new = messages[before + 1 :]
        if sum(len(message.content) for message in new) <= LOOK_BACK:
            return
        after = sum([len(self._message(message)) for message in new])
        if self._message(messages[before]):
            mark_before(held, after, mark)

    # ----------------------------------------------------------------------- the frame

    def _head(self, frame: Frame) -> bytes:
        return dumps(self._fields(frame))[:-1] + b',"messages":['

    def _fields(self, frame: Frame) -> JsonObject:
        settings = frame.settings
        if settings.response_format is not None:
            raise ConfigError(
                f"{self.provider} has no JSON mode: give a schema, or ask for JSON in words"
            )
        mark = mark_of(settings, self.caps.prompt_caching)
        forced = bool(frame.tools) and is_forced(settings)
        if forced and not self.caps.forces_calls:
            raise ConfigError(
                f"{self.name} cannot be made to call a tool: leave tool_choice at 'auto'"
            )
        thinks = claude_thinking(self.caps, settings, MAX_TOKENS, forced=forced)
        body: JsonObject = {
            "model": self.name,
            "max_tokens": self._max_tokens(settings, thinks.thinking),
            "stream": settings.stream,
        }
        tools = self._tools(frame)
        if frame.system and frame.system.strip():
            body["system"] = frame.system
            if mark is not None:  # behind the system prompt, so behind the tools too
                text = {"type": "text", "text": frame.system, "cache_control": mark}
                body["system"] = [text]
        elif mark is not None and (here := [t for t in tools if not t.get("defer_loading")]):
            here[-1]["cache_control"] = mark
        if tools:
            body["tools"] = tools
            if frame.tools and (choice := _choice(settings, frame)) is not None:
                body["tool_choice"] = choice
        if thinks.thinking is not None:
            body["thinking"] = thinks.thinking
        if config := _output(settings, thinks.effort):
            body["output_config"] = config
        if self.caps.sampling:
            if not thinks.on:  # a thinking model sets its own temperature
                set_given(body, temperature=settings.temperature, top_k=settings.top_k)
            set_given(body, top_p=settings.top_p)
        if settings.stop:
            body["stop_sequences"] = settings.stop
        _add(body, settings.extra or {})
        return body

    def _tools(self, frame: Frame) -> list[JsonObject]:
        search = frame.settings.tool_search
        tools: list[JsonObject] = []
        if search is not None:
            if search not in _SEARCHES:
                raise ConfigError(
                    f"{self.provider} searches tools by 'bm25' or 'regex', not {safe_repr(search)}"
                )
            kind = f"tool_search_tool_{search}"
            tools.append({"type": f"{kind}_20251119", "name": kind})
        for tool in frame.tools:
            parameters, strict = schema(tool.parameters), False
            if tool.strict and self.caps.strict_tools and open_object(parameters) is None:
                parameters, strict = close_objects(parameters), True
            spec: JsonObject = {
                "name": safe_name(tool.name),
                "description": tool.description,
                "input_schema": parameters,
            }
            if strict:
                spec["strict"] = True
            if tool.defer_loading and search is not None:
                spec["defer_loading"] = True
            tools.append(spec)
        return tools

    def _max_tokens(self, settings: Settings, thinking: JsonObject | None) -> int:
        if settings.max_tokens is not None:
            return settings.max_tokens
        limit = MAX_TOKENS + whole((thinking or {}).get("budget_tokens"))
        ceiling = self.info.max_output if self.info is not None else None
        return limit if ceiling is None else min(limit, ceiling)

    # ----------------------------------------------------------------------- messages

    def _count_system_messages(self, messages: Sequence[Message]) -> int:
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

    def _blocks(self, content: Sequence[Block]) -> Iterator[JsonObject]:
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
                    yield result_block(block)
                case Thinking(text, opaque, origin):
                    if origin == self._origin and "signature" in (signed := as_dict(opaque)):
                        yield {"type": "thinking", "thinking": text, **signed}
                case Opaque(origin, data):
                    if origin == self._origin and "type" in (native := as_dict(data)):
                        yield native
                case Image() | Document():
                    yield file_block(block)


def _choice(settings: Settings, frame: Frame) -> JsonObject | None:
    choice: JsonObject | None
    match wanted_tool(settings, frame):
        case (None, _):
            choice = None
        case ("required", _):
            choice = {"type": "any"}
        case ("tool", name):
            choice = {"type": "tool", "name": safe_name(name)}
        case (word, _):
            choice = {"type": word}
    if settings.parallel_tool_calls is False and (choice is None or choice["type"] != "none"):
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return choice


def _output(settings: Settings, effort: str | None) -> JsonObject:
    config: JsonObject = {}
    set_given(config, effort=effort)
    if settings.schema is not None:
        config["format"] = {"type": "json_schema", "schema": close_objects(settings.schema)}
    return config


def _add(body: JsonObject, extra: JsonObject) -> None:
    """Merge the user's own fields into the body; `output_config` is merged key by key."""
    for name, value in extra.items():
        if name in ("messages", "cache_control"):
            continue
        if name == "output_config" and is_object(value):
            value = {**body.get(name, {}), **value}
        body[name] = value
