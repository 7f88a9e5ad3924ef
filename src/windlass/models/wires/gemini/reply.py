"""Decoder of Gemini's replies, streamed or plain, into one `Response`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from windlass.errors import BadReply, BadRequest, Refused
from windlass.events import TextDelta, ThinkingDelta
from windlass.json_types import JsonObject
from windlass.messages import Block, Message, Opaque, Text, Thinking, ToolCall
from windlass.models.base import Response, StopReason, silent
from windlass.models.transport.errors import from_stream
from windlass.models.wires.decoder import Decoder
from windlass.models.wires.json_values import (
    arguments,
    as_dict,
    as_list,
    as_text,
    call_id,
    dumps,
    whole,
)
from windlass.usage import NO_USAGE, Usage

_STOPS: Final[dict[str, StopReason]] = {"STOP": "end_turn", "MAX_TOKENS": "max_tokens"}
_REFUSALS: Final = frozenset(
    "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR IMAGE_SAFETY"
    " IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION".split()
)
# the model wrote a call that the server could not read, or would not pass on
_SPOILT: Final = frozenset(
    "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MALFORMED_RESPONSE".split()
)
# Vertex can be made to write enums as numbers; these are its numbers
_NUMBERED: Final = (
    "",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "UNEXPECTED_TOOL_CALL",
    "NO_IMAGE",
)


class GenerateDecoder(Decoder):
    """A `GenerateContentResponse`, or a stream of them.

    Pieces of text that follow each other become one block, unless one is signed: a signature goes
    back on the part it came on. A signed thought or call holds its signature in `opaque`; a signed
    text is followed by an `Opaque` that says what stood beside it, or is one if it has no words.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._blocks: list[Block] = []
        self._pieces: list[str] = []  # of the text or thought that is still growing
        self._thinks = False  # whether it is a thought
        self._answered = False
        self._finish = ""
        self._why = ""
        self._usage: JsonObject = {}
        self._model: str | None = None
        self._id: str | None = None

    # ----------------------------------------------------------------------- what comes

    def _event(self, name: str, data: bytes) -> bool:
        if data.startswith(b"[DONE]"):  # some gateways end like this; Gemini just ends
            self.done = self.complete = True
            return True
        chunk = self._json(data)
        if (error := chunk.get("error")) or name == "error":
            raise from_stream(error or chunk, self.source)
        self._take(chunk)
        return True

    def _take(self, chunk: JsonObject) -> None:
        # cumulative: the last value of each key counts, never a sum
        counted = as_dict(chunk.get("usageMetadata"))
        self._usage.update({k: v for k, v in counted.items() if v is not None})
        self._id = self._id or as_text(chunk.get("responseId")) or None
        self._model = self._model or as_text(chunk.get("modelVersion")) or None
        feedback = as_dict(chunk.get("promptFeedback"))
        if reason := feedback.get("blockReason"):
            raise self._refusal_error(str(reason), as_text(feedback.get("blockReasonMessage")))
        for given in as_list(chunk.get("candidates")):
            candidate = as_dict(given)
            if candidate.get("index") or not candidate:
                continue  # only one answer was requested
            self._answered = True
            for part in as_list(as_dict(candidate.get("content")).get("parts")):
                self._part(as_dict(part))
            self._parse_finish(candidate)

    def _parse_finish(self, candidate: JsonObject) -> None:
        finish = candidate.get("finishReason")
        if isinstance(finish, int):
            finish = _NUMBERED[finish] if 0 <= finish < len(_NUMBERED) else "OTHER"
        if not isinstance(finish, str) or finish in ("", "FINISH_REASON_UNSPECIFIED"):
            return
        self._finish, self._why = finish, as_text(candidate.get("finishMessage"))
        self.complete = True
        if finish != "MAX_TOKENS":
            self._release_call()

    def _part(self, part: JsonObject) -> None:
        if "functionCall" in part:
            self._call(part, as_dict(part["functionCall"]))
        elif isinstance(text := part.get("text"), str):
            beside = {k: v for k, v in part.items() if k not in ("text", "thought")}
            self._add_text(text, part.get("thought") is True, beside)
        elif part:  # code it ran, a picture it drew, a part of tomorrow
            self._close()
            self._release_call()
            self._blocks.append(Opaque(self.origin, part))

    def _add_text(self, text: str, thinks: bool, beside: JsonObject) -> None:
        if not text and not beside:
            return
        self._release_call()
        if self._thinks != thinks or beside:
            self._close()
            self._thinks = thinks
        if text:
            self._pieces.append(text)
            self.emit(ThinkingDelta(text) if thinks else TextDelta(text))
        if not beside:
            return
        if thinks:
            self._pieces.clear()
            self._blocks.append(Thinking(text, beside, self.origin))
        else:
            self._close()
            kept = {"beside": beside} if text else {"text": "", **beside}
            self._blocks.append(Opaque(self.origin, kept))

    def _call(self, part: JsonObject, function: JsonObject) -> None:
        if function.get("willContinue") or function.get("partialArgs"):
            raise BadReply(
                "the arguments of a call came in pieces: leave streamFunctionCallArguments out"
            )
        name = as_text(function.get("name"))
        if not name and not function.get("args"):
            return
        self._close()
        self._release_call()
        values, raw = arguments(function.get("args"))
        beside = {k: v for k, v in part.items() if k != "functionCall"}
        made = ToolCall(
            call_id(function.get("id")),
            self.names.get(name, name),
            values,
            raw,
            beside or None,
            self.origin if beside else None,
        )
        self._blocks.append(made)
        self._finish_call(made)

    def _close(self) -> None:
        """Complete the text or thought block that was growing."""
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces.clear()
        self._blocks.append(Thinking(text, None, self.origin) if self._thinks else Text(text))

    # ----------------------------------------------------------------------- what it was

    def _whole(self, body: JsonObject) -> Response:
        emit, self.emit = self.emit, silent  # emitted once, when the whole is built
        self._take(body)
        self.emit = emit
        return self._response()

    def _response(self) -> Response:
        self._close()
        if not self._answered:
            known = {k: v for k, v in self._usage.items() if k != "totalTokenCount"}
            raise BadReply(f"the reply holds no candidate: {dumps(known)[:200]!r}")
        content, finish = self._blocks, self._finish or "STOP"
        stop: StopReason = "refusal" if finish in _REFUSALS else _STOPS.get(finish, "unknown")
        if stop == "max_tokens" and content and type(last := content[-1]) is ToolCall:
            if last.raw is None and not last.arguments:
                content[-1] = msgspec.structs.replace(last, raw="")
        if stop == "refusal":  # what it had begun to ask for is not to be run
            content = [block for block in content if type(block) is not ToolCall]
        calls = [block for block in content if type(block) is ToolCall]
        if not calls:
            self._fail(finish)
        elif not (stop == "max_tokens" and calls[-1].raw is not None):
            stop = "tool_use"
        message = Message("assistant", tuple(content))
        return Response(message, self._parse_usage(), stop, self._model, self._id)

    def _fail(self, finish: str) -> None:
        """Raise the error for a finish reason without an answer."""
        why = self.source.clean(self._why)
        if finish in _SPOILT:
            raise BadReply(why or f"the reply ended with {finish}", code=finish)
        if finish == "MISSING_THOUGHT_SIGNATURE":
            raise BadRequest(why or "a call went back without its thoughtSignature", code=finish)

    def _refusal_error(self, reason: str, why: str) -> Refused:
        message = f"the prompt was blocked: {why or reason}"
        return Refused(self.source.clean(message), code=reason)

    def _parse_usage(self) -> Usage:
        usage = self._usage
        if not usage:
            return NO_USAGE
        thought = whole(usage.get("thoughtsTokenCount"))
        return Usage(
            whole(usage.get("promptTokenCount")) + whole(usage.get("toolUsePromptTokenCount")),
            whole(usage.get("candidatesTokenCount")) + thought,
            whole(usage.get("cachedContentTokenCount")),
            0,
            thought,
        )
