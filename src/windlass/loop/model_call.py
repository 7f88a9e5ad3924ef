"""Model calls: the one implementation, and the scope that a run makes them in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.errors import (
    BadReply,
    StoreError,
    TestBroken,
    Timeout,
    attribute,
    error_text,
)
from windlass.events import (
    BudgetExhausted,
    CallReserved,
    HistoryRepaired,
    JournalEntry,
    Replied,
    ReplyFailed,
)
from windlass.loop.intercept import Around
from windlass.loop.ledger import Ledger, ReachedLimit, Reserve
from windlass.loop.meter import Attempt, CallMeter, FailedRequest, OutOfBudget
from windlass.loop.reply import accept_reply, attempts_of, repair_reply
from windlass.loop.state import CallState, ViewState
from windlass.loop.verdict import Stop, Suspend
from windlass.messages import Message
from windlass.models.base import Aside, Emit, Frame, Model, Request, Response, View, silent
from windlass.models.estimates import fill_usage
from windlass.models.history import audit, repair
from windlass.models.meter import current_meter
from windlass.redaction.redactor import Redactor
from windlass.store.base import Journal
from windlass.usage import NO_USAGE

_set_meter, _get_meter = current_meter.set, current_meter.get


class ModelCallScope(CallMeter):
    """The scope of a model call: a run, or `llm_call` outside of any run.

    It meters the requests that the call is made of, and says where they are recorded.
    """

    ids: set[str] | None = None  # of calls that a reply may not use again; None: any will do
    around: Around | None = None  # makes the request in the model's place

    def prepare(
        self, model: Model, request: Request, purpose: str | None, reserve: Reserve | None
    ) -> Request:
        """Record what the request is made of and what is held for it; return what may be sent."""
        raise NotImplementedError

    async def store_reserve(self, reserve: Reserve) -> None:
        """Wait until the reserve is stored, so that it is known after a crash."""
        raise NotImplementedError

    def record_refusal(self, spent: ReachedLimit) -> None:
        """Record that a limit leaves no room for the call."""
        raise NotImplementedError

    def record_asides(self, model: Model, request: Request, asides: tuple[Aside, ...]) -> None:
        """Record replies that were paid for beside the answer."""
        raise NotImplementedError

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
        raise NotImplementedError

    def record_failure(
        self, model: Model, error: BaseException, purpose: str | None, duration_ms: float
    ) -> BaseException:
        """Settle and record a call that gave no reply; return the error to raise."""
        raise NotImplementedError

    async def store_rows(self) -> None:
        """Store the rows of the call."""


async def call_model(
    call: ModelCallScope, model: Model, request: Request, purpose: str | None, emit: Emit = silent
) -> Response:
    """Make a model call: reserve, send, price, settle, redact and record, in this order.

    The one implementation: turns, policies, judges, summaries and `llm_call` all come here.
    """
    ledger = call.ledger
    metered = ledger.root.limited and ledger.metered
    if metered:
        request = await _reserve(call, model, request, purpose)
    else:
        request = call.prepare(model, request, purpose, None)
    if seams.watched:
        seams.point("model.before_request")
    started = seams.monotonic()
    if not metered:
        call.attempt = Attempt(model, request, None, started)
    before = _get_meter()
    _set_meter(call)
    try:
        watched = emit if model.reports_parts else call.watch(emit)
        if request.frame.settings.timeout is not None:
            answer = await _respond_in_time(call, model, request, watched, purpose)
        elif call.around is None:
            answer = await model.respond(request, watched)
        else:
            answer = await call.around.respond(model, request, watched, purpose)
        response = repair_reply(answer) if call.ids is None else accept_reply(answer, call.ids)
    except BaseException as error:
        failed = call.record_failure(model, error, purpose, (seams.monotonic() - started) * 1000)
        if call.stores_rows and not isinstance(error, GeneratorExit):
            await call.store_rows()
        if failed is error:
            raise
        raise failed from error
    finally:
        _set_meter(before)
    if seams.watched:
        seams.point("model.after_reply")
    if not response.usage.input_tokens:
        response = fill_usage(model, request, response)
    if response.asides:
        call.record_asides(model, request, response.asides)
    limit = None
    if response.stop_reason == "max_tokens" and (reserve := call.reserve) is not None:
        limit = reserve.limit
    cost = call.settle(response, model)
    ledger.root.count(response.usage)
    if limit is not None:
        response = msgspec.structs.replace(response, shortened=limit)
    if call.redactor is not None:
        message = call.redactor.value(response.message)
        if message is not response.message:
            response = msgspec.structs.replace(response, message=message)
    took = (seams.monotonic() - started) * 1000
    call.record_reply(model, request, response, purpose, cost, took)
    if call.stores_rows:
        await call.store_rows()
    return response


async def _respond_in_time(
    call: ModelCallScope, model: Model, request: Request, emit: Emit, purpose: str | None
) -> Response:
    """Make the call, with its retries and their waits, within the `timeout` of its settings."""
    seconds = request.frame.settings.timeout
    clock = asyncio.timeout(seconds)
    try:
        async with clock:
            if call.around is None:
                return await model.respond(request, emit)
            return await call.around.respond(model, request, emit, purpose)
    except TimeoutError:
        if not clock.expired():
            raise
    raise Timeout(
        f"no reply within {seconds:g} s, the timeout of the call",
        provider=model.provider,
        model=model.name,
    )


async def _reserve(
    call: ModelCallScope, model: Model, request: Request, purpose: str | None
) -> Request:
    """Hold back what the request may cost, and store that before it is sent."""
    try:
        request = await call.begin(model, request)
    except OutOfBudget as refused:
        call.record_refusal(refused.spent)
        raise
    reserve = call.reserve
    try:
        request = call.prepare(model, request, purpose, reserve)
        if reserve is not None:
            await call.store_reserve(reserve)
    except BaseException as error:
        # Nobody was asked, and others wait for what is held.
        call.ledger.settle(reserve, 0, 0.0)
        if call.stores_rows and not isinstance(error, GeneratorExit):
            await call.store_rows()
        raise
    return request


class CallingRun(Protocol):
    """The part of a run that its model calls use."""

    model: Model
    ledger: Ledger
    calls: CallState
    view: ViewState
    journal: Journal
    caller: Caller
    redactor: Redactor | None
    around: Around | None
    interruption: Stop | Suspend | None
    record: Callable[[JournalEntry], None]

    @property
    def messages(self) -> View:
        """The view: the messages that the model has seen and written."""
        ...

    @property
    def reply_tokens(self) -> int:
        """What a reply may have that nobody limits."""
        ...

    def note(self, event: JournalEntry | str) -> None:
        """Put something on the record."""
        ...

    def reframe(self, frame: Frame, why: str) -> None:
        """Put a frame on the record."""
        ...

    def reshape(self, span: tuple[int, int], messages: Sequence[Message], why: str) -> None:
        """Replace messages of the view."""
        ...

    async def store_record(self) -> None:
        """Wait until all that is recorded is stored."""
        ...


class RunCall(ModelCallScope, kw_only=True):
    """A model call of a run: `call_model(RunCall.of(run, request), model, request, "judge")`."""

    run: CallingRun
    request: Request
    purpose: str | None = None
    _replaced: bool = False  # its row has taken what was held for it off the books

    @staticmethod
    def of(run: CallingRun, request: Request, *, closing: bool = False) -> RunCall:
        """Build it; with `closing` it may spend what is kept back for a closing answer."""
        ledger, tenant = run.ledger, run.caller.tenant
        call = RunCall(
            ledger,
            tenant,
            run.redactor,
            closing=closing,
            ids=run.calls.ids,
            around=run.around,
            run=run,
            request=request,
        )
        if ledger.root.period is not None:
            session = run.journal.session_id
            call.names = {"session": session, "tenant": tenant, "caller": str(run.caller)}
        return call

    @property
    def output(self) -> int:
        """The tokens assumed for a reply without a limit."""
        return self.run.reply_tokens

    def estimate(self, request: Request) -> int:
        """Estimate the tokens of a request."""
        return self.run.view.estimate(request)

    def book(self, made: FailedRequest | Aside) -> None:
        """Record a request that came to nothing while its call goes on."""
        run, request = self.run, self.request
        if isinstance(made, Aside):
            self._record_asides(run.model, request, (made,), tuple(request.messages))
            return
        run.ledger.root.count(made.usage)
        run.record(
            ReplyFailed(
                _category(made.error),
                error_text(made.error),
                made.model.provider,
                made.model.name,
                made.purpose,
                made.usage,
                made.cost_usd,
                made.duration_ms,
            )
        )
        if run.ledger.shared:
            run.journal.flush()

    def prepare(
        self, model: Model, request: Request, purpose: str | None, reserve: Reserve | None
    ) -> Request:
        """Record what the request is made of and what is held for it; return what may be sent."""
        run = self.run
        view, messages = run.view, request.messages
        # Where the loop itself put the last round together, every call has its result.
        if (
            type(messages) is not View
            or messages.strand is not view.strand
            or view.strand.audited != messages.size
        ):
            request = _check_pairing(run, request)
        if request.frame is not view.recorded_frame:
            before = view.frame
            run.reframe(request.frame, purpose or "request")
            view.frame = before
        if reserve is not None:
            self.purpose = purpose
            run.record(_reserve_entry(model, reserve, purpose))
            self.recording = True
        run.journal.flush()
        return request

    async def store_reserve(self, reserve: Reserve) -> None:
        """Wait until the reserve is stored, so that it is known after a crash."""
        if not self.run.journal.immediate:
            await self.run.journal.durable()

    async def store_rows(self) -> None:
        """Take what was held for the call off the books: its journal has what came of it."""
        run, places, period = self.run, self.take_places(), self.ledger.root.period
        try:
            run.journal.flush()
            if not run.journal.immediate:
                await run.journal.durable()
            if period is not None and not self._replaced:
                await period.record((), places)
        except StoreError:  # the journal says so again to whoever writes to it next
            pass
        finally:
            self.close_places()

    def _replace_reserved(self) -> None:
        """Let the row with the outcome of the call replace what was held for it on the books."""
        period = self.ledger.root.period
        if period is not None and self.stores_rows:
            self._replaced = period.replace_with_row(self.run.journal, self.take_places())

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
        run = self.run
        run.record(_reserve_entry(model, reserve, beside or self.purpose, paid, again=again))
        await run.store_record()

    def record_release(self, model: Model, beside: str | None, paid: tuple[int, float]) -> None:
        """Record that nothing is held for a while; others may spend it."""
        run = self.run
        if run.ledger.shared:
            run.record(_reserve_entry(model, None, beside or self.purpose, paid, again=True))
            run.journal.flush()

    def record_refusal(self, spent: ReachedLimit) -> None:
        """Record that a limit leaves no room for the call."""
        self.run.record(BudgetExhausted(spent.limit, spent.allowed, spent.used))

    def record_asides(self, model: Model, request: Request, asides: tuple[Aside, ...]) -> None:
        """Record replies that were paid for beside the answer."""
        messages = request.messages
        shown = type(messages) is View and messages.strand is self.run.view.strand
        self._record_asides(model, request, asides, None if shown else tuple(messages))

    def _record_asides(
        self,
        model: Model,
        request: Request,
        asides: tuple[Aside, ...],
        rewritten: tuple[Message, ...] | None,
    ) -> None:
        run = self.run
        for aside in asides:
            reply = aside.response
            run.record(
                Replied(
                    reply.message,
                    reply.usage,
                    reply.stop_reason,
                    reply.provider or model.provider,
                    reply.model or model.name,
                    len(request.messages),
                    run.view.frame_digest,
                    aside.purpose,
                    request.tail,
                    rewritten,
                    aside.cost_usd,
                    aside.duration_ms,
                    reply.native_id,
                    reply.via,
                    reply.attempts,
                )
            )
            run.ledger.root.count(reply.usage)

    def record_reply(
        self,
        model: Model,
        request: Request,
        response: Response,
        purpose: str | None,
        cost_usd: float,
        duration_ms: float,
    ) -> None:
        """Record the answer, with what rebuilds the request from the journal."""
        run, sent = self.run, request.messages
        view, record = run.view, run.record
        rewritten, same = None, 0
        if type(sent) is View and sent.strand is view.strand:
            size = sent.size
        else:
            size = len(sent)
            same = 0 if purpose is not None else _count_same(view.rewritten, sent)
            rewritten = tuple(sent[same:])
        record(
            Replied(
                response.message,
                response.usage,
                response.stop_reason,
                response.provider or model.provider,
                response.model or model.name,
                size,
                view.frame_digest,
                purpose,
                request.tail,
                rewritten,
                cost_usd,
                duration_ms,
                response.native_id,
                response.via,
                response.attempts,
                same,
                response.shortened,
            )
        )
        if self.stores_rows:
            self._replace_reserved()
        if self.recording and run.ledger.shared:
            run.journal.flush()  # on its way before others can spend what it left
        if rewritten is not None and purpose is None:
            view.rewritten = sent
        if response.notes:
            for note in response.notes:
                run.note(note)

    def record_failure(
        self, model: Model, error: BaseException, purpose: str | None, duration_ms: float
    ) -> BaseException:
        """Settle and record a call that gave no reply; return the error to raise."""
        run, made = self.run, self.give_up(error, model)
        if isinstance(error, OutOfBudget):  # no room for another request, or a caller's own budget
            self.record_refusal(error.spent)
            return error
        if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
            return error
        if isinstance(error, asyncio.CancelledError) and not _is_cancelled(run):
            error = BadReply("the model cancelled its own call")
        usage, cost = (NO_USAGE, 0.0) if made is None else (made.usage, made.cost_usd)
        asked = model if made is None else made.model
        run.ledger.root.count(usage)
        run.record(
            ReplyFailed(
                _category(error),
                error_text(error),
                asked.provider,
                asked.name,
                purpose,
                usage,
                cost,
                duration_ms,
                attempts_of(error),
            )
        )
        if self.stores_rows:
            self._replace_reserved()
        if run.ledger.shared:
            run.journal.flush()
        return error


def _is_cancelled(run: CallingRun) -> bool:
    """Check whether the run, or the task that asks, is being cancelled."""
    task = asyncio.current_task()
    return run.interruption is not None or task is None or task.cancelling() > 0


def _reserve_entry(
    model: Model,
    reserve: Reserve | None,
    purpose: str | None,
    paid: tuple[int, float] = (0, 0.0),
    *,
    again: bool = False,
) -> CallReserved:
    tokens, usd = paid
    output = 0
    if reserve is not None:
        tokens, output, usd = (
            reserve.input_tokens + tokens,
            reserve.output_tokens,
            reserve.usd + usd,
        )
    return CallReserved(tokens, output, usd, model.provider, model.name, purpose, again)


def _count_same(before: Sequence[Message], now: Sequence[Message]) -> int:
    """Count the messages at the front of two requests that are the same."""
    most = min(len(before), len(now))
    if type(now) is View and type(before) is View and now.strand is before.strand:
        return most
    at = 0
    for one, other in zip(before, now, strict=False):
        if one is not other and one != other:
            break
        at += 1
    return at


def _category(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return attribute(error, "category") or "model_error"


def _check_pairing(run: CallingRun, request: Request) -> Request:
    """Return the request once it is sure that every call in it has exactly one result (I1)."""
    messages = request.messages
    strand = messages.strand if type(messages) is View else None
    problems = audit(messages, 0 if strand is None else strand.audited, tail=request.tail)
    if not problems:
        if strand is not None:
            strand.audited = len(messages)
        return request
    if seams.strict:
        raise TestBroken(f"a request breaks I1: {'; '.join(problems)}")
    mended, problems = repair(messages)
    run.record(HistoryRepaired(tuple(problems)))
    if strand is not run.view.strand:
        return msgspec.structs.replace(request, messages=tuple(mended))
    run.reshape((0, len(messages)), mended, "history_repaired")
    return msgspec.structs.replace(request, messages=run.messages)
