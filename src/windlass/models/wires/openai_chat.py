"""OpenAI's Chat Completions wire, and the many servers that speak something like it.

OpenRouter, HuggingFace, Together, Groq, DeepSeek, Fireworks, Mistral, Ollama's and llama.cpp's
`/v1`: what differs between them stands in `dialects.py`. A reply is judged by what is in it, since
`finish_reason`, `index` and call ids cannot be relied on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack, cast

from windlass.errors import ConfigError
from windlass.messages import (
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
)
from windlass.models.base import Emit, Frame, Request, Settings
from windlass.models.endpoints import Endpoint, Wire
from windlass.models.wires.common import Access, HttpModel
from windlass.models.wires.dialects import DIALECTS, Dialect, openai_shaped
from windlass.models.wires.openai_reply import ChatDecoder
from windlass.models.wires.parts import given, readable, said_error, schema
from windlass.models.wires.values import as_dict, dumps, joined, safe_name


class OpenAIChat(HttpModel):
    """A model behind `/chat/completions`: `w.models.openai_chat("gpt-4o", api_key=…)`.

    Any server of that shape by its address: `openai_chat("qwen3", base_url="http://host:8000/v1")`.
    """

    wire: ClassVar[Wire] = "openai_chat"
    home = "openai"

    def __init__(self, name: str, **access: Unpack[Access]) -> None:
        super().__init__(name, **access)
        self.dialect: Dialect = DIALECTS[self.endpoint.dialect]

    @classmethod
    def _endpoint(cls, provider: str, base_url: str | None) -> Endpoint:
        return openai_shaped(provider, base_url, cls.wire)

    def _url(self, base: str) -> str:
        return joined(base, "/chat/completions", when=lambda own: own or "/v1")

    def _auth(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def decoder(self, request: Request, emit: Emit) -> ChatDecoder:
        """The decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.framed(request.frame).names
        return ChatDecoder(self._source(), self._origin, names, emit)

    # ----------------------------------------------------------------------- the frame

    def _head(self, frame: Frame) -> bytes:
        settings, dialect = frame.settings, self.dialect
        body: dict[str, Any] = {"model": self.name, "stream": settings.stream}
        if settings.stream and dialect.usage_on_request:
            body["stream_options"] = {"include_usage": True}
        reasons = dialect.reasons(self.info, self.name)
        limit = "max_completion_tokens" if reasons and dialect.strict_reasoning else "max_tokens"
        given(body, **{limit: settings.max_tokens, "stop": settings.stop})
        if not (reasons and dialect.strict_reasoning):
            given(
                body,
                temperature=settings.temperature,
                top_p=settings.top_p,
                frequency_penalty=settings.frequency_penalty,
                presence_penalty=settings.presence_penalty,
            )
        given(body, **{dialect.seed: settings.seed})
        if dialect.top_k:
            given(body, top_k=settings.top_k)
        if frame.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": safe_name(tool.name),
                        "description": tool.description,
                        "parameters": schema(tool.parameters),
                    },
                }
                for tool in frame.tools
            ]
            given(body, tool_choice=_choice(settings, frame, dialect))
            given(body, parallel_tool_calls=settings.parallel_tool_calls)
        if settings.thinking is not None:
            known = self.info is not None
            body.update(dialect.reasoning(settings.thinking, reasons if known else None))
        body.update(settings.extra or {})
        body.pop("messages", None)
        head = dumps(body)[:-1] + b',"messages":['
        if not frame.system:
            return head
        return head + dumps({"role": "system", "content": frame.system}) + b","

    # ----------------------------------------------------------------------- messages

    def _message(self, message: Message) -> bytes:
        match message.role:
            case "assistant":
                parts = [self._assistant(message)]
            case "system":
                parts = [{"role": "system", "content": message.text}]
            case _:
                parts = self._said(message)
        return b"".join([dumps(part) + b"," for part in parts if part is not None])

    def _assistant(self, message: Message) -> dict[str, Any] | None:
        text, calls = message.text, message.tool_calls
        if not text and not calls:
            return None
        out: dict[str, Any] = {"role": "assistant", "content": text or None}
        for block in message.content:
            if type(block) is Thinking and block.origin == self._origin:
                out.update(self.dialect.echo(as_dict(block.opaque), block.text, bool(calls)))
        if calls:
            out["tool_calls"] = [
                {
                    "id": self._id(call.id),
                    "type": "function",
                    "function": {
                        "name": safe_name(call.name),
                        "arguments": dumps(call.arguments).decode(),
                    },
                }
                for call in calls
            ]
        return out

    def _said(self, message: Message) -> list[dict[str, Any]]:
        """A user's or the tools' words: one message for each result, then what else was said."""
        out: list[dict[str, Any]] = []
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
                    # a tool may answer in words only here; its pictures follow as the user's
                    others.extend(part for part in block.content if type(part) is not Text)
            elif type(block) is Text or type(block) is Image or type(block) is Document:
                others.append(block)
        if others:
            out.append({"role": "user", "content": _content(others)})
        return out

    def _id(self, id: str) -> str:
        return self.dialect.call_id(id)


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


def _content(blocks: Sequence[Text | Image | Document]) -> str | list[dict[str, Any]]:
    if all(type(block) is Text for block in blocks):
        # plain text is understood by every server, a list of parts is not
        return "\n\n".join([block.text for block in cast("Sequence[Text]", blocks)])
    return [_part(block) for block in blocks]


def _part(block: Text | Image | Document) -> dict[str, Any]:
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
