"""The option `context_strategy`, in place of compaction: a window, a summary, a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.models.base import Model
from windlass.options.checks import check_struct, no_key, number, one_of
from windlass.options.group import Check, Option, OptionGroup
from windlass.policies.model_check import check_model
from windlass.records import NamedFields


class SlidingWindow(msgspec.Struct, metaclass=NamedFields, frozen=True, kw_only=True):
    """Show the first message and the last turns: `SlidingWindow(max_turns=8)`; 0 or less: all."""

    max_turns: int


class Summarize(msgspec.Struct, metaclass=NamedFields, frozen=True, kw_only=True):
    """Summarise the older half above a number of tokens: `Summarize(max_tokens=20_000)`."""

    max_tokens: int
    summary_model: str | Model | None = None  # the agent's own


class CustomStrategy(msgspec.Struct, metaclass=NamedFields, frozen=True, kw_only=True):
    """Build the view with a function: `CustomStrategy(compress=lambda messages, tokens: …)`."""

    compress: Callable[..., Any]


#: How a conversation is kept short, in the manner of a runner.
ContextStrategy: TypeAlias = SlidingWindow | Summarize | CustomStrategy


def _check_function(name: str, value: Any) -> Any:
    if not callable(value):
        raise ConfigError(f"{name} is a function, not {safe_repr(value)}")
    return value


_FIELDS: dict[str, tuple[type[msgspec.Struct], dict[str, Check]]] = {
    "sliding-window": (SlidingWindow, {"max_turns": number(-(2**63), whole=True)}),
    "summarize": (
        Summarize,
        {"max_tokens": number(1, whole=True), "summary_model": check_model},
    ),
    "custom": (CustomStrategy, {"compress": _check_function}),
}
_check_type: Check = one_of(*_FIELDS)


def _check_strategy(name: str, value: Any) -> ContextStrategy | None:
    if value is None:
        return None
    for kind, fields in _FIELDS.values():
        if isinstance(value, kind):
            return check_struct(kind, fields, flag=False)(name, value)
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{name} is a dict with a type, or a ContextStrategy, not {safe_repr(value)}"
        )
    given = dict(cast("Mapping[Any, Any]", value))
    if "type" not in given:
        known = ", ".join(map(repr, _FIELDS))
        raise ConfigError(f"{name} has no type: give it one of {known}")
    chosen = _check_type(f"{name}.type", given.pop("type"))
    kind, fields = _FIELDS[chosen]
    for key in given:
        if key not in fields:
            raise _other_key(name, chosen, key, fields)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in given:
            raise ConfigError(f"{name} of type {chosen!r} needs {field.name}")
    return check_struct(kind, fields, flag=False)(name, given)


def _other_key(name: str, chosen: str, key: object, fields: Mapping[str, Check]) -> ConfigError:
    """Build the error for an unknown key, which may belong to another type."""
    for other, (_, keys) in _FIELDS.items():
        if isinstance(key, str) and key in keys:
            return ConfigError(f"{name}.{key} is of type {other!r}, and this is {chosen!r}")
    return no_key(name, key, ["type", *fields])


class StrategyOptions(OptionGroup, frozen=True, kw_only=True):
    """Context strategies: a sliding window, a summary, a function."""

    choice: ClassVar[str | None] = "context"

    context_strategy: Annotated[
        ContextStrategy | None,
        Option(
            _check_strategy,
            accepts="dict[str, Any] | SlidingWindow | Summarize | CustomStrategy | None",
        ),
    ] = None
    """A sliding window, summaries, or a function of yours, in place of compaction."""

    @property
    def replaces_compaction(self) -> bool:
        """Whether a strategy stands in place of compaction."""
        strategy = self.context_strategy
        is_off = isinstance(strategy, SlidingWindow) and strategy.max_turns <= 0
        return strategy is not None and not is_off
