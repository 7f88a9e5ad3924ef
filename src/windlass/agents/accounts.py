"""Calls outside any run: held back before they are made, settled after, and put on the books."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.agents.runtime import Runtime
from windlass.errors import BudgetExceeded, StoreError, TestBroken, attribute
from windlass.loop.ask import OutOfBudget, hold_back, limited, rough_tokens
from windlass.loop.ledger import NO_LIMITS, Reserve, Spent
from windlass.loop.reply import attempts_of, cost_of
from windlass.models.base import Model, Request, Response
from windlass.store.calls import ModelCall
from windlass.usage import NO_USAGE

log = logging.getLogger("windlass")


class Who(msgspec.Struct, frozen=True):
    """For whom a call is made, and through which door."""

    caller: Caller = Caller.local()
    request_id: str | None = None
    conversation_id: str | None = None
    door: str = "llm_call"

    @staticmethod
    def of(options: dict[str, Any], door: str) -> Who:
        """As the options of a call say."""
        caller: Caller | None = options.get("caller")
        request, conversation = options.get("request_id"), options.get("conversation_id")
        if caller is request is conversation is None and door == "llm_call":
            return NOBODY
        return Who(caller or Caller.local(), request, conversation, door)


NOBODY = Who()


async def booked(
    runtime: Runtime,
    model: Model,
    request: Request,
    ask: Callable[[Request], Awaitable[Response]],
    who: Who,
    purpose: str | None,
) -> Response:
    """Make the call; whatever becomes of it is on the books of the Runtime.

    A call that no budget has room for is not made: `BudgetExceeded`.
    """
    ledger = runtime.ledger
    reserve: Reserve | None = None
    if ledger.limits is not NO_LIMITS:
        output = request.settings.max_tokens or 16384
        held = await hold_back(ledger, model, rough_tokens(request), output)
        if isinstance(held, Spent):
            raise OutOfBudget(held)
        reserve, request = held, limited(request, held)
    started = seams.monotonic()
    try:
        response = await ask(request)
    except BaseException as error:
        ledger.settle(reserve, 0, 0.0)
        if isinstance(error, Exception) and not isinstance(error, (BudgetExceeded, TestBroken)):
            ledger.count(NO_USAGE)
            await _enter(runtime, [_failed(model, error, who, purpose, _since(started))])
        raise
    took = _since(started)
    cost = cost_of(model, response.usage)
    if cost is None:  # who cannot say is charged what was held back
        cost = reserve.usd if reserve is not None else 0.0
    calls = [
        _answered(model, aside.response, who, aside.purpose, aside.cost_usd, aside.duration_ms)
        for aside in response.asides
    ]
    calls.append(_answered(model, response, who, purpose, cost, took))
    tokens = sum(call.input_tokens + call.output_tokens for call in calls)
    ledger.settle(reserve, tokens, sum(call.cost_usd for call in calls))
    for call in calls:
        ledger.count(call.usage)
    await _enter(runtime, calls)
    return response


def _since(started: float) -> float:
    return (seams.monotonic() - started) * 1000


async def _enter(runtime: Runtime, calls: list[ModelCall]) -> None:
    """Put the calls on the books; an answer that is paid for is not lost because that fails."""
    if runtime.redactor is not None:
        calls = runtime.redactor.value(calls)
    try:
        await runtime.store.record_calls(calls)
    except StoreError as problem:
        log.error("a model call is on the books in memory only: %s", problem)
        await runtime.memory.record_calls(calls)


def _answered(
    model: Model, response: Response, who: Who, purpose: str | None, cost: float, took: float
) -> ModelCall:
    usage = response.usage
    return ModelCall(
        at=seams.now(),
        provider=response.provider or model.provider,
        model=response.model or model.name,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        gpu_ms=usage.gpu_ms,
        cost_usd=cost,
        latency_ms=took,
        attempts=response.attempts,
        tool_calls=len(response.message.tool_calls),
        purpose=purpose,
        via=response.via,
        **_names(who),
    )


def _failed(
    model: Model, error: Exception, who: Who, purpose: str | None, took: float
) -> ModelCall:
    return ModelCall(
        at=seams.now(),
        provider=model.provider,
        model=model.name,
        latency_ms=took,
        attempts=attempts_of(error),
        outcome=attribute(error, "category") or "model_error",
        purpose=purpose,
        **_names(who),
    )


def _names(who: Who) -> dict[str, Any]:
    return {
        "door": who.door,
        "tenant": who.caller.tenant,
        "caller": str(who.caller),
        "request": who.request_id,
        "conversation": who.conversation_id,
    }
