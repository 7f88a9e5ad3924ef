"""The meter of a model call: every request reserved at its model's price, and settled.

A call may be made of several requests (see `models/meter.py`). One of them is under way at a time;
what goes on beside it has a branch of its own. Who makes the call says how requests that came to
nothing are booked.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from windlass import seams
from windlass.errors import BudgetExceeded, ConfigError, Timeout, safe_repr
from windlass.events import LiveEvent, TextDelta, ThinkingDelta, ToolCallReady
from windlass.json_types import JsonObject
from windlass.loop.ledger import (
    MIN_REPLY_TOKENS,
    REPLY_TOKENS,
    Budget,
    Ledger,
    ReachedLimit,
    Reserve,
)
from windlass.loop.period import Period
from windlass.loop.reply import cost_of
from windlass.messages import Block, Message, Text
from windlass.models.base import Aside, Emit, Holding, Model, Request, Response, silent
from windlass.models.estimates import estimate_request, fill_usage, usage_of_part, usage_of_request
from windlass.models.meter import FAILED, SHADOW, RecordingEmit, UnwatchedEmit
from windlass.redaction.redactor import Redactor
from windlass.store.model_calls import RESERVED, ModelCall, ReserveAnswer, ReservedCall
from windlass.usage import NO_USAGE, Usage


class OutOfBudget(BudgetExceeded):
    """A call was not made: a limit leaves no room for it."""

    def __init__(self, spent: ReachedLimit) -> None:
        super().__init__(_describe_refusal(spent))
        self.spent, self.limit = spent, spent.limit


def _describe_refusal(spent: ReachedLimit) -> str:
    """Say which limit leaves no room for a call: it is used up, or too little is left."""
    form = "${:g}" if spent.limit == "usd" else "{:g} " + spent.limit
    allowed, used = form.format(spent.allowed), form.format(spent.used)
    if not spent.with_question:
        return f"the call was not made: of the limit of {allowed}, {used} are spent"
    return (
        f"the call was not made: the limit of {allowed} leaves no room for a reply, as the question "
        f"alone brings it to {used}"
    )


class FailedRequest(msgspec.Struct, frozen=True):
    """A request that gave no reply, and what was received of it all the same."""

    model: Model
    error: BaseException
    usage: Usage
    cost_usd: float
    duration_ms: float
    purpose: str


NOTHING = (0, 0.0)  # tokens and dollars


class Attempt(msgspec.Struct, gc=False):
    """A request under way."""

    model: Model
    request: Request
    reserve: Reserve | None
    started: float
    reply: Response | None = None
    part: Response | None = None
    sent: bool = False


class CallMeter(msgspec.Struct, eq=False):
    """The requests of one model call: each is reserved, settled and booked.

    A struct: one is made for every call of every run, and its fields are read faster than defaults
    of a class.
    """

    ledger: Ledger
    tenant: str | None = None
    redactor: Redactor | None = None
    recording: bool = False  # are further reserves of the call put on record?
    closing: bool = False  # may it spend what is kept back for a closing answer?
    attempt: Attempt | None = None  # the request under way
    _purpose: str = FAILED
    _parent: CallMeter | None = None
    _on_record: bool = False  # a reserve of this call is
    _paid: tuple[int, float] = NOTHING  # of replies that are booked with the answer
    _asked: tuple[int | None, int | None] = (None, None)  # the caller's limit, and ours
    _seen: UnwatchedEmit | None = None  # what the request under way has emitted
    _kept: tuple[Aside, ...] = ()  # settled; they are booked with the answer
    _carried: tuple[Usage, float] = (NO_USAGE, 0.0)  # settled; it is part of the answer's
    _settled: tuple[int, float] = NOTHING  # tokens and dollars of both
    stores_rows: bool = False  # has rows of its own for the store when the call is over
    names: JsonObject | None = None  # of its row on the books: session, caller, …
    _place: ReservedCall | None = None  # of its row on the books of a period
    _open: bool = False  # the row holds something for a request
    _holders: tuple[CallMeter, ...] = ()  # the meters of the call that have such a row
    _owed: tuple[int, float] = NOTHING  # spent of an allotment, and not on the books yet

    # ----------------------------------------------------------------- for who makes the call

    @property
    def output(self) -> int:
        """The tokens assumed for a reply without a limit."""
        return REPLY_TOKENS

    def estimate(self, request: Request) -> int:
        """Estimate the tokens of a request."""
        return estimate_request(request)

    def book(self, made: FailedRequest | Aside) -> None:
        """Record a request that came to nothing while its call goes on."""

    async def record_reserve(
        self,
        model: Model,
        reserve: Reserve,
        beside: str | None,
        paid: tuple[int, float],
        *,
        again: bool,
    ) -> None:
        """Record what a further request of the call holds, and wait until it is stored.

        `paid` are tokens and dollars of replies that go on the record with the answer.
        """

    def record_release(self, model: Model, beside: str | None, paid: tuple[int, float]) -> None:
        """Record that nothing is held for a while; others may spend it."""

    @property
    def paid_elsewhere(self) -> tuple[int, float]:
        """Tokens and dollars of requests that are settled and on no books before the call ends."""
        return NOTHING

    # ----------------------------------------------------------------- for wrappers and wires

    async def begin(self, model: Model, request: Request) -> Request:
        """Reserve for the next request; one that was reserved for and not made gives it back."""
        self._discard()
        request = self.restore(request)
        reserve: Reserve | None = None
        if self.ledger.metered:
            limit = request.frame.settings.max_tokens
            inputs, output = self.estimate(request), limit or self.output
            allotment, paced = self.ledger.find_allotment(), 0
            if allotment is not None:
                (self._parent or self).stores_rows = True
                paced = await allotment.pace(inputs + output)
            held = await self._hold_back(model, inputs, output)
            if isinstance(held, ReachedLimit):
                raise OutOfBudget(held)
            reserve, request = held, limit_reply(request, held)
            reserve.paced = paced
            self._asked = (limit, held.max_tokens)
        self.attempt = Attempt(model, request, reserve, seams.monotonic())
        if reserve is not None:
            again, self._on_record = self._on_record, True
            if self.recording:
                await self.record_reserve(model, reserve, self._beside, self._paid, again=again)
        return request

    async def _hold_back(self, model: Model, inputs: int, output: int) -> Reserve | ReachedLimit:
        """Hold back what a request may cost: in this process, and on the books of a period."""
        wait = self._purpose != SHADOW  # it is not worth waiting for
        period, room, limit = self.ledger.root.period, output, None
        while True:
            held = await hold_back(
                self.ledger, model, inputs, room, closing=self.closing, wait=wait
            )
            if period is None or isinstance(held, ReachedLimit):
                return held
            answer, settled = await self._store_reserve(period, model, held)
            if answer.place is not None:
                if limit is not None and held.max_tokens is None:
                    held.limit, held.max_tokens = limit, held.output_tokens
                return held
            if wait and (settled or await self._wait_for_books(period, model)):
                room, limit = output, None
                continue
            # Others hold what is left, or have spent it.
            fits = find_room(self.ledger.root.limits, answer, model, inputs)
            if fits.room < min(output, MIN_REPLY_TOKENS):
                return fits.spent
            room, limit = min(fits.room, room - 1), fits.spent.limit

    async def _store_reserve(
        self, period: Period, model: Model, held: Reserve
    ) -> tuple[ReserveAnswer, bool]:
        """Reserve a request on the books, in place of the one before; no room gives it back here.

        Also tells whether another call of this process has settled meanwhile.
        """
        limits, main = self.ledger.root.limits, self._parent or self
        if not self._open:  # from here on others wait for it: it may be stored any time
            self._open = True
            period.open += 1
        settled = period.settled
        answer: ReserveAnswer | None = None
        try:
            row = self._build_row(model, held)
            answer = await period.reserve(row, (limits.tokens, limits.usd), self._place)
            return answer, period.settled != settled
        finally:
            if answer is not None and answer.place is not None:
                self._place, main.stores_rows = answer.place, True
                if self not in main._holders:
                    main._holders = (*main._holders, self)
            else:
                self.ledger.settle(held, 0, 0.0)
                if self._place is None:
                    self._close(period)

    async def _wait_for_books(self, period: Period, model: Model) -> bool:
        """Wait until another call of this process has settled; False if none is under way."""
        root = self.ledger.root
        if self._place is not None and self._open:
            self._place = await period.shrink(self._build_row(model, None), self._place)
            self._close(period)
        if period.open < 1:
            return False
        await root.wait_for_settling()
        return True

    def _build_row(self, model: Model, held: Reserve | None) -> ModelCall:
        """Build the row of the request under way, with what the call has cost so far."""
        main = self._parent or self
        (tokens, usd), (more_tokens, more_usd) = self._paid, self.paid_elsewhere
        inputs, output = tokens + more_tokens, 0
        cost = usd + more_usd
        if held is not None:
            inputs, output, cost = inputs + held.input_tokens, held.output_tokens, cost + held.usd
        return ModelCall(
            at=seams.now(),
            provider=model.provider,
            model=model.name,
            input_tokens=inputs,
            output_tokens=output,
            cost_usd=cost,
            outcome=RESERVED,
            purpose=self._beside,
            **(main.names or {}),
        )

    def take_places(self) -> tuple[ReservedCall, ...]:
        """Return where the call holds something on the books; whoever takes it replaces it."""
        return tuple([one._place for one in self._holders if one._place is not None])

    def close_places(self) -> None:
        """Tell those who wait that what the call has held is replaced."""
        period, holders = self.ledger.root.period, self._holders
        self._holders = ()
        for one in holders:
            one._place = None
            if period is not None:
                one._close(period)

        owed, self._owed = self._owed, NOTHING
        allotment = None if owed is NOTHING else self.ledger.find_allotment()
        if allotment is not None:
            allotment.owe(-owed[0], -owed[1])

    def _pay(self, reserve: Reserve | None, tokens: int, usd: float) -> None:
        """Settle what a request has used; an allotment holds it until it is on the books."""
        ledger = self.ledger
        ledger.settle(reserve, tokens, usd)
        if not ledger.root.allotted or (allotment := ledger.find_allotment()) is None:
            return
        if reserve is not None:
            allotment.correct(reserve, tokens)
        main = self._parent or self
        main._owed = (main._owed[0] + tokens, main._owed[1] + usd)
        allotment.owe(tokens, usd)

    def _close(self, period: Period) -> None:
        if self._open:
            self._open = False
            period.open -= 1
            period.settled += 1
            self.ledger.root.wake()

    @property
    def _beside(self) -> str | None:
        return self._purpose if self._parent is not None else None

    def _release(self, model: Model, tokens: int = 0, usd: float = 0.0) -> None:
        """Record that nothing is held for the call now beyond what is paid for."""
        self._paid = (self._paid[0] + tokens, self._paid[1] + usd)
        if self._on_record and self.recording:
            self.record_release(model, self._beside, self._paid)

    def restore(self, request: Request) -> Request:
        """Return the request with the reply limit of its caller, not what a reserve had left."""
        asked, lowered = self._asked
        if lowered is None or request.frame.settings.max_tokens != lowered:
            return request
        return with_max_tokens(request, asked)

    def fail(self, error: BaseException, *, book: bool) -> None:
        """Settle the request under way with what was received of it, while the call goes on."""
        failed = self._settle_failed(error)
        if failed is not None:
            if book or failed.usage is not NO_USAGE:
                self.book(failed)
            self._release(failed.model)

    def receive(self, response: Response) -> None:
        """Remember the reply to the request under way."""
        if self.attempt is not None:
            self.attempt.reply = response

    def receive_part(self, part: Response | None) -> None:
        """Record the received part of a reply that broke off."""
        if self.attempt is not None:
            self.attempt.sent, self.attempt.part = True, part

    def set_aside(self, aside: Aside) -> None:
        """Settle a reply that is paid for and is not the answer."""
        attempt, self.attempt = self.attempt, None
        usage = aside.response.usage
        tokens = usage.input_tokens + usage.output_tokens
        self._pay(None if attempt is None else attempt.reserve, tokens, aside.cost_usd)
        main = self._parent or self
        main._settled = (main._settled[0] + tokens, main._settled[1] + aside.cost_usd)
        main._kept = (*main._kept, aside)
        if attempt is not None:
            self._release(attempt.model, tokens, aside.cost_usd)

    def carry(self, model: Model, request: Request, response: Response) -> None:
        """Settle a reply whose usage is part of the answer's."""
        reserve, self.attempt = self.reserve, None
        usage = fill_usage(model, request, response).usage
        cost, tokens = cost_of(model, usage) or 0.0, usage.input_tokens + usage.output_tokens
        self._pay(reserve, tokens, cost)
        self._carried = (self._carried[0] + usage, self._carried[1] + cost)
        self._settled = (self._settled[0] + tokens, self._settled[1] + cost)
        self._release(model, tokens, cost)

    def watch(self, emit: Emit) -> Emit:
        """Return an emit that records as received what it passes on."""
        if self._seen is None:
            self._seen = UnwatchedEmit()
        return self._seen if emit is silent else RecordingEmit(emit, self._seen.open())

    def branch(self, purpose: str) -> CallMeter:
        """Return a meter for requests beside this call's own."""
        main = self._parent or self
        branch = BranchMeter(self.ledger, self.tenant, self.redactor, self.recording, self.closing)
        branch._parent, branch._purpose = main, purpose
        return branch

    # ----------------------------------------------------------------- for who makes the call

    @property
    def reserve(self) -> Reserve | None:
        """What is held for the request under way."""
        return None if self.attempt is None else self.attempt.reserve

    def settle(self, response: Response, model: Model) -> float:
        """Settle the call with its answer and what was paid for beside it; the cost of the answer."""
        attempt, self.attempt = self.attempt, None
        reserve = None if attempt is None else attempt.reserve
        usage = response.usage
        cost = cost_of(model, usage)
        if cost is None:  # without usage, the reserve is charged
            cost = 0.0 if reserve is None else reserve.usd
        tokens, usd = usage.input_tokens + usage.output_tokens, cost
        if response.asides:
            for aside in response.asides:
                used = aside.response.usage
                tokens += used.input_tokens + used.output_tokens
                usd += aside.cost_usd
            self._kept = ()
        if self._settled is not NOTHING:
            before, paid = self._settled
            tokens, usd = tokens - before, usd - paid
        self._pay(reserve, tokens, usd)
        return cost

    def give_up(self, error: BaseException, model: Model) -> FailedRequest | None:
        """Settle a call that has no answer, and book what was paid for beside it.

        The request that was under way is given back, for who made the call to book.
        """
        failed = self._settle_failed(error)
        kept, self._kept = self._kept, ()
        for aside in kept:
            self.book(aside)
        before, paid = self._carried
        if before is NO_USAGE:
            return failed
        if failed is None:
            return FailedRequest(model, error, before, paid, 0.0, self._purpose)
        usage, cost = failed.usage + before, failed.cost_usd + paid
        return msgspec.structs.replace(failed, usage=usage, cost_usd=cost)

    # ----------------------------------------------------------------- details

    def _discard(self) -> None:
        """Settle a request that was not made, or with a reply that is not the answer."""
        attempt, self.attempt = self.attempt, None
        self._take_events()
        if attempt is None:
            return
        if attempt.reply is None:
            self._pay(attempt.reserve, 0, 0.0)
            self._release(attempt.model)
            return
        reply = fill_usage(attempt.model, attempt.request, attempt.reply)
        cost, usage = _cost(attempt, reply.usage), reply.usage
        self._pay(attempt.reserve, usage.input_tokens + usage.output_tokens, cost)
        took = (seams.monotonic() - attempt.started) * 1000
        self.book(Aside(FAILED, reply, cost, took))
        self._release(attempt.model)

    def _settle_failed(self, error: BaseException) -> FailedRequest | None:
        attempt, self.attempt = self.attempt, None
        if attempt is None:
            return None
        usage = self._usage_of_failure(attempt, error)
        cost = _cost(attempt, usage)
        self._pay(attempt.reserve, usage.input_tokens + usage.output_tokens, cost)
        took = (seams.monotonic() - attempt.started) * 1000
        return FailedRequest(attempt.model, error, usage, cost, took, self._purpose)

    def _take_events(self) -> list[LiveEvent]:
        """Return what the request under way has emitted, and forget it."""
        if self._seen is None or not self._seen.events:
            return []
        events = self._seen.events.copy()
        self._seen.events.clear()
        return events

    def _usage_of_failure(self, attempt: Attempt, error: BaseException) -> Usage:
        """Estimate what a request that failed has used."""
        events = self._take_events()
        if attempt.reply is not None:
            return fill_usage(attempt.model, attempt.request, attempt.reply).usage
        part = attempt.part
        if part is None and events:
            part = Response(Message("assistant", _blocks(events)))
        if part is not None:
            return usage_of_part(attempt.request, part)
        if attempt.sent or (_is_stop(error) and _may_be_at_work(attempt.model)):
            return usage_of_request(attempt.request)
        return NO_USAGE


