"""LLM callers: functions of a call, and models around a model.

`compose([with_retry(), with_cache()])(default_llm_caller())` reads from the outside in: the retry
is around the cache, the cache is around the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from windlass.callers.contract import Answer, Function, ask
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import as_given
from windlass.models.base import Model
from windlass.tools.middleware.stack import Stack, ToolCaller, ToolLayer


class Caller:
    """An LLM caller: `agent_loop(…, llm_caller=caller)`, or `await caller(call)`."""

    def around(self, model: Model) -> Model:
        """Wrap the model in this caller."""
        return model

    async def __call__(self, call: Mapping[str, Any]) -> Answer:
        """Make the call and answer `{ok, value | status, error?}`."""
        return await ask(call, self.around)


class Layer:
    """One layer around a model call; called with a caller, a function or a model, it wraps it."""

    name = "layer"

    def wrap(self, model: Model) -> Model:
        """Wrap the model in this layer."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to wrap a model")

    @overload
    def __call__(self, inner: Model) -> Model: ...
    @overload
    def __call__(self, inner: Caller | Callable[..., Any]) -> Caller: ...
    def __call__(self, inner: object) -> Caller | Model:
        """Wrap a caller or a model: `with_retry()(default_llm_caller())`, `with_retry()(model)`."""
        if isinstance(inner, Model):
            return self.wrap(inner)
        return _LayeredCaller(self, as_caller(inner))


class _LayeredCaller(Caller):
    def __init__(self, layer: Layer, inner: Caller) -> None:
        self.layer, self.inner = layer, inner

    def around(self, model: Model) -> Model:
        return self.layer.wrap(self.inner.around(model))

    def __repr__(self) -> str:
        return f"{self.layer.name}({self.inner!r})"


class _Plain(Caller):
    """A function of the user's own as a caller."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def around(self, model: Model) -> Model:
        return Function(model, self.function)

    def __repr__(self) -> str:
        return safe_repr(self.function)


class _Default(Caller):
    def __repr__(self) -> str:
        return "default_llm_caller()"


class _ComposedLayer(Layer):
    name = "compose"

    def __init__(self, layers: Sequence[Callable[[Any], Any]]) -> None:
        self.layers = layers

    def wrap(self, model: Model) -> Model:
        return self(default_llm_caller()).around(model)

    def __call__(self, inner: object) -> Any:
        if isinstance(inner, Model):
            return self.wrap(inner)
        if isinstance(inner, ToolCaller):
            if (layer := _about_models(self.layers)) is not None:
                raise ConfigError(f"{layer.name} is about model calls, not about tool calls")
            return Stack(self.layers)(inner)
        caller = as_caller(inner)
        for layer in reversed(self.layers):
            caller = as_caller(layer(caller))
        return caller


def default_llm_caller() -> Caller:
    """Return the plain call of the run's model, the innermost part of every composition.

    ```python
    caller = compose([with_retry(max_attempts=4)])(default_llm_caller())
    result = await w.agent_loop("…", llm_caller=caller)
    ```
    """
    return _Default()


@overload
def compose(layers: Sequence[ToolLayer]) -> Stack: ...
@overload
def compose(layers: Sequence[Callable[[Any], Any]]) -> Layer: ...
def compose(layers: Sequence[Callable[[Any], Any]]) -> Layer | Stack:
    """Combine layers, the outermost first: `compose([with_retry(), with_cache()])`.

    A layer of your own is a function that takes the next caller and returns a caller. `compose`
    also combines layers around tool calls: `compose([with_consent(ask)])`. One list has layers of
    one kind.
    """
    if not isinstance(as_given(layers), (list, tuple)):
        raise ConfigError(f"compose takes a list of with_…(…), not {safe_repr(layers)}")
    for layer in layers:
        if not callable(layer) or isinstance(layer, (Caller, ToolCaller, Model, type)):
            raise ConfigError(
                f"compose takes with_…(…) or functions of the next caller, not {safe_repr(layer)}"
            )
    if any(isinstance(layer, ToolLayer) for layer in layers):
        if (other := _about_models(layers)) is not None:
            raise ConfigError(f"{other.name} is about model calls: compose those by themselves")
        return Stack(layers)
    return _ComposedLayer(tuple(layers))


def _about_models(layers: Sequence[object]) -> Layer | None:
    return next((layer for layer in layers if isinstance(layer, Layer)), None)


def as_caller(given: object) -> Caller:
    """Convert a caller, a function of a call, or a `with_…(…)` alone to a caller."""
    if isinstance(given, Caller):
        return given
    if isinstance(given, Layer):
        return given(default_llm_caller())
    if isinstance(given, (type, Model, ToolCaller, ToolLayer)) or not callable(given):
        raise ConfigError(
            f"an llm_caller is a function of a call or compose([…])(default_llm_caller()), "
            f"not {safe_repr(given)}"
        )
    return _Plain(given)
