"""Ollama's own wire, `POST /api/chat`: whole calls, thinking, and one JSON line per piece.

Its `/v1` has the wire `models/wires/openai/chat.py`; only this one takes `num_ctx` and `keep_alive`, and only
here do parallel calls arrive apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.errors import (
    BadRequest,
    ConfigError,
    ConnectionFailed,
    ContextOverflow,
    ModelError,
    nearest,
)
from windlass.json_types import JsonObject
from windlass.messages import Document, Image, Message, Text, Thinking, ToolResult, ToolSpec
from windlass.models.base import Completion, Emit, Frame, Request, Response, Settings
from windlass.models.wires.base import HttpModel
from windlass.models.wires.json_values import (
    as_dict,
    as_list,
    dumps,
    inline,
    join_url,
    readable,
    safe_name,
    said_error,
    schema,
    set_given,
    wanted_tool,
)
from windlass.models.wires.no_think import thinks_not, told_not_to_think
from windlass.models.wires.ollama.reply import LinesDecoder

# top-level fields of a request; every other field of Ollama's is an option
_TOP: Final = frozenset(
    "format images keep_alive logprobs options raw shift suffix system template think tools"
    " top_logprobs truncate".split()
)
_OPTIONS: Final = frozenset(
    "numa num_ctx num_batch num_gpu main_gpu low_vram f16_kv logits_all vocab_only use_mmap"
    " use_mlock embedding_only num_thread num_keep seed num_predict top_k top_p tfs_z typical_p"
    " min_p repeat_last_n temperature repeat_penalty presence_penalty frequency_penalty mirostat"
    " mirostat_tau mirostat_eta penalize_newline stop draft_num_predict".split()
)
_OURS: Final = ("model", "stream", "messages", "prompt")
_LEVELS: Final = ("low", "medium", "high", "max")


class OllamaChat(HttpModel):
    """A model that Ollama runs: `w.models.ollama("qwen3", base_url=…)`.

    What only Ollama knows goes into `extra`, its options by their bare names:
    `Settings(extra={"num_ctx": 32768, "keep_alive": "30m"})`.
    """

    wire = home = "ollama"
    rules = "windlass.models.wires.ollama.rules"
    streams_json = True
    thinking_forms = ("think",)

    def _url(self, base: str) -> str:
        # an address that was meant for /v1 leads here too
        return join_url(
            base, "/api/chat", when=lambda own: own.removesuffix("/v1").removesuffix("/api")
        )

    def _auth(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def decoder(self, request: Request, emit: Emit) -> LinesDecoder:
        """Build the decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.encode_frame(request.frame).names
        decoder = LinesDecoder(self._source(), self._origin, names, emit)
        decoder.streamed = request.frame.settings.stream
        return decoder

    def encode(self, request: Request) -> list[bytes]:
        """Encode the request's body in pieces: `b"".join(model.encode(request))` is JSON."""
        return super().encode(told_not_to_think(request, self.caps))

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Call the server; errors get a hint for its owner."""
        try:
            return await super().respond(request, emit)
        except ModelError as error:
            _add_hint(error, self.name)
            raise

    async def complete(self, completion: Completion, emit: Emit) -> Response | None:
        """Continue a text, or fill a gap in it; None where the model has no template for a gap."""
        if self.caps.completes != "generate":
            return None
        self.check()
        settings = completion.settings
        decoder = LinesDecoder(self._source(), self._origin, {}, emit)
        decoder.streamed = settings.stream
        at = self.url.replace("/api/chat", "/api/generate")
        try:
            return await self._exchange(settings, [self._completion_body(completion)], decoder, at)
        except ModelError as error:
            _add_hint(error, self.name)
            if isinstance(error, BadRequest) and "does not support insert" in str(error):
                return None
            raise

    def _completion_body(self, completion: Completion) -> bytes:
        """Encode a completion for `/api/generate`: raw, or in the model's template for a gap."""
        body = self._body(completion.settings)
        if completion.suffix:
            body |= {"prompt": completion.prefix, "suffix": completion.suffix}
            set_given(body, system=completion.system)
        else:  # in the template of a chat it would be a question to answer, not a text to go on with
            system = f"{completion.system}\n\n" if completion.system else ""
            body |= {"prompt": system + completion.prefix, "raw": True}
        return dumps(body)

    # ----------------------------------------------------------------------- the frame

    def _head(self, frame: Frame) -> bytes:
        settings = frame.settings
        body = self._body(settings)
        extra_tools = body.pop("tools", None)
        if tools := _select_tools(settings, frame):
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": safe_name(tool.name),
                        "description": tool.description,
                        "parameters": schema(tool.parameters),
                    },
                }
                for tool in tools
            ]
        if extra_tools:
            body["tools"] = [*as_list(body.get("tools")), *as_list(extra_tools)]
        head = dumps(body)[:-1] + b',"messages":['
        if not frame.system:
            return head
        return head + dumps({"role": "system", "content": frame.system}) + b","

    def _body(self, settings: Settings) -> JsonObject:
        """Build the fields that a chat and a completion share."""
        extra, options = _sorted_out(settings.extra or {})
        asked: JsonObject = {}
        set_given(
            asked,
            num_predict=settings.max_tokens,
            stop=settings.stop,
            seed=settings.seed,
            frequency_penalty=settings.frequency_penalty,
            presence_penalty=settings.presence_penalty,
        )
        if self.caps.sampling:
            set_given(
                asked, temperature=settings.temperature, top_p=settings.top_p, top_k=settings.top_k
            )
        body: JsonObject = {
            "model": self.name,
            "stream": settings.stream,
            # too long a history is an error that can be mended, not one that loses its beginning
            "truncate": False,
            "shift": False,
        }
        if asked or options:
            body["options"] = {**asked, **options}
        form = settings.schema or ("json" if settings.response_format == "json" else None)
        set_given(body, think=self._think(settings.thinking), format=form)
        body.update(extra)
        return body

    def _think(self, asked: bool | JsonObject | None) -> bool | str | None:
        caps = self.caps
        if asked is None or caps.lowering == "no_think" or (caps.known and not caps.thinking):
            return None
        if thinks_not(asked):
            return caps.efforts[0] if caps.always_thinks and caps.efforts else False
        effort = as_dict(asked).get("effort")
        levels = caps.efforts or (() if caps.known else _LEVELS)
        return str(effort) if effort in levels else True

    # ----------------------------------------------------------------------- messages

    def _message(self, message: Message) -> bytes:
        match message.role:
            case "assistant":
                parts = self._assistant(message)
            case "system":
                parts = [{"role": "system", "content": message.text}]
            case _:
                parts = _user_messages(message)
        return b"".join([dumps(part) + b"," for part in parts])

    def _assistant(self, message: Message) -> list[JsonObject]:
        text, calls = message.text, message.tool_calls
        if not text and not calls:
            return []
        out: JsonObject = {"role": "assistant", "content": text}
        thought = [
            block.text
            for block in message.content
            if type(block) is Thinking and block.origin == self._origin
        ]
        if thought:
            out["thinking"] = "".join(thought)
        if calls:
            out["tool_calls"] = [
                {
                    "id": call.id,
                    "function": {"name": safe_name(call.name), "arguments": call.arguments},
                }
                for call in calls
            ]
        return [out]


