"""Gemini's wire, `:generateContent` and `:streamGenerateContent`: requests and replies.

A signature goes back on the part it came on, and only to the provider and model that made it.
Vertex takes the same body under another address: `vertex.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeAlias, Unpack
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from windlass.errors import BadReply
from windlass.json_types import JsonObject, is_list, is_object
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
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.base import Access, EncodedFrame, HttpModel
from windlass.models.wires.gemini.reply import GenerateDecoder
from windlass.models.wires.gemini.schema import dialect
from windlass.models.wires.json_values import (
    as_dict,
    as_list,
    dumps,
    inline,
    join_url,
    safe_name,
    schema,
    set_given,
    wanted_tool,
)
from windlass.models.wires.no_think import thinks_not

# How a Gemini model is asked to think: by a budget, by a level, or not at all.


_LEVELS: Final = ("minimal", "low", "medium", "high")
_TOKENS: Final = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24_576}
_NATIVE: Final = frozenset({"thinkingBudget", "thinkingLevel", "includeThoughts"})
_DYNAMIC: Final = -1  # the model decides how much


def thinking_config(asked: bool | JsonObject | None, caps: Capabilities) -> JsonObject | None:
    """Build `thinkingConfig` from the thinking option; None where nothing is to be sent.

    `thinking_config({"effort": "low"}, row)` -> `{"includeThoughts": True, "thinkingLevel": "LOW"}`
    """
    options = as_dict(asked)
    if asked is None or _NATIVE & options.keys():
        return options or None
    if caps.known and not caps.thinking:
        return None  # asked of a model that cannot, it is refused
    by_level = caps.lowering != "gemini_budget"
    if thinks_not(asked):
        return {"thinkingLevel": _level("minimal", caps)} if by_level else _off(caps)
    effort, budget = options.get("effort"), options.get("budget_tokens")
    config: JsonObject = {"includeThoughts": True}
    if not by_level:
        config["thinkingBudget"] = _budget(effort, budget, caps)
    elif effort is not None or isinstance(budget, int):
        config["thinkingLevel"] = _level(str(effort or _effort(budget)), caps)
    return config


def _off(caps: Capabilities) -> JsonObject:
    """Build the config for as little thinking as the model allows."""
    return {"thinkingBudget": caps.thinking_budget[0] if caps.always_thinks else 0}


def _budget(effort: object, budget: object, caps: Capabilities) -> int:
    if not isinstance(budget, int):
        if effort is None:
            return _DYNAMIC
        budget = _TOKENS.get(str(effort), _TOKENS["high"])
    if budget < 0:
        return budget
    least, most = caps.thinking_budget
    return max(least, min(budget, most))


def _effort(budget: object) -> str:
    tokens = budget if isinstance(budget, int) else _TOKENS["medium"]
    return next((name for name in _LEVELS if tokens <= _TOKENS[name]), "high")


def _level(effort: str, caps: Capabilities) -> str:
    """Return the thinking level by name, or the next higher one that the model has."""
    known = [name for name in _LEVELS if name in caps.efforts] or list(_LEVELS)
    at = _LEVELS.index(effort) if effort in _LEVELS else len(_LEVELS)
    return next((name for name in known if _LEVELS.index(name) >= at), known[-1]).upper()


Part: TypeAlias = JsonObject

_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY", "tool": "ANY"}
# a conversation begins with a user message, which may be empty
_OPENING: Final = b'{"role":"user","parts":[{"text":""}]},'
# what Google has one write on calls that the model did not make itself
_FOREIGN: Final = "skip_thought_signature_validator"


class GeminiGenerate(HttpModel):
    """A Gemini model: `w.models.gemini("gemini-2.5-flash", api_key=…)`."""

    wire = home = "gemini"
    rules = "windlass.models.wires.gemini.rules"
    makes_addresses = True
    image_types = ("image/jpeg", "image/png", "image/webp", "image/heic", "image/heif")
    thinking_forms = ("gemini_level", "gemini_budget")
    history_needs = ({"signs_calls": True},)
    has_call_ids = True
    #: Whether calls and their results carry ids; without, their order pairs them.
    sends_ids: ClassVar[bool] = True

    def rule_options(self, body: JsonObject) -> JsonObject:
        """Return whether calls have ids and must be signed, for the request rules."""
        return {"ids": self.has_call_ids, "signs": self.capabilities.signs_calls}

    def __init__(self, name: str, **access: Unpack[Access]) -> None:
        self._resource = _resource(name)
        super().__init__(name.removeprefix("models/"), **access)

    def _url(self, base: str) -> str:
        return join_url(base, self._resource, when=lambda own: own or "/v1beta")

    def _auth(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    async def _address_request(
        self, settings: Settings, body: Sequence[bytes], at: str | None = None
    ) -> tuple[str, dict[str, str]]:
        return at or self.asks(stream=settings.stream), self._headers()

    def asks(self, *, stream: bool) -> str:
        """Return the URL of a request, streamed or plain."""
        if not stream:
            return self._method("generateContent")
        return self._method("streamGenerateContent", "alt=sse")

    def _method(self, name: str, *query: str) -> str:
        parts = urlsplit(self.url)
        asks = "&".join(filter(None, (parts.query, *query)))
        return urlunsplit((parts.scheme, parts.netloc, f"{parts.path}:{name}", asks, ""))

    def decoder(self, request: Request, emit: Emit) -> GenerateDecoder:
        """Build the decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.encode_frame(request.frame).names
        return GenerateDecoder(self._source(), self._origin, names, emit)

    async def count_tokens(self, request: Request) -> int | None:
        """Count the request's tokens at Google, with its system prompt and tools."""
        if not self.caps.counts_tokens:
            return None
        self.check()
        body = self._count_body(self.encode(request))
        answer = await self._question(request.frame.settings, body, self._method("countTokens"))
        total = answer.get("totalTokens", 0)  # a count of nothing is left out
        if type(total) is not int:
            raise BadReply(f"the count of tokens is no number: {total!r:.80}")
        return total

    def _count_body(self, body: list[bytes]) -> list[bytes]:
        """Wrap a request's body for the endpoint that counts tokens."""
        name = dumps({"model": self._resource[1:]})
        return [b'{"generateContentRequest":', name[:-1], b",", body[0][1:], *body[1:], b"}"]

    # ----------------------------------------------------------------------- the frame

    def _make(self, frame: Frame) -> EncodedFrame:
        names = {wire: t.name for t in frame.tools if (wire := wire_name(t.name)) != t.name}
        return EncodedFrame(self._head(frame), names)

    def _head(self, frame: Frame) -> bytes:
        settings = frame.settings
        body: JsonObject = {}
        if frame.system and frame.system.strip():
            body["systemInstruction"] = {"parts": [{"text": frame.system}]}
        if frame.tools:
            body["tools"] = [
                {
                    "functionDeclarations": [
                        {
                            "name": wire_name(tool.name),
                            "description": tool.description,
                            "parametersJsonSchema": dialect(schema(tool.parameters)),
                        }
                        for tool in frame.tools
                    ]
                }
            ]
            if choice := _choice(settings, frame):
                body["toolConfig"] = {"functionCallingConfig": choice}
        body["generationConfig"] = self._generation(settings)
        _merge(body, settings.extra or {})
        body.pop("contents", None)
        return dumps(body)[:-1] + b',"contents":['

    def _generation(self, settings: Settings) -> JsonObject:
        config: JsonObject = {}
        set_given(
            config,
            maxOutputTokens=settings.max_tokens,
            stopSequences=settings.stop or None,
            seed=settings.seed,
            frequencyPenalty=settings.frequency_penalty,
            presencePenalty=settings.presence_penalty,
            thinkingConfig=thinking_config(settings.thinking, self.caps),
        )
        if self.caps.sampling:
            set_given(
                config, temperature=settings.temperature, topP=settings.top_p, topK=settings.top_k
            )
        if settings.schema is not None:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = dialect(settings.schema)
        elif settings.response_format == "json":
            config["responseMimeType"] = "application/json"
        return config

    # ----------------------------------------------------------------------- messages

    def encode(self, request: Request) -> list[bytes]:
        """Encode the request's body in pieces: `b"".join(model.encode(request))` is JSON."""
        body = super().encode(request)
        messages = request.messages or request.tail
        first = self._count_system_messages(messages)
        if first == len(messages) or messages[first].role == "assistant":
            body.insert(1, _OPENING if any(body[1:-1]) else _OPENING[:-1])
        return body

    def _count_system_messages(self, messages: Sequence[Message]) -> int:
        count = 0
        while count < len(messages) and messages[count].role == "system":
            count += 1
        return count

    def _message(self, message: Message) -> bytes:
        if message.role == "assistant":
            parts, role = self._model_parts(message.content), b"model"
        else:
            parts, role = self._user_parts(message.content), b"user"
        if not parts and message.role != "user":
            return b""  # a content without parts is refused
        parts = parts or [{"text": ""}]  # an empty message still counts as a turn
        return b'{"role":"' + role + b'","parts":' + dumps(parts) + b"},"

    def _model_parts(self, content: Sequence[Block]) -> list[Part]:
        parts: list[Part] = []
        for block in content:
            match block:
                case Text(text):
                    if text:
                        parts.append({"text": text})
                case ToolCall():
                    parts.append(self._call(block))
                case Thinking(text, opaque, origin):
                    if origin == self._origin:
                        parts.append({"text": text, "thought": True, **as_dict(opaque)})
                case Opaque(origin, data):
                    if origin == self._origin:
                        _put_back(parts, as_dict(data))
                case Image() | Document():
                    parts.extend(_media(block))
                case ToolResult():
                    pass
        if self.caps.signs_calls or not self.caps.known:
            _sign(parts)  # an unknown model is a new one, and those require it
        return parts

    def _call(self, call: ToolCall) -> Part:
        function: JsonObject = {"name": wire_name(call.name), "args": call.arguments}
        if self.sends_ids:
            function["id"] = call.id
        beside = as_dict(call.opaque) if call.origin == self._origin else {}
        return {"functionCall": function, **beside}

    def _user_parts(self, content: Sequence[Block]) -> list[Part]:
        """Convert a user's or tool's blocks to parts, results first."""
        results: list[Part] = []
        others: list[Part] = []
        for block in content:
            match block:
                case ToolResult():
                    media = _media_parts(block)
                    function: JsonObject = {
                        "name": wire_name(block.name or "tool"),
                        "response": _response(block),
                    }
                    if self.sends_ids:
                        function["id"] = block.id
                    if media and self.caps.media_results:
                        function["parts"] = media
                    else:
                        others.extend(media)  # a tool may answer with text only here
                    results.append({"functionResponse": function})
                case Text(text):
                    if text:
                        others.append({"text": text})
                case Image() | Document():
                    others.extend(_media(block))
                case _:
                    pass
        return [*results, *others]


