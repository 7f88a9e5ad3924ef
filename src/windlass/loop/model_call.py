"""A model call of a run: shaped, audited, reserved, made, settled and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

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
from windlass.loop.ledger import Reserve
from windlass.loop.meter import CallMeter, FailedRequest, OutOfBudget
from windlass.loop.policy import invalid_answer
from windlass.loop.reminders import age_reminders
from windlass.loop.reply import accept_reply, attempts_of
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.messages import Message, ToolResult, characters
from windlass.models.base import Aside, Emit, Model, Request, Response, silent
from windlass.models.estimates import fill_usage, weigh_frame
from windlass.models.history import audit, repair
from windlass.models.meter import current_meter
from windlass.models.view import View
from windlass.usage import NO_USAGE, Usage

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
            response = await call_model(run, request, None, emit)
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
        run.turn = turn = Turn(run.number, message, response.stop_reason, response.usage)
        turn.shortened = response.shortened
        return turn


async def _recover_from_error(run: Run, error: ModelError) -> bool:
    for mend in run.plan.moments.on_model_error:
        if await mend(run, error) is not None:
            return True
    return False


async def call_model(
    run: Run,
    request: Request,
    purpose: str | None,
    emit: Emit = silent,
    *,
    closing: bool = False,
    model: Model | None = None,
) -> Response:
    """Make the call and put it on the record, whatever becomes of it."""
    if model is None:
        model = run.model
    meter, metered = _RunMeter(run, request), run.ledger.metered
    if closing:
        meter.allow_kept_back()
    if metered:
        request = await _begin_call(run, meter, model, request, purpose)
        meter.recorder = _Recorder(run, purpose)
    else:
        request = _on_record(run, model, request, purpose, None)
    seams.point("model.before_request")
    started = seams.monotonic()
    if not metered:
        meter.start(model, request, started)
    before = current_meter.set(meter)
    try:
        watched = emit if model.reports_parts else meter.watch(emit)
        if run.around is None:
            answer = await model.respond(request, watched)
        else:
            answer = await run.around.respond(model, request, watched, purpose)
        response = accept_reply(answer, run.calls.ids)
    except BaseException as error:
        took = (seams.monotonic() - started) * 1000
        failed = _record_failed_call(run, model, meter, error, purpose, took)
        if failed is error:
            raise
        raise failed from error
    finally:
        current_meter.reset(before)
    seams.point("model.after_reply")
    if not response.usage.input_tokens:
        response = fill_usage(model, request, response)
    return _settle_and_record(run, model, request, response, purpose, meter, started)


class _RunMeter(CallMeter):
    """The meter of a run's call; requests that come to nothing on the way are on the record."""

    def __init__(self, run: Run, request: Request) -> None:
        self._run, self._request, self._ledger = run, request, run.ledger
        self._output = run.plan.reply_tokens
        if (tenant := run.caller.tenant) is not None:
            self.tenant = tenant
        if run.redactor is not None:
            self.redactor = run.redactor

    def _estimate(self, request: Request) -> int:
        return tokens_of(self._run, request)

    def _book(self, made: FailedRequest | Aside) -> None:
        run, request = self._run, self._request
        if isinstance(made, Aside):
            _beside(run, run.model, request, (made,), tuple(request.messages))
        else:
            _failed_on_the_way(run, made)


async def _begin_call(
    run: Run, meter: CallMeter, model: Model, request: Request, purpose: str | None
) -> Request:
    """The request, reserved and on the record."""
    try:
        request = await meter.begin(model, request)
    except OutOfBudget as refused:
        spent = refused.spent
        run.record(BudgetExhausted(spent.limit, spent.allowed, spent.used))
        raise
    reserve = meter.reserve
    request = _on_record(run, model, request, purpose, reserve)
    if reserve is not None and not run.journal.immediate:
        await _wait_until_stored(run, reserve)
    return request


