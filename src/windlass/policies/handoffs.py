"""Handoffs: a conversation goes on under another agent, in the same session.

Who is active is what the journal says: each transfer is a tool call, each return a note, and a reset
of the session goes back to the front. So a resume, a fork and the next run on the session find the
same agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Annotated, Any, ClassVar, Final, Protocol, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.events import JournalEntry, Noted, Replied, SessionReset, ToolResulted
from windlass.json_types import is_object
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import KeepGoing
from windlass.messages import Message, ToolCall, ToolResult
from windlass.options.checks import boolean, number
from windlass.options.group import AGENTS, Door, Option, OptionGroup
from windlass.records import NamedFields
from windlass.tools.tool import Tool, ToolContext

PREFIX: Final = "transfer_to_"
REASON: Final = "handoff"
RETURNED: Final = "handoff_return"  # in the journal: who went back to whom
#: What the agent reads to which the conversation returns.
BACK: Final = "{name} has finished, and the conversation is yours again. {name} said:\n\n{text}"
_PARAMETERS = {
    "type": "object",
    "properties": {"reason": {"type": "string", "description": "Why, for who takes over."}},
    "required": ["reason"],
    "additionalProperties": False,
}
#: Gets the messages of the conversation and returns those that the next agent sees.
InputFilter = Callable[[Sequence[Message]], Sequence[Message]]


class Receiver(Protocol):
    """The part of an agent that a handoff needs."""

    @property
    def name(self) -> str | None:
        """Its name."""
        ...

    @property
    def options(self) -> Any:
        """The checked options that it was created with."""
        ...

    @property
    def system(self) -> Any:
        """Its system prompt, or the function that writes one."""
        ...

    async def plan_for(self, deps: Any, caller: Any, session_id: str | None) -> Any:
        """Return the plan of one run."""
        ...


class Handoff(msgspec.Struct, metaclass=NamedFields, frozen=True):
    """A handoff with words and a filter of its own: `handoffs=[w.Handoff(billing, input_filter=last_ten)]`.

    `input_filter` gets the messages of the conversation and returns those that the receiver goes on
    from; the journal keeps them all. With `return_after=True` the conversation goes back to the sender
    where the receiver would end the run; the sender reads what it said.
    """

    agent: Any
    description: str | None = None
    input_filter: InputFilter | None = None
    return_after: bool = False

    @property
    def name(self) -> str:
        """The name of the agent."""
        return cast("Receiver", self.agent).name or ""


def _check_handoffs(name: str, value: Any) -> tuple[Handoff, ...]:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{name} is a list of Agents, not {safe_repr(value)}")
    found: list[Handoff] = []
    for one in cast("Sequence[Any]", value):
        given = one if isinstance(one, Handoff) else Handoff(one)
        if not callable(getattr(given.agent, "as_tool", None)):
            raise ConfigError(f"{name} is a list of Agents or Handoffs, not of {safe_repr(one)}")
        if not given.name:
            raise ConfigError(f'an agent in {name} needs a name, which its tool has: name="…"')
        if given.name in [other.name for other in found]:
            raise ConfigError(f"{name} has two agents named {given.name!r}")
        if given.input_filter is not None and not callable(given.input_filter):
            raise ConfigError(f"input_filter is a function of messages, not {safe_repr(one)}")
        if not isinstance(cast("object", given.return_after), bool):
            raise ConfigError(f"return_after is True or False, not {safe_repr(given.return_after)}")
        found.append(given)
    return tuple(found)


class HandoffOptions(OptionGroup, frozen=True, kw_only=True):
    """Handoffs: other agents that the conversation may go on under."""

    doors: ClassVar[frozenset[Door]] = AGENTS

    handoffs: Annotated[
        tuple[Handoff, ...],
        Option(_check_handoffs, scope="start", in_file=False, accepts="Sequence[Any]"),
    ] = ()
    """Agents that may take the conversation over: each is a tool `transfer_to_<name>`."""
    handoffs_back: Annotated[bool, Option(boolean, scope="start", in_file=False)] = True
    """Whether who took the conversation over may hand it back to who did."""
    max_handoffs: Annotated[int, Option(number(1, whole=True), scope="start", in_file=False)] = 8
    """How often one run may hand over; then the active agent must finish."""


def list_active(
    entries: Sequence[JournalEntry], front: str, returns: Collection[tuple[str, str]]
) -> list[str]:
    """Return the agent that the conversation is under, last, after those that wait for its return.

    `returns` are the handoffs, by sender and receiver, that go back where the receiver ends.
    """
    active = [front]
    for one in _list_moves(entries):
        if one is None:
            active = [front]
        elif one in active:  # back to somebody who waits, or to oneself
            del active[active.index(one) + 1 :]
        elif (active[-1], one) in returns:
            active.append(one)
        else:
            active[-1] = one
    return active


def list_transfers(entries: Sequence[JournalEntry]) -> list[str]:
    """Return the agents that were handed the conversation by a call, in order."""
    calls = [entry for entry in entries if type(entry) is not Noted]
    return [one for one in _list_moves(calls) if one is not None]


def _list_moves(entries: Sequence[JournalEntry]) -> list[str | None]:
    """Return who the conversation went to, in order: of each reply by the first call; None: a reset."""
    found: list[str | None] = []
    waiting: list[str] = []  # calls of the last reply that hand over
    for entry in entries:
        if type(entry) is Replied and entry.purpose is None:
            calls = entry.message.tool_calls
            waiting = [call.id for call in calls if call.name.startswith(PREFIX)]
        elif type(entry) is ToolResulted and waiting and entry.call_id == waiting[0]:
            if entry.outcome == "ok":
                found.append(entry.tool.removeprefix(PREFIX))
            waiting = []
        elif type(entry) is Noted and entry.name == RETURNED and is_object(entry.data):
            found.append(str(entry.data["to"]))
        elif type(entry) is SessionReset:
            found.append(None)
    return found


def build_transfer_tool(handoff: Handoff, most: int) -> Tool:
    """Build the tool that hands the conversation over."""
    own: object = getattr(handoff.agent, "options", {}).get("description")
    words = handoff.description or own or ""

    async def transfer(args: dict[str, Any], ctx: ToolContext[Any]) -> str | ToolResult:
        run = ctx.scope
        if isinstance(run, Run) and len(list_transfers(run.own_entries)) >= most:
            return _refuse(f"No more handoffs (limit {most}): finish here.")
        return f"{handoff.name} goes on with the conversation."

    return Tool(
        PREFIX + handoff.name,
        f"Hand the conversation over to {handoff.name}, who goes on with it. {words}".strip(),
        _PARAMETERS,
        transfer,
        side_effect_level="read_only",
        kind="think",
    )


def _refuse(words: str) -> ToolResult:
    return ToolResult(content=words, is_error=True, outcome="error")


def _first_transfer(turn: Turn) -> ToolCall | None:
    return next((call for call in turn.calls if call.name.startswith(PREFIX)), None)


class Handoffs(Policy[None]):
    """The policy that goes on under the agent that the conversation was handed to."""

    def __init__(
        self,
        member: str,
        list_active: Callable[[Run], list[str]],
        switch: Callable[[Run, str, str], Awaitable[None]],
    ) -> None:
        self.member, self._list_active, self._switch = member, list_active, switch

    @property
    def name(self) -> str:
        return "handoffs"

    async def start(self, run: Run) -> None:
        """Go on under the agent that was active when the session was left."""
        active = self._list_active(run)[-1]
        if active != self.member:
            await self._switch(run, self.member, active)

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        """Tell the model of a second handoff in one reply that the first one counts."""
        first = None if run.turn is None else _first_transfer(run.turn)
        if first is None or first.id == call.id or not call.name.startswith(PREFIX):
            return result
        to = first.name.removeprefix(PREFIX)
        words = f"Ignored: the conversation is handed to {to} already."
        return msgspec.structs.replace(result, content=words, is_error=True)

    async def after_turn(self, run: Run, turn: Turn) -> KeepGoing | None:
        """Switch to the agent that the first handoff of the reply names, or back to who waits."""
        first = _first_transfer(turn)
        if first is None:
            return None if turn.calls else await self._go_back(run, turn)
        result = turn.results.get(first.id)
        if result is None or result.outcome != "ok":
            return None
        await self._switch(run, self.member, first.name.removeprefix(PREFIX))
        return KeepGoing(REASON)

    async def _go_back(self, run: Run, turn: Turn) -> KeepGoing | None:
        """Return the conversation to the agent that waits for this one to end, if there is one."""
        active = self._list_active(run)
        if len(active) < 2 or active[-1] != self.member:
            return None
        run.record(Noted(RETURNED, {"from": self.member, "to": active[-2]}))
        run.say(BACK.format(name=self.member, text=turn.text), REASON)
        await self._switch(run, self.member, active[-2])
        return KeepGoing(REASON)
