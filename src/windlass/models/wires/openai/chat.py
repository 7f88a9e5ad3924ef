"""OpenAI's Chat Completions wire, also for the many servers that offer a similar one.

OpenRouter, HuggingFace, Together, Groq, DeepSeek, Fireworks, Mistral, Ollama's and llama.cpp's
`/v1`: what differs between them stands in `dialects.py`. A reply is judged by what is in it, since
`finish_reason`, `index` and call ids cannot be relied on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, cast

from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.messages import (
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
)
from windlass.models.base import (
    Completion,
    Emit,
    Frame,
    Request,
    Response,
    Settings,
    encode_in_context,
)
from windlass.models.wires.decoder import Decoder
from windlass.models.wires.json_values import (
    as_dict,
    dumps,
    join,
    readable,
    safe_name,
    said_error,
    set_given,
)
from windlass.models.wires.no_think import told_not_to_think
from windlass.models.wires.openai.base import OpenAIShaped
from windlass.models.wires.openai.chat_reply import ChatDecoder
from windlass.models.wires.openai.completions import TextDecoder, completion_body
from windlass.models.wires.openai.dialects import Dialect
from windlass.models.wires.openai.reasoning import lower_thinking
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.models.wires.openai.tools import arguments_text, chat_tools
from windlass.models.wires.schema import answer_format

_CACHED: Final = {"type": "ephemeral"}
_BETWEEN: Final = b'{"role":"assistant","content":"OK."},'
_COMPLETIONS: Final = {
    "completions": "/completions",
    "fim": "/fim/completions",
    "infill": "/infill",
}


class OpenAIChat(OpenAIShaped):
    """A model behind `/chat/completions`: `w.models.openai_chat("gpt-4o", api_key=…)`.

    Any server of that shape by its address: `openai_chat("qwen3", base_url="http://host:8000/v1")`.
    A deployment at Azure: `openai_chat("my-gpt", provider="azure", base_url="https://….azure.com")`.
    """

    wire = "openai_chat"
    rules = "windlass.models.wires.openai.chat_rules"
    image_types = ("image/jpeg", "image/png", "image/gif", "image/webp")
    thinking_forms = ("effort", "template", "enabled", "type")
    history_needs = ({"call_ids": "40"}, {"call_ids": "9"})
    argument_mark = rb'"arguments"\s*:\s*"(?!")'
    path = "/chat/completions"

    def rule_options(self, body: JsonObject) -> JsonObject:
        """Return the keys that other servers take besides OpenAI's, and whether ids are short."""
        strict = self.provider in ("openai", "azure")
        also: frozenset[str] = frozenset() if strict else frozenset(body)
        return {"also": also, "short_ids": self.capabilities.call_ids == "9"}

    def _url(self, base: str) -> str:
        return self._at(self.endpoint.chat_endpoint or self.path, base)

    @cached_property
    def over_responses(self) -> OpenAIResponses:
        """The same model over OpenAI's other wire, for what only that one can do."""
        return OpenAIResponses(
            self.name,
            api_version=self.api_version,
            api_key=self._key,
            base_url=self.base_url if self._own_url else None,
            headers=self.headers,
            timeout=self.timeout,
            endpoint=self.endpoint,
            timeouts=self.timeouts,
            transport=self._transport,
        )

    def _elsewhere(self, settings: Settings) -> OpenAIResponses | None:
        """Return the Responses wire where only that one can serve the request (tool search)."""
        if settings.tool_search is None or self.dialect.searches != "responses":
            return None
        return self.over_responses

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Call the provider, streamed or plain as the settings say."""
        if (other := self._elsewhere(request.settings)) is not None:
            return await other.respond(request, emit)
        return await super().respond(request, emit)

    def encode(self, request: Request) -> list[bytes]:
        """Encode the request's body in pieces: `b"".join(model.encode(request))` is JSON."""
        if (other := self._elsewhere(request.settings)) is not None:
            return other.encode(request)
        body = super().encode(told_not_to_think(request, self.caps))
        if self.dialect.prefix and _ends_in_own_words(request):
            at = next(n for n in range(len(body) - 2, -1, -1) if body[n])
            body[at] = body[at].removesuffix(b"}") + b',"prefix":true}'
        return body

    def decoder(self, request: Request, emit: Emit) -> Decoder:
        """Build the decoder of one reply: `feed` it bytes, then `finish`."""
        if (other := self._elsewhere(request.settings)) is not None:
            return other.decoder(request, emit)
        names = self.encode_frame(request.frame).names
        return ChatDecoder(self._source(), self._origin, names, emit)

    async def count_tokens(self, request: Request) -> int | None:
        """Count the request's tokens through the Responses wire."""
        if not (self.dialect.counts and self.caps.counts_tokens):
            return None
        return await self.over_responses.count_tokens(request)

    async def complete(self, completion: Completion, emit: Emit) -> Response | None:
        """Continue a text; None where the model has no endpoint for completions."""
        if (path := _COMPLETIONS.get(self.caps.completes)) is None:
            return None
        self.check()
        body = completion_body(
            completion,
            self.name,
            self.caps,
            seed=self.dialect.seed,
            counts=self.dialect.usage_on_request,
        )
        made = ChatDecoder if self.caps.completes == "fim" else TextDecoder
        decoder = made(self._source(), self._origin, {}, emit)
        at = self._at(self.endpoint.completion_endpoint or path)
        if self.caps.completes == "infill":  # llama.cpp's own, not under /v1
            at = at.replace("/v1/infill", "/infill")
        return await self._exchange(completion.settings, [body], decoder, at)

    # ----------------------------------------------------------------------- the frame

    def _head(self, frame: Frame) -> bytes:
        settings, dialect, caps = frame.settings, self.dialect, self.caps
        body: JsonObject = {"model": self.name, "stream": settings.stream}
        if settings.stream and dialect.usage_on_request:
            body["stream_options"] = {"include_usage": True}
        set_given(body, **{caps.completion_limit: settings.max_tokens, "stop": settings.stop})
        if caps.sampling:
            set_given(
                body,
                temperature=settings.temperature,
                top_p=settings.top_p,
                frequency_penalty=settings.frequency_penalty,
                presence_penalty=settings.presence_penalty,
            )
        set_given(body, **{dialect.seed: settings.seed})
        if dialect.top_k and caps.sampling:
            set_given(body, top_k=settings.top_k)
        if (form := answer_format(settings)) is not None:
            body["response_format"] = _wrap_response_format(form)
        if frame.tools:
            body["tools"] = chat_tools(frame, caps)
            set_given(body, tool_choice=_choice(settings, frame, dialect))
            set_given(body, parallel_tool_calls=settings.parallel_tool_calls)
        body.update(lower_thinking(settings.thinking, caps, dialect.lowering))
        if caches := self._caches(settings):
            body["cache_control"] = _CACHED  # at the end of each request, wherever that is
        join(body, settings.extra or {})
        body.pop("messages", None)
        head = dumps(body)[:-1] + b',"messages":['
        if not frame.system:
            return head
        content: Any = frame.system
        if caches:  # a point of its own: other conversations begin with the same text
            content = [{"type": "text", "text": frame.system, "cache_control": _CACHED}]
        return head + dumps({"role": caps.system_role, "content": content}) + b","

    def _caches(self, settings: Settings) -> bool:
        return self.dialect.caches and self.caps.prompt_caching and settings.cache is not False

    # ----------------------------------------------------------------------- messages

    def _pieces(self, messages: Sequence[Message]) -> list[bytes]:
        if not self.dialect.alternates:
            return super()._pieces(messages)
        return encode_in_context(messages, self._cached, self._encode_with_bridge)

    def _encode_with_bridge(self, messages: Sequence[Message], at: int) -> bytes:
        """Encode a message, with an assistant message before it where the server needs one."""
        before = at - 1
        while before >= 0 and _says_nothing(messages[before]):
            before -= 1
        bridge = messages[at].role == "user" and before >= 0 and messages[before].role == "tool"
        return (_BETWEEN if bridge else b"") + self._message(messages[at])

    def _tail(self, request: Request) -> list[bytes]:
        if not (self.dialect.alternates and request.tail):
            return super()._tail(request)
        every = [*request.messages[-4:], *request.tail]
        first = len(every) - len(request.tail)
        return [self._encode_with_bridge(every, at) for at in range(first, len(every))]

    def _message(self, message: Message) -> bytes:
        match message.role:
            case "assistant":
                parts = [self._assistant(message)]
            case "system":
                parts = [{"role": self.caps.system_role, "content": message.text}]
            case _:
                parts = self._user_messages(message)
        return b"".join([dumps(part) + b"," for part in parts if part is not None])

    def _assistant(self, message: Message) -> JsonObject | None:
        text, calls = message.text, message.tool_calls
        if _says_nothing(message):
            return None
        out: JsonObject = {"role": "assistant", "content": text or None}
        for block in message.content:
            if type(block) is Thinking and block.origin == self._origin:
                echo = self.dialect.echo(as_dict(block.opaque), block.text, bool(calls))
                if not (self.caps.echoes or "reasoning_details" in echo):
                    continue
                if text and (parts := echo.get("content")):
                    parts.append({"type": "text", "text": text})
                out.update(echo)
        if calls:
            out["tool_calls"] = [
                {
                    "id": self._id(call.id),
                    "type": "function",
                    "function": {
                        "name": safe_name(call.name),
                        "arguments": arguments_text(call),
                    },
                }
                for call in calls
            ]
        return out

    def _user_messages(self, message: Message) -> list[JsonObject]:
        """Convert a user's or tool's message: one message for each result, then the rest."""
        out: list[JsonObject] = []
        others: list[Text | Image | Document] = []
        for block in message.content:
            if type(block) is ToolResult:
                out.append(
                    {
                        "role": "tool",
                        "tool_call_id": self._id(block.id),
                        "content": said_error(block),
                    }
                )
                if not isinstance(block.content, str):
                    # a tool may answer with text only here; its images follow as the user's
                    others.extend(part for part in block.content if type(part) is not Text)
            elif type(block) is Text or type(block) is Image or type(block) is Document:
                others.append(block)
        if others:
            if out and self.dialect.alternates:
                out.append({"role": "assistant", "content": "OK."})
            out.append({"role": "user", "content": _content(others)})
        return out

    def _id(self, id: str) -> str:
        """Convert a call's id to this model's rules; the same for a call and its result."""
        if self.caps.call_ids == "9":
            if len(id) == 9 and id.isascii() and id.isalnum():
                return id
            return sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
        return safe_name(id, 40) if self.caps.call_ids == "40" else id or "call"