def _add_hint(error: ModelError, name: str) -> None:
    """Add to an error what the owner of the server can do about it."""
    match error:
        case ConnectionFailed():
            hint = "is Ollama running there (`ollama serve`)?"
        case ContextOverflow():
            hint = "ollama={'num_ctx': …} makes room"
        case BadRequest(http_status=404):
            hint = f"`ollama pull {name}` fetches a model"
        case _:
            return
    error.args = (f"{error}; {hint}",)


def _sorted_out(extra: Mapping[str, Any]) -> tuple[JsonObject, JsonObject]:
    """Split the user's own fields into body fields and model options."""
    body: JsonObject = {}
    options: JsonObject = {}
    for key, value in extra.items():
        if key in _OURS:
            continue
        if key in _OPTIONS:
            options[key] = value
        elif key in _TOP or not (near := nearest(key, sorted(_OPTIONS | _TOP))):
            body[key] = value
        else:
            raise ConfigError(f"Ollama has no option {key!r}{near}")
    return body, options | as_dict(body.pop("options", None))


def _select_tools(settings: Settings, frame: Frame) -> Sequence[ToolSpec]:
    """Select the tools to send. The wire cannot force a call, but it can show fewer tools."""
    choice, name = wanted_tool(settings, frame)
    if choice == "none":
        return ()
    return [tool for tool in frame.tools if choice != "tool" or tool.name == name]


def _user_messages(message: Message) -> list[JsonObject]:
    """Convert a user's or tool's message: one message for each result, then the rest."""
    out: list[JsonObject] = []
    others: list[Text | Image | Document] = []
    for block in message.content:
        if type(block) is ToolResult:
            answer = {"role": "tool", "tool_call_id": block.id, "content": said_error(block)}
            if block.name:
                answer["tool_name"] = safe_name(block.name)
            out.append(answer)
            if not isinstance(block.content, str):
                # templates show a tool's text only; its images follow as the user's
                others.extend(part for part in block.content if type(part) is not Text)
        elif type(block) is Text or type(block) is Image or type(block) is Document:
            others.append(block)
    if others:
        out.append(_user(others))
    return out


def _user(blocks: Sequence[Text | Image | Document]) -> JsonObject:
    texts: list[str] = []
    images: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, Document):
            texts.append(readable(block) or _unreadable(block))
        elif (picture := inline(block)) is not None:
            images.append(picture[1])
        else:
            texts.append(f"Image: {block.url}")  # the server fetches nothing
    out: JsonObject = {"role": "user", "content": "\n\n".join(texts)}
    if images:
        out["images"] = images
    return out


def _unreadable(document: Document) -> str:
    title = document.title or "Document"
    return f"{title}: {document.url or f'({document.media_type}, which this model cannot read)'}"
