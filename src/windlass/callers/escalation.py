"""`with_escalation`: call a cheap model by default, and a better one for some calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import msgspec

from windlass import seams
from windlass.callers.caller import Layer
from windlass.callers.common import Other, other, who, with_price
from windlass.callers.contract import call_of
from windlass.callers.options import function, takes_a_dict
from windlass.errors import ConfigError
from windlass.events import StreamRestarted
from windlass.json_types import as_given
from windlass.loop.reply import cost_of
from windlass.models.base import Aside, Emit, Holding, Model, Request, Response
from windlass.models.meter import begin_request, receive_reply, set_aside
from windlass.models.wrappers.base import EmitTracker
from windlass.usage import Usage

log = logging.getLogger("windlass.models")


class Escalating(Holding):
    """A model with a better one above it."""

    def __init__(self, model: Model, better: Model, layer: Escalation) -> None:
        super().__init__(model)
        self.better, self.layer = better, layer
        self.remote = model.remote or better.remote
        self.retries_calls = model.retries_calls and better.retries_calls

    @property
    def address(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The URLs of both models."""
        return f"{self.model.address} {self.better.address}"

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The keys of both."""
        return (*self.model.secrets, *self.better.secrets)

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the cheap answer, unless the call or the answer requires the better model."""
        layer, cheap = self.layer, self.model
        if layer.predicate is not None:
            if await _said_yes(layer.predicate, call_of(cheap, request)):
                return await self._escalate(request, emit)
        watched = EmitTracker(emit)
        started = seams.monotonic()
        first = await cheap.respond(request, watched)
        if layer.on_reply is None:
            return first
        receive_reply(first)
        if not await _said_yes(layer.on_reply, first):
            return first
        took = (seams.monotonic() - started) * 1000
        if watched.anything:
            emit(StreamRestarted("escalation: the reply does not suffice"))
        first = with_price(cheap, request, first)
        spent = Aside("escalated", first, cost_of(cheap, first.usage) or 0.0, took)
        set_aside(spent)
        return _with_asides(await self._escalate(request, emit), spent)

    async def _escalate(self, request: Request, emit: Emit) -> Response:
        """Call the better model, at its own price."""
        better = self.better
        log.info("%s: escalating to %s", who(self.model), who(better))
        request = await begin_request(better, request)
        response = await better.respond(request, emit)
        return with_price(better, request, response, "escalation")

    def price(self, usage: Usage) -> float:
        """Return the price in the usage, else that of the cheap model."""
        return self.model.price(usage) if usage.cost_usd is None else usage.cost_usd

    @property
    def reports_parts(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether both do."""
        return self.model.reports_parts and self.better.reports_parts

    def unpriced(self) -> Model | None:
        """Return the first of the two without a known price."""
        return self.model.unpriced() or self.better.unpriced()

    def check(self) -> None:
        """Check both models."""
        self.model.check()
        self.better.check()

    async def aclose(self) -> None:
        """Close both models."""
        await self.model.aclose()
        await self.better.aclose()


def _with_asides(reply: Response, *more: Aside) -> Response:
    return msgspec.structs.replace(reply, asides=(*reply.asides, *more))


async def _said_yes(ask: Callable[[Any], Any], about: object) -> bool:
    answer = ask(about)
    if isawaitable(answer):
        answer = as_given(await answer)
    return bool(answer)


class Escalation(Layer):
    """The layer of `with_escalation`."""

    name = "with_escalation"

    def __init__(
        self,
        better: Callable[[Model], Model],
        predicate: Callable[[Any], Any] | None,
        on_reply: Callable[[Any], Any] | None,
    ) -> None:
        self.better, self.predicate, self.on_reply = better, predicate, on_reply

    def wrap(self, model: Model) -> Model:
        """Wrap the model, with the better one above it."""
        return Escalating(model, self.better(model), self)


@takes_a_dict
def with_escalation(
    frontier: Other,
    *,
    predicate: Callable[[Any], Any] | None = None,
    on_reply: Callable[[Response], Any] | None = None,
) -> Layer:
    """Call the model `frontier` if `predicate(call)` or `on_reply(reply)` returns true.

    ```python
    with_escalation("anthropic:claude-opus-4-1", predicate=lambda call: call.turn.iteration > 5)
    with_escalation(frontier, on_reply=lambda reply: "not sure" in reply.text)
    ```
    Both functions may be async. A cheap reply that was not good enough is recorded with the purpose
    `escalated`, and its price counts.
    """
    if predicate is None and on_reply is None:
        raise ConfigError("with_escalation needs predicate= or on_reply= to know when")
    return Escalation(
        other("frontier", frontier),
        function("predicate", predicate),
        function("on_reply", on_reply),
    )