def _says_nothing(message: Message) -> bool:
    """Check whether nothing of a message is sent, for example if it holds only thinking."""
    return message.role == "assistant" and not message.text and not message.tool_calls


def _ends_in_own_words(request: Request) -> bool:
    last = (request.tail or request.messages)[-1:]
    return bool(last) and last[0].role == "assistant" and bool(last[0].text)


def _wrap_response_format(form: JsonObject) -> JsonObject:
    """Wrap the response format as Chat Completions writes it."""
    if form["type"] != "json_schema":
        return form
    return {"type": "json_schema", "json_schema": {k: v for k, v in form.items() if k != "type"}}


def _choice(settings: Settings, frame: Frame, dialect: Dialect) -> Any:
    match asked := settings.tool_choice:
        case None | "auto" | "none":
            return asked
        case "required" | "any":
            return dialect.required
        case {"name": str(name)}:
            return {"type": "function", "function": {"name": safe_name(name)}}
        case str(name) if any(tool.name == name for tool in frame.tools):
            return {"type": "function", "function": {"name": safe_name(name)}}
        case _:
            raise ConfigError(
                f"tool_choice is 'auto', 'none', 'required' or {{'name': …}}, not {asked!r}"
            )


def _content(blocks: Sequence[Text | Image | Document]) -> str | list[JsonObject]:
    if all(type(block) is Text for block in blocks):
        # plain text is understood by every server, a list of parts is not
        return "\n\n".join([block.text for block in cast("Sequence[Text]", blocks)])
    return [_part(block) for block in blocks]


def _part(block: Text | Image | Document) -> JsonObject:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image):
        url = block.url or f"data:{block.media_type};base64,{block.data or ''}"
        return {"type": "image_url", "image_url": {"url": url}}
    if block.url is not None:
        return {"type": "text", "text": f"{block.title or 'Document'}: {block.url}"}
    if (text := readable(block)) is not None:
        return {"type": "text", "text": text}
    data = f"data:{block.media_type};base64,{block.data or ''}"
    return {"type": "file", "file": {"filename": block.title or "document", "file_data": data}}
