"""Ollama's own wire, `POST /api/chat`: whole calls, thinking, and a line of JSON for each piece.

Its `/v1` is spoken by `openai_chat.py`; only this one takes `num_ctx` and `keep_alive`, and only
here do parallel calls arrive apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from windlass.errors import (
    BadReply,
    BadRequest,
    ConnectionFailed,
    ContextOverflow,
    StreamBroken,
)
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import (
    Block,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.models.base import Emit, Frame, Request, Response, Settings, StopReason
from windlass.models.failures import from_stream
from windlass.models.ndjson import LineDecoder
from windlass.models.wires.common import HttpModel
from windlass.models.wires.decoder import Decoder, Framing
from windlass.models.wires.parts import given, inline, readable, said_error, schema, wanted_tool
from windlass.models.wires.values import (
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
from windlass.usage import NO_USAGE, Usage

_BRACE: Final = 0x7B
_STOPS: Final[dict[str, StopReason]] = {
    "": "end_turn",
    "stop": "end_turn",  # also with calls
    "length": "max_tokens",
}


class OllamaChat(HttpModel):
    """A model that Ollama runs: `w.models.ollama("qwen3")`, `w.models.ollama("qwen3", base_url=…)`.

    What only Ollama knows goes into `extra`:
    `Settings(extra={"options": {"num_ctx": 32768}, "keep_alive": "30m"})`.
    """

    wire = home = "ollama"

    def _url(self, base: str) -> str:
        # an address that was meant for /v1 leads here too
        return joined(
            base, "/api/chat", when=lambda own: own.removesuffix("/v1").removesuffix("/api")
        )

    def _auth(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def decoder(self, request: Request, emit: Emit) -> LinesDecoder:
        """The decoder of one reply: `feed` it bytes, then `finish`."""
        names = self.framed(request.frame).names
        decoder = LinesDecoder(self._source(), self._origin, names, emit)
        decoder.streamed = request.frame.settings.stream
        return decoder

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Ask the server; what only its owner can mend is said."""
        try:
            return await super().respond(request, emit)
        except (BadRequest, ConnectionFailed, ContextOverflow) as error:
            match error:
                case ConnectionFailed():
                    hint = "is Ollama running there (`ollama serve`)?"
                case ContextOverflow():
                    hint = "extra={'options': {'num_ctx': …}} makes room"
                case BadRequest(http_status=404):
                    hint = f"`ollama pull {self.name}` fetches a model"
                case _:
                    raise
            error.args = (f"{error}; {hint}",)
            raise

    # ----------------------------------------------------------------------- the frame

    def _head(self, frame: Frame) -> bytes:
        settings = frame.settings
        extra = dict(settings.extra or {})
        options: dict[str, Any] = {}
        given(
            options,
            num_predict=settings.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            stop=settings.stop,
            seed=settings.seed,
            frequency_penalty=settings.frequency_penalty,
            presence_penalty=settings.presence_penalty,
        )
        options.update(as_dict(extra.pop("options", None)))
        body: dict[str, Any] = {
            "model": self.name,
            "stream": settings.stream,
            # too long a history is an error that can be mended, not one that loses its beginning
            "truncate": False,
            "shift": False,
        }
        if options:
            body["options"] = options
        if tools := _offered(settings, frame):
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
        given(body, think=_think(settings.thinking))
        body.update(extra)
        body.pop("messages", None)
        head = dumps(body)[:-1] + b',"messages":['
        if not frame.system:
            return head
        return head + dumps({"role": "system", "content": frame.system}) + b","

    # ----------------------------------------------------------------------- messages

    def _message(self, message: Message) -> bytes:
        match message.role:
            case "assistant":
                parts = self._assistant(message)
            case "system":
                parts = [{"role": "system", "content": message.text}]
            case _:
                parts = _said(message)
        return b"".join([dumps(part) + b"," for part in parts])

    def _assistant(self, message: Message) -> list[dict[str, Any]]:
        text, calls = message.text, message.tool_calls
        if not text and not calls:
            return []
        out: dict[str, Any] = {"role": "assistant", "content": text}
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


def _offered(settings: Settings, frame: Frame) -> Sequence[ToolSpec]:
    """The tools to show. The wire cannot force a call, but it can show less to choose from."""
    choice, name = wanted_tool(settings, frame)
    if choice == "none":
        return ()
    return [tool for tool in frame.tools if choice != "tool" or tool.name == name]


def _think(asked: bool | dict[str, Any] | None) -> bool | str | None:
    if asked is None or isinstance(asked, bool):
        return asked
    if asked.get("mode") == "disabled":
        return False
    effort = asked.get("effort")
    return effort if effort in ("low", "medium", "high", "max") else True


