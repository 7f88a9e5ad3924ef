"""`with_fallback`: other models, called in order when the first cannot answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from windlass.callers.caller import Layer
from windlass.callers.common import (
    Other,
    other,
    who,
    with_price,
)
from windlass.callers.options import categories, takes_a_dict
from windlass.errors import ConfigError, ModelError, error_text
from windlass.events import StreamRestarted
from windlass.json_types import is_sequence
from windlass.models.base import Emit, Holding, Model, Request, Response
from windlass.models.meter import begin_request, fail_request
from windlass.models.wrappers.base import EmitTracker, is_final
from windlass.usage import Usage

#: A request that is wrong or too long fails at every model, so no fallback is tried.
FALL = frozenset(
    {
        "rate_limit",
        "overloaded",
        "server_error",
        "timeout",
        "network",
        "bad_reply",
        "auth",
        "quota",
        "refused",
        "circuit_open",
        "model_error",
    }
)


log = logging.getLogger("windlass.models")


class FallingBack(Holding):
    """A model with fallbacks."""

    def __init__(self, model: Model, others: Sequence[Model], on: frozenset[str]) -> None:
        super().__init__(model)
        self.models = (model, *others)
        self.on = on
        self.remote = any(one.remote for one in self.models)
        self.retries_calls = all(one.retries_calls for one in self.models)

    @property
    def address(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The URLs of all models."""
        return " ".join(model.address for model in self.models)

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The keys of all models."""
        return tuple(secret for model in self.models for secret in model.secrets)

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the first answer; if all fail, raise a transient error if any, else the last."""
        errors: list[ModelError] = []
        for left, model in zip(range(len(self.models) - 1, -1, -1), self.models, strict=True):
            if errors:
                request = await begin_request(model, request)
            watched = EmitTracker(emit)
            try:
                response = await model.respond(request, watched)
            except ModelError as error:
                errors.append(error)
                if is_final(error) or error.category not in self.on or not left:
                    break
                log.info(
                    "%s failed (%s: %s); falling back on %s",
                    who(model),
                    error.category,
                    error_text(error, 300),
                    who(self.models[len(errors)]),
                )
                fail_request(error, book=True)
                if watched.anything:
                    emit(StreamRestarted(f"{error.category}: {error}"))
                continue
            return response if not errors else with_price(model, request, response, "fallback")
        last = errors[-1]
        if is_final(last) or last.category not in self.on:
            raise last
        first = next((error for error in errors if error.transient), last)
        if len(errors) > 1:
            tried = zip(self.models, errors, strict=False)
            first.add_note("; ".join(f"{who(model)}: {error}" for model, error in tried))
        raise first

    def price(self, usage: Usage) -> float:
        """Return the price in the usage, else that of the first model."""
        return self.model.price(usage) if usage.cost_usd is None else usage.cost_usd

    @property
    def reports_parts(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether all of them do."""
        return all(model.reports_parts for model in self.models)

    def unpriced(self) -> Model | None:
        """Return the first model without a known price: any of them may be called."""
        return next((found for model in self.models if (found := model.unpriced())), None)

    def check(self) -> None:
        """Check all models, so that a broken fallback is found early."""
        for model in self.models:
            model.check()

    async def aclose(self) -> None:
        """Close all models."""
        for model in self.models:
            await model.aclose()


class Fallback(Layer):
    """The layer of `with_fallback`."""

    name = "with_fallback"

    def __init__(self, others: Sequence[Callable[[Model], Model]], on: frozenset[str]) -> None:
        self.others, self.on = others, on

    def wrap(self, model: Model) -> Model:
        """Wrap the model, with the fallbacks behind it."""
        own = model  # a caller among the others wraps the run's own model
        while isinstance(own, Holding):
            own = own.model
        return FallingBack(model, [make(own) for make in self.others], self.on)


@takes_a_dict
def with_fallback(models: Other | Sequence[Other], *, on: Iterable[str] | None = None) -> Layer:
    """Call these models in order on failure: `with_fallback(["openai:gpt-4o", "ollama:…"])`.

    Each is a name, a `Model`, or a caller. A request that is wrong in itself (`bad_request`,
    `context_overflow`) is not sent to the next model; `on` names the error categories that are.
    Text of a broken reply that was already streamed is void. The record names the model that
    answered, and its price counts.
    """
    given: list[Any] = list(models) if is_sequence(models) else [models]
    if not given:
        raise ConfigError("with_fallback needs at least one model to fall back on")
    makers = [other("a fallback", one) for one in given]
    return Fallback(makers, FALL if on is None else categories("on", on))