class BranchMeter(CallMeter):
    """The meter of requests beside a call's own."""

    @property
    def _main(self) -> CallMeter:
        return self._parent or self

    @property
    def output(self) -> int:
        """The tokens assumed for a reply without a limit."""
        return self._main.output

    def estimate(self, request: Request) -> int:
        """Estimate the tokens of a request."""
        return self._main.estimate(request)

    def book(self, made: FailedRequest | Aside) -> None:
        """Record a request that came to nothing while its call goes on."""
        self._main.book(made)

    async def record_reserve(
        self,
        model: Model,
        reserve: Reserve,
        beside: str | None,
        paid: tuple[int, float],
        *,
        again: bool,
    ) -> None:
        """Record what a further request of the call holds, and wait until it is stored."""
        await self._main.record_reserve(model, reserve, beside, paid, again=again)

    def record_release(self, model: Model, beside: str | None, paid: tuple[int, float]) -> None:
        """Record that nothing is held for a while; others may spend it."""
        self._main.record_release(model, beside, paid)


def _is_stop(error: BaseException) -> bool:
    return isinstance(error, (asyncio.CancelledError, Timeout))


def _may_be_at_work(model: Model) -> bool:
    """Check whether a provider may still work on a request that brought nothing back.

    A model that reports what came of its replies has said so already.
    """
    while isinstance(model, Holding):
        model = model.model
    return model.remote and not model.reports_parts


