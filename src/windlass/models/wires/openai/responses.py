"""OpenAI's Responses wire, `POST /v1/responses`: items instead of messages.

Nothing is kept at the provider: every request carries the whole conversation, with the model's
reasoning in the encrypted form it came in. Calls and results are paired by `call_id`; the `id` of
an item names something stored over there and is not sent back with a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Unpack

import msgspec

from windlass.errors import BadReply, ConfigError
from windlass.json_types import JsonObject
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
from windlass.models.registry.config import Endpoint
from windlass.models.wires.base import Access
from windlass.models.wires.json_values import (
    as_dict,
    dumps,
    join,
    readable,
    safe_name,
    said_error,
    set_given,
)
from windlass.models.wires.openai.base import OpenAIShaped
from windlass.models.wires.openai.reasoning import lower_thinking, over_responses
from windlass.models.wires.openai.responses_reply import ResponsesDecoder
from windlass.models.wires.openai.tools import (
    arguments_text,
    is_search,
    responses_tools,
    search_call,
    search_output,
    searches_here,
)
from windlass.models.wires.schema import answer_format

ENCRYPTED: Final = "reasoning.encrypted_content"
# what of a request is counted; the rest is refused where tokens are counted
_COUNTED: Final = (
    "model",
    "input",
    "instructions",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "tool_choice",
    "tools",
)


class OpenAIResponses(OpenAIShaped):
    """A model behind `/responses`: `w.models.openai_responses("gpt-5.4", api_key=…)`.

    Other servers of that shape by their address, or by their name where it is known:
    `openai_responses("openai/gpt-5.4", provider="openrouter")`. Tools that OpenAI runs itself come in
    with `extra={"tools": [{"type": "web_search"}]}` and join those of the agent.
    """

    wire = "openai_responses"
    rules = "windlass.models.wires.openai.responses_rules"
    image_types = ("image/jpeg", "image/png", "image/gif", "image/webp")
    least_output = 16
    thinking_forms = ("effort",)
    history_needs = ({"call_ids": "40"},)
    argument_mark = rb'"type"\s*:\s*"response\.function_call_arguments\.delta"'
    path = "/responses"

    def __init__(
        self, name: str, *, api_version: str | None = None, **access: Unpack[Access]
    ) -> None:
        if (endpoint := access.get("endpoint")) is not None:
            access["endpoint"] = _as_openai(endpoint)
        super().__init__(name, api_version=api_version, **access)

    @classmethod
    def _endpoint(cls, provider: str, base_url: str | None) -> Endpoint:
        return _as_openai(super()._endpoint(provider, base_url))

    def decoder(self, request: Request, emit: Emit) -> ResponsesDecoder:
        """Build the decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.encode_frame(request.frame).names
        settings, tools = request.settings, request.tools
        search = tools[0].name if settings.tool_search == "client" and tools else None
        return ResponsesDecoder(
            self._source(), self._origin, names, emit, limit=settings.max_tokens, search=search
        )

    async def count_tokens(self, request: Request) -> int | None:
        """Count the request's tokens at the provider."""
        if not (self.dialect.counts and self.caps.counts_tokens):
            return None
        self.check()
        whole = as_dict(msgspec.json.decode(b"".join(self.encode(request))))
        asked = dumps({key: whole[key] for key in _COUNTED if key in whole})
        at = self._at("/responses/input_tokens")
        found = (await self._question(request.settings, [asked], at)).get("input_tokens")
        if type(found) is not int:
            raise BadReply("the provider counted no tokens")
        return found

    # ----------------------------------------------------------------------- the frame

    def _head(self, frame: Frame) -> bytes:
        settings, dialect, caps = frame.settings, self.dialect, self.caps
        body: JsonObject = {"model": self.name, "stream": settings.stream, "store": False}
        if caps.thinking and dialect.encrypts:
            body["include"] = [ENCRYPTED]
        limit = settings.max_tokens
        if limit is not None:
            limit = max(limit, dialect.fewest)  # less is refused
        set_given(body, instructions=frame.system or None, max_output_tokens=limit)
        if caps.sampling:
            set_given(body, temperature=settings.temperature, top_p=settings.top_p)
        if (form := answer_format(settings)) is not None:
            body["text"] = {"format": form}
        if frame.tools:
            body["tools"] = responses_tools(frame, caps)
            set_given(body, tool_choice=_choice(settings, frame))
            set_given(body, parallel_tool_calls=settings.parallel_tool_calls)
        written = lower_thinking(settings.thinking, caps, dialect.lowering)
        body.update(over_responses(written, settings.thinking))
        join(body, settings.extra or {})
        body.pop("input", None)
        return dumps(body)[:-1] + b',"input":['

    # ----------------------------------------------------------------------- items

    def _message(self, message: Message) -> bytes:
        match message.role:
            case "assistant":
                items = self._assistant(message.content)
            case "system":
                system_item = {"role": self.caps.system_role, "content": message.text}
                items = [system_item] if message.text else []
            case _:
                items = self._user_items(message.content)
        return b"".join([dumps(item) + b"," for item in items])

    def _assistant(self, content: Sequence[Block]) -> list[JsonObject]:
        """Convert an assistant message to items in order, so that reasoning precedes its calls."""
        items: list[JsonObject] = []
        spoken: JsonObject | None = None  # the message that text goes into
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
                    native = is_search(block.id) and searches_here(self.caps)
                    items.append(search_call(block) if native else _call(block, ours))
                case Thinking(_, opaque):
                    if ours and _stands_alone(item := as_dict(opaque)):
                        items.append(item)
                case Opaque(_, data) if ours and "type" in (native := as_dict(data)):
                    if native["type"] == "message" and not native.get("content"):
                        items.append(spoken := {**_message_item(), **native, "content": []})
                        continue
                    items.append(native)
                case _:
                    continue  # another provider's, or nothing that a model writes
            spoken = None
        items = [item for item in items if item.get("content") != [] or item["type"] != "message"]
        while items and items[-1].get("type") == "reasoning":
            items.pop()  # cut off before it came to anything: refused without what follows it
        return items

    def _user_items(self, content: Sequence[Block]) -> list[JsonObject]:
        """Convert a user's or tool's message: an item for each result, then the rest."""
        items: list[JsonObject] = []
        others: list[Text | Image | Document] = []
        for block in content:
            if type(block) is ToolResult:
                if is_search(block.id) and searches_here(self.caps):
                    items.append(search_output(block, self.caps))
                    continue
                output = {"type": "function_call_output", "call_id": safe_name(block.id)}
                items.append({**output, "output": _output(block)})
            elif type(block) is Text or type(block) is Image or type(block) is Document:
                others.append(block)
        if others:
            items.append({"role": "user", "content": _content(others)})
        return items


