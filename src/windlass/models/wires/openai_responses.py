"""OpenAI's Responses wire, `POST /v1/responses`: items instead of messages.

Nothing is kept at the provider: every request carries the whole conversation, with the model's
reasoning in the encrypted form it came in. Calls and results are paired by `call_id`; the `id` of
an item names something stored over there and is not sent back with a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Unpack

import msgspec

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
from windlass.models.endpoints import Endpoint, Wire
from windlass.models.wires.common import Access, HttpModel
from windlass.models.wires.dialects import DIALECTS, Dialect, openai_shaped
from windlass.models.wires.openai_responses_reply import ResponsesDecoder
from windlass.models.wires.parts import given, readable, said_error, schema
from windlass.models.wires.values import as_dict, as_list, dumps, joined, safe_name

ENCRYPTED: Final = "reasoning.encrypted_content"
FEWEST: Final = 16  # tokens of a reply that OpenAI can be held to


class OpenAIResponses(HttpModel):
    """A model behind `/responses`: `w.models.openai_responses("gpt-5.4", api_key=…)`.

    Other servers of that shape by their address, or by their name where it is known:
    `openai_responses("openai/gpt-5.4", provider="openrouter")`. Tools that OpenAI runs itself come in
    with `extra={"tools": [{"type": "web_search"}]}` and join those of the agent.
    """

    wire: ClassVar[Wire] = "openai_responses"
    home = "openai"

    def __init__(self, name: str, **access: Unpack[Access]) -> None:
        if (endpoint := access.get("endpoint")) is not None:
            access["endpoint"] = _owned(endpoint)
        super().__init__(name, **access)
        self.dialect: Dialect = DIALECTS[self.endpoint.dialect]

    @classmethod
    def _endpoint(cls, provider: str, base_url: str | None) -> Endpoint:
        return _owned(openai_shaped(provider, base_url, cls.wire))

    def _url(self, base: str) -> str:
        return joined(base, "/responses", when=lambda own: own or "/v1")

    def _auth(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def decoder(self, request: Request, emit: Emit) -> ResponsesDecoder:
        """The decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.framed(request.frame).names
        limit = request.settings.max_tokens
        return ResponsesDecoder(self._source(), self._origin, names, emit, limit=limit)

    # ----------------------------------------------------------------------- the frame

    def _head(self, frame: Frame) -> bytes:
        settings, dialect = frame.settings, self.dialect
        reasons = self.dialect.reasons(self.info, self.name)
        body: dict[str, Any] = {"model": self.name, "stream": settings.stream, "store": False}
        if reasons and dialect.encrypts:
            body["include"] = [ENCRYPTED]
        limit = settings.max_tokens
        if limit is not None and dialect.strict_reasoning:
            limit = max(limit, FEWEST)  # less is refused
        given(body, instructions=frame.system or None, max_output_tokens=limit)
        if not (reasons and dialect.strict_reasoning):
            given(body, temperature=settings.temperature, top_p=settings.top_p)
        if frame.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": safe_name(tool.name),
                    "description": tool.description,
                    "parameters": schema(tool.parameters),
                    "strict": False,  # left out it means yes, which few schemas are written for
                }
                for tool in frame.tools
            ]
            given(body, tool_choice=_choice(settings, frame))
            given(body, parallel_tool_calls=settings.parallel_tool_calls)
        if settings.thinking is not None:
            known = self.info is not None
            asked = dialect.reasoning(settings.thinking, reasons if known else None)
            given(body, reasoning=_reasoning(asked, as_dict(settings.thinking)))
        _join(body, settings.extra or {})
        return dumps(body)[:-1] + b',"input":['

    # ----------------------------------------------------------------------- items

    def _message(self, message: Message) -> bytes:
        match message.role:
            case "assistant":
                items = self._assistant(message.content)
            case "system":
                items = [{"role": "system", "content": message.text}] if message.text else []
            case _:
                items = _said(message.content)
        return b"".join([dumps(item) + b"," for item in items])

    def _assistant(self, content: Sequence[Block]) -> list[dict[str, Any]]:
        """The items of a turn in their order, so that reasoning stands before its calls."""
        items: list[dict[str, Any]] = []
        spoken: dict[str, Any] | None = None  # the message that text goes into
        for block in content:
            ours = isinstance(block, (Thinking, ToolCall, Opaque)) and block.origin == self._origin
            match block:
                case Text(text):
                    if not text:
                        continue
                    if spoken is None:
                        items.append(spoken := _message_item())
                    spoken["content"].append({"type": "output_text", "text": text})
                    continue
                case ToolCall():
                    items.append(_call(block, ours))
                case Thinking(_, opaque):
                    if ours and _stands_alone(item := as_dict(opaque)):
                        items.append(item)
                case Opaque(_, data) if ours and "type" in (native := as_dict(data)):
                    if native["type"] == "message" and not native.get("content"):
                        items.append(spoken := {**_message_item(), **native, "content": []})
                        continue
                    items.append(native)
                case _:
                    continue  # another provider's, or nothing that a model says
            spoken = None
        items = [item for item in items if item.get("content") != [] or item["type"] != "message"]
        while items and items[-1].get("type") == "reasoning":
            items.pop()  # cut off before it came to anything: refused without what follows it
        return items