def _cost(attempt: Attempt, usage: Usage) -> float:
    if usage is NO_USAGE:
        return 0.0
    cost = cost_of(attempt.model, usage)
    if cost is None:
        return 0.0 if attempt.reserve is None else attempt.reserve.usd
    return cost


def _blocks(events: list[LiveEvent]) -> tuple[Block, ...]:
    """Turn what was shown of a reply into blocks, to estimate its tokens."""
    text = "".join([e.text for e in events if isinstance(e, (TextDelta, ThinkingDelta))])
    calls = [event.call for event in events if isinstance(event, ToolCallReady)]
    return (Text(text), *calls) if text else tuple(calls)


def with_max_tokens(request: Request, max_tokens: int | None) -> Request:
    """Return the request with another limit on its reply."""
    settings = msgspec.structs.replace(request.frame.settings, max_tokens=max_tokens)
    frame = msgspec.structs.replace(request.frame, settings=settings)
    return msgspec.structs.replace(request, frame=frame)


def limit_reply(request: Request, reserve: Reserve) -> Request:
    """Limit the reply to what is held back for it."""
    if reserve.max_tokens is None:
        return request
    return with_max_tokens(request, reserve.max_tokens)


def require_price(model: Model) -> None:
    """Refuse a model without a price where dollars are limited."""
    if (one := model.unpriced()) is None:
        return
    raise ConfigError(
        f"{safe_repr(one)} has no price, and a limit in dollars needs one: say it in "
        f'[llm.prices."{one.provider}:{one.name}"] of windlass.toml (0 where it is free), in a '
        "model of your own override price(), or limit tokens instead"
    )


