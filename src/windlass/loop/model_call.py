"""Model calls: the one implementation, and the scope that a run makes them in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from windlass import seams
from windlass.errors import (
    BadReply,
    ConfigError,
    ModelError,
    TestBroken,
    attribute,
    error_text,
)
from windlass.events import (
    BudgetExhausted,
    CallReserved,
    HistoryRepaired,
    Replied,
    ReplyFailed,
)
from windlass.loop.intercept import Around
from windlass.loop.ledger import ReachedLimit, Reserve
from windlass.loop.meter import Attempt, CallMeter, FailedRequest, OutOfBudget
from windlass.loop.policy import invalid_answer
from windlass.loop.reminders import age_reminders
from windlass.loop.reply import accept_reply, attempts_of, repair_reply
from windlass.loop.turn import Turn
from windlass.messages import Message, characters
from windlass.models.base import Aside, Emit, Model, Request, Response, silent
from windlass.models.estimates import fill_usage, weigh_frame
from windlass.models.history import audit, repair
from windlass.models.meter import current_meter
from windlass.models.view import View
from windlass.usage import NO_USAGE

if TYPE_CHECKING:
    from windlass.loop.run import Run

MOST_MENDED = 8  # times in one turn; a policy that says TryAgain for ever does not hold the run


async def ask(run: Run, emit: Emit) -> Turn:
    """Ask the model for the next turn; a failed call is offered to the policies that can mend it."""
    due = len(run.view.reminders)  # what is said from here on is for the next request
    tail = tuple([one.message for one in run.view.reminders]) if due else ()
    mended = 0
    while True:
        request = Request(run.view.strand.snapshot(), run.view.frame, tail)
        for shape in run.plan.moments.before_model:
            shaped = await shape(run, request)
            if shaped is not None and shaped is not request:
                if type(shaped) is not Request:
                    raise invalid_answer(shape, shaped, "a Request or None")
                if not shaped.messages and not shaped.tail:
                    raise ConfigError(
                        f"policy {shape.__self__.name!r} left nothing of the request: no provider "
                        "answers one without messages"
                    )
                request = shaped
        try:
            response = await call_model(RunCall(run, request), run.model, request, None, emit)
        except ModelError as error:
            mended += 1
            if mended > MOST_MENDED or not await _recover_from_error(run, error):
                raise
            continue
        if due:
            run.view.reminders = age_reminders(run.view.reminders, due)
        run.iteration += 1
        run.ledger.iterations += 1
        message = response.message
        run.view.strand.items.append(message)
        if run.plan.deliberates:
            run.journal.flush()
        calls = message.tool_calls
        run.turn = turn = Turn(
            run.number,
            message,
            response.stop_reason,
            response.usage,
            calls,
            bool(calls),
            response.shortened,
        )
        return turn


async def _recover_from_error(run: Run, error: ModelError) -> bool:
    for mend in run.plan.moments.on_model_error:
        if await mend(run, error) is not None:
            return True
    return False


class ModelCallScope(CallMeter):
    """Whoever makes a model call: a run, or `llm_call` outside of any run.

    It meters the requests that the call is made of, and says where they are recorded.
    """

    ids: set[str] | None = None  # of calls that a reply may not use again; None: any will do
    around: Around | None = None  # makes the request in the model's place
    stores_rows = False  # has rows of its own for the store when the call is over

    def prepare(
        self, model: Model, request: Request, purpose: str | None, reserve: Reserve | None
    ) -> Request:
        """Record what the request is made of and what is held for it; return what may be sent."""
        raise NotImplementedError

    async def store_reserve(self, reserve: Reserve) -> None:
        """Wait until what is held is stored: whoever comes after a crash knows what it may cost."""
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
    metered = call.ledger.metered
    if metered:
        request = await _reserve(call, model, request, purpose)
    else:
        request = call.prepare(model, request, purpose, None)
    seams.point("model.before_request")
    started = seams.monotonic()
    if not metered:
        call.attempt = Attempt(model, request, None, started)
    before = current_meter.set(call)
    try:
        watched = emit if model.reports_parts else call.watch(emit)
        if call.around is None:
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
        current_meter.reset(before)
    seams.point("model.after_reply")
    if not response.usage.input_tokens:
        response = fill_usage(model, request, response)
    if response.asides:
        call.record_asides(model, request, response.asides)
    attempt = call.attempt
    limit = None if attempt is None or attempt.reserve is None else attempt.reserve.limit
    cost = call.settle(response, model)
    call.ledger.root.count(response.usage)
    if limit is not None and response.stop_reason == "max_tokens":
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
    except BaseException:
        # Nobody was asked, and others wait for what is held.
        call.ledger.settle(reserve, 0, 0.0)
        raise
    return request


class RunCall(ModelCallScope):
    """A model call of a run: `await call_model(RunCall(run, request), model, request, "judge")`.

    With `closing` it may spend what is kept back for a closing answer.
    """

    purpose: str | None = None

    def __init__(self, run: Run, request: Request, *, closing: bool = False) -> None:
        self.run, self.request, self.ledger = run, request, run.ledger
        self.ids = run.calls.ids
        if closing:
            self.closing = True
        if run.around is not None:
            self.around = run.around
        if run.caller.tenant is not None:
            self.tenant = run.caller.tenant
        if run.redactor is not None:
            self.redactor = run.redactor

    @property
    def output(self) -> int:
        """What a reply may have that nobody limits, in tokens."""
        return self.run.plan.reply_tokens

    def estimate(self, request: Request) -> int:
        """Estimate the tokens of a request."""
        return estimate_request_of(self.run, request)

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
        """Wait until what is held is stored: whoever comes after a crash knows what it may cost."""
        if not self.run.journal.immediate:
            await self.run.journal.durable()

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
        view, rewritten, same = run.view, None, 0
        if type(sent) is not View or sent.strand is not view.strand:
            same = 0 if purpose is not None else _count_same(view.rewritten, sent)
            rewritten = tuple(sent[same:])
        run.record(
            Replied(
                response.message,
                response.usage,
                response.stop_reason,
                response.provider or model.provider,
                response.model or model.name,
                len(sent),
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
        if self.recording and run.ledger.shared:
            run.journal.flush()  # on its way before others can spend what it left
        if rewritten is not None and purpose is None:
            view.rewritten = sent
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
        if run.ledger.shared:
            run.journal.flush()
        return error


def _is_cancelled(run: Run) -> bool:
    """Tell whether somebody cancels the run, or the task that asks."""
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


def _check_pairing(run: Run, request: Request) -> Request:
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


def estimate_request_of(run: Run, request: Request) -> int:
    """Estimate the tokens of a request; what was counted stays counted."""
    messages = request.messages
    weight = weigh_frame(request.frame) + characters(request.tail)
    if type(messages) is View:
        weight += run.view.count_characters(messages.strand, len(messages))
    else:
        weight += characters(messages)
    return weight // 4 + 1
