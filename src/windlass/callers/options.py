"""Options of the callers: by name or as a dict, checked before any model call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import is_mapping

P = ParamSpec("P")
Made = TypeVar("Made", covariant=True)

#: Every category of model error that a caller can handle.
CATEGORIES = (
    "rate_limit",
    "overloaded",
    "server_error",
    "timeout",
    "network",
    "bad_reply",
    "auth",
    "quota",
    "bad_request",
    "context_overflow",
    "refused",
    "circuit_open",
    "model_error",
)


class Door(Protocol[P, Made]):
    """A function of options that takes them as a dict as well."""

    @overload
    def __call__(self, options: Mapping[str, Any], /) -> Made: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Made: ...


def takes_a_dict(make: Callable[P, Made]) -> Door[P, Made]:
    """Accept options also as a dict: `with_retry({"max_attempts": 4})`; check the keys."""
    code = cast("Any", make).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    door = cast("Any", make).__name__

    @functools.wraps(make)
    def build(*args: Any, **options: Any) -> Any:
        if len(args) == 1 and is_mapping(args[0]):
            options, args = {**args[0], **options}, ()
        for name in options:
            if name not in names:
                hint = nearest(name, names) if isinstance(cast("Any", name), str) else ""
                raise ConfigError(f"{door} has no option {safe_repr(name)}{hint}")
        if len(args) > code.co_argcount:
            raise ConfigError(
                f"{door} takes its options by name or as a dict, not {safe_repr(args)}"
            )
        for name in names[: code.co_argcount][len(args) :]:
            if name not in options and name in _required_names(make):
                raise ConfigError(f"{door} needs {name}")
        return make(*args, **options)  # pyright: ignore[reportCallIssue]

    return cast("Door[P, Made]", build)


def _required_names(make: Any) -> tuple[str, ...]:
    code, defaults = make.__code__, make.__defaults__ or ()
    return code.co_varnames[: code.co_argcount - len(defaults)]


def number(name: str, value: object, low: float = 0, high: float = 10**12) -> float:
    """Check a number, or raise a `ConfigError` that names the option."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ConfigError(f"{name} is a number of at least {low:g}, not {safe_repr(value)}")
    return float(value)


def whole(name: str, value: object, low: int = 1) -> int:
    """Check a whole number, or raise a `ConfigError` that names the option."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 10**12:
        raise ConfigError(f"{name} is a whole number of at least {low}, not {safe_repr(value)}")
    return int(value)


def function(name: str, value: object) -> Any:
    """Check that a value is callable or None."""
    if value is not None and not callable(value):
        raise ConfigError(f"{name} is a function, not {safe_repr(value)}")
    return value


def categories(name: str, value: object) -> frozenset[str]:
    """Check categories of errors: `["rate_limit", "timeout"]`."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(f"{name} is a list of error categories, not {safe_repr(value)}")
    given = list(cast("Iterable[Any]", value))
    for one in given:
        if one not in CATEGORIES:
            hint = nearest(one, CATEGORIES) if isinstance(one, str) else ""
            raise ConfigError(f"{name}: there is no error category {safe_repr(one)}{hint}")
    return frozenset(given)
