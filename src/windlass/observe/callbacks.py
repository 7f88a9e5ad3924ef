"""Callbacks of a run, as sinks on its events. A sink only observes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from windlass.events import (
    Entry,
    Event,
    LoopDetected,
    Replied,
    StallWarning,
    ToolCallStarted,
    ToolResulted,
)
from windlass.json_types import JsonObject
from windlass.loop.sinks import Sink, Watcher, log
from windlass.messages import Message, ToolResult
from windlass.observe.trace_events import TraceEvent, Tracer
from windlass.options.checks import function, identifier, label, optional
from windlass.options.group import LOOPS, Door, Option, OptionGroup
from windlass.store.new_messages import NewMessages

if TYPE_CHECKING:
    from windlass.loop.run import Run

_RUN: Final[frozenset[Door]] = frozenset({"run"})


class CallbackOptions(OptionGroup, frozen=True, kw_only=True):
    """Callbacks and traces of a run: `agent.run("…", on_trace=tracer, task_id="t1")`."""

    doors: ClassVar[frozenset[Door]] = _RUN

    on_event: Annotated[
        Callable[[Event], Any] | None, Option(function, scope="run", doors=LOOPS)
    ] = None
    """A function that gets every event."""
    on_tool_call: Annotated[
        Callable[[str, JsonObject], Any] | None, Option(function, scope="run")
    ] = None
    """A function that gets name and arguments of each tool call."""
    on_tool_result: Annotated[
        Callable[[str, ToolResult], Any] | None, Option(function, scope="run")
    ] = None
    """A function that gets name and result of each tool call."""
    on_message: Annotated[Callable[[Message], Any] | None, Option(function, scope="run")] = None
    """A function that gets each new message."""
    on_warning: Annotated[Callable[[str], Any] | None, Option(function, scope="run")] = None
    """A function that gets warnings; without it they go to the log."""
    on_trace: Annotated[Callable[[TraceEvent], Any] | None, Option(function, scope="run")] = None
    """A function that gets a `TraceEvent` of each model call and tool call."""
    task_id: Annotated[str | None, Option(optional(label), scope="run")] = None
    """The id of the task in its traces."""
    trace_agent: Annotated[str | None, Option(optional(identifier), scope="run")] = None
    """The name of the agent in its traces."""


#: The options that are functions which watch.
CALLBACKS = frozenset(CallbackOptions.__struct_fields__) - {"task_id", "trace_agent"}


class Watchers:
    """The observers of one run: `sinks` see its events, `of(run)` sets the run."""

    __slots__ = ("_later", "sinks")

    def __init__(
        self,
        given: CallbackOptions,
        agent: str | None = None,
        warnings: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        """Collect the callbacks; `warnings()` lists problems of the options, if asked for."""
        look: list[Callable[[Event], Any]] = []
        later: list[_Messages | _Warnings | Tracer] = []
        if (on_event := given.on_event) is not None:
            look.append(on_event)
        if (on_tool_call := given.on_tool_call) is not None:
            look.append(_calls(on_tool_call))
        if (on_tool_result := given.on_tool_result) is not None:
            look.append(_results(on_tool_result))
        if (on_message := given.on_message) is not None:
            later.append(_Messages(on_message))
        if (on_warning := given.on_warning) is not None:
            later.append(_Warnings(on_warning, agent or "unknown", warnings()))
        if (on_trace := given.on_trace) is not None:
            name = given.trace_agent or agent or "unknown"
            later.append(Tracer(on_trace, name, given.task_id))
        self._later = tuple(later)
        self.sinks: tuple[Sink, ...] = tuple([Watcher(each) for each in (*look, *later)])

    def of(self, run: Run) -> None:
        """Set the observed run, before it begins."""
        for each in self._later:
            each.of(run)


NOBODY = Watchers(CallbackOptions())


def _calls(show: Callable[[str, JsonObject], Any]) -> Callable[[Event], Any]:
    def on_started(event: Event) -> Any:
        if type(event) is ToolCallStarted:
            return show(event.name, event.arguments)
        return None

    return on_started


def _results(show: Callable[[str, ToolResult], Any]) -> Callable[[Event], Any]:
    def on_ended(event: Event) -> Any:
        if type(event) is ToolResulted:
            return show(event.tool, event.result)
        return None

    return on_ended


class _Messages:
    """Shows each message that the run adds, once it is complete."""

    def __init__(self, show: Callable[[Message], Any]) -> None:
        self._show = show
        self._new: NewMessages | None = None

    def of(self, run: Run) -> None:
        self._new = NewMessages()
        for entry in run.journal.entries[run.first_entry :]:
            self._new.apply(entry)

    def __call__(self, event: Event) -> Any:
        if self._new is not None and isinstance(event, Entry):
            return _one_by_one(self._show, self._new.apply(event))
        return None


class _Warnings:
    """Reports problems of the options, loops, and models that ignore their tools."""

    def __init__(self, show: Callable[[str], Any], agent: str, first: tuple[str, ...]) -> None:
        self._show, self._agent, self._first = show, agent, first
        self._run: Run | None = None

    def of(self, run: Run) -> None:
        self._run = run

    def __call__(self, event: Event) -> Any:
        first, self._first = self._first, ()
        match event:
            case LoopDetected():
                return _one_by_one(self._show, (*first, event.detail))
            case StallWarning():
                text = f"{event.tool_name} was called {event.repeat_count} times in a row with "
                return _one_by_one(self._show, (*first, f"{text}the same arguments"))
            case Replied(purpose=None) if self._ignores(event):
                return _one_by_one(self._show, (*first, self._unused_tools_warning()))
            case _:
                return _one_by_one(self._show, first)

    def _ignores(self, reply: Replied) -> bool:
        run = self._run
        if run is None or run.number != 1 or reply.message.tool_calls:
            return False
        return bool(run.tools) and run.frame.settings.tool_choice != "none"

    def _unused_tools_warning(self) -> str:
        tools = len(self._run.tools) if self._run is not None else 0
        return (
            f"agent {self._agent!r} has {tools} tool{'s' if tools > 1 else ''} and the model called "
            "none in its first turn: if it runs locally, check that it can call tools"
        )


def _one_by_one(show: Callable[[Any], Any], things: Sequence[Any]) -> Any:
    """Show each one; a failing callback does not stop the rest."""
    waiting: list[Awaitable[Any]] = []
    for thing in things:
        try:
            answer = show(thing)
        except Exception:
            log.exception("a callback failed; the run goes on")
            continue
        if isawaitable(answer):
            waiting.append(answer)
    if len(waiting) < 2:
        return waiting[0] if waiting else None
    return _in_order(waiting)


async def _in_order(waiting: list[Awaitable[Any]]) -> None:
    for each in waiting:
        try:
            await each
        except Exception:
            log.exception("a callback failed; the run goes on")


def sinks_of(on_event: Callable[[Event], Any] | None) -> tuple[Sink, ...]:
    """Return `on_event` as a sink, if it is given."""
    return () if on_event is None else (Watcher(on_event),)
