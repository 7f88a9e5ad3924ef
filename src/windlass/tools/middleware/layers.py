"""Layers around tool calls: consent, limits, dry runs, and sinks.

```python
caller = w.compose([w.with_consent(ask), w.with_rate_limit(max_calls=20)])(w.default_tool_caller())
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject, as_given, is_mapping
from windlass.tools.middleware.dry_run import DryRun, changes_something
from windlass.tools.middleware.stack import ToolLayer, Wrapping
from windlass.tools.tool import Tool

MOST_CALLS: Final = 50

Consent = Callable[..., Any]
ToolSink = Callable[[JsonObject], Any]


class WithConsent(ToolLayer):
    """The layer of `with_consent`."""

    name = "with_consent"

    def __init__(self, consent: Consent) -> None:
        self.consent = consent


class WithRateLimit(ToolLayer):
    """The layer of `with_rate_limit`."""

    name = "with_rate_limit"

    def __init__(self, max_calls: int, message: str | None) -> None:
        self.max_calls, self.message = max_calls, message


class WithDryRun(Wrapping):
    """The layer of `with_dry_run`."""

    name = "with_dry_run"

    def __init__(self, tools: tuple[str, ...] | None, answer: str | Callable[..., Any] | None):
        self.tools, self.answer = tools, answer

    def wrap(self, tool: Tool) -> Tool:
        """Wrap the tool in a dry run, if it is one of those selected."""
        meant = changes_something(tool) if self.tools is None else tool.name in self.tools
        return DryRun(tool, self.answer) if meant else tool


class WithSink(ToolLayer):
    """The layer of `with_audit_sink`, `with_telemetry` and `with_handoff_sink`."""

    def __init__(self, kind: Literal["audit_sink", "telemetry", "handoff_sink"], sink: ToolSink):
        self.kind, self.sink = kind, sink
        self.name = f"with_{kind}"


def with_consent(consent: Consent) -> ToolLayer:
    """Call `consent(call)` before each tool call, to allow or deny it.

    `with_consent(lambda call: call.kind == "read")`. It may be async. `True` allows the call;
    `False`, `{"allow": False, "reason": …}` and anything else deny it; `"ask"` parks the run until
    a person decides (`agent.resume(id, decisions={call_id: True})`). Every answer is recorded with
    the rule `Consent`.
    """
    return WithConsent(_function("with_consent", consent))


def with_rate_limit(
    options: Mapping[str, Any] | None = None,
    /,
    *,
    max_calls: int = MOST_CALLS,
    message: str | None = None,
) -> ToolLayer:
    """Limit a run to `max_calls` tool calls; further calls are answered with `message`.

    `with_rate_limit(max_calls=20)` or `with_rate_limit({"max_calls": 20})`. For model calls there
    is `windlass.callers.with_rate_limit`.
    """
    given = _merge_options("with_rate_limit", options, max_calls=max_calls, message=message)
    most, text = given["max_calls"], given["message"]
    if isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= 10**12:
        raise ConfigError(f"max_calls is a whole number of at least 0, not {safe_repr(most)}")
    if text is not None and (not isinstance(text, str) or not text.strip()):
        raise ConfigError(f"message is a text that is not empty, not {safe_repr(text)}")
    return WithRateLimit(most, text)


def with_dry_run(
    options: Mapping[str, Any] | None = None,
    /,
    *,
    tools: Sequence[str] | None = None,
    answer: str | Callable[..., Any] | None = None,
) -> ToolLayer:
    """Do not run tools that change something; tell the model which call was not made.

    `tools` selects tools by name; `answer` is what the model reads, a text or a function of the
    call: `with_dry_run(tools=["deploy"], answer=lambda call: f"deployed
    {call.arguments['service']}")`.
    """
    given = _merge_options("with_dry_run", options, tools=tools, answer=answer)
    names, given_answer = given.values()
    if names is not None:
        listed = cast("Sequence[Any]", names if isinstance(names, (list, tuple)) else (None,))
        if not all(isinstance(name, str) and name for name in listed):
            raise ConfigError(
                f"tools is a list of tools' names, not {safe_repr(cast('Any', names))}"
            )
        names = tuple(listed)
    if (
        given_answer is not None
        and not isinstance(given_answer, str)
        and not callable(given_answer)
    ):
        raise ConfigError(
            f"answer is a text or a function of the call, not {safe_repr(given_answer)}"
        )
    return WithDryRun(names, cast("Any", given_answer))


def with_audit_sink(sink: ToolSink) -> ToolLayer:
    """Pass a receipt of every tool call to `sink(record)`: `with_audit_sink(receipts.append)`.

    A receipt has the caller, the call, the rule that decided, and the outcome, without secrets. The
    next turn waits for an async sink, unless `prefetch_next_turn` is on.
    """
    return WithSink("audit_sink", _function("with_audit_sink", sink))


def with_telemetry(sink: ToolSink) -> ToolLayer:
    """Report to `sink(record)` when a tool call starts and ends, with names and times only.

    `with_telemetry(lambda record: metrics.add(record["tool"], record.get("duration_ms")))`
    """
    return WithSink("telemetry", _function("with_telemetry", sink))


def with_handoff_sink(sink: ToolSink) -> ToolLayer:
    """Report to `sink(record)` when the run parks, or ends without being done.

    `with_handoff_sink(lambda record: page(record["reason"], record["pending"]))`; a call of a tool
    of the kind `handoff` is reported as well.
    """
    return WithSink("handoff_sink", _function("with_handoff_sink", sink))


def _function(door: str, value: object) -> Any:
    if not callable(value) or isinstance(value, type):
        raise ConfigError(f"{door} takes a function, not {safe_repr(value)}")
    return value


def _merge_options(door: str, options: object, **named: Any) -> JsonObject:
    if options is None:
        return named
    if not is_mapping(options):
        raise ConfigError(
            f"{door} takes its options by name or as a dict, not {safe_repr(options)}"
        )
    given = options
    for name in given:
        if name not in named:
            hint = nearest(name, named) if isinstance(as_given(name), str) else ""
            raise ConfigError(f"{door} has no option {safe_repr(name)}{hint}")
    return {**named, **given}
