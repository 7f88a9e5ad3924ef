"""Anthropic's Messages wire, `POST /v1/messages`: requests out, replies and streams in.

Also what other servers offer under the same name. Thinking goes back with the signature it came
with, and blocks that only Anthropic understands go back as they came, both only to the provider
and model that made them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any, Final

from windlass.errors import ConfigError
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
from windlass.models.wires.anthropic_reply import MessagesDecoder
from windlass.models.wires.claude_thinking import OFF, claude_thinking
from windlass.models.wires.common import HttpModel
from windlass.models.wires.parts import given, inline, schema
from windlass.models.wires.values import as_dict, dumps, joined, safe_name, whole

VERSION: Final = "2023-06-01"
MAX_TOKENS: Final = 16_384  # of a reply, where the settings do not say: the wire wants a number


class AnthropicMessages(HttpModel):
    """A Claude model: `w.models.anthropic("claude-sonnet-4-5", api_key=…)`."""

    wire = home = "anthropic"

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
        thinking, effort = claude_thinking(self.info, settings, MAX_TOKENS)
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
                    "input_schema": schema(tool.parameters),
                }
                for tool in frame.tools
            ]
            if choice := _choice(settings, thinking is not None and thinking != OFF, frame):
                body["tool_choice"] = choice
        if thinking is not None:
            body["thinking"] = thinking
        if effort is not None:
            body["output_config"] = {"effort": effort}
        if self.info is None or self.info.sampling:
            if thinking is None or thinking == OFF:  # a thinking model sets its own temperature
                given(body, temperature=settings.temperature, top_k=settings.top_k)
            given(body, top_p=settings.top_p)
        if settings.stop:
            body["stop_sequences"] = settings.stop
        if settings.extra:
            body.update(settings.extra)
        body.pop("messages", None)
        return dumps(body)[:-1] + b',"messages":['

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
    if (here := inline(image)) is None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    media_type, data = here
    source = {"type": "base64", "media_type": media_type, "data": data}
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
