"""Continuation of a transcript: its messages, then the new prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from windlass import seams
from windlass.engine.input import parse_prompt, parse_run_prompt
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.messages import Message, Text

_FIELDS: Final = (
    "id",
    "messages",
    "events",
    "summary",
    "metadata",
    "scratchpad",
    "scratchpad_version",
)


class Past(msgspec.Struct, frozen=True):
    """The state that a call continues from, beside the messages."""

    id: str
    events: tuple[dict[str, Any], ...] = ()
    summary: str | None = None
    metadata: dict[str, Any] = {}
    scratchpad: dict[str, Any] | None = None
    scratchpad_version: int = 0


def new_past() -> Past:
    """Build the past of a call that starts fresh."""
    return Past(seams.new_id("transcript"))


def read_transcript(transcript: Mapping[str, Any]) -> tuple[tuple[Message, ...], Past]:
    """Parse the messages of a transcript and the rest of it, or raise `ConfigError`."""
    for name in transcript:
        if name not in _FIELDS:
            hint = nearest(name, _FIELDS) if isinstance(cast("object", name), str) else ""
            raise ConfigError(f"a transcript has no field {safe_repr(name)}{hint}")
    if "messages" not in transcript:
        raise ConfigError("this transcript has no messages: pass reply.transcript as it is")
    messages = _messages(transcript["messages"])
    past = Past(
        _kind(transcript, "id", str, "a text") or seams.new_id("transcript"),
        tuple(_events(transcript)),
        _kind(transcript, "summary", str, "a text"),
        dict(_kind(transcript, "metadata", dict, "a dict") or {}),
        _kind(transcript, "scratchpad", dict, "a dict"),
        _kind(transcript, "scratchpad_version", int, "a number") or 0,
    )
    return messages, past


def parse_run_input(
    prompt: object,
    messages: object,
    transcript: Mapping[str, Any] | None,
    session_id: str | None,
    door: str,
) -> tuple[Message, ...]:
    """Parse what a run begins with: a prompt, messages in place of it, or a transcript before it."""
    if transcript is None:
        if prompt is None and messages is None:
            raise ConfigError(f"{door} needs a prompt, or messages=[…]")
        return parse_run_prompt(prompt if messages is None else messages, session_id)
    if messages is not None:
        raise ConfigError("messages and transcript both say what came before: give one of them")
    before, past = read_transcript(transcript)
    asked = () if prompt is None else parse_prompt(prompt)
    if not asked and (not before or before[-1].role == "assistant"):
        raise ConfigError(f"{door} goes on from a transcript with a prompt: say something")
    if past.summary and not any([past.summary in message.text for message in before]):
        note = f"What was said before, in short:\n{past.summary}"
        before = (Message("user", (Text(note),), "summary"), *before)
    return parse_run_prompt([*before, *asked], session_id)


def _messages(transcript: object) -> tuple[Message, ...]:
    if isinstance(transcript, str) or not isinstance(transcript, Sequence):
        raise ConfigError(f"a transcript's messages are a list, not {safe_repr(transcript)}")
    read: list[Message] = []
    for at, one in enumerate(cast("Sequence[object]", transcript)):
        try:
            read.append(one if isinstance(one, Message) else msgspec.convert(one, Message))
        except msgspec.ValidationError:  # as a person writes it: the content is a text
            try:
                read += parse_prompt(one)
            except ConfigError as error:
                raise ConfigError(f"message {at} of the transcript: {error}") from None
    return parse_prompt(read)


def _events(transcript: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[Any] = list(_kind(transcript, "events", (list, tuple), "a list") or ())
    for event in found:
        if not isinstance(event, dict):
            raise ConfigError(f"a transcript's events are dicts, not {safe_repr(event)}")
    return found


def _kind(transcript: Mapping[str, Any], name: str, kind: Any, words: str) -> Any:
    value = transcript.get(name)
    if value is not None and not isinstance(value, kind):
        raise ConfigError(f"a transcript's {name} is {words}, not {safe_repr(value)}")
    return value
