"""The option `transcript_projection`: what leaves the view because it is not needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.options.checks import function, number, one_of, optional, text, texts
from windlass.options.group import Option, OptionGroup, OptionStruct, struct

POLICIES: Final = (
    "clean_tool_repair",
    "squash_failed_calls",
    "summary_prefix",
    "reachability_gc",
    "custom",
)
_check_policy = one_of(*POLICIES)
_check_amount = optional(number(0, whole=True))


class TranscriptProjection(OptionStruct, frozen=True, kw_only=True):
    """What leaves the view: `TranscriptProjection(policy="reachability_gc")`.

    A key that the policy does not use is a `ConfigError`.
    """

    policy: Annotated[str, Option(_check_policy)]
    """What leaves the view."""
    keep_last: Annotated[int | None, Option(_check_amount)] = None
    """Messages at the end that stay as they are."""
    min_tokens: Annotated[int | None, Option(_check_amount)] = None
    """The least number of tokens that must leave for the view to be changed."""
    min_chars: Annotated[int | None, Option(_check_amount)] = None
    """`reachability_gc`: results with fewer characters stay."""
    window_turns: Annotated[int | None, Option(optional(number(1, whole=True)))] = None
    """`reachability_gc`: turns between two runs of it, without a scratchpad."""
    roots: Annotated[tuple[str, ...] | None, Option(optional(texts))] = None
    """`reachability_gc`: further texts that keep a result if they mention it."""
    summary: Annotated[str | None, Option(optional(text))] = None
    """`summary_prefix`: the notes, in your words."""
    project: Annotated[Callable[..., Any] | None, Option(function, aliases=("projector",))] = None
    """`custom`: a function `(messages, context) -> list`."""


#: The keys of each policy with their defaults.
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "clean_tool_repair": {"min_tokens": 0},
    "squash_failed_calls": {"keep_last": 4, "min_tokens": 0},
    "summary_prefix": {"keep_last": 10, "min_tokens": 2_000, "summary": None},
    "reachability_gc": {
        "keep_last": 8,
        "min_tokens": 500,
        "min_chars": 500,
        "window_turns": 5,
        "roots": (),
    },
    "custom": {"project": None},
}


def with_defaults(given: TranscriptProjection) -> TranscriptProjection:
    """Fill in the defaults of its policy."""
    usual = DEFAULTS[given.policy]
    missing = {key: value for key, value in usual.items() if getattr(given, key) is None}
    return msgspec.structs.replace(given, **missing)


_check_struct = struct(TranscriptProjection, flag=False)


def _check_projection(name: str, value: Any) -> TranscriptProjection | None:
    if isinstance(value, str):
        value = {"policy": _check_policy(name, value)}
    if isinstance(value, Mapping) and "policy" not in value:
        known = ", ".join(map(repr, POLICIES))
        raise ConfigError(
            f"{name} needs a policy: one of {known}, not {safe_repr(cast('Any', value))}"
        )
    given: TranscriptProjection | None = _check_struct(name, value)
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


class ProjectionOptions(OptionGroup, frozen=True, kw_only=True):
    """Projection: messages that are left out of requests."""

    transcript_projection: Annotated[
        TranscriptProjection | None,
        Option(_check_projection, accepts="str | dict[str, Any] | TranscriptProjection | None"),
    ] = None
    """Which messages leave the view, and how."""
