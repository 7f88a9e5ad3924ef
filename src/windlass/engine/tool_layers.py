"""The options of what stands around tool calls: policies, tools around tools, and watchers.

What may say no, or wait for a person, is a policy, so that its decision is on record before the call
runs; how a call runs is a tool around the tool; what only watches is a sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, cast

from windlass.callers.caller import Layer
from windlass.engine.tool_options import ToolOptions
from windlass.errors import ConfigError, safe_repr
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.sinks import Watcher
from windlass.observe.tool_sinks import Receipts, watcher_of
from windlass.options.checks import boolean, function, number
from windlass.options.group import Check, Flag, Option, OptionGroup, Values
from windlass.policies.authority.consent import Consent
from windlass.policies.build import BuildContext, Policies
from windlass.policies.call_limit import CallLimit
from windlass.tools.middleware.layers import (
    WithConsent,
    WithDryRun,
    WithRateLimit,
    WithSink,
    with_audit_sink,
    with_consent,
    with_dry_run,
    with_handoff_sink,
    with_rate_limit,
    with_telemetry,
)
from windlass.tools.middleware.retry import Retrying
from windlass.tools.middleware.stack import (
    ToolCaller,
    ToolLayer,
    Wrapping,
    as_tool_caller,
    default_tool_caller,
)
from windlass.tools.tool import Tool


def _check_tool_caller(name: str, value: Any) -> ToolCaller | None:
    if value is None:
        return None
    if isinstance(value, Layer):  # compose([…]) of functions alone can be either kind
        value = cast("Any", value)(default_tool_caller())
    try:
        return as_tool_caller(value)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _check_layer(kind: type[ToolLayer], make: Callable[..., Any], *, flag: bool) -> Check:
    """Return a check for a layer or its dict; with `flag`, True gives the default layer."""

    def check(name: str, value: Any) -> Any:
        if value is None or (flag and value is False):
            return None
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping) and not (flag and value is True):
            raise ConfigError(f"{name} is a dict{' or True' * flag}, not {safe_repr(value)}")
        try:
            return make() if value is True else make(value)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None

    return check


_check_rehearsal = _check_layer(WithDryRun, with_dry_run, flag=True)


def _check_dry_run(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if value == "plan":
            return value  # the policy of previews: `policies/preview`
        raise ConfigError(f'{name} is True, a dict or "plan", not {safe_repr(value)}')
    return _check_rehearsal(name, value)


class ToolLayerOptions(OptionGroup, frozen=True, kw_only=True):
    """Middleware around tool calls: consent, rate limit, dry run."""

    audit_sink: Annotated[Callable[..., Any] | None, Option(function)] = None
    """A function that gets a receipt of each tool call."""
    telemetry: Annotated[Callable[..., Any] | None, Option(function)] = None
    """A function that gets names and times of each tool call."""
    handoff_sink: Annotated[Callable[..., Any] | None, Option(function)] = None
    """A function that gets runs that park or end not done, and calls of handoff tools."""
    consent: Annotated[Callable[..., Any] | None, Option(function)] = None
    """A function that is called before each tool call and allows or denies it."""
    rate_limit: Annotated[
        WithRateLimit | None,
        Option(
            _check_layer(WithRateLimit, with_rate_limit, flag=False),
            accepts="dict[str, Any] | ToolLayer | None",
        ),
    ] = None
    """The most tool calls of a run: `{"max_calls": 50}`."""
    dry_run: Annotated[
        WithDryRun | Literal["plan"] | None,
        Option(
            _check_dry_run,
            accepts='bool | Literal["plan"] | dict[str, Any] | ToolLayer | None',
            flags=(
                Flag(
                    names=("--preview",),
                    value="plan",
                    begins=True,
                    words="Only look: effects go into a plan (`windlass plan show`) and do not happen.",
                ),
            ),
        ),
    ] = None
    """Whether tools that change something are not run; `"plan"`: make a plan of their effects."""
    tool_caller: Annotated[
        ToolCaller | None, Option(_check_tool_caller, accepts="Callable[..., Any] | None")
    ] = None
    """Middleware around each tool call: `compose([…])(default_tool_caller())`."""
    tool_retries: Annotated[int, Option(number(0, 100, whole=True))] = 0
    """Retries of a failed tool call."""
    tool_backoff_ms: Annotated[float, Option(number(0, 3_600_000))] = 1000
    """Milliseconds before the first retry of a tool call."""
    prefetch_next_turn: Annotated[bool, Option(boolean)] = False
    """Whether the next turn begins before the receipts of the last are delivered."""

    def layers(self) -> Iterator[ToolLayer]:
        """Yield all layers, the outermost first; the tool caller's come last."""
        if self.audit_sink is not None:
            yield with_audit_sink(self.audit_sink)
        if self.telemetry is not None:
            yield with_telemetry(self.telemetry)
        if self.handoff_sink is not None:
            yield with_handoff_sink(self.handoff_sink)
        if self.consent is not None:
            yield with_consent(self.consent)
        if self.rate_limit is not None:
            yield self.rate_limit
        if isinstance(self.dry_run, WithDryRun):
            yield self.dry_run
        if self.tool_caller is not None:
            yield from self.tool_caller.layers


def build(ctx: BuildContext) -> Policies:
    """Build the policies that may refuse a call or limit their number."""
    policies: list[Policy[Any]] = []
    for layer in ToolLayerOptions.read(ctx.values).layers():
        if isinstance(layer, WithConsent):
            policies.append(Consent(layer.consent, _free_name("Consent", policies)))
        elif isinstance(layer, WithRateLimit):
            name = _free_name("RateLimit", policies)
            policies.append(CallLimit(layer.max_calls, layer.message, name))
    return policies


def build_receipts(ctx: BuildContext) -> Policies:
    """Build the policy that waits for receipts, where there are any."""
    options = ToolLayerOptions.read(ctx.values)
    if options.prefetch_next_turn:
        return ()
    sinks = [layer for layer in options.layers() if isinstance(layer, WithSink)]
    return (Receipts(),) if any([sink.kind == "audit_sink" for sink in sinks]) else ()


def build_watchers(values: Values) -> tuple[Callable[[Run], Watcher], ...]:
    """Build what only watches tool calls."""
    layers = ToolLayerOptions.read(values).layers()
    return tuple([watcher_of(layer) for layer in layers if isinstance(layer, WithSink)])


def wrap_tools(values: Values, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Return the tools as they will run: tried again, rehearsed, behind a function."""
    options = ToolLayerOptions.read(values)
    if options.tool_retries:
        timeout = ToolOptions.read(values).tool_timeout
        tools = tuple([_with_retries(tool, options, timeout) for tool in tools])
    wraps = [layer for layer in options.layers() if isinstance(layer, Wrapping)]
    for layer in reversed(wraps):
        tools = tuple([layer.wrap(tool) for tool in tools])
    return tools


def _with_retries(tool: Tool, options: ToolLayerOptions, timeout: float | None) -> Tool:
    if tool.handler is None:
        return tool  # the host runs it, and the host tries again
    return Retrying(tool, options.tool_retries, options.tool_backoff_ms / 1000, timeout)


def _free_name(name: str, policies: list[Policy[Any]]) -> str:
    """Return the name, or the next one that no policy has."""
    taken, free, count = {policy.name for policy in policies}, name, 1
    while free in taken:
        count += 1
        free = f"{name}{count}"
    return free
