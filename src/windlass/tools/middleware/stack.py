"""Tool callers: the layers around one tool call, the outermost first.

A layer only describes: who assembles a run makes a policy of what may say no, a tool around a tool
of how a call runs, and a sink of what only watches.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from windlass.errors import ConfigError, safe_repr
from windlass.messages import ToolResult
from windlass.tools.middleware.function import Behind, run_next
from windlass.tools.tool import Parked, Tool


class ToolCaller:
    """Middleware around tool calls: `agent_loop(…, tool_caller=caller)`."""

    __slots__ = ("layers",)

    def __init__(self, layers: Sequence[ToolLayer] = ()) -> None:
        self.layers = tuple(layers)

    async def __call__(self, call: Mapping[str, Any]) -> ToolResult | Parked:
        """Run the call that your function is asked about."""
        for layer in self.layers:
            if not isinstance(layer, Wrapping):
                raise ConfigError(
                    f"{layer.name} inside a function is not seen: use compose([…, {layer.name}(…)])"
                )
        return await run_next(call, self._wrap)

    def _wrap(self, tool: Tool) -> Tool:
        for layer in reversed(self.layers):
            assert isinstance(layer, Wrapping)
            tool = layer.wrap(tool)
        return tool

    def __repr__(self) -> str:
        held = "default_tool_caller()"
        for layer in reversed(self.layers):
            held = f"{layer.name}({held})"
        return held


class ToolLayer:
    """One layer around a tool call; called with a tool caller or a function, it wraps that."""

    name = "layer"

    def __call__(self, inner: ToolCaller | Callable[..., Any]) -> ToolCaller:
        """Wrap a tool caller: `with_consent(ask)(default_tool_caller())`."""
        return ToolCaller((self, *as_tool_caller(inner).layers))


class Wrapping(ToolLayer):
    """A layer that defines how a call runs."""

    def wrap(self, tool: Tool) -> Tool:
        """Wrap the tool in this layer."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to wrap a tool")


class Function(Wrapping):
    """A function of the user's own: `function(call)`, or `function(call, next)`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function if not _takes_next(function) else _with_next(function)
        self.name = getattr(function, "__name__", "function")

    def wrap(self, tool: Tool) -> Tool:
        """Wrap the tool in the function; a tool that the host runs stays the host's."""
        return tool if tool.handler is None else Behind(tool, self.function)


class Stack(ToolLayer):
    """Several layers as one."""

    name = "compose"

    def __init__(self, layers: Sequence[Callable[..., Any]]) -> None:
        self.layers = tuple(layers)

    def __call__(self, inner: ToolCaller | Callable[..., Any]) -> ToolCaller:
        caller = as_tool_caller(inner)
        for layer in reversed(self.layers):
            if isinstance(layer, ToolLayer):
                caller = layer(caller)
            else:  # a function of the next caller: what it makes goes around what is there
                caller = ToolCaller((Function(_build_caller(layer)), *caller.layers))
        return caller


def default_tool_caller() -> ToolCaller:
    """Return the plain call of the tool, the innermost part of every composition.

    ```python
    caller = compose([with_consent(ask), with_audit_sink(receipts.append)])(default_tool_caller())
    result = await w.agent_loop("…", tools=tools, tool_caller=caller)
    ```
    """
    return ToolCaller()


def as_tool_caller(given: object) -> ToolCaller:
    """Convert a caller, a `with_…(…)` alone, or a function of a call to a tool caller."""
    if isinstance(given, ToolCaller):
        return given
    if isinstance(given, ToolLayer):
        return given(ToolCaller())
    about_models = hasattr(given, "around") or hasattr(given, "respond")
    if isinstance(given, (type, Tool)) or about_models or not callable(given):
        raise ConfigError(
            "a tool_caller is a function of a call or compose([…])(default_tool_caller()), "
            f"not {safe_repr(given)}"
        )
    return ToolCaller((Function(given),))


def _build_caller(layer: Callable[..., Any]) -> Callable[..., Any]:
    made: object = layer(run_next)
    if isinstance(made, ToolCaller) or not callable(made):
        raise ConfigError(
            f"a layer is a function of the next caller that returns a caller, not {safe_repr(made)}"
        )
    return made


def _takes_next(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # it has no signature to look at
        return False
    return True


def _with_next(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda call: function(call, run_next)
