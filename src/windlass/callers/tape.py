"""Tapes: recorded replies of a real model, kept in a file and played back.

A tape is JSON lines: `message` lines show each message once, `reply` lines say which messages,
frame and model a reply belongs to, and for which tenant it was recorded. An address and a key do
not count: a tape is played where there is neither. Secrets that the model knows are never written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, Union

import msgspec

from windlass import seams
from windlass.callers.redaction import LayerRedactor, secrets_of
from windlass.callers.scope import current_tenant
from windlass.errors import ConfigError, ModelError, TestBroken
from windlass.files import LARGEST_EXPORT, open_private, read_regular
from windlass.json_types import JsonObject
from windlass.messages import Message, Text
from windlass.models.base import Completion, Emit, Frame, Model, Request, Response
from windlass.models.mock import MockError, deltas, error_from
from windlass.models.registry.capabilities import Capabilities
from windlass.usage import Usage

FORMAT = 1
SHOWN = 120  # characters of a message that a tape keeps for a reader

#: What to do about a request: play only, record only, or play what there is and record the rest.
Way: TypeAlias = Literal["play", "record", "both"]


Reply = TypeVar("Reply", Response, "Response | None")


class NotOnTape(TestBroken):
    """A request without a recorded reply; the message names the nearest recording."""


class TapeMessage(msgspec.Struct, frozen=True, tag="message", tag_field="line"):
    """A message of some request, for people to read."""

    digest: str
    role: str
    text: str


class TapeReply(msgspec.Struct, frozen=True, tag="reply", tag_field="line", omit_defaults=True):
    """A request by its digests, and the model's reply."""

    model: str
    system: str
    tools: dict[str, str]  # name: digest
    settings: JsonObject
    messages: tuple[str, ...]
    response: Response | None = None
    error: MockError | None = None
    format: int = FORMAT
    tenant: str | None = None  # a digest, "" for none; None: on tapes of before, for everybody


Line: TypeAlias = Union[TapeMessage, TapeReply]


class Tape:
    """The tape's file: read whole when it is played, appended to while it is recorded."""

    def __init__(self, path: Path, way: Way, *, again: str) -> None:
        self.again = again  # what to write to record anew
        self.path, self.playing, self.recording = path, way != "record", way != "play"
        self.shown: dict[str, TapeMessage] = {}
        self.replies: list[TapeReply] = []
        self.unplayed: list[TapeReply] = []
        self._anew = way == "record"  # the old tape stands until there is something to replace it
        if self.playing and (way == "play" or path.exists()):
            self._read()

    def _read(self) -> None:
        for number, line in enumerate(read_regular(self.path, LARGEST_EXPORT).splitlines(), 1):
            try:
                read = msgspec.json.decode(line, type=Line)
            except msgspec.DecodeError as problem:
                raise ConfigError(f"{self.path}, line {number}: {problem}") from None
            if isinstance(read, TapeMessage):
                self.shown[read.digest] = read
            elif read.format > FORMAT:
                raise ConfigError(
                    f"{self.path} was recorded by a newer Windlass; update or re-record"
                )
            else:
                self.replies.append(read)
        self.unplayed = list(self.replies)

    def write(self, messages: Iterable[TapeMessage], reply: TapeReply) -> None:
        """Add a reply, and those of its messages that are new."""
        lines: list[Line] = [it for it in messages if it.digest not in self.shown]
        self.shown.update({it.digest: it for it in lines if isinstance(it, TapeMessage)})
        handle = open_private(self.path, append=not self._anew, make_folders=True)
        with os.fdopen(handle, "wb") as file:
            self._anew = False
            file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in (*lines, reply)))

    def take(self, asked: TapeReply, messages: Sequence[TapeMessage]) -> TapeReply | None:
        """Return the next reply to this request, each once; None if it is to be recorded."""
        for index, reply in enumerate(self.unplayed):
            if _same(reply, asked):
                return self.unplayed.pop(index)
        if self.recording:
            return None
        times = sum(_same(reply, asked) for reply in self.replies)
        if times:
            raise NotOnTape(
                f"{self.path.name} answers this request {times} times, and it was asked once more"
            )
        raise NotOnTape(
            f"{self.path.name} has no reply to this request; {self._hint(asked, messages)}. "
            f"If the change is meant, record it anew with {self.again}"
        )

    def _hint(self, asked: TapeReply, messages: Sequence[TapeMessage]) -> str:
        if not self.replies:
            return "the tape is empty"
        closest = max(self.replies, key=lambda it: _closeness(it, asked))
        number = self.replies.index(closest) + 1
        nearest = f"the nearest is reply {number} of {len(self.replies)}"
        return f"{nearest}: {self._difference(closest, asked, messages)}"

    def _difference(
        self, closest: TapeReply, asked: TapeReply, messages: Sequence[TapeMessage]
    ) -> str:
        known = _common_prefix(closest.messages, asked.messages)
        if closest.model != asked.model:
            return f"it was recorded with {closest.model}, not {asked.model}"
        if closest.system != asked.system:
            return "the system prompt is another"
        if closest.tools != asked.tools:
            changed = sorted(dict(closest.tools.items() ^ asked.tools.items()))
            return f"the tools differ: {', '.join(changed)}"
        if closest.settings != asked.settings:
            return f"the settings differ: {closest.settings} on tape, {asked.settings} asked"
        if not _of_one_tenant(closest, asked):
            return "it was recorded for another tenant"
        taped = self._words(closest.messages[known : known + 1])
        here = (
            f"{messages[known].role}: {messages[known].text!r}" if known < len(messages) else "none"
        )
        return f"message {known + 1} differs: {taped} on tape, {here} asked"

    def _words(self, digests: Sequence[str]) -> str:
        shown = [self.shown[digest] for digest in digests if digest in self.shown]
        return f"{shown[0].role}: {shown[0].text!r}" if shown else "none"


