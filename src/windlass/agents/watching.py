"""The callbacks of a run, as sinks on its events. A sink only watches."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from windlass.events import Event, Replied, Said, ToolCallStarted, ToolResulted
from windlass.messages import Message

Sink = Callable[[Event], None]
_pending: set[asyncio.Future[Any]] = set()


def sinks_of(
    on_event: Callable[[Event], Any] | None = None,
    on_tool_call: Callable[[str, dict[str, Any]], Any] | None = None,
    on_tool_result: Callable[[str, str], Any] | None = None,
    on_message: Callable[[Message], Any] | None = None,
) -> tuple[Sink, ...]:
    """The callbacks that were given, each as a sink."""
    sinks: list[Sink] = []
    if on_event is not None:
        sinks.append(_called(on_event) if inspect.iscoroutinefunction(on_event) else on_event)
    if on_tool_call is not None:
        call = on_tool_call

        def started(event: Event) -> None:
            if type(event) is ToolCallStarted:
                _run(call(event.name, event.arguments))

        sinks.append(started)
    if on_tool_result is not None:
        result = on_tool_result

        def ended(event: Event) -> None:
            if type(event) is ToolResulted:
                _run(result(event.tool, event.result.text))

        sinks.append(ended)
    if on_message is not None:
        show = on_message

        def said(event: Event) -> None:
            if type(event) is Said or (type(event) is Replied and event.purpose is None):
                _run(show(event.message))

        sinks.append(said)
    return tuple(sinks)


def _called(callback: Callable[[Event], Any]) -> Sink:
    return lambda event: _run(callback(event))


def _run(answer: object) -> None:
    """A callback may be async: its answer is awaited beside the run."""
    if inspect.isawaitable(answer):
        future = asyncio.ensure_future(answer)
        _pending.add(future)
        future.add_done_callback(_pending.discard)
