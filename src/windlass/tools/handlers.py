"""Facts about a handler, without running it, and a copy of its arguments."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, Final, cast

from windlass.errors import ConfigError
from windlass.json_types import JsonObject

_NESTED: Final = frozenset({dict, list})


def own(arguments: JsonObject) -> JsonObject:
    """Copy the arguments, which are recorded, so that a handler may change them."""
    if _NESTED.isdisjoint(map(type, arguments.values())):  # as most are
        return arguments.copy()
    return {key: _copy(value) for key, value in arguments.items()}


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy(item) for key, item in cast("dict[Any, Any]", value).items()}
    if type(value) is list:
        return [_copy(item) for item in cast("list[Any]", value)]
    return value


def plain_function(handler: Any) -> Any:
    """Return the function behind partials, bound methods, objects and `functools.wraps`."""
    for _ in range(64):
        if isinstance(handler, functools.partial):
            handler = cast("functools.partial[Any]", handler).func
        elif inspect.ismethod(handler):
            handler = handler.__func__
        elif hasattr(handler, "__wrapped__"):
            handler = handler.__wrapped__
        elif inspect.isroutine(handler) or isinstance(handler, type):
            break
        else:
            handler = type(handler).__call__
    return handler


def is_async(handler: Callable[..., Any]) -> bool:
    """Check whether calling it returns an awaitable."""
    if inspect.iscoroutinefunction(handler):
        return True
    if isinstance(handler, functools.partial):
        return is_async(handler.func)
    return not inspect.isroutine(handler) and inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - its kind is asked, not whether it is there
    )


def parameters_of(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters in order, also with unresolvable annotations."""
    extra: JsonObject = {}
    if sys.version_info >= (3, 14):
        import annotationlib

        extra["annotation_format"] = annotationlib.Format.FORWARDREF
    return list(inspect.signature(fn, **extra).parameters.values())


def takes_context(handler: Callable[..., Any], label: str) -> bool:
    """Check whether a handler is `fn(args, ctx)` rather than `fn(args)`."""
    try:
        parameters = parameters_of(handler)
    except (ValueError, TypeError):  # a builtin without a signature
        return False
    positional = [
        one
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL)
    ]
    needed = [one for one in positional if one.default is one.empty]
    needed = [one for one in needed if one.kind is not one.VAR_POSITIONAL]
    by_name = [one for one in parameters if one.kind is one.KEYWORD_ONLY]
    if not positional or len(needed) > 2 or any(one.default is one.empty for one in by_name):
        raise ConfigError(
            f"{label}: handler is fn(args) or fn(args, ctx), where args is the dict of arguments; "
            "for a function with a parameter for each argument use @windlass.tool"
        )
    return len(needed) == 2 or (len(positional) > 1 and positional[1].name in ("ctx", "context"))