class Cassette(Model):
    """The model of `cassette`: it records the replies of a model, and plays them back."""

    via: str | None = None  # how a reply is marked that came from the tape

    def __init__(self, tape: Tape, model: Model | None) -> None:
        self.tape, self.model = tape, model
        if model is not None:
            self.provider, self.name = model.provider, model.name
            self.native_tools, self.context_window = model.native_tools, model.context_window
            # An error on tape is tried again as it was when it happened, without its waits.
            self.retry_delay = model.retry_delay if tape.recording else 0.0
        elif tape.replies:
            self.retry_delay = 0.0
            self.provider, _, self.name = tape.replies[0].model.partition(":")

    def wrap(self, model: Model) -> Cassette:
        """Put another model on the same tape."""
        return Cassette(self.tape, model)

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the model behind."""
        return super().capabilities if self.model is None else self.model.capabilities

    @property
    def asks(self) -> bool:
        """Whether the model behind may be called at all."""
        return self.model is not None and self.tape.recording

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the reply on tape, or call the model and record its reply."""
        model = self.model

        async def ask() -> Response:
            assert model is not None
            return await model.respond(request, emit)

        return await self._from_tape(request, emit, ask)

    async def complete(self, completion: Completion, emit: Emit) -> Response | None:
        """Return the completion on tape, or have the model complete and record it."""
        messages = [Message("user", (Text(completion.prefix),))]
        tail = () if completion.suffix is None else (Message("user", (Text(completion.suffix),)),)
        frame = Frame(completion.system, (), completion.settings)
        model = self.model

        async def ask() -> Response | None:
            assert model is not None
            return await model.complete(completion, emit)

        return await self._from_tape(Request(messages, frame, tail), emit, ask, kind="completion")

    async def count_tokens(self, request: Request) -> int | None:
        """Count with the model behind; None where only the tape may answer."""
        model = self.model
        return await model.count_tokens(request) if model is not None and self.asks else None

    async def _from_tape(
        self,
        request: Request,
        emit: Emit,
        ask: Callable[[], Awaitable[Reply]],
        *,
        kind: str | None = None,
    ) -> Response | Reply:
        redactor = LayerRedactor(secrets_of(self.model))
        messages = self._messages(request, redactor)
        asked = self._tape_key(request, messages, redactor)
        if kind is not None:
            asked = msgspec.structs.replace(asked, settings={**asked.settings, "kind": kind})
        if self.tape.playing:
            found = self.tape.take(asked, messages)
            if found is not None:
                return await self._play(found, request, emit)
        try:
            response = await ask()
        except ModelError as error:
            recorded_error = MockError(
                error.category,
                redactor.text(str(error)),
                error.retry_after,
                error.http_status,
                error.code,
            )
            self.tape.write(messages, msgspec.structs.replace(asked, error=recorded_error))
            raise
        if response is not None:
            clean = redactor.value(response)
            self.tape.write(messages, msgspec.structs.replace(asked, response=clean))
        return response

    async def _play(self, reply: TapeReply, request: Request, emit: Emit) -> Response:
        if reply.error is not None:
            raise error_from(reply.error, self.provider, self.name)
        if reply.response is None:
            raise NotOnTape(
                f"{self.tape.path.name} holds a reply without an answer; record it again"
            )
        if request.settings.stream:
            for event in deltas(reply.response.message):
                emit(event)
                await seams.sleep(0)
        return msgspec.structs.replace(reply.response, via=self.via or reply.response.via)

    async def aclose(self) -> None:
        """Close the model behind."""
        if self.model is not None:
            await self.model.aclose()

    def price(self, usage: Usage) -> float:
        """Return what the model behind would charge."""
        return super().price(usage) if self.model is None else self.model.price(usage)

    def unpriced(self) -> Model | None:
        """Return the model behind if its price is unknown; playback is free."""
        return None if self.model is None else self.model.unpriced()

    def _messages(self, request: Request, redactor: LayerRedactor) -> list[TapeMessage]:
        ids: dict[str, str] = {}
        taped: list[TapeMessage] = []
        for message in (*request.messages, *request.tail):
            plain = redactor.value(_without_ids(message, ids))
            text = message.text or ", ".join(_other_words(message))
            shown = redactor.text(text)
            shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"
            taped.append(TapeMessage(_digest(plain), message.role, shown))
        return taped

    def _tape_key(
        self, request: Request, messages: Sequence[TapeMessage], redactor: LayerRedactor
    ) -> TapeReply:
        settings = msgspec.to_builtins(request.settings)
        # delivery and timeout do not change the content of the reply
        for key in ("stream", "timeout"):
            settings.pop(key, None)
        return TapeReply(
            f"{self.provider}:{self.name}",
            _digest(redactor.text(request.system or "")),
            {
                tool.name: _digest(redactor.value(msgspec.to_builtins(tool)))
                for tool in request.tools
            },
            redactor.value(settings),
            tuple(message.digest for message in messages),
            tenant="" if (tenant := current_tenant()) is None else _digest(tenant),
        )


