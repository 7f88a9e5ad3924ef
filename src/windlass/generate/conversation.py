"""Turns of a run, written into a conversation as they happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.access.caller import Caller
from windlass.engine.environment import Environment
from windlass.engine.ownership import check_new_id, check_new_owner
from windlass.errors import ConfigError, NotFound, PermissionDenied, safe_repr
from windlass.events import Replied, Said, ToolMessage, ToolResulted
from windlass.json_types import JsonObject
from windlass.loop.facts import Facts, Take
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Outcome
from windlass.messages import Message, ToolResult
from windlass.resources.conversation_rows import (
    ConversationResource,
    ConversationTurn,
    messages_in,
    turn_of,
)


class Conversation:
    """A conversation of one caller."""

    def __init__(self, environment: Environment, id: str, caller: Caller | None) -> None:
        self._environment, self._rows = environment, environment.conversations
        self.id, self.caller = id, caller
        self.waits_for: str | None = None  # the session whose calls have no results here

    async def open_messages(self) -> list[Message]:
        """Return the messages so far; create the conversation if it does not exist."""
        talks = self._rows[ConversationResource]
        try:
            await talks.get(self.id, caller=self.caller)
        except NotFound:
            check_new_id(self._environment, "conversation", self.id)
            check_new_owner(self._environment, self.caller)
            await talks.create({"id": self.id}, caller=self.caller)
            return []
        except PermissionDenied:
            raise NotFound(f"no conversation {self.id!r}") from None
        turns = await self.turns()
        self.waits_for = turns[-1].session if turns and turns[-1].tool_calls else None
        return messages_in(turns)

    async def turns(self) -> list[ConversationTurn]:
        """List all turns, in order."""
        found: list[ConversationTurn] = []
        cursor: str | None = None
        while True:
            page = await self._rows[ConversationTurn].search(
                {"conversation": self.id},
                sort="number",
                limit=500,
                cursor=cursor,
                caller=self.caller,
            )
            found += page.rows
            cursor = page.cursor
            if cursor is None:
                return found

    async def append(self, turns: Sequence[Mapping[str, Any]]) -> None:
        """Store turns."""
        await self._rows[ConversationResource].run(
            "append", self.id, turns=[dict(turn) for turn in turns], caller=self.caller
        )


def conversation_of(environment: Environment, given: object, caller: Caller | None) -> Conversation:
    """Return the conversation of a row or an id."""
    if isinstance(given, ConversationResource):
        return Conversation(environment, given.id, caller)
    if isinstance(given, str) and given:
        return Conversation(environment, given, caller)
    raise ConfigError(f"conversation is a ConversationResource or its id, not {safe_repr(given)}")


class _Turns(Facts):
    """The messages of a run, as turns."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.results: dict[str, ToolResult] = {}
        self.written = 0

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {
            Said: self._read_message,
            Replied: self._read_reply,
            ToolResulted: self._result,
            ToolMessage: self._read_results,
        }

    def _read_message(self, entry: Said) -> None:
        self.messages.append(entry.message)

    def _read_reply(self, entry: Replied) -> None:
        if entry.purpose is None:
            self.messages.append(entry.message)

    def _result(self, entry: ToolResulted) -> None:
        self.results[entry.call_id] = entry.result

    def _read_results(self, entry: ToolMessage) -> None:
        shown = {**self.results, **(entry.shown or {})}
        self.messages.append(Message("tool", tuple([shown[call] for call in entry.calls])))


def _has_guardrails(run: Run) -> bool:
    """Return whether guardrails may still refuse what was said: then only the end stores turns."""
    return any([policy.name == "guardrails" for policy in run.plan.policies])


KEPT: Final = "conversation"  # in a run's metadata: where its turns are written, and from which on


class Keeper(Policy[None]):
    """A policy that stores each turn of one run once it is recorded."""

    def __init__(self, conversation: Conversation, before: int = 0) -> None:
        self.conversation = conversation
        self.before = before  # messages that the run begins with and the conversation has already

    @property
    def metadata(self) -> JsonObject:
        """What a resumed run must know to go on storing turns."""
        return {KEPT: {"id": self.conversation.id, "before": self.before}}

    async def open_messages(self) -> list[Message]:
        """Return the messages before this run."""
        before = await self.conversation.open_messages()
        self.before = len(before)
        return before

    async def start(self, run: Run) -> None:
        if not _has_guardrails(run):
            await self._catch_up(run)

    async def after_reply(self, run: Run, turn: Turn) -> None:
        if not _has_guardrails(run):
            await self._catch_up(run)

    async def after_turn(self, run: Run, turn: Turn) -> None:
        if not _has_guardrails(run):
            await self._catch_up(run)

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        if outcome.status != "blocked":
            await self._catch_up(run)
        return outcome

    async def _catch_up(self, run: Run) -> None:
        seen = run.facts(_Turns)
        first = max(seen.written, self.before)
        new = [
            turn_of(f"{run.run_id}:{first + at}", message, run.session_id)
            for at, message in enumerate(seen.messages[first:])
        ]
        if new:
            await self.conversation.append(new)
        seen.written = len(seen.messages)
