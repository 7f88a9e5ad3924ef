"""A call that a client asks for, as a run: a model that makes this one call, and a policy that ends there.

The run passes every gate that a call of a language model passes: roles, permissions, approvals, budgets, the
journal and the audit log. The call is the run's first message, so a killed or parked run resumes as any.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.errors import ModelError
from windlass.events import JournalEntry, Said
from windlass.json_types import JsonObject
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Stop
from windlass.messages import Message, ToolCall
from windlass.models.base import Emit, Model, Request, Response
from windlass.usage import Usage

CALL_ID = "call_1"


class RequestedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The call that a client asks for: `RequestedCall("refund", {"order": 7})`."""

    tool: str
    arguments: JsonObject

    def to_prompt(self) -> str:
        """Return the first message of the run."""
        return msgspec.json.encode({"mcp": self}).decode()


class _Prompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mcp: RequestedCall


def parse_call(text: str) -> RequestedCall | None:
    """Read the call from the first message of a run; None if a client did not ask for one."""
    try:
        return msgspec.json.decode(text, type=_Prompt).mcp
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def find_call(entries: list[JournalEntry]) -> RequestedCall | None:
    """Find the call that a session was begun for."""
    for entry in entries:
        if isinstance(entry, Said):
            return parse_call(entry.message.text)
    return None


class CallModel(Model):
    """A model that asks for the call in its first message, at no cost."""

    provider = "mcp"
    name = "call"
    retry_delay = 0.0

    def price(self, usage: Usage) -> float:
        """Return nothing: nobody is asked."""
        return 0.0

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Answer with the call."""
        wanted = parse_call(request.messages[0].text) if len(request.messages) else None
        if wanted is None:
            raise ModelError("the session was not begun by a call of an MCP client")
        call = ToolCall(CALL_ID, wanted.tool, wanted.arguments)
        # A usage of nothing would be estimated.
        return Response(Message("assistant", (call,)), Usage(1, 1), "tool_use")


class EndAfterCall(Policy[None]):
    """A policy that ends the run once the call has its result; it tells the session at the start."""

    def __init__(self, note_session: Callable[[str], None]) -> None:
        self.note_session = note_session

    async def start(self, run: Run) -> None:
        """Tell in which session the call runs."""
        self.note_session(run.session_id)

    async def after_turn(self, run: Run, turn: Turn) -> Stop | None:
        """End the run with the status `done`."""
        return Stop("done", "answered")