def _as_openai(endpoint: Endpoint) -> Endpoint:
    """Name the endpoint `openai-responses` `openai`: the models are the same."""
    if endpoint.name != "openai-responses":
        return endpoint
    return msgspec.structs.replace(endpoint, name="openai")


def _message_item() -> JsonObject:
    return {"type": "message", "role": "assistant", "content": []}


def _call(call: ToolCall, ours: bool) -> JsonObject:
    item: JsonObject = {
        "type": "function_call",
        "call_id": safe_name(call.id),
        "name": safe_name(call.name),
        "arguments": arguments_text(call),
    }
    # the mark of a search is removed where it is sent back as an ordinary call
    return {**as_dict(call.opaque), **item} if ours else item


def _stands_alone(item: JsonObject) -> bool:
    """Check whether a reasoning item carries content, not only the id of a stored one."""
    return item.get("type") == "reasoning" and bool(
        item.get("encrypted_content") or item.get("content")
    )


def _output(result: ToolResult) -> str | list[JsonObject]:
    if isinstance(result.content, str) or result.is_error:
        return said_error(result)
    return _content(result.content)


def _content(blocks: Sequence[Text | Image | Document]) -> str | list[JsonObject]:
    texts = [block.text for block in blocks if type(block) is Text]
    if len(texts) == len(blocks):  # plain text is understood by every server
        return "\n\n".join(texts)
    return [_part(block) for block in blocks]


def _part(block: Text | Image | Document) -> JsonObject:
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
