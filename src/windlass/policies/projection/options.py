"""The options of projection, callbacks and decorators, and the policies that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

from windlass.errors import ConfigError, safe_repr
from windlass.loop.policy import Policy
from windlass.options.checks import (
    boolean,
    check_struct,
    function,
    number,
    one_of,
    optional,
    text,
    texts,
)
from windlass.policies.build import About
from windlass.policies.projection.settings import (
    DEFAULTS,
    POLICIES,
    TranscriptProjection,
    with_defaults,
)


class ShapingOptions(TypedDict, total=False):
    """How messages are shown."""

    transcript_projection: str | dict[str, Any] | TranscriptProjection
    context_callback: Callable[..., Any]
    context_filter: Callable[..., Any]
    message_decorator: Callable[..., Any]
    timestamp_messages: bool


_Check = Callable[[str, Any], Any]
_policy: _Check = one_of(*POLICIES)
_COUNT: _Check = optional(number(0, whole=True))
_fields: _Check = check_struct(
    TranscriptProjection,
    {
        "policy": _policy,
        "keep_last": _COUNT,
        "min_tokens": _COUNT,
        "min_chars": _COUNT,
        "window_turns": optional(number(1, whole=True)),
        "roots": optional(texts),
        "summary": optional(text),
        "project": function,
    },
    {"projector": "project"},
    flag=False,
)


def _projection(name: str, value: Any) -> TranscriptProjection | None:
    if isinstance(value, str):
        value = {"policy": _policy(name, value)}
    if isinstance(value, Mapping) and "policy" not in value:
        known = ", ".join(map(repr, POLICIES))
        raise ConfigError(
            f"{name} needs a policy: one of {known}, not {safe_repr(cast('Any', value))}"
        )
    given: TranscriptProjection | None = _fields(name, value)
    if given is None:
        return None
    for key in given.__struct_fields__:
        if (
            key != "policy"
            and getattr(given, key) is not None
            and key not in DEFAULTS[given.policy]
        ):
            takes = ", ".join(DEFAULTS[given.policy])
            raise ConfigError(
                f"{name}.{key} means nothing to {given.policy!r}, which takes {takes}"
            )
    if given.policy == "custom" and given.project is None:
        raise ConfigError(
            f'{name}: policy "custom" needs a function as project: (messages, context) -> list'
        )
    return with_defaults(given)


CHECKS: dict[str, _Check] = {
    "transcript_projection": _projection,
    "context_callback": function,
    "context_filter": function,
    "message_decorator": function,
    "timestamp_messages": boolean,
}


def policies(about: About) -> list[Policy[Any]]:
    """The policies that these options ask for: each shapes what the one before it leaves."""
    options, chosen = about.options, list[Policy[Any]]()
    if (projection := options.get("transcript_projection")) is not None:
        chosen.append(_projecting(projection))
    both = [name for name in ("context_callback", "context_filter") if options.get(name)]
    if len(both) == 2:
        raise ConfigError("context_callback and context_filter are the same: give one of them")
    for name in both:
        from windlass.policies.context_callback import ContextCallback

        chosen.append(ContextCallback(options[name], name))
    decorator, stamps = options.get("message_decorator"), options.get("timestamp_messages", False)
    if decorator is not None or stamps:  # last: what is shown at the end is what is decorated
        from windlass.policies.decorators import Decorating

        chosen.append(Decorating(decorator, timestamps=stamps))
    return chosen


def _projecting(projection: TranscriptProjection) -> Policy[Any]:
    if projection.project is not None:
        from windlass.policies.projection.custom import CustomProjection

        return CustomProjection(projection.project)
    from windlass.policies.projection.policy import Projection

    return Projection(projection)
