"""Cassettes: what a real model answered once, kept in a file and played back for ever after.

A tape is JSON lines: `message` lines show each message once, `reply` lines say which messages,
frame and model a reply belongs to. Secrets that the model knows are never written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union, get_args

import msgspec

from windlass import seams
from windlass.errors import ConfigError, ModelError, TestBroken, nearest
from windlass.messages import Message
from windlass.models.base import Emit, Model, Request, Response
from windlass.models.mock import MockError, deltas, error_from
from windlass.redact import Redactor
from windlass.usage import Usage

FORMAT = 1
SHOWN = 120  # characters of a message that a tape keeps for a reader

Mode: TypeAlias = Literal["once", "replay", "record"]


class NotOnTape(TestBroken):
    """The tape holds no (more) reply to this request."""


class TapeMessage(msgspec.Struct, frozen=True, tag="message", tag_field="line"):
    """A message that some request carried, for people to read."""

    digest: str
    role: str
    text: str


class TapeReply(msgspec.Struct, frozen=True, tag="reply", tag_field="line", omit_defaults=True):
    """A request by its digests, and what the model said to it."""

    model: str
    system: str
    tools: dict[str, str]  # name: digest
    settings: dict[str, Any]
    messages: tuple[str, ...]
    response: Response | None = None
    error: MockError | None = None
    format: int = FORMAT


Line: TypeAlias = Union[TapeMessage, TapeReply]


def cassette(
    path: str | os.PathLike[str], model: Model | None = None, *, mode: Mode = "once"
) -> Cassette:
    """A model that plays a tape, and records it first where there is none.

    ```python
    model = cassette("tests/tapes/weather.jsonl", w.models.anthropic("claude-…"))
    out = await Agent(model, tools=[weather]).run("Will it rain?")
    ```
    `once` records if the file does not exist and plays it if it does; `replay` never asks the model,
    which may then be left out; `record` starts the tape anew. While playing, a request that is not on
    the tape is an error that says what differs. `wrap` puts another model on the same tape.
    """
    if mode not in get_args(Mode):
        raise ConfigError(f"a cassette has no mode {mode!r}{nearest(mode, get_args(Mode))}")
    file = Path(path)
    playing = mode == "replay" or (mode == "once" and file.exists())
    if playing and not file.exists():
        raise ConfigError(f"there is no tape {file}; record one with mode='once'")
    if not playing and model is None:
        raise ConfigError(f"to record {file}, a cassette needs a model: cassette(path, model)")
    return Cassette(Tape(file, playing), model)


class Tape:
    """The file: read whole when it is played, appended to while it is recorded."""

    def __init__(self, path: Path, playing: bool) -> None:
        self.path, self.playing = path, playing
        self.shown: dict[str, TapeMessage] = {}
        self.replies: list[TapeReply] = []
        self.unplayed: list[TapeReply] = []
        if playing:
            self._read()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")

    def _read(self) -> None:
        for number, line in enumerate(self.path.read_bytes().splitlines(), 1):
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
        with self.path.open("ab") as file:
            file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in (*lines, reply)))

    def take(self, asked: TapeReply, messages: Sequence[TapeMessage]) -> TapeReply:
        """The next reply to this request, each once."""
        for index, reply in enumerate(self.unplayed):
            if _same(reply, asked):
                return self.unplayed.pop(index)
        times = sum(_same(reply, asked) for reply in self.replies)
        if times:
            raise NotOnTape(
                f"{self.path.name} answers this request {times} times, and it was asked once more"
            )
        raise NotOnTape(
            f"{self.path.name} has no reply to this request; {self._hint(asked, messages)}. "
            "If the change is meant, record the tape again with mode='record'"
        )

    def _hint(self, asked: TapeReply, messages: Sequence[TapeMessage]) -> str:
        if not self.replies:
            return "the tape is empty"
        closest = max(self.replies, key=lambda it: _closeness(it, asked))
        known = _shared(closest.messages, asked.messages)
        if closest.model != asked.model:
            return f"it was recorded with {closest.model}, not {asked.model}"
        if closest.system != asked.system:
            return "the system prompt is another"
        if closest.tools != asked.tools:
            changed = sorted(dict(closest.tools.items() ^ asked.tools.items()))
            return f"the tools differ: {', '.join(changed)}"
        if closest.settings != asked.settings:
            return f"the settings differ: {closest.settings} on tape, {asked.settings} asked"
        taped = self._words(closest.messages[known : known + 1])
        here = (
            f"{messages[known].role}: {messages[known].text!r}" if known < len(messages) else "none"
        )
        return f"message {known + 1} differs: {taped} on tape, {here} asked"

    def _words(self, digests: Sequence[str]) -> str:
        shown = [self.shown[digest] for digest in digests if digest in self.shown]
        return f"{shown[0].role}: {shown[0].text!r}" if shown else "none"


class Cassette(Model):
    """What `cassette` makes: a model in front of a model."""

    def __init__(self, tape: Tape, model: Model | None) -> None:
        self.tape, self.model = tape, model
        self.redactor = Redactor(_secrets(model))
        if model is not None:
            self.provider, self.name = model.provider, model.name
            self.native_tools, self.context_window = model.native_tools, model.context_window
        elif tape.replies:
            self.provider, _, self.name = tape.replies[0].model.partition(":")

    def wrap(self, model: Model) -> Cassette:
        """Another model on the same tape."""
        return Cassette(self.tape, model)

    async def respond(self, request: Request, emit: Emit) -> Response:
        """As on tape; or as the model says, and then it is on tape."""
        messages = self._messages(request)
        asked = self._asked(request, messages)
        if self.tape.playing:
            return await self._play(self.tape.take(asked, messages), request, emit)
        assert self.model is not None
        try:
            response = await self.model.respond(request, emit)
        except ModelError as error:
            told = MockError(
                error.category,
                self.redactor.text(str(error)),
                error.retry_after,
                error.http_status,
                error.code,
            )
            self.tape.write(messages, msgspec.structs.replace(asked, error=told))
            raise
        clean = self.redactor.value(response)
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
        return reply.response

    async def aclose(self) -> None:
        """Close the model behind."""
        if self.model is not None:
            await self.model.aclose()

    def price(self, usage: Usage) -> float:
        """What the model behind would charge."""
        return super().price(usage) if self.model is None else self.model.price(usage)

    def _messages(self, request: Request) -> list[TapeMessage]:
        ids: dict[str, str] = {}
        taped: list[TapeMessage] = []
        for message in (*request.messages, *request.tail):
            plain = self.redactor.value(_without_ids(message, ids))
            words = message.text or ", ".join(_other_words(message))
            shown = self.redactor.text(words)
            shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"
            taped.append(TapeMessage(_digest(plain), message.role, shown))
        return taped

    def _asked(self, request: Request, messages: Sequence[TapeMessage]) -> TapeReply:
        settings = msgspec.to_builtins(request.settings)
        # how the reply travels and how long it may take do not change what is said
        for key in ("stream", "timeout"):
            settings.pop(key, None)
        return TapeReply(
            f"{self.provider}:{self.name}",
            _digest(self.redactor.text(request.system or "")),
            {
                tool.name: _digest(self.redactor.value(msgspec.to_builtins(tool)))
                for tool in request.tools
            },
            self.redactor.value(settings),
            tuple(message.digest for message in messages),
        )


def _secrets(model: Model | None) -> Iterable[str]:
    seen: list[str] = []
    while model is not None:
        seen += model.secrets
        model = getattr(model, "model", None)  # a wrapper holds the one that has the key
    return seen


def _without_ids(message: Message, ids: dict[str, str]) -> Any:
    """The message with its call ids numbered: the ids of two runs are never the same."""
    plain = msgspec.to_builtins(message)
    for block in plain.get("content", ()):
        if block["type"] in ("tool_call", "tool_result") and "id" in block:
            block["id"] = ids.setdefault(block["id"], f"#{len(ids) + 1}")
    return plain


def _other_words(message: Message) -> Iterable[str]:
    for block in message.content:
        text = getattr(block, "text", "") or getattr(block, "name", "")
        yield f"{msgspec.to_builtins(block)['type']} {text}"


def _digest(value: Any) -> str:
    encoded = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:16]


def _same(one: TapeReply, other: TapeReply) -> bool:
    return (
        one.messages == other.messages
        and one.system == other.system
        and one.tools == other.tools
        and one.settings == other.settings
        and one.model == other.model
    )


def _closeness(one: TapeReply, other: TapeReply) -> tuple[int, ...]:
    frame = (one.model == other.model) + (one.system == other.system) + (one.tools == other.tools)
    return (
        _shared(one.messages, other.messages),
        frame,
        -abs(len(one.messages) - len(other.messages)),
    )


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