class FreeRoom(NamedTuple):
    """The longest reply that fits, and the limit that leaves no more."""

    room: int
    spent: ReachedLimit


def find_room(limits: Budget, answer: ReserveAnswer, model: Model, inputs: int) -> FreeRoom:
    """Find how long a reply may be beside what is on the books."""
    found: FreeRoom | None = None
    if limits.tokens is not None:
        left = limits.tokens - answer.tokens - inputs
        found = FreeRoom(left, ReachedLimit("tokens", limits.tokens, answer.tokens + inputs))
    if limits.usd is not None:
        usd_in = cost_of(model, Usage(input_tokens=inputs)) or 0.0
        price = (cost_of(model, Usage(output_tokens=1_000_000)) or 0.0) / 1_000_000
        left_usd = limits.usd - answer.usd - usd_in
        left = int(left_usd / price) if price > 0 and left_usd > 0 else -1
        if found is None or left < found.room:
            found = FreeRoom(left, ReachedLimit("usd", limits.usd, answer.usd + usd_in))
    assert found is not None
    return found


async def hold_back(
    ledger: Ledger,
    model: Model,
    inputs: int,
    output: int,
    *,
    closing: bool = False,
    wait: bool = True,
) -> Reserve | ReachedLimit:
    """Hold back what a call of so many tokens may cost, or return the limit in the way."""
    if ledger.priced:
        require_price(model)
    usd_in = cost_of(model, Usage(input_tokens=inputs))
    per_million = cost_of(model, Usage(output_tokens=1_000_000))
    if usd_in is None or per_million is None:
        if ledger.priced:
            raise ConfigError(f"{safe_repr(model)} has no price, and a budget in dollars needs one")
        usd_in = per_million = 0.0
    kind = f"{model.provider}:{model.name}:{output}"
    price = per_million / 1_000_000
    return await ledger.reserve(
        inputs, output, usd_in, price, closing=closing, kind=kind, wait=wait
    )
