"""`with_shadow`: call another model too, to compare; its answer is not used.

The shadow is called at the same time. When the model has answered, the shadow gets a little longer
and is then cancelled, so nothing of it is left when the call returns. An answer in time is recorded
as a reply with the purpose `shadow`, and its tokens and dollars count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, cast

import msgspec

from windlass import seams
from windlass.callers.caller import Layer
from windlass.callers.common import (
    Other,
    other,
    who,
    with_price,
)
from windlass.callers.options import function, number, takes_a_dict
from windlass.loop.reply import cost_of, repair_reply
from windlass.models.base import Aside, Emit, Holding, Model, Request, Response, silent
from windlass.models.meter import (
    SHADOW,
    begin_request,
    current_meter,
    fail_request,
    receive_reply,
    set_aside,
    watch_reply,
)

log = logging.getLogger("windlass")


class Comparison(msgspec.Struct, frozen=True):
    """The argument of `on_result`: the answer, and the shadow's answer or its error."""

    request: Request
    reply: Response
    shadow: Response | None
    error: BaseException | None = None


class ShadowedModel(Holding):
    """A model with a shadow."""

    def __init__(self, model: Model, shadow: Model, layer: Shadow) -> None:
        super().__init__(model)
        self.shadow, self.layer = shadow, layer

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The keys of both."""
        return (*self.model.secrets, *self.shadow.secrets)

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the model's answer, with the shadow's beside it."""
        layer = self.layer
        if layer.sample < 1 and seams.rng.random() >= layer.sample:
            return await self.model.respond(request, emit)
        task = asyncio.ensure_future(self._ask_shadow(request))
        try:
            reply = await self.model.respond(request, emit)
            receive_reply(reply)
            if not task.done() and layer.wait:
                await asyncio.wait({task}, timeout=layer.wait)
        finally:
            await _cancel_and_wait(task)
        shadow: Response | None = None
        error: BaseException | None = None
        if task.cancelled():
            error = TimeoutError(f"{who(self.shadow)} did not answer within {layer.wait:g} s more")
        elif (error := task.exception()) is None:
            aside = task.result()
            shadow = aside.response
            reply = msgspec.structs.replace(reply, asides=(*reply.asides, aside))
        if layer.on_result is not None:
            await _tell(layer.on_result, Comparison(request, reply, shadow, error))
        return reply

    async def _ask_shadow(self, request: Request) -> Aside:
        shadow, meter = self.shadow, current_meter.get()
        if meter is not None:  # this task's own from here on
            meter = meter.branch(SHADOW)
            current_meter.set(meter)
        started = seams.monotonic()
        request = await begin_request(shadow, request)
        try:
            response = repair_reply(await shadow.respond(request, watch_reply(shadow, silent)))
        except BaseException as error:
            fail_request(error, book=True)
            raise
        took = (seams.monotonic() - started) * 1000
        response = with_price(shadow, request, response)
        aside = Aside(SHADOW, response, cost_of(shadow, response.usage) or 0.0, took)
        set_aside(aside)
        return aside

    def unpriced(self) -> Model | None:
        """Return the first of the two without a known price."""
        return self.model.unpriced() or self.shadow.unpriced()

    async def aclose(self) -> None:
        """Close both models."""
        await self.model.aclose()
        await self.shadow.aclose()


async def _cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancel the task and wait for its end; a cancellation meanwhile is raised afterwards."""
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if not task.cancelled():
        task.exception()  # looked at: an error of a shadow is not worth a warning at exit
    if cancelled is not None:
        raise cancelled


async def _tell(on_result: Callable[[Any], Any], comparison: Comparison) -> None:
    try:
        answer = on_result(comparison)
        if isawaitable(answer):
            await cast("Any", answer)
    except Exception:
        log.exception("on_result of with_shadow failed")


class Shadow(Layer):
    """The layer of `with_shadow`."""

    name = "with_shadow"

    def __init__(
        self,
        shadow: Callable[[Model], Model],
        wait: float,
        sample: float,
        on_result: Callable[[Any], Any] | None,
    ) -> None:
        self.shadow, self.wait, self.sample, self.on_result = shadow, wait, sample, on_result

    def wrap(self, model: Model) -> Model:
        """Wrap the model with its shadow."""
        return ShadowedModel(model, self.shadow(model), self)


@takes_a_dict
def with_shadow(
    model: Other,
    *,
    wait: float = 5.0,
    sample: float = 1.0,
    on_result: Callable[[Comparison], Any] | None = None,
) -> Layer:
    """Call another model at the same time, to compare; only the run's model is used.

    `with_shadow("openai:gpt-4o", sample=0.1, on_result=compare)`. The shadow has `wait` seconds
    after the answer, then it is cancelled. `sample` is the share of calls that have a shadow. Its
    tool calls are not run and its errors are ignored; its usage is counted and recorded.
    """
    return Shadow(
        other("model", model),
        number("wait", wait),
        number("sample", sample, 0, 1),
        function("on_result", on_result),
    )
