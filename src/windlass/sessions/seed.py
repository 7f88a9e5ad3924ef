"""A session from a transcript file: the history that a run left beside it, to go on from."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from windlass import seams
from windlass.engine.environment import current_environment
from windlass.engine.input import parse_prompt
from windlass.engine.ownership import SessionScope, check_session_id
from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.events import Reshaped
from windlass.files import LARGEST_EXPORT, read_regular
from windlass.json_types import JsonObject, is_list, is_mapping, is_object
from windlass.messages import Message, Text, ToolCall
from windlass.models.history import audit, repair
from windlass.options.checks import (
    boolean,
    no_key,
    number,
    optional,
    text,
)
from windlass.sessions.api import Session, agent_session_read
from windlass.store.base import Store
from windlass.store.open import Address

_CHECKS: Final[JsonObject] = {
    "provider": optional(text),
    "model": optional(text),
    "truncate_to_last": optional(number(1, whole=True)),
    "drop_tool_calls": boolean,
    "validate": boolean,
    "session_id": optional(text),
    "new_id": optional(text),
}
OPTIONS: Final = tuple(_CHECKS)
_QUESTION: Final = Message("user", (Text("?"),))
_REQUESTS: Final = ("request", "provider_call_request")
_RESPONSES: Final = ("response", "provider_call_response")


async def agent_session_seed_from_jsonl(
    path: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    *,
    store: Address | None = None,
) -> Session:
    """Create a session with the history of an `llm_transcript.jsonl`, and return it.

    The history is as its model last saw it.

    ```python
    session = await agent_session_seed_from_jsonl("runs/llm_transcript.jsonl", {"truncate_to_last": 40})
    await agent.run("Go on.", session_id=session.id)
    ```
    `provider` and `model` must be those of the file. `truncate_to_last` is the number of messages
    to keep, fewer where a round would be cut. `drop_tool_calls` leaves out calls and results.
    `session_id` chooses one of several sessions in the file (default: the last), `new_id` names the
    new one. A history that a provider would refuse is an error, unless `validate` is False: then it
    is repaired.
    """
    chosen = _options(options)
    recorded = await asyncio.to_thread(_RecordedSession, Path(path), chosen.get("session_id"))
    for name in ("provider", "model"):
        wanted, found = chosen.get(name), getattr(recorded, name)
        if wanted is not None and wanted != found:
            raise ConfigError(f"{path} was recorded with {name} {found!r}, not with {wanted!r}")
    messages = _valid(recorded, chosen.get("validate", True))
    if chosen.get("drop_tool_calls"):
        messages = _without_calls(messages)
    if (most := chosen.get("truncate_to_last")) is not None:
        messages = _last(messages, most)
    if not messages:
        raise ConfigError(f"nothing of {path} is left to begin a session with")
    environment = current_environment()
    home = SessionScope.current(store, None).home
    name = chosen.get("new_id") or seams.new_id("session")
    await _must_be_new(home, name)
    await check_session_id(environment, home, name)
    source: JsonObject = {
        "file": Path(path).name,
        "provider": recorded.provider,
        "model": recorded.model,
    }
    if chosen.get("drop_tool_calls") or most is not None:
        source["partial"] = True  # what was read before is not known
    journal = await home.open(name, metadata=environment.redact({"seeded_from": source}))
    try:
        journal.append(environment.redact(Reshaped(0, 0, tuple(messages), "seed")))
    finally:
        await journal.close()
    return await agent_session_read(name, store=home)


async def _must_be_new(store: Store, name: str) -> None:
    try:
        await store.info(name)
    except NoSuchSession:
        return
    raise ConfigError(f"there is a session {name!r} already: choose another new_id")


def _options(options: object) -> JsonObject:
    if options is None:
        return {}
    if not is_mapping(options):
        raise ConfigError(f"the options of a seed are a dict, not {safe_repr(options)}")
    checked: JsonObject = {}
    for name, value in options.items():
        if name not in _CHECKS:
            raise no_key("agent_session_seed_from_jsonl", name, _CHECKS)
        checked[name] = _CHECKS[name](name, value)
    return checked


# --------------------------------------------------------------------------- reading the file


class _RecordedSession:
    """One session of a file: its model, and the messages as last seen."""

    def __init__(self, path: Path, session_id: str | None) -> None:
        self.path = path
        self.provider: str | None = None
        self.model: str | None = None
        self.messages: list[Message] = []
        self.replies: list[Message] = []
        lines = list(_lines(path))
        known = list(dict.fromkeys(line.get("session_id") for _, line in lines))
        if session_id is None:
            session_id = cast("str | None", known[-1])
        elif session_id not in known:
            known_ids = ", ".join(str(one) for one in known[:8])
            raise ConfigError(f"{path} holds no session {session_id!r}; there are: {known_ids}")
        own = [(at, line) for at, line in lines if line.get("session_id") == session_id]
        self.exact = any(line.get("type") in ("message", "view") for _, line in own)
        for at, line in own:
            self._read(at, line)

    def _read(self, at: int, line: JsonObject) -> None:
        kind = line.get("type")
        if kind == "message":
            self.messages.append(self._message(at, line.get("message")))
        elif kind == "view":
            self.messages = self._messages(at, line.get("messages"))
        elif kind in _REQUESTS and not self.exact:
            request = line.get("request", line)
            if not is_object(request):
                raise ConfigError(f"{self.path}, line {at}: a request is a dict")
            self.messages = self._messages(at, request.get("messages"))
        elif kind in _RESPONSES and line.get("purpose") is None and not self.exact:
            reply = self._message(at, line.get("message"))
            self.replies.append(reply)
            if self.messages:
                self.messages.append(reply)
        if kind in ("run", *_REQUESTS) or (kind in _RESPONSES and line.get("purpose") is None):
            self.provider = line.get("provider") or self.provider
            self.model = line.get("model") or self.model

    def _messages(self, at: int, given: object) -> list[Message]:
        if not is_list(given):
            raise ConfigError(
                f"{self.path}, line {at}: messages are a list, not {safe_repr(given)}"
            )
        return [self._message(at, one) for one in given]

    def _message(self, at: int, given: object) -> Message:
        try:
            return msgspec.convert(given, Message)
        except (msgspec.ValidationError, RecursionError):
            pass
        try:
            if is_object(given) and "role" in given:
                [message] = parse_prompt(given)
                return message
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{self.path}, line {at}: this is no message: {error}") from None
        raise ConfigError(f"{self.path}, line {at}: this is no message: {safe_repr(given)}")


def _lines(path: Path) -> Iterator[tuple[int, JsonObject]]:
    try:
        data = read_regular(path, LARGEST_EXPORT)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    pieces = data.split(b"\n")
    found = False
    for at, piece in enumerate(pieces, 1):
        if not piece.strip():
            continue
        try:
            line = msgspec.json.decode(piece)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if at == len(pieces):
                break  # the writer was killed in the middle of this line
            raise ConfigError(f"{path}, line {at} is not JSON: {error}") from None
        if not is_object(line) or not isinstance(line.get("type"), str):
            raise ConfigError(f"{path}, line {at} is no line of a transcript: {safe_repr(line)}")
        found = True
        for name in ("session_id", "provider", "model"):
            if line.get(name) is not None and not isinstance(line[name], str):
                raise ConfigError(
                    f"{path}, line {at}: {name} is a text, not {safe_repr(line[name])}"
                )
        yield at, line
    if not found:
        raise ConfigError(f"{path} is empty: there is nothing to begin a session with")


# --------------------------------------------------------------------------- what is kept


def _valid(recorded: _RecordedSession, validate: bool) -> list[Message]:
    messages = [message for message in recorded.messages if message.content]
    if not messages:
        if not recorded.replies:
            raise ConfigError(f"{recorded.path} holds no messages")
        if validate:
            raise ConfigError(
                f"{recorded.path} holds replies only, no user or tool turns; "
                "validate=False takes them as they are"
            )
        messages = recorded.replies
    whole = (*messages, _QUESTION)
    problems = audit(whole)
    if problems and validate:
        raise ConfigError(f"{recorded.path} cannot be sent: {'; '.join(problems[:5])}")
    return repair(whole)[0][:-1] if problems else messages


def _without_calls(messages: Sequence[Message]) -> list[Message]:
    kept: list[Message] = []
    for message in messages:
        if message.role == "tool":
            continue
        content = tuple(block for block in message.content if type(block) is not ToolCall)
        if content:
            same = len(content) == len(message.content)
            kept.append(message if same else msgspec.structs.replace(message, content=content))
    return kept


def _last(messages: Sequence[Message], most: int) -> list[Message]:
    """Return the last messages, beginning with a user's message."""
    start = max(0, len(messages) - most)
    while start and start < len(messages) and messages[start].role != "user":
        start += 1
    return list(messages[start:])
