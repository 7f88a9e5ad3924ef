"""Prompts as messages: text, messages, or dicts of them, checked first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.json_types import is_object, is_sequence
from windlass.messages import (
    Document,
    Image,
    Message,
    Text,
    as_messages,
    find_media_problem,
    name_results,
)
from windlass.models.history import audit
from windlass.tools.render import clean

_QUESTION = Message("user", (Text("?"),))


def parse_prompt(prompt: object) -> tuple[Message, ...]:
    """Parse the messages of a prompt, and refuse pictures that are bare paths or addresses.

    `parse_prompt("hi")`, `parse_prompt([{"role": "user", "content": "hi"}])`
    """
    messages = read_prompt(prompt)
    check_media(messages)
    return messages


def read_prompt(prompt: object) -> tuple[Message, ...]:
    """Convert a prompt to messages; halves of characters are replaced."""
    if type(prompt) is str:
        return (Message("user", (Text(clean(prompt)),)),)
    try:
        messages = _to_journal_form(name_results(as_messages(prompt)))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        if why.endswith(".role`"):
            why = "a role is 'system', 'user', 'assistant' or 'tool'"
        raise ConfigError(
            f"a prompt is text, a Message, {{'role': …, 'content': …}} or a list of them, "
            f"not {safe_repr(prompt)}: {why}"
        ) from error
    return messages


def check_media(messages: Sequence[Message]) -> None:
    """Refuse images and documents that hold a bare path or address."""
    for message in messages:
        for block in message.content:
            if isinstance(block, Image | Document) and (problem := find_media_problem(block)):
                raise ConfigError(problem)


def parse_run_prompt(prompt: object, session_id: str | None) -> tuple[Message, ...]:
    """Parse the prompt of a run, which may begin with no open call."""
    if type(prompt) is str and prompt.isascii():
        return (Message("user", (Text(prompt),)),)
    messages = read_prompt(prompt)
    check_media(messages)
    return check_history(messages, session_id)


def check_history(messages: tuple[Message, ...], session_id: str | None) -> tuple[Message, ...]:
    """Return messages that a run may begin with, or refuse them."""
    if len(messages) == 1 and messages[0].role == "user":
        return messages
    if not messages and session_id is None:
        raise ConfigError("the prompt is empty: a run needs something to begin with")
    if problems := audit((*messages, _QUESTION)):
        raise ConfigError(f"these messages cannot be sent: {'; '.join(problems[:5])}")
    return messages


def _to_journal_form(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Convert the messages to the form that a journal will hold."""
    try:
        return msgspec.json.decode(msgspec.json.encode(messages), type=tuple[Message, ...])
    except UnicodeEncodeError:
        return msgspec.convert(_whole(msgspec.to_builtins(messages)), tuple[Message, ...])


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if is_object(value):
        return {_whole(k): _whole(v) for k, v in value.items()}
    if is_sequence(value):
        return [_whole(item) for item in value]
    return value