def _without_ids(message: Message, ids: dict[str, str]) -> Any:
    """Replace the call ids of a message by numbers, as ids differ between runs."""
    plain = msgspec.to_builtins(message)
    for block in plain.get("content", ()):
        if block["type"] in ("tool_call", "tool_result") and "id" in block:
            block["id"] = ids.setdefault(block["id"], f"#{len(ids) + 1}")
    return plain


def _other_words(message: Message) -> Iterable[str]:
    for block in message.content:
        text = getattr(block, "text", "") or getattr(block, "name", "")
        yield f"{msgspec.to_builtins(block)['type']} {text}"


def _digest(value: object) -> str:
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:16]


def _same(one: TapeReply, other: TapeReply) -> bool:
    return (
        one.messages == other.messages
        and one.system == other.system
        and one.tools == other.tools
        and one.settings == other.settings
        and one.model == other.model
        and _of_one_tenant(one, other)
    )


def _of_one_tenant(one: TapeReply, other: TapeReply) -> bool:
    return one.tenant is None or other.tenant is None or one.tenant == other.tenant


def _closeness(one: TapeReply, other: TapeReply) -> tuple[int, ...]:
    frame = (one.model == other.model) + (one.system == other.system) + (one.tools == other.tools)
    return (
        _common_prefix(one.messages, other.messages),
        frame,
        -abs(len(one.messages) - len(other.messages)),
    )


def _common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
