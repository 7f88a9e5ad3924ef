"""Completions on OpenAI-compatible servers: `/completions`, Mistral's fim, llama.cpp's infill.

The system prompt stands before the text: these endpoints know no roles.
"""

from __future__ import annotations

from typing import Any, Final

from windlass.errors import BadReply
from windlass.events import TextDelta
from windlass.json_types import JsonObject
from windlass.messages import Message, Text
from windlass.models.base import Completion, Response, StopReason
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.decoder import Decoder
from windlass.models.wires.json_values import (
    as_dict,
    as_list,
    as_text,
    dumps,
    set_given,
    whole,
)
from windlass.models.wires.openai.chat_reply import STOPS, first_choice, parse_usage
from windlass.usage import Usage

_LIMITS: Final[dict[str, StopReason]] = {
    "eos": "end_turn",
    "limit": "max_tokens",
    "word": "stop_sequence",
    "none": "end_turn",
}


def completion_body(
    completion: Completion, model: str, caps: Capabilities, *, seed: str, counts: bool
) -> bytes:
    """Build the body of a completion request.

    `seed` is the field's name; `counts` tells whether a stream must be asked for usage.
    """
    settings = completion.settings
    prompt = "\n\n".join(filter(None, [completion.system, completion.prefix]))
    if caps.completes == "infill":
        body: JsonObject = {"input_prefix": prompt, "input_suffix": completion.suffix or ""}
        set_given(body, n_predict=settings.max_tokens)
    else:
        body = {"model": model, "prompt": prompt}
        set_given(body, suffix=completion.suffix, max_tokens=settings.max_tokens)
    body["stream"] = settings.stream
    if settings.stream and counts and caps.completes == "completions":
        body["stream_options"] = {"include_usage": True}
    if caps.sampling:
        set_given(body, temperature=settings.temperature, top_p=settings.top_p)
        set_given(
            body,
            frequency_penalty=settings.frequency_penalty,
            presence_penalty=settings.presence_penalty,
        )
    set_given(body, stop=settings.stop, **{seed: settings.seed})
    body.update(settings.extra or {})
    return dumps(body)


class TextDecoder(Decoder):
    """A reply of `/completions` or `/infill`, streamed or plain."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._text: list[str] = []
        self._chosen: object = None  # the number of the choice that is read, once one has come
        self._stop: StopReason | None = None
        self._usage: Usage | None = None
        self._model: str | None = None
        self._id: str | None = None

    def _event(self, name: str, data: bytes) -> bool:
        if data.startswith(b"[DONE]"):
            self.done = self.complete = True
            return True
        chunk = self._chunk(name, data)
        self._take(chunk)
        if self._stop is not None:
            self.complete = True
        if chunk.get("stop") is True:  # llama.cpp's own stream has no other end
            self.done = True
        return True

    def _take(self, chunk: JsonObject) -> None:
        self._id = self._id or as_text(chunk.get("id")) or None
        self._model = self._model or as_text(chunk.get("model")) or None
        if usage := as_dict(chunk.get("usage")):
            self._usage = parse_usage(usage)
        if "content" in chunk and "choices" not in chunk:
            self._add_text(as_text(chunk["content"]))
            if chunk.get("stop") is True:
                self._stop = _LIMITS.get(as_text(chunk.get("stop_type")), "unknown")
                self._usage = Usage(
                    whole(chunk.get("tokens_evaluated")), whole(chunk.get("tokens_predicted"))
                )
        self._chosen, choice = first_choice(as_list(chunk.get("choices")), self._chosen)
        if choice is not None:
            self._add_text(as_text(choice.get("text")))
            if finish := as_text(choice.get("finish_reason")):
                self._stop = STOPS.get(finish, "unknown")

    def _add_text(self, text: str) -> None:
        if text:
            self._text.append(text)
            self.emit(TextDelta(text))

    def _whole(self, body: JsonObject) -> Response:
        if not as_list(body.get("choices")) and "content" not in body:
            raise BadReply(f"the reply holds no text: {dumps(body)[:200]!r}")
        emit, self.emit = self.emit, _quiet  # emitted once, when the whole is built
        self._take({**body, "stop": True} if "content" in body else body)
        self.emit = emit
        return self._response()

    def _response(self) -> Response:
        text = "".join(self._text)
        return Response(
            Message("assistant", (Text(text),) if text else ()),
            self._usage or Usage(),
            self._stop or "end_turn",
            self._model,
            self._id,
        )


def _quiet(_event: object) -> None:
    pass
