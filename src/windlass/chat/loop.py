"""A chat: what a person types, a turn of the model, and so on, in one session that outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar, Unpack, cast

from windlass import seams
from windlass.agents.agent_loop import prepare_loop, run_loop
from windlass.chat.input import Exit, Handled, Send, parse_input
from windlass.chat.wait_tool import TURN, ChatTurn, build_wait_tool
from windlass.engine.assemble import parse_loop_options
from windlass.engine.ownership import SessionScope
from windlass.engine.results import LoopResult
from windlass.engine.resume import resume_run
from windlass.engine.run_options import AgentOptions, RunOptions
from windlass.engine.tool_options import ToolOptions
from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.events import JournalEntry, Noted
from windlass.json_types import JsonObject, is_list, is_object
from windlass.loop.plan import as_journaled
from windlass.loop.resume import standing
from windlass.options.checks import number, optional
from windlass.options.parse import merge_options
from windlass.records import Record
from windlass.tools.function import as_tools

if TYPE_CHECKING:
    from windlass.engine.keywords import LoopKeywords

_DOOR: Final = "agent_chat_loop"
_STATE: Final = "chat_state"  # in the journal: the state after a turn
_CLOSED: Final = "chat_closed"  # in the journal: why the chat ended
_PER_TURN: Final = ("messages", "transcript", "run_id")
_OPEN_ENDS: Final = ("suspended", "cancelled", "cancelling")

Result = TypeVar("Result")
OnUserInput: TypeAlias = Callable[[JsonObject], Any | Awaitable[Any]]
OnModelTurn: TypeAlias = Callable[[LoopResult, JsonObject], Any | Awaitable[Any]]
Show: TypeAlias = Callable[[str], object]


class ChatTurns(Protocol[Result]):
    """How a chat runs its turns; `ChatLoop` asks for each of them."""

    async def go_on(self) -> Result | None:
        """Finish a turn that was interrupted or that nobody has seen; None if there is none."""
        ...

    async def send(self, message: Any, /) -> Result:
        """Run the turn of a message."""
        ...

    async def take(self, result: Result, /) -> str | None:
        """Deal with a turn that has ended; return why the chat ends, or None if it goes on."""
        ...


class ChatLoop(Generic[Result]):
    """The loop of every chat: an input, a turn, an input, a turn, until somebody ends it.

    `agent_chat_loop` and `windlass chat` run on it. `ask` returns what `on_user_input` may answer.
    """

    def __init__(
        self, turns: ChatTurns[Result], ask: Callable[[], Any], show: Show | None = print
    ) -> None:
        self._turns, self._ask, self._show = turns, ask, show

    async def run(self, max_turns: int | None = None) -> str:
        """Chat until somebody ends it, or after so many turns; return the reason."""
        count, reason = 0, None
        unseen = await self._turns.go_on()
        if unseen is not None:
            count, reason = 1, await self._turns.take(unseen)
        while reason is None:
            if max_turns is not None and count >= max_turns:
                return "max_turns"
            match parse_input(await _resolve(self._ask())):
                case Exit(said):
                    reason = said
                case Handled(message):
                    if message is not None and self._show is not None:
                        self._show(message)
                    await asyncio.sleep(0)  # a callback that never waits can be cancelled
                case Send(message):
                    count += 1
                    reason = await self._turns.take(await self._turns.send(message))
        return reason


class ChatResult(Record, frozen=True):
    """The result of `agent_chat_loop`: `result.turns`, `result.stop_reason`, `result.state`."""

    session_id: str
    turns: int
    """How many turns of the model this call has seen."""
    stop_reason: str
    """The reason of the exit, `max_turns`, or the status of a turn that was parked or cancelled."""
    last_result: LoopResult | None
    """The result of the last turn; None if there was none."""
    state: JsonObject
    """The state as the last turn left it."""
    closed: bool
    """Whether the end is on record in the session."""


async def agent_chat_loop(
    config: Mapping[str, Any] | None = None,
    /,
    *,
    on_user_input: OnUserInput | None = None,
    on_model_turn: OnModelTurn | None = None,
    close_session: bool = True,
    wait_for_user_tool: bool = True,
    max_turns: int | None = None,
    show: Show | None = print,
    **more: Unpack[LoopKeywords],
) -> ChatResult:
    """Chat with a person: ask for input, run a turn of the model, and ask again, in one session.

    ```python
    async def on_user_input(state):
        line = await w.read_line()
        return line.value if line.ok else {"kind": "exit", "reason": line.status}

    result = await w.agent_chat_loop(model="ollama:qwen3", session_id="review", on_user_input=on_user_input)
    ```
    `on_user_input(state)` answers a text or `{"kind": "send", "message": …}` for the model,
    `{"kind": "handled", "message": …}` for what `show` shows, or `{"kind": "exit", "reason": …}`.
    `on_model_turn(turn, state)` answers `{"state": …}` or None. Takes all options of `agent_loop`,
    also as a dict. A chat that was killed goes on with the same `session_id`, also in mid-turn.
    """
    own: JsonObject = {
        "on_user_input": on_user_input,
        "on_model_turn": on_model_turn,
        "close_session": close_session,
        "wait_for_user_tool": wait_for_user_tool,
        "max_turns": max_turns,
        "show": show,
    }
    typed = merge_options(config, cast("Mapping[str, Any]", more), _DOOR)
    for name, value in own.items():
        in_config = typed.pop(name, value)
        if value == _DEFAULTS[name]:
            own[name] = in_config
    return await _Chat(own, typed).run()


_DEFAULTS: Final[JsonObject] = {
    "on_user_input": None,
    "on_model_turn": None,
    "close_session": True,
    "wait_for_user_tool": True,
    "max_turns": None,
    "show": print,
}


class _Chat:
    """One call of `agent_chat_loop`."""

    def __init__(self, own: JsonObject, typed: dict[str, Any]) -> None:
        for name in ("on_user_input", "on_model_turn", "show"):
            if own[name] is not None and not callable(own[name]):
                raise ConfigError(f"{name} is a function, not {safe_repr(own[name])}")
        for name in ("close_session", "wait_for_user_tool"):
            if not isinstance(own[name], bool):
                raise ConfigError(f"{name} is True or False, not {safe_repr(own[name])}")
        if own["on_user_input"] is None:
            raise ConfigError(f"{_DOOR} needs on_user_input=…, which returns what the user says")
        self.max_turns = optional(number(0, whole=True))("max_turns", own["max_turns"])
        self.on_user_input: OnUserInput = own["on_user_input"]
        self.on_model_turn: OnModelTurn | None = own["on_model_turn"]
        self.show: Show | None = own["show"]
        self.closes: bool = own["close_session"]
        self.typed = _prepare_options(typed, has_wait_tool=own["wait_for_user_tool"])
        prepare_loop(dict(self.typed), _DOOR)  # what is wrong is said before anybody types
        run = RunOptions.read(self.typed)
        self.session_id = str(run.session_id)
        self.scope = SessionScope.current(run.store, run.caller)
        self.turns = 0
        self.state: JsonObject = {}
        self.last: LoopResult | None = None

    async def run(self) -> ChatResult:
        """Chat until somebody ends it."""
        loop = ChatLoop(self, lambda: self.on_user_input(self.state), self.show)
        reason = await loop.run(self.max_turns)
        is_open = self.last is not None and self.last.status in _OPEN_ENDS
        closed = self.closes and not is_open and await self._close(reason)
        return ChatResult(self.session_id, self.turns, reason, self.last, self.state, closed)

    async def go_on(self) -> LoopResult | None:
        """Go on with the session: its state, and a turn that was interrupted or not yet seen."""
        try:
            key = await self.scope.find(self.session_id, "resume")
            entries = await self.scope.home.read(key)
        except NoSuchSession:
            return None
        found = _find_note(entries, _STATE)
        if found is not None and is_object(found[1].data):
            self.state = found[1].data
        if not _has_unseen_turn(entries, -1 if found is None else found[0]):
            return None
        prepared = prepare_loop(dict(self.typed), _DOOR)
        begun = await resume_run(prepared.request, key)
        return await prepared.drive(begun, LoopResult)

    async def send(self, message: Any, /) -> LoopResult:
        """Run the turn of a message."""
        return await run_loop(message, dict(self.typed), _DOOR, LoopResult)

    async def take(self, result: LoopResult, /) -> str | None:
        """Show a turn to the program and keep its state; return why the chat ends, if it does."""
        self.turns, self.last = self.turns + 1, result
        if result.status in _OPEN_ENDS:
            return result.status
        if self.on_model_turn is not None:
            answer = await _resolve(self.on_model_turn(result, self.state))
            self.state = _parse_state(answer, self.state)
        kept = as_journaled(self.state, "the state of a chat")
        await self._note(_STATE, kept)
        return None

    async def _close(self, reason: str) -> bool:
        """Put the end of the chat on record, if it has begun."""
        try:
            await self._note(_CLOSED, {"reason": reason, "turns": self.turns})
        except NoSuchSession:
            return False
        return True

    async def _note(self, name: str, data: JsonObject) -> None:
        key = await self.scope.find(self.session_id, "edit")
        journal = await self.scope.home.open(key, create=False)
        try:
            journal.append(Noted(name, self.scope.environment.redact(data)))
        finally:
            await journal.close()


def _prepare_options(typed: dict[str, Any], *, has_wait_tool: bool) -> dict[str, Any]:
    """Check the options of the loop, and add the session, the policy and the tool of a chat."""
    for name in _PER_TURN:
        if typed.get(name) is not None:
            raise ConfigError(f"{_DOOR} takes no {name}: what is said comes from on_user_input")
    typed = dict(typed)
    if typed.get("session_id") is None:
        typed["session_id"] = seams.new_id("session")
    values = parse_loop_options(
        {name: value for name, value in typed.items() if name != "system"}, _DOOR
    )
    typed.setdefault("await_resumption", False)  # it waits for the user
    typed["policies"] = (*AgentOptions.read(values).policies, ChatTurn())
    if has_wait_tool:
        listed: object = ToolOptions.read(values).tools
        if not is_list(listed) and not isinstance(listed, tuple):
            listed = as_tools(listed)
        typed["tools"] = [*cast("Iterable[object]", listed), build_wait_tool()]
    return typed


async def _resolve(answer: Any) -> Any:
    """Wait for the answer of a callback, also where that is the answer of another one."""
    while isawaitable(answer):
        answer = await answer
    return answer


def _parse_state(answer: object, state: JsonObject) -> JsonObject:
    """Read an answer of `on_model_turn`, or raise `ConfigError`."""
    if answer is None:
        return state
    if not is_object(answer) or set(answer) != {"state"}:
        raise ConfigError(f'on_model_turn answers {{"state": …}} or None, not {safe_repr(answer)}')
    given: object = answer["state"]
    if not is_object(given):
        raise ConfigError(f"on_model_turn: state is a dict, not {safe_repr(given)}")
    return given


def _find_note(entries: Sequence[JournalEntry], name: str) -> tuple[int, Noted] | None:
    """Find the last note of this name, and its place."""
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if type(entry) is Noted and entry.name == name:
            return place, entry
    return None


def _has_unseen_turn(entries: Sequence[JournalEntry], seen: int) -> bool:
    """Check whether a run of the session is to be finished, or a turn of it to be shown."""
    state = standing(entries)
    if state.unfinished:
        return not state.reset
    last = _find_note(entries, TURN)
    return last is not None and last[0] > seen and state.ended is not None