# --------------------------------------------------------------------------- names and addresses


def _resource(name: str) -> str:
    held = name if name.startswith(("models/", "tunedModels/")) else f"models/{name}"
    return "/" + quote(held, safe="/@")


@lru_cache(maxsize=8192)
def wire_name(name: str) -> str:
    """Convert a tool name to Gemini's rules, which also want a letter or `_` in front."""
    safe = safe_name(name)
    if safe[0].isalpha() or safe[0] == "_":
        return safe
    return safe_name(f"fn\0{name}")


# --------------------------------------------------------------------------- the frame's parts


def _choice(settings: Settings, frame: Frame) -> JsonObject | None:
    asked, name = wanted_tool(settings, frame)
    if asked is None:
        return None
    choice: JsonObject = {"mode": _MODES[asked]}
    if asked == "tool":
        choice["allowedFunctionNames"] = [wire_name(name)]
    return choice


def _merge(body: JsonObject, extra: Mapping[str, Any]) -> None:
    """Merge the user's own fields into the body: objects one level deep, tools appended."""
    for key, value in extra.items():
        if is_object(value):
            body[key] = {**as_dict(body.get(key)), **value}
        elif key == "tools" and is_list(value):
            body[key] = [*as_list(body.get(key)), *value]
        else:
            body[key] = value


