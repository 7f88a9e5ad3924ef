"""A function of yours before every model call, which may change messages or system.

For that call only: what is recorded stays, and what was sent instead is on the record too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.events import Reshaped
from windlass.loop.plan import check_storable
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import Message, ToolResult
from windlass.models.base import Frame, Request
from windlass.options.checks import function
from windlass.options.group import Option, OptionGroup
from windlass.policies.build import BuildContext, Policies
from windlass.policies.view_rewrite import (
    is_unchanged,
    lend,
    read,
    take_back,
    whole,
)
from windlass.store.view import ViewFold

RECENT: Final = 10  # messages in the lists of recent ones
ANSWERS: Final = ("messages", "system")
_FRAMES: Final = "context_callback.frames"
_MOST: Final = 16  # frames that are kept at hand


class ContextCallbackOptions(OptionGroup, frozen=True, kw_only=True):
    """A callback before every model call."""

    choice: ClassVar[str | None] = "context_callback"

    context_callback: Annotated[Callable[..., Any] | None, Option(function)] = None
    """A function that may change the messages and the system prompt of each model call."""
    context_filter: Annotated[Callable[..., Any] | None, Option(function)] = None
    """Another name for `context_callback`."""


def build(ctx: BuildContext) -> Policies:
    """Build the policy that asks the function."""
    options = ContextCallbackOptions.read(ctx.values)
    callback, other = options.context_callback, options.context_filter
    if callback is not None and other is not None:
        raise ConfigError("context_callback and context_filter are the same: give one of them")
    if callback is not None:
        return (ContextCallback(callback, "context_callback"),)
    return () if other is None else (ContextCallback(other, "context_filter"),)


class ContextInfo(msgspec.Struct, frozen=True, gc=False):
    """The argument of `context_callback`: `ctx.visible_messages`, `ctx.system`, …

    Visible messages are those that the model would see, recorded messages are all of the session.
    The lists are copies.
    """

    iteration: int  # counted from 0
    system: str | None
    messages: list[Message]
    visible_messages: list[Message]
    recorded_messages: list[Message]
    recent_visible_messages: list[Message]
    recent_recorded_messages: list[Message]
    latest_visible_user_message: str | None
    latest_visible_assistant_message: str | None
    latest_recorded_user_message: str | None
    latest_recorded_assistant_message: str | None
    latest_tool_result: str | None
    latest_recorded_tool_result: str | None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a context has no {name!r}{nearest(name, self.__struct_fields__)}")


Callback = Callable[[ContextInfo], Any | Awaitable[Any]]


class ContextCallback(Policy[None]):
    """A policy that asks your function what a call shows."""

    lasts: ClassVar[bool] = True

    def __init__(self, callback: Callback, option: str = "context_callback") -> None:
        self.callback, self.option = callback, option

    @property
    def name(self) -> str:
        return "context_callback"

    async def before_model(self, run: Run, request: Request) -> Request:
        answer = self.callback(_info(run, request))
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None:
            return request
        given_back, system = self._parse_answer(answer)
        messages = take_back(run, given_back)
        frame = request.frame
        if system is not None and system != (frame.system or ""):
            frame = _with_system(run, frame, system)
        shown_now = request.messages
        if messages is not None and not is_unchanged(messages, shown_now):
            given = read(run, messages, self.option)
            shown_now = whole(given, shown_now, request.tail)
        if frame is request.frame and shown_now is request.messages:
            return request
        return Request(shown_now, frame, request.tail)

    def _parse_answer(self, answer: object) -> tuple[object, str | None]:
        """Parse the messages and the system of the answer; None leaves them as they are."""
        if not isinstance(answer, Mapping):
            if isinstance(answer, (list, tuple)):
                return cast("object", answer), None
            raise ConfigError(
                f"{self.option} answers a list of messages, a dict with messages and system, or "
                f"None, not {safe_repr(answer)}"
            )
        fields = cast("Mapping[Any, Any]", answer)
        for key in fields:
            if key not in ANSWERS:
                hint = nearest(str(key), ANSWERS)
                raise ConfigError(f"{self.option} answers no {safe_repr(key)}{hint}")
        system = fields.get("system")
        if system is not None:
            if not isinstance(system, str):
                raise ConfigError(f"{self.option}: system is a text, not {safe_repr(system)}")
            check_storable(system, f"the system from {self.option}")
        return fields.get("messages"), system


def _with_system(run: Run, frame: Frame, system: str) -> Frame:
    """Return the frame with another system prompt: the same object for the same text."""
    made: dict[tuple[int, str], tuple[Frame, Frame]] = run.cache.setdefault(_FRAMES, {})
    key = (id(frame), system)
    if key not in made:
        if len(made) >= _MOST:
            made.clear()
        # the first is kept so that its id stays its own
        made[key] = (frame, msgspec.structs.replace(frame, system=system or None))
    return made[key][1]


# --------------------------------------------------------------------------- what it is given


class _SessionMessages:
    """All messages of the session, also those that have left the view."""

    __slots__ = ("fold", "place")

    def __init__(self) -> None:
        self.fold, self.place = ViewFold(), 0

    def upto_now(self, run: Run) -> list[Message]:
        entries = run.entries
        for entry in entries[self.place :]:
            if type(entry) is not Reshaped:
                self.fold.apply(entry)
        self.place = len(entries)
        return list(self.fold.messages)


def _info(run: Run, request: Request) -> ContextInfo:
    recorded = run.cache.setdefault(_SessionMessages, _SessionMessages()).upto_now(run)
    recorded, visible = lend(run, recorded), lend(run, request.messages)
    return ContextInfo(
        run.iteration,
        request.frame.system,
        visible,
        list(visible),
        recorded,
        visible[-RECENT:],
        recorded[-RECENT:],
        _latest(visible, "user"),
        _latest(visible, "assistant"),
        _latest(recorded, "user"),
        _latest(recorded, "assistant"),
        _latest_result(visible),
        _latest_result(recorded),
    )


def _latest(messages: Sequence[Message], role: str) -> str | None:
    return next((m.text for m in reversed(messages) if m.role == role), None)


def _latest_result(messages: Sequence[Message]) -> str | None:
    for message in reversed(messages):
        for block in reversed(message.content):
            if type(block) is ToolResult:
                return block.text
    return None
