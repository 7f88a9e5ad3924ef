"""One question to a model, outside any run."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

import msgspec

from windlass import seams
from windlass.agents.accounts import NOBODY, Who, booked
from windlass.agents.runtime import Runtime, current_runtime
from windlass.agents.telemetry import in_use
from windlass.loop.meter import CallMeter
from windlass.loop.reply import sound
from windlass.loop.watch import CleanShow
from windlass.models.base import Emit, Model, Request, Response, silent
from windlass.models.pauses import through_pauses

if TYPE_CHECKING:
    from windlass.loop.watch import Sink


async def ask_once(
    model: Model, request: Request, emit: Emit, who: Who = NOBODY, purpose: str | None = None
) -> Response:
    """Ask and get a sound reply; every call of `llm_call` and its like goes through here.

    Neither what is shown while it comes nor the reply itself holds a secret that is known. The call
    is on the books of `who`, whatever becomes of it.
    """
    runtime = current_runtime()
    runtime.learn(model)

    async def ask(request: Request, meter: CallMeter) -> Response:
        watched = emit if model.reports_parts else meter.watch(emit)
        return await _asked(runtime, model, request, watched)

    async def book(request: Request) -> Response:
        return await booked(runtime, model, request, ask, who, purpose)

    return await through_pauses(request, book)


def _reply(
    runtime: Runtime, model: Model, request: Request, emit: Emit
) -> Coroutine[Any, Any, Response]:
    """The call itself, in a span where somebody records them."""
    if in_use():
        from windlass.agents.tracing import spans_of_call

        spans = spans_of_call(lambda: runtime.config, runtime.redactor)
        if spans is not None:
            return spans.respond(model, request, emit, None)
    return model.respond(request, emit)


async def _asked(runtime: Runtime, model: Model, request: Request, emit: Emit) -> Response:
    redactor, clean = runtime.redactor, None
    if redactor is not None and emit is not silent:
        clean = CleanShow(redactor, cast("Sink", emit))
    seams.point("model.before_request")
    try:
        response: Response = sound(await _reply(runtime, model, request, clean or emit))
    except Exception as error:
        if redactor is not None:
            redactor.scrub(error)
        raise
    seams.point("model.after_reply")
    if clean is not None:
        clean.flush()
    if redactor is not None:
        message = redactor.value(response.message)
        if message is not response.message:
            response = msgspec.structs.replace(response, message=message)
    return response
