"""Conversations that outlive their runs: rows in the runtime's store, one per turn.

Turns are written while a run works. The id of a turn is made of the run and the turn's place in it,
so that a killed process does not write it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, cast

import msgspec

from windlass.access.caller import Caller, recorded_user
from windlass.json_types import JsonObject
from windlass.messages import Message
from windlass.resources.fields import field
from windlass.resources.resource import Resource
from windlass.resources.tx import ResourceTx


class ConversationTurn(Resource):
    """One turn of a conversation: `role`, `content`, `tool_calls`, `tool_results`."""

    table = "conversation_turns"
    verbs = ("get", "search")  # written by `append` alone: messages are not invented or edited
    max_limit = 500
    audit_reads = False

    id: str
    conversation: Annotated[str, field(index=True)]
    number: int  # its place in the conversation, from 0
    role: Literal["user", "system", "assistant", "tool"]
    content: str = ""
    tool_calls: list[JsonObject] = []
    tool_results: list[JsonObject] = []
    session: str | None = None
    user: str = ""  # the conversation it belongs to
    message: JsonObject = {}  # as it was, for the next request

    def allow_read(self, caller: Caller) -> bool | str:
        return self.user == recorded_user(caller) or "it is somebody else's conversation"


class ConversationResource(Resource):
    """A conversation of one user; its turns are `ConversationTurn` rows.

    ```python
    talk = await scope.conversations[w.ConversationResource].create({"title": "Pens"}, caller=ann)
    await scope.models.generate("Which pens do we have?", conversation=talk, caller=ann)
    ```
    """

    table = "conversations"
    audit_reads = False
    mcp_tools = ("append",)

    id: str
    title: str = ""
    user: str = ""  # its owner; filled in from the caller
    turns: int = 0

    def allow_read(self, caller: Caller) -> bool | str:
        return self._own(caller)

    def allow_create(self, caller: Caller) -> bool | str:
        return not self.user or self._own(caller)

    def allow_update(self, caller: Caller) -> bool | str:
        return self._own(caller)

    def allow_delete(self, caller: Caller) -> bool | str:
        return self._own(caller)

    def _own(self, caller: Caller) -> bool | str:
        return (
            self.user == recorded_user(caller) or f"conversation {self.id!r} is not {caller.user}'s"
        )

    @classmethod
    def create(cls, tx: ResourceTx, values: JsonObject) -> ConversationResource:
        """Create a conversation of the caller."""
        return tx.create(
            cls, {**values, "user": values.get("user") or recorded_user(tx.caller), "turns": 0}
        )

    def append(self, tx: ResourceTx, turns: list[JsonObject]) -> int:
        """Add turns, each once, and return how many there are."""
        for turn in turns:
            if tx.get(ConversationTurn, turn["id"]) is None:
                place = {"conversation": self.id, "number": self.turns, "user": self.user}
                tx.create(ConversationTurn, {**turn, **place})
                self.turns += 1
        tx.save(self)
        return self.turns


def turn_of(id: str, message: Message, session: str) -> JsonObject:
    """Convert a message to a turn."""
    plain = cast("JsonObject", msgspec.to_builtins(message))
    blocks: list[JsonObject] = plain.get("content") or []
    return {
        "id": id,
        "role": message.role,
        "content": message.text.replace("\0", "\ufffd"),  # no column holds it; `message` does
        "tool_calls": [block for block in blocks if block.get("type") == "tool_call"],
        "tool_results": [block for block in blocks if block.get("type") == "tool_result"],
        "session": session,
        "message": plain,
    }


def messages_in(turns: Sequence[ConversationTurn]) -> list[Message]:
    """Convert turns to messages."""
    return [msgspec.convert(turn.message, Message) for turn in turns]