def _owned(endpoint: Endpoint) -> Endpoint:
    """`openai-responses` is a way to ask for this wire; the models are OpenAI's."""
    if endpoint.name != "openai-responses":
        return endpoint
    return msgspec.structs.replace(endpoint, name="openai")


def _message_item() -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": []}


def _call(call: ToolCall, ours: bool) -> dict[str, Any]:
    item: dict[str, Any] = {
        "type": "function_call",
        "call_id": safe_name(call.id),
        "name": safe_name(call.name),
        "arguments": dumps(call.arguments).decode(),
    }
    return {**item, **as_dict(call.opaque)} if ours else item


def _stands_alone(item: dict[str, Any]) -> bool:
    """Whether a reasoning item says something by itself: an id alone names what nobody stored."""
    return item.get("type") == "reasoning" and bool(
        item.get("encrypted_content") or item.get("content")
    )


def _said(content: Sequence[Block]) -> list[dict[str, Any]]:
    """A user's or the tools' words: an item for each result, then what else was said."""
    items: list[dict[str, Any]] = []
    others: list[Text | Image | Document] = []
    for block in content:
        if type(block) is ToolResult:
            output = {"type": "function_call_output", "call_id": safe_name(block.id)}
            items.append({**output, "output": _output(block)})
        elif type(block) is Text or type(block) is Image or type(block) is Document:
            others.append(block)
    if others:
        items.append({"role": "user", "content": _content(others)})
    return items


def _output(result: ToolResult) -> str | list[dict[str, Any]]:
    if isinstance(result.content, str) or result.is_error:
        return said_error(result)
    return _content(result.content)


def _content(blocks: Sequence[Text | Image | Document]) -> str | list[dict[str, Any]]:
    words = [block.text for block in blocks if type(block) is Text]
    if len(words) == len(blocks):  # plain text is understood by every server
        return "\n\n".join(words)
    return [_part(block) for block in blocks]


def _part(block: Text | Image | Document) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    if isinstance(block, Image):
        url = block.url or f"data:{block.media_type};base64,{block.data or ''}"
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if block.url is not None:
        return {"type": "input_file", "file_url": block.url}
    if (text := readable(block)) is not None:
        return {"type": "input_text", "text": text}
    data = f"data:{block.media_type};base64,{block.data or ''}"
    return {"type": "input_file", "filename": block.title or "document", "file_data": data}


# --------------------------------------------------------------------------- options


def _choice(settings: Settings, frame: Frame) -> Any:
    match asked := settings.tool_choice:
        case None | "auto" | "none":
            return asked
        case "required" | "any":
            return "required"
        case {"name": str(name)}:
            return {"type": "function", "name": safe_name(name)}
        case str(name) if any(tool.name == name for tool in frame.tools):
            return {"type": "function", "name": safe_name(name)}
        case _:
            raise ConfigError(
                f"tool_choice is 'auto', 'none', 'required' or {{'name': …}}, not {asked!r}"
            )


def _reasoning(asked: dict[str, Any], options: dict[str, Any]) -> dict[str, Any] | None:
    """What Chat Completions would be asked, as this wire writes it, and a summary if wanted.

    A summary is not asked for unasked: OpenAI refuses one to organisations it has not verified.
    """
    reasoning = dict(as_dict(asked.get("reasoning")))
    given(reasoning, effort=asked.get("reasoning_effort"))
    if reasoning:
        given(reasoning, summary=options.get("summary"))
    return reasoning or None


def _join(body: dict[str, Any], extra: dict[str, Any]) -> None:
    """The user's own fields; lists of tools and of what to include grow, all else is replaced."""
    for key, value in extra.items():
        if key in ("tools", "include") and (more := as_list(value)):
            before = as_list(body.get(key))
            body[key] = [*before, *(item for item in more if item not in before)]
        elif key != "input":
            body[key] = value