class _Recorder:
    """Puts what further requests of a call hold back on the record, and waits for it to be stored."""

    def __init__(self, run: Run, purpose: str | None) -> None:
        self.run, self.purpose = run, purpose

    async def record_reserve(
        self,
        model: Model,
        reserve: Reserve,
        beside: str | None,
        paid: tuple[int, float],
        *,
        again: bool,
    ) -> None:
        """A request is about to be made."""
        run = self.run
        run.record(_reserve_entry(model, reserve, beside or self.purpose, paid, again=again))
        run.journal.flush()
        if not run.journal.immediate:
            await run.journal.durable()

    def record_release(self, model: Model, beside: str | None, paid: tuple[int, float]) -> None:
        """Nothing is held for a while; others may spend it."""
        run = self.run
        if run.ledger.shared:
            run.record(_reserve_entry(model, None, beside or self.purpose, paid, again=True))
            run.journal.flush()


def _reserve_entry(
    model: Model,
    reserve: Reserve | None,
    purpose: str | None,
    paid: tuple[int, float] = (0, 0.0),
    *,
    again: bool = False,
) -> CallReserved:
    tokens, usd = paid
    if reserve is None:
        return CallReserved(tokens, 0, usd, model.provider, model.name, purpose, again)
    return CallReserved(
        reserve.input_tokens + tokens,
        reserve.output_tokens,
        reserve.usd + usd,
        model.provider,
        model.name,
        purpose,
        again,
    )


def _settle_and_record(
    run: Run,
    model: Model,
    request: Request,
    response: Response,
    purpose: str | None,
    meter: CallMeter,
    started: float,
) -> Response:
    """Settle what the reply cost, and put it on the record."""
    usage, seen = response.usage, request.messages
    rewritten, same = None, 0
    if type(seen) is not View or seen.strand is not run.view.strand:
        same = 0 if purpose is not None else _same(run.view.rewritten, seen)
        rewritten = tuple(seen[same:])
    if response.asides:
        whole = None if rewritten is None else tuple(seen)
        _beside(run, model, request, response.asides, whole)
    reserve = None if meter.attempt is None else meter.attempt.reserve
    cost = meter.settle(response, model)
    run.ledger.root.count(usage)
    message = response.message
    if reserve is not None and reserve.limit is not None and response.stop_reason == "max_tokens":
        response = msgspec.structs.replace(response, shortened=reserve.limit)
    if run.redactor is not None:
        message = run.redactor.value(message)
        if message is not response.message:
            response = msgspec.structs.replace(response, message=message)
    run.record(
        Replied(
            message,
            usage,
            response.stop_reason,
            response.provider or model.provider,
            response.model or model.name,
            len(seen),
            run.view.frame_digest,
            purpose,
            request.tail,
            rewritten,
            cost,
            (seams.monotonic() - started) * 1000,
            response.native_id,
            response.via,
            response.attempts,
            same,
            response.shortened,
        )
    )
    if reserve is not None and run.ledger.shared:
        run.journal.flush()  # on its way before others can spend what it left
    if rewritten is not None and purpose is None:
        run.view.rewritten = seen
    for note in response.notes:
        run.note(note)
    return response


def _same(before: Sequence[Message], now: Sequence[Message]) -> int:
    """How many messages at the front of two requests are the same."""
    most = min(len(before), len(now))
    if type(now) is View and type(before) is View and now.strand is before.strand:
        return most
    at = 0
    for one, other in zip(before, now, strict=False):
        if one is not other and one != other:
            break
        at += 1
    return at


async def _wait_until_stored(run: Run, reserve: Reserve) -> None:
    """Wait until what is held back is stored: whoever takes the run up knows what it may have cost."""
    try:
        await run.journal.durable()
    except BaseException:
        run.ledger.settle(reserve, 0, 0.0)
        raise


def _on_record(
    run: Run, model: Model, request: Request, purpose: str | None, reserve: Reserve | None
) -> Request:
    """The request as it may be sent, and all that it is made of handed to the store."""
    try:
        request = _check_pairing(run, request)
        if request.frame is not run.view.recorded_frame:
            before = run.view.frame
            run.reframe(request.frame, purpose or "request")
            run.view.frame = before
        if reserve is not None:
            run.record(_reserve_entry(model, reserve, purpose))
        run.journal.flush()
        return request
    except BaseException:
        run.ledger.settle(reserve, 0, 0.0)  # nobody was asked, and others wait for what is held
        raise


