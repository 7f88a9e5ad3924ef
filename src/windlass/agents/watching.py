"""The callbacks of a run, as sinks on its events. A sink only watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.events import Event, Replied, Said, ToolCallStarted, ToolResulted
from windlass.loop.watch import Sink, Watcher
from windlass.messages import Message


def sinks_of(
    on_event: Callable[[Event], Any] | None = None,
    on_tool_call: Callable[[str, dict[str, Any]], Any] | None = None,
    on_tool_result: Callable[[str, str], Any] | None = None,
    on_message: Callable[[Message], Any] | None = None,
) -> tuple[Sink, ...]:
    """The callbacks that were given, each as a sink."""
    sinks: list[Sink] = []
    if on_event is not None:
        sinks.append(Watcher(on_event))
    if on_tool_call is not None:
        call = on_tool_call

        def started(event: Event) -> Any:
            if type(event) is ToolCallStarted:
                return call(event.name, event.arguments)

        sinks.append(Watcher(started))
    if on_tool_result is not None:
        result = on_tool_result

        def ended(event: Event) -> Any:
            if type(event) is ToolResulted:
                return result(event.tool, event.result.text)

        sinks.append(Watcher(ended))
    if on_message is not None:
        show = on_message

        def said(event: Event) -> Any:
            if type(event) is Said or (type(event) is Replied and event.purpose is None):
                return show(event.message)

        sinks.append(Watcher(said))
    return tuple(sinks)
