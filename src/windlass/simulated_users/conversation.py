"""A conversation of a user and an agent, read from the messages of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from windlass.messages import Message, ToolResult
from windlass.policies.simulated_user import NOTE
from windlass.records import Record

ASK: Final = "ask_user"
_BY_USER: Final = (None, NOTE)


class Statement(Record, frozen=True):
    """What one of the two said: `statement.speaker`, `statement.text`."""

    speaker: Literal["user", "agent"]
    text: str


def list_statements(messages: Iterable[Message]) -> list[Statement]:
    """List what was said, in order, also by the tool `ask_user`."""
    said: list[Statement] = []
    for message in messages:
        if message.role == "user" and message.kind in _BY_USER and message.text:
            said.append(Statement("user", message.text))
        if message.role == "assistant":
            if message.text:
                said.append(Statement("agent", message.text))
            for call in message.tool_calls:
                if call.name == ASK and isinstance(call.arguments.get("question"), str):
                    said.append(Statement("agent", call.arguments["question"]))
        for block in message.content:
            if isinstance(block, ToolResult) and block.name == ASK and not block.is_error:
                said.append(Statement("user", block.text))
    return said