def _record_failed_call(
    run: Run,
    model: Model,
    meter: CallMeter,
    error: BaseException,
    purpose: str | None,
    took: float,
) -> BaseException:
    """Put a call that gave no reply on the record; the error to go on with."""
    made = meter.give_up(error, model)
    if isinstance(error, OutOfBudget):  # no room for another request, or a caller's own budget
        spent = error.spent
        run.record(BudgetExhausted(spent.limit, spent.allowed, spent.used))
        return error
    failed = _failure(run, error)
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        return error
    reason = error if failed is None else failed
    usage, cost = (NO_USAGE, 0.0) if made is None else (made.usage, made.cost_usd)
    asked = model if made is None else made.model
    _count(run, usage)
    run.record(
        ReplyFailed(
            _category(reason),
            error_text(reason),
            asked.provider,
            asked.name,
            purpose,
            usage,
            cost,
            took,
            attempts_of(reason),
        )
    )
    if run.ledger.shared:
        run.journal.flush()
    return reason


def _failed_on_the_way(run: Run, made: FailedRequest) -> None:
    """Put a request on the record that failed while its call went on."""
    _count(run, made.usage)
    category, words = _category(made.error), error_text(made.error)
    model = made.model
    run.record(
        ReplyFailed(
            category,
            words,
            model.provider,
            model.name,
            made.purpose,
            made.usage,
            made.cost_usd,
            made.duration_ms,
        )
    )
    if run.ledger.shared:
        run.journal.flush()


def _category(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return attribute(error, "category") or "model_error"


def _count(run: Run, usage: Usage) -> None:
    run.ledger.root.count(usage)


def _beside(
    run: Run,
    model: Model,
    request: Request,
    asides: tuple[Aside, ...],
    rewritten: tuple[Message, ...] | None,
) -> None:
    """Put replies that were paid for on the way on the record."""
    for aside in asides:
        reply, usage = aside.response, aside.response.usage
        run.record(
            Replied(
                reply.message,
                usage,
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
        _count(run, usage)


def _failure(run: Run, error: BaseException) -> BaseException | None:
    """What became of the call, for the record; None: the run or the process is being ended."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        return None
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if run.interruption is not None or task is None or task.cancelling():
            return None
        return BadReply("the model cancelled its own call")
    return error


def _check_pairing(run: Run, request: Request) -> Request:
    """The request, once it is sure that every call in it has exactly one result (I1)."""
    messages = request.messages
    strand, size = messages.strand if type(messages) is View else None, len(messages)
    own = strand is run.view.strand
    if strand is not None and own and _one_more_round(run, size):
        strand.audited = size
        return request
    problems = audit(messages, 0 if strand is None else strand.audited, tail=request.tail)
    if not problems:
        if strand is not None:
            strand.audited = size
        return request
    if seams.strict:
        raise TestBroken(f"a request breaks I1: {'; '.join(problems)}")
    mended, problems = repair(messages)
    run.record(HistoryRepaired(tuple(problems)))
    if not own:
        return msgspec.structs.replace(request, messages=tuple(mended))
    run.reshape((0, size), mended, "history_repaired")
    return msgspec.structs.replace(request, messages=run.view.strand.snapshot())


def _one_more_round(run: Run, size: int) -> bool:
    """Is all that is new the prompt, or one reply and the answer to its calls? Seen at a glance."""
    turn, items, audited = run.turn, run.view.strand.items, run.view.strand.audited
    if size == 1 and audited == 0:
        return items[0].role == "user"
    if turn is None or audited != size - 2 or items[size - 2] is not turn.message:
        return False
    answers = items[size - 1]
    if answers.role != "tool" or len(answers.content) != len(turn.calls):
        return False
    for call, result in zip(turn.calls, answers.content, strict=True):
        if type(result) is not ToolResult or result.id != call.id:
            return False
    return True


def tokens_of(run: Run, request: Request) -> int:
    """Roughly the tokens of a request. What was counted stays counted."""
    messages = request.messages
    weight = weigh_frame(request.frame) + characters(request.tail)
    if type(messages) is View:
        weight += run.view.count_characters(messages.strand, len(messages))
    else:
        weight += characters(messages)
    return weight // 4 + 1
