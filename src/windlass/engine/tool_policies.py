"""From the options of tool calls to policies, tools around tools, and watchers.

What may say no, or wait for a person, is a policy, so that its decision is on record before the call
runs; how a call runs is a tool around the tool; what only watches is a sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from windlass.errors import ConfigError
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.sinks import Watcher
from windlass.observe.tool_sinks import Receipts, watcher_of
from windlass.observe.transcript_file import transcript_in
from windlass.policies.call_limit import CallLimit
from windlass.policies.consent import Consent
from windlass.policies.progress import Progress, ProgressTool
from windlass.tools.middleware.layers import (
    WithConsent,
    WithRateLimit,
    WithSink,
    with_audit_sink,
    with_consent,
    with_handoff_sink,
    with_telemetry,
)
from windlass.tools.middleware.stack import ToolCaller, ToolLayer, Wrapping
from windlass.tools.tool import Tool

_AROUND = frozenset({"tool_caller", "dry_run", "tool_retries"})  # how a call runs


class Tooling(NamedTuple):
    """What a plan takes over."""

    policies: tuple[Policy[Any], ...] = ()
    watchers: tuple[Callable[[Run], Watcher], ...] = ()


def tooling(options: Mapping[str, Any]) -> Tooling:
    """The policies and the watchers that the options ask for."""
    policies: list[Policy[Any]] = []
    watchers: list[Callable[[Run], Watcher]] = []
    receipts = False
    for layer in _layers(options):
        match layer:
            case WithConsent():
                policies.append(Consent(layer.consent, _free("Consent", policies)))
            case WithRateLimit():
                name = _free("RateLimit", policies)
                policies.append(CallLimit(layer.max_calls, layer.message, name))
            case WithSink():
                watchers.append(watcher_of(layer))
                receipts = receipts or layer.kind == "audit_sink"
            case _:
                pass  # how a call runs: see `around`
    progress: ProgressTool | None = options.get("progress_tool")
    if progress is not None:
        policies.append(Progress(progress.name))
    if receipts and not options.get("prefetch_next_turn"):
        policies.append(Receipts())
    if (folder := options.get("llm_transcript_dir")) is not None:
        watchers.append(transcript_in(folder))
    return Tooling(tuple(policies), tuple(watchers))


def around(options: Mapping[str, Any], tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tools as they will run: tried again, rehearsed, behind a function."""
    if _AROUND.isdisjoint(options):
        return tools
    retries = options.get("tool_retries", 0)
    wraps = [layer for layer in _layers(options) if isinstance(layer, Wrapping)]
    if retries:
        tools = tuple([_tried_again(options, tool, retries) for tool in tools])
    for layer in reversed(wraps):
        tools = tuple([layer.wrap(tool) for tool in tools])
    return tools


def _tried_again(options: Mapping[str, Any], tool: Tool, retries: int) -> Tool:
    if tool.handler is None:
        return tool  # the host runs it, and the host tries again
    from windlass.tools.middleware.retry import Retrying

    pause = options.get("tool_backoff_ms", 1000) / 1000
    return Retrying(tool, retries, pause, options.get("tool_timeout", 120.0))


def with_progress(
    progress: ProgressTool, tools: tuple[Tool, ...], system: str | None
) -> tuple[tuple[Tool, ...], str | None]:
    """The tools and the system prompt, with the tool for progress."""
    if any(tool.name == progress.name for tool in tools):
        raise ConfigError(
            f"there is a tool {progress.name!r} already: give progress_tool another name"
        )
    return (*tools, progress.tool()), progress.framed(system)


def _layers(options: Mapping[str, Any]) -> Iterator[ToolLayer]:
    """All layers, the outermost first: those of the options stand around the tool caller's."""
    for name, make in _MADE:
        if (given := options.get(name)) is not None and given != "plan":
            yield given if make is None else make(given)
    caller: ToolCaller | None = options.get("tool_caller")
    if caller is not None:
        yield from caller.layers


#: The options that are layers, in the order in which they stand around a call.
_MADE: tuple[tuple[str, Callable[[Any], ToolLayer] | None], ...] = (
    ("audit_sink", with_audit_sink),
    ("telemetry", with_telemetry),
    ("handoff_sink", with_handoff_sink),
    ("consent", with_consent),
    ("rate_limit", None),
    ("dry_run", None),
)


def _free(name: str, policies: list[Policy[Any]]) -> str:
    """The name, or the next one that no policy has."""
    taken, free, count = {policy.name for policy in policies}, name, 1
    while free in taken:
        count += 1
        free = f"{name}{count}"
    return free