def _said(message: Message) -> list[dict[str, Any]]:
    """A user's or the tools' words: one message for each result, then what else was said."""
    out: list[dict[str, Any]] = []
    others: list[Text | Image | Document] = []
    for block in message.content:
        if type(block) is ToolResult:
            answer = {"role": "tool", "tool_call_id": block.id, "content": said_error(block)}
            if block.name:
                answer["tool_name"] = safe_name(block.name)
            out.append(answer)
            if not isinstance(block.content, str):
                # templates show a tool's words only; its pictures follow as the user's
                others.extend(part for part in block.content if type(part) is not Text)
        elif type(block) is Text or type(block) is Image or type(block) is Document:
            others.append(block)
    if others:
        out.append(_user(others))
    return out


def _user(blocks: Sequence[Text | Image | Document]) -> dict[str, Any]:
    words: list[str] = []
    images: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            words.append(block.text)
        elif isinstance(block, Document):
            words.append(readable(block) or _unreadable(block))
        elif (picture := inline(block)) is not None:
            images.append(picture[1])
        else:
            words.append(f"Image: {block.url}")  # the server fetches nothing
    out: dict[str, Any] = {"role": "user", "content": "\n\n".join(words)}
    if images:
        out["images"] = images
    return out


def _unreadable(document: Document) -> str:
    title = document.title or "Document"
    return f"{title}: {document.url or f'({document.media_type}, which this model cannot read)'}"


class LinesDecoder(Decoder):
    """Ollama's reply: a stream of lines, or the one line of a plain reply.

    Calls come whole, so a token limit never leaves half of one. `done` ends the reply; until then
    it is broken, whatever came.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._text: list[str] = []
        self._thought: list[str] = []
        self._calls: list[ToolCall] = []
        self.streamed = True  # whether lines were asked for
        self._begun = False
        self._last: dict[str, Any] = {}

    def _framing(self, start: bytes) -> Framing | None:
        return LineDecoder() if self.streamed and start[0] == _BRACE else None

    def finish(self) -> Response:
        """The reply, or the error that it is."""
        body = b"".join(self._body).strip()
        if self._frames is None and body[:1] == b"{":
            self._plain(body)
        lines = self._frames
        if isinstance(lines, LineDecoder) and not self.done and (rest := lines.rest):
            try:
                self._event("", rest)  # the last line may end without a line break
            except BadReply:
                if self._begun:
                    raise StreamBroken("the stream ended inside a line") from None
                raise
        if self._begun and not self.streamed and not self.done:
            raise BadReply("the reply is not done")
        return super().finish() if not self.done else self._response()

    def _plain(self, body: bytes) -> None:
        """Take a body that is one object, or the lines of a server that streams unasked."""
        try:
            whole = self._json(body)
        except BadReply:
            self._frames = LineDecoder()
            for name, line in self._frames.feed(body):
                self._event(name, line)
        else:
            self._take(whole)

    def _event(self, name: str, data: bytes) -> bool:
        self._take(self._json(data))
        return True

    def _take(self, line: dict[str, Any]) -> None:
        if error := line.get("error"):
            raise from_stream(error, self.source)
        self._begun = True
        message = as_dict(line.get("message"))
        if thought := as_text(message.get("thinking")):
            self._thought.append(thought)
            self.emit(ThinkingDelta(thought))
        if text := as_text(message.get("content")):
            self._text.append(text)
            self.emit(TextDelta(text))
        for call in as_list(message.get("tool_calls")):
            self._call(as_dict(call))
        if line.get("done") is True:
            self._last = line
            self.done = self.complete = True

    def _call(self, call: dict[str, Any]) -> None:
        function = as_dict(call.get("function"))
        name = as_text(function.get("name"))
        values, raw = arguments(function.get("arguments"))
        made = ToolCall(call_id(call.get("id")), self.names.get(name, name), values, raw)
        self._calls.append(made)
        if raw is None:
            self.emit(ToolCallReady(made))

    def _response(self) -> Response:
        blocks: list[Block] = []
        if thought := "".join(self._thought):
            blocks.append(Thinking(thought, None, self.origin))
        if text := "".join(self._text):
            blocks.append(Text(text))
        stop = _STOPS.get(as_text(self._last.get("done_reason")), "unknown")
        if self._calls:
            blocks.extend(self._calls)
            stop = "tool_use"
        message = Message("assistant", tuple(blocks))
        return Response(message, self._counted(), stop, as_text(self._last.get("model")) or None)

    def _counted(self) -> Usage:
        # a prompt that was cached as a whole is not counted by the server
        read, written = self._last.get("prompt_eval_count"), self._last.get("eval_count")
        return Usage(whole(read), whole(written)) if read or written else NO_USAGE
