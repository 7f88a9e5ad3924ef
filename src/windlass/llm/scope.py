"""One question to a model, outside any run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.engine.environment import Environment, current_environment
from windlass.engine.run_options import RunOptions
from windlass.errors import BudgetExceeded, StoreError, TestBroken, attribute
from windlass.loop.meter import CallMeter, FailedRequest
from windlass.loop.reply import attempts_of, repair_reply
from windlass.loop.sinks import CleanShow
from windlass.models.base import Aside, Emit, Model, Request, Response, silent
from windlass.models.estimates import estimate_request, fill_usage
from windlass.models.meter import current_meter
from windlass.models.wrappers.pauses import through_pauses
from windlass.observe.telemetry import in_use
from windlass.store.model_calls import ModelCall, via_of
from windlass.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from windlass.loop.sinks import Sink


# Calls outside any run: held back before they are made, settled after, and put on the books.


log = logging.getLogger("windlass")


class Who(msgspec.Struct, frozen=True):
    """For whom a call is made, and through which door."""

    caller: Caller = Caller.local()
    request_id: str | None = None
    conversation_id: str | None = None
    door: str = "llm_call"

    @staticmethod
    def of(options: RunOptions, door: str) -> Who:
        """As the options of a call say."""
        caller, request = options.caller, options.request_id
        conversation = options.conversation_id
        if caller is request is conversation is None and door == "llm_call":
            return NOBODY
        return Who(caller or Caller.local(), request, conversation, door)


NOBODY = Who()


async def call_with_accounting(
    runtime: Environment,
    model: Model,
    request: Request,
    ask: Callable[[Request, CallMeter], Awaitable[Response]],
    who: Who,
    purpose: str | None,
) -> Response:
    """Make the call; whatever becomes of it is on the books of the Runtime.

    A call that no budget has room for is not made: `BudgetExceeded`.
    """
    ledger = runtime.ledger
    on_the_way: list[ModelCall] = []  # that were paid for and are not the answer

    def book(made: FailedRequest | Aside) -> None:
        on_the_way.append(
            _aside(model, made, who)
            if isinstance(made, Aside)
            else _failure_row(made.model, made.error, who, made.purpose, made.duration_ms, made)
        )

    meter = CallMeter(
        ledger,
        estimate_request,
        16384,
        book,
        tenant=who.caller.tenant,
        redactor=runtime.redactor,
    )
    request = await meter.begin(model, request)
    started = seams.monotonic()
    before = current_meter.set(meter)
    try:
        response = await ask(request, meter)
    except BaseException as error:
        made = meter.give_up(error, model)
        if not isinstance(error, _UNBOOKED):
            took = _since(started)
            on_the_way.append(_failure_row(model, error, who, purpose, took, made))
        for call in on_the_way:
            ledger.count(call.usage)
        if not isinstance(error, GeneratorExit):
            await _enter(runtime, on_the_way)
        raise
    finally:
        current_meter.reset(before)
    took = _since(started)
    response = fill_usage(model, request, response)
    cost = meter.settle(response, model)
    calls = [*on_the_way, *[_aside(model, aside, who) for aside in response.asides]]
    calls.append(_reply_row(model, response, who, purpose, cost, took))
    for call in calls:
        ledger.count(call.usage)
    await _enter(runtime, calls)
    return response


#: Nobody was asked, or the process ends.
_UNBOOKED = (BudgetExceeded, TestBroken, KeyboardInterrupt, SystemExit, GeneratorExit)


def _since(started: float) -> float:
    return (seams.monotonic() - started) * 1000


async def _enter(runtime: Environment, calls: list[ModelCall]) -> None:
    """Put the calls on the books; an answer that is paid for is not lost because that fails."""
    if runtime.redactor is not None:
        calls = runtime.redactor.value(calls)
    try:
        await runtime.store.record_calls(calls)
    except StoreError as problem:
        log.error("a model call is on the books in memory only: %s", problem)
        await runtime.memory.record_calls(calls)


def _reply_row(
    model: Model, response: Response, who: Who, purpose: str | None, cost: float, took: float
) -> ModelCall:
    return ModelCall(
        at=seams.now(),
        provider=response.provider or model.provider,
        model=response.model or model.name,
        cost_usd=cost,
        latency_ms=took,
        attempts=response.attempts,
        tool_calls=len(response.message.tool_calls),
        purpose=purpose,
        via=via_of(response.via, response.usage),
        **_counts(response.usage),
        **_names(who),
    )


def _aside(model: Model, aside: Aside, who: Who) -> ModelCall:
    return _reply_row(model, aside.response, who, aside.purpose, aside.cost_usd, aside.duration_ms)


def _failure_row(
    model: Model,
    error: BaseException,
    who: Who,
    purpose: str | None,
    took: float,
    made: FailedRequest | None,
) -> ModelCall:
    usage, cost = (NO_USAGE, 0.0) if made is None else (made.usage, made.cost_usd)
    asked = model if made is None else made.model
    cancelled = isinstance(error, asyncio.CancelledError)
    return ModelCall(
        at=seams.now(),
        provider=asked.provider,
        model=asked.name,
        cost_usd=cost,
        latency_ms=took,
        attempts=attempts_of(error),
        outcome="cancelled" if cancelled else attribute(error, "category") or "model_error",
        purpose=purpose,
        via=via_of(None, usage),
        **_counts(usage),
        **_names(who),
    )


def _counts(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "gpu_ms": usage.gpu_ms,
    }


def _names(who: Who) -> dict[str, Any]:
    return {
        "door": who.door,
        "tenant": who.caller.tenant,
        "caller": str(who.caller),
        "request": who.request_id,
        "conversation": who.conversation_id,
    }


async def ask_once(
    model: Model, request: Request, emit: Emit, who: Who = NOBODY, purpose: str | None = None
) -> Response:
    """Ask and get a sound reply; every call of `llm_call` and its like goes through here.

    Neither what is shown while it comes nor the reply itself holds a secret that is known. The call
    is on the books of `who`, whatever becomes of it.
    """
    runtime = current_environment()
    runtime.learn(model)

    async def ask(request: Request, meter: CallMeter) -> Response:
        watched = emit if model.reports_parts else meter.watch(emit)
        return await _call_model(runtime, model, request, watched)

    async def book(request: Request) -> Response:
        return await call_with_accounting(runtime, model, request, ask, who, purpose)

    return await through_pauses(request, book)


def _reply(
    runtime: Environment, model: Model, request: Request, emit: Emit
) -> Coroutine[Any, Any, Response]:
    """The call itself, in a span where somebody records them."""
    if in_use():
        from windlass.observe.otel import spans_of_call

        spans = spans_of_call(lambda: runtime.config, runtime.redactor)
        if spans is not None:
            return spans.respond(model, request, emit, None)
    return model.respond(request, emit)


async def _call_model(runtime: Environment, model: Model, request: Request, emit: Emit) -> Response:
    redactor, clean = runtime.redactor, None
    if redactor is not None and emit is not silent:
        clean = CleanShow(redactor, cast("Sink", emit))
    seams.point("model.before_request")
    try:
        response: Response = repair_reply(await _reply(runtime, model, request, clean or emit))
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
