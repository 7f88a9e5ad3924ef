"""The options of how tool calls run and who watches them, with what each accepts. No behaviour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, cast

from windlass.engine.profiles import PROFILES
from windlass.errors import ConfigError, safe_repr
from windlass.options.checks import (
    boolean,
    function,
    no_key,
    number,
    one_of,
    optional,
    text,
)
from windlass.policies.progress import ProgressTool
from windlass.tools.middleware.layers import (
    WithDryRun,
    WithRateLimit,
    with_dry_run,
    with_rate_limit,
)
from windlass.tools.middleware.stack import (
    ToolCaller,
    ToolLayer,
    as_tool_caller,
    default_tool_caller,
)
from windlass.tools.tool import NAME


class CallingOptions(TypedDict, total=False):
    """How tool calls run, who may refuse them, who watches."""

    profile: str
    schema_retries: int
    tool_retries: int
    tool_backoff_ms: float
    tool_caller: Callable[..., Any] | None
    consent: Callable[..., Any] | None
    rate_limit: dict[str, Any] | ToolLayer | None
    dry_run: bool | Literal["plan"] | dict[str, Any] | ToolLayer | None
    audit_sink: Callable[..., Any] | None
    telemetry: Callable[..., Any] | None
    handoff_sink: Callable[..., Any] | None
    prefetch_next_turn: bool
    progress_tool: bool | dict[str, Any] | ProgressTool
    llm_transcript_dir: str | None


def _tool_caller(name: str, value: Any) -> ToolCaller | None:
    if value is None:
        return None
    from windlass.callers.caller import Layer

    if isinstance(value, Layer):  # compose([…]) of functions alone can be either kind
        value = cast("Any", value)(default_tool_caller())
    try:
        return as_tool_caller(value)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _layer(kind: type[ToolLayer], make: Callable[..., Any], *, flag: bool) -> Any:
    """An option that is a layer or its dict; with `flag`, True is the layer with all defaults."""

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


_rehearsed: Any = _layer(WithDryRun, with_dry_run, flag=True)


def _dry_run(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if value == "plan":
            return value  # a policy's: see `authority/preview.py`
        raise ConfigError(f'{name} is True, a dict or "plan", not {safe_repr(value)}')
    return _rehearsed(name, value)


def _tool_name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ConfigError(
            f"{name} has 1 to 128 letters, digits and `_ - . :`, not {safe_repr(value)}"
        )
    return value


def _nudge(name: str, value: Any) -> str | None:
    return None if value is None or value is False or value == "" else text(name, value)


_PROGRESS: dict[str, Callable[[str, Any], Any]] = {
    "name": _tool_name,
    "description": text,
    "system_prompt_nudge": _nudge,
}


def _progress(name: str, value: Any) -> ProgressTool | None:
    if value is None or isinstance(value, bool):
        return ProgressTool() if value else None
    if isinstance(value, ProgressTool):
        value = {field: getattr(value, field) for field in value.__struct_fields__}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{name} is True, False, a dict or a ProgressTool, not {safe_repr(value)}"
        )
    fields: dict[str, Any] = {}
    for key, given in cast("Mapping[Any, Any]", value).items():
        if key not in _PROGRESS:
            raise no_key(name, key, _PROGRESS)
        fields[key] = _PROGRESS[key](f"{name}.{key}", given)
    return ProgressTool(**fields)


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "profile": optional(one_of(*PROFILES)),
    "schema_retries": number(0, 100, whole=True),
    "tool_retries": number(0, 100, whole=True),
    "tool_backoff_ms": number(0, 3_600_000),
    "tool_caller": _tool_caller,
    "consent": function,
    "rate_limit": _layer(WithRateLimit, with_rate_limit, flag=False),
    "dry_run": _dry_run,
    "audit_sink": function,
    "telemetry": function,
    "handoff_sink": function,
    "prefetch_next_turn": boolean,
    "progress_tool": _progress,
    "llm_transcript_dir": optional(text),
}