# --------------------------------------------------------------------------- a message's parts


def _put_back(parts: list[Part], native: JsonObject) -> None:
    """Append a native part as it arrived, or restore its fields beside the text before it."""
    if "beside" not in native:
        if native:
            parts.append(native)
        return
    beside = as_dict(native["beside"])
    last = parts[-1] if parts else {}
    if last.keys() == {"text"}:
        parts[-1] = {**last, **beside}
    else:
        parts.append({"text": "", **beside})


def _sign(parts: list[Part]) -> None:
    """Mark the first call of a turn that another model wrote, in place of a signature."""
    calls = [part for part in parts if "functionCall" in part]
    if calls and not any("thoughtSignature" in part for part in calls):
        calls[0]["thoughtSignature"] = _FOREIGN


def _response(result: ToolResult) -> JsonObject:
    """Convert a tool's result to an object: its own, or its text under `output`."""
    text = result.text
    if result.is_error:
        return {"error": text}
    if text.startswith("{"):
        try:
            value = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return {"output": text}
        if is_object(value):
            own = value
            # an object with one of these keys would be read as this wrapper
            return {"output": own} if own.keys() & {"output", "error"} else own
    return {"output": text}


def _media_parts(result: ToolResult) -> list[Part]:
    if isinstance(result.content, str):
        return []
    media = [part for part in result.content if not isinstance(part, Text)]
    return [part for block in media for part in _media(block)]


def _media(block: Image | Document) -> Iterator[Part]:
    if isinstance(block, Document):
        if block.title is not None:
            yield {"text": f"{block.title}:"}
        block = Image(block.data, block.media_type, block.url)
    if (held := inline(block)) is not None:
        yield {"inlineData": {"mimeType": held[0], "data": held[1]}}
    else:
        yield {"fileData": {"mimeType": block.media_type, "fileUri": block.url}}
