"""Helpers of callers: other models, and sizes and digests of requests."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from windlass.callers.caller import Caller, Layer, as_caller
from windlass.callers.scope import scope_of
from windlass.errors import ConfigError, safe_repr
from windlass.loop.reply import cost_of
from windlass.messages import Message
from windlass.models.base import Model, Request, Response, pieces
from windlass.models.estimates import fill_usage, weigh_frame
from windlass.models.wrappers.adapt import AdaptedModel
from windlass.usage import NO_USAGE

#: Another model: by name, as an object, or as a caller around the run's own.
Other: TypeAlias = "str | Model | Caller | Layer | Callable[..., object]"


def other(name: str, given: object) -> Callable[[Model], Model]:
    """Build a function that makes the other model from the run's own; check it now."""
    if isinstance(given, str):
        from windlass.models.registry.providers import resolve

        found = resolve(given)
        return lambda model: _fitting(found, model)
    if isinstance(given, Model):
        return lambda model: _fitting(given, model)
    if given is None or isinstance(given, type) or not callable(given):
        raise ConfigError(f"{name} is a model's name, a Model or a caller, not {safe_repr(given)}")
    return as_caller(given).around


def _fitting(model: Model, like: Model) -> Model:
    """Return a model that takes the requests of another.

    Where that has native tools and this has none, calls are written as text; what is meant for the
    other provider alone is left out.
    """
    alike = model.provider == like.provider and model.capabilities == like.capabilities
    text = like.native_tools and not model.native_tools
    if not alike:
        model = AdaptedModel(model, like)
    if text:
        from windlass.models.wrappers.text_tools import TextTools

        return TextTools(model)
    return model


def with_price(
    model: Model, request: Request, response: Response, via: str | None = None
) -> Response:
    """Fill in the name, usage and price of the model that replied."""
    response = fill_usage(model, request, response)
    usage = response.usage
    if usage.cost_usd is None and usage is not NO_USAGE:
        usage = msgspec.structs.replace(usage, cost_usd=cost_of(model, usage))
    return msgspec.structs.replace(
        response,
        usage=usage,
        provider=response.provider or model.provider,
        model=response.model or model.name,
        via=response.via or via,
    )


def who(model: Model) -> str:
    """Return the model's name with its provider's."""
    return f"{model.provider}:{model.name}"


_encode = msgspec.json.Encoder().encode


def _bytes(message: Message) -> bytes:
    try:
        return _encode(message) + b"\n"
    except (TypeError, ValueError, RecursionError, OverflowError):
        return repr(message).encode("utf-8", "backslashreplace")


def tokens_of(request: Request) -> int:
    """Estimate the tokens of a request: a quarter of its bytes, each message counted once."""
    size = weigh_frame(request.frame) + sum(map(len, pieces(request.messages, "plain", _bytes)))
    size += sum(len(_bytes(message)) for message in request.tail)
    return size // 4 + 1


def digest(model: Model, request: Request) -> str:
    """Compute the digest of a request, its model and scope; delivery settings do not count."""
    settings = msgspec.structs.replace(request.settings, stream=True, timeout=None)
    state = blake2b(digest_size=24)
    head = (scope_of(model), request.system, request.tools, settings)
    try:
        state.update(_encode(head))
    except (TypeError, ValueError, RecursionError, OverflowError):
        state.update(repr(head).encode("utf-8", "backslashreplace"))
    for piece in pieces(request.messages, "plain", _bytes):
        state.update(piece)
    state.update(b"\n\n")
    for message in request.tail:
        state.update(_bytes(message))
    return state.hexdigest()
