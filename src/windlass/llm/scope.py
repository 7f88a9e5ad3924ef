"""Model calls outside any run: `llm_call` and its like, and their records."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.engine.environment import Environment, current_environment
from windlass.engine.run_options import RunOptions
from windlass.errors import BudgetExceeded, StoreError, TestBroken, attribute
from windlass.loop.intercept import Around
from windlass.loop.ledger import Budget, Ledger, ReachedLimit, Reserve
from windlass.loop.meter import FailedRequest, require_price
from windlass.loop.model_call import ModelCallScope, call_model
from windlass.loop.reply import attempts_of
from windlass.loop.sinks import CleanShow
from windlass.models.base import Aside, Emit, Holding, Model, Request, Response, silent
from windlass.models.wrappers.pauses import PauseContinuation
from windlass.observe.telemetry import is_traced
from windlass.store.model_calls import ModelCall, via_of
from windlass.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from windlass.loop.sinks import Sink


log = logging.getLogger("windlass")


class Who(msgspec.Struct, frozen=True):
    """The caller of a call, and its entry point."""

    caller: Caller = Caller.local()
    request_id: str | None = None
    conversation_id: str | None = None
    door: str = "llm_call"

    @staticmethod
    def of(options: RunOptions, door: str) -> Who:
        """Build it from the options of a call."""
        caller, request = options.caller, options.request_id
        conversation = options.conversation_id
        if caller is request is conversation is None and door == "llm_call":
            return NOBODY
        return Who(caller or Caller.local(), request, conversation, door)


NOBODY = Who()


class SingleCall(ModelCallScope, kw_only=True):
    """A model call outside any run: its records go to the environment."""

    environment: Environment
    model: Model
    who: Who
    rows: list[ModelCall] = []

    @staticmethod
    def of(
        environment: Environment, model: Model, who: Who, ledger: Ledger | None = None
    ) -> SingleCall:
        """Build it; its ledger is that of the caller's tenant if none is given."""
        return SingleCall(
            ledger or environment.ledger_for(who.caller),
            who.caller.tenant,
            environment.redactor,
            stores_rows=True,
            names=None if environment.ledger.root.period is None else _names(who),
            around=_find_spans(environment),
            environment=environment,
            model=model,
            who=who,
        )

    def prepare(
        self, model: Model, request: Request, purpose: str | None, reserve: Reserve | None
    ) -> Request:
        """Return the request: only its outcome is recorded."""
        return request

    async def store_reserve(self, reserve: Reserve) -> None:
        """Store nothing: a budget of a period has what is held on the books already."""

    @property
    def paid_elsewhere(self) -> tuple[int, float]:
        """Tokens and dollars of requests that are settled and on no books before the call ends."""
        tokens = sum([row.input_tokens + row.output_tokens for row in self.rows])
        return tokens, sum([row.cost_usd for row in self.rows])

    def record_refusal(self, spent: ReachedLimit) -> None:
        """Record nothing: a call that was not made is not recorded."""

    def book(self, made: FailedRequest | Aside) -> None:
        """Record a request that failed while its call goes on."""
        if isinstance(made, Aside):
            row = _aside(self.model, made, self.who)
        else:
            row = _failure_row(
                made.model, made.error, self.who, made.purpose, made.duration_ms, made
            )
        self._enter(row)

    def record_asides(self, model: Model, request: Request, asides: tuple[Aside, ...]) -> None:
        """Record replies that were paid for beside the answer."""
        for aside in asides:
            self._enter(_aside(model, aside, self.who))

    def record_reply(
        self,
        model: Model,
        request: Request,
        response: Response,
        purpose: str | None,
        cost_usd: float,
        duration_ms: float,
    ) -> None:
        """Record the answer."""
        self.rows.append(_reply_row(model, response, self.who, purpose, cost_usd, duration_ms))

    def record_failure(
        self, model: Model, error: BaseException, purpose: str | None, duration_ms: float
    ) -> BaseException:
        """Settle and record a call that gave no reply; return the error to raise."""
        if self.redactor is not None and isinstance(error, Exception):
            self.redactor.scrub(error)
        made = self.give_up(error, model)
        if not isinstance(error, _UNBOOKED):
            self._enter(_failure_row(model, error, self.who, purpose, duration_ms, made))
        return error

    def _enter(self, row: ModelCall) -> None:
        self.rows.append(row)
        self.ledger.root.count(row.usage)

    async def store_rows(self) -> None:
        """Store the rows; a paid answer is not lost if that fails."""
        environment, rows, places = self.environment, self.rows, self.take_places()
        if environment.redactor is not None:
            rows = environment.redactor.value(rows)
        try:
            await environment.store.record_calls(rows, places)
        except StoreError as problem:
            log.error("a model call is on the books in memory only: %s", problem)
            await environment.memory.record_calls(rows)
        finally:
            self.close_places()


#: No request was sent, or the process ends.
_UNBOOKED = (BudgetExceeded, TestBroken, KeyboardInterrupt, SystemExit, GeneratorExit)


def _find_spans(environment: Environment) -> Around | None:
    """Find what records the call as a span, if anything does."""
    if not is_traced():
        return None
    from windlass.observe.otel import spans_of_call

    return spans_of_call(lambda: environment.config, environment.redactor)


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


class BookedModel(Holding):
    """A model with replies that are each recorded as a call."""

    def __init__(
        self,
        model: Model,
        environment: Environment,
        who: Who,
        purpose: str | None,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(model)
        self.environment, self.who, self.purpose = environment, who, purpose
        self.ledger = ledger

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Make the call; neither the stream nor the reply holds a known secret."""
        environment, model = self.environment, self.model
        call = SingleCall.of(environment, model, self.who, self.ledger)
        if environment.redactor is None or emit is silent:
            return await call_model(call, model, request, self.purpose, emit)
        clean = CleanShow(environment.redactor, cast("Sink", emit))
        response = await call_model(call, model, request, self.purpose, clean)
        clean.flush()
        return response


def build_call_ledger(model: Model, budget: Budget | None, caller: Caller) -> Ledger | None:
    """Build the ledger of a call with a budget of its own, below that of the environment."""
    if budget is None:
        return None
    if budget.usd is not None:
        require_price(model)
    return Ledger(budget, current_environment().ledger_for(caller))


async def ask_once(
    model: Model,
    request: Request,
    emit: Emit,
    who: Who = NOBODY,
    purpose: str | None = None,
    *,
    ledger: Ledger | None = None,
) -> Response:
    """Make one call and return a sound reply; all calls of `llm_call` pass here.

    Neither what is shown while it comes nor the reply itself holds a secret that is known. The call
    is on the books of `who`, whatever becomes of it.
    """
    environment = current_environment()
    environment.learn(model)
    booked = BookedModel(model, environment, who, purpose, ledger)
    return await PauseContinuation(booked).respond(request, emit)
