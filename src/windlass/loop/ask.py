"""A model call of a run: shaped, audited, reserved, made, settled and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from windlass import seams
from windlass.errors import (
    BadReply,
    BudgetExceeded,
    ConfigError,
    ModelError,
    TestBroken,
    attribute,
    said,
    shown,
)
from windlass.events import (
    BudgetExhausted,
    CallReserved,
    HistoryRepaired,
    Replied,
    ReplyFailed,
)
from windlass.loop.ledger import Ledger, Reserve, Spent
from windlass.loop.policy import misplaced
from windlass.loop.reminding import aged
from windlass.loop.reply import attempts_of, cost_of, take
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.messages import Message, ToolResult, characters
from windlass.models.audit import audit, repair
from windlass.models.base import Aside, Emit, Model, Request, Response, silent
from windlass.models.view import View
from windlass.usage import NO_USAGE, Usage

MOST_MENDED = 8  # times in one turn; a policy that says TryAgain for ever does not hold the run


class OutOfBudget(BudgetExceeded):
    """A call was not made: a limit leaves no room for it."""

    def __init__(self, spent: Spent) -> None:
        super().__init__(f"{spent.limit}: {spent.used:g} of {spent.allowed:g} are spent")
        self.spent = spent


async def ask(run: Run, emit: Emit) -> Turn:
    """Ask the model for the next turn; a failed call is offered to the policies that can mend it."""
    due = len(run.reminders)  # what is said from here on is for the next request
    tail = tuple([one.message for one in run.reminders]) if due else ()
    mended = 0
    while True:
        request = Request(run.strand.snapshot(), run.frame, tail)
        for shape in run.moments.before_model:
            shaped = await shape(run, request)
            if shaped is not None and shaped is not request:
                if type(shaped) is not Request:
                    raise misplaced(shape, shaped, "a Request or None")
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
            if mended > MOST_MENDED or not await _mended(run, error):
                raise
            continue
        if due:
            run.reminders = aged(run.reminders, due)
        run.iteration += 1
        run.ledger.iterations += 1
        message = response.message
        run.strand.items.append(message)
        if run.plan.deliberates:
            run.journal.flush()
        run.turn = turn = Turn(run.number, message, response.stop_reason, response.usage)
        turn.shortened = response.shortened
        return turn


async def _mended(run: Run, error: ModelError) -> bool:
    for mend in run.moments.on_model_error:
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
    reserve: Reserve | None = None
    if model is None:
        model = run.model
    if run.metered:
        request, reserve = await _held_back(run, model, request, closing)
    request = _on_record(run, model, request, purpose, reserve)
    if reserve is not None and not run.journal.immediate:
        await _stored(run, reserve)
    seams.point("model.before_request")
    started = seams.monotonic()
    try:
        if run.around is None:
            response = take(await model.respond(request, emit), run.call_ids)
        else:
            answer = await run.around.respond(model, request, emit, purpose)
            response = take(answer, run.call_ids)
    except BaseException as error:
        took = (seams.monotonic() - started) * 1000
        failed = _unanswered(run, model, reserve, error, purpose, took)
        if failed is error:
            raise
        raise failed from error
    seams.point("model.after_reply")
    return _booked(run, model, request, response, purpose, reserve, started)


def _booked(
    run: Run,
    model: Model,
    request: Request,
    response: Response,
    purpose: str | None,
    reserve: Reserve | None,
    started: float,
) -> Response:
    """Settle what the reply cost, and put it on the record."""
    usage = response.usage
    cost = cost_of(model, usage)
    if cost is None:  # who cannot say is charged what was held back
        cost = reserve.usd if reserve is not None else 0.0
    tokens, seen = usage.input_tokens + usage.output_tokens, request.messages
    rewritten, same = None, 0
    if type(seen) is not View or seen.strand is not run.strand:
        same = 0 if purpose is not None else _same(run.sent, seen)
        rewritten = tuple(seen[same:])
    if response.asides:
        whole = None if rewritten is None else tuple(seen)
        used, paid = _beside(run, model, request, response.asides, whole)
        run.ledger.settle(reserve, tokens + used, cost + paid)
    else:
        run.ledger.settle(reserve, tokens, cost)
    run.books.count(usage)
    run.input_tokens += usage.input_tokens
    run.output_tokens += usage.output_tokens
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
            run.frame_digest,
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
        )  # fmt: skip
    )
    if rewritten is not None and purpose is None:
        run.sent = seen
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


async def _stored(run: Run, reserve: Reserve) -> None:
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
        request = _audited(run, request)
        if request.frame is not run.on_record:
            before = run.frame
            run.reframe(request.frame, purpose or "request")
            run.frame = before
        if reserve is not None:
            run.record(
                CallReserved(
                    reserve.input_tokens,
                    reserve.output_tokens,
                    reserve.usd,
                    model.provider,
                    model.name,
                    purpose,
                )
            )
        run.journal.flush()
        return request
    except BaseException:
        run.ledger.settle(reserve, 0, 0.0)  # nobody was asked, and others wait for what is held
        raise


async def _held_back(
    run: Run, model: Model, request: Request, closing: bool
) -> tuple[Request, Reserve]:
    """What the call may cost, held back; its reply is limited to what is left."""
    reserve = await _reserve(run, model, request, closing)
    if isinstance(reserve, Spent):
        run.record(BudgetExhausted(reserve.limit, reserve.allowed, reserve.used))
        raise OutOfBudget(reserve)
    return limited(request, reserve), reserve


def limited(request: Request, reserve: Reserve) -> Request:
    """The request with its reply limited to what is held back for it."""
    if reserve.max_tokens is None:
        return request
    settings = msgspec.structs.replace(request.frame.settings, max_tokens=reserve.max_tokens)
    frame = msgspec.structs.replace(request.frame, settings=settings)
    return msgspec.structs.replace(request, frame=frame)


def _unanswered(
    run: Run,
    model: Model,
    reserve: Reserve | None,
    error: BaseException,
    purpose: str | None,
    took: float,
) -> BaseException:
    """Put a call that gave no reply on the record; the error to go on with."""
    run.ledger.settle(reserve, 0, 0.0)
    if isinstance(error, OutOfBudget):  # a caller's own budget: nobody was asked
        spent = error.spent
        run.record(BudgetExhausted(spent.limit, spent.allowed, spent.used))
        return error
    failed = _failure(run, error)
    if failed is None:
        return error
    category = attribute(failed, "category") or "model_error"
    run.books.count(NO_USAGE)
    run.record(
        ReplyFailed(
            category,
            said(failed),
            model.provider,
            model.name,
            purpose,
            duration_ms=took,
            attempts=attempts_of(failed),
        )
    )
    return failed


def _beside(
    run: Run,
    model: Model,
    request: Request,
    asides: tuple[Aside, ...],
    rewritten: tuple[Message, ...] | None,
) -> tuple[int, float]:
    """Put replies that were paid for on the way on the record; their tokens and dollars."""
    tokens, usd = 0, 0.0
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
                run.frame_digest,
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
        run.books.count(usage)
        run.input_tokens += usage.input_tokens
        run.output_tokens += usage.output_tokens
        tokens += usage.input_tokens + usage.output_tokens
        usd += aside.cost_usd
    return tokens, usd


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


def _audited(run: Run, request: Request) -> Request:
    """The request, once it is sure that every call in it has exactly one result (I1)."""
    messages = request.messages
    strand, size = messages.strand if type(messages) is View else None, len(messages)
    own = strand is run.strand
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
    return msgspec.structs.replace(request, messages=run.strand.snapshot())


def _one_more_round(run: Run, size: int) -> bool:
    """Is all that is new the prompt, or one reply and the answer to its calls? Seen at a glance."""
    turn, items, audited = run.turn, run.strand.items, run.strand.audited
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


async def _reserve(run: Run, model: Model, request: Request, closing: bool) -> Reserve | Spent:
    output = request.frame.settings.max_tokens or run.plan.reply_tokens
    inputs = tokens_of(run, request)
    return await hold_back(run.ledger, model, inputs, output, closing=closing)


async def hold_back(
    ledger: Ledger, model: Model, inputs: int, output: int, *, closing: bool = False
) -> Reserve | Spent:
    """Hold back what a call of so many tokens may cost, or say which limit leaves no room."""
    usd_in = cost_of(model, Usage(input_tokens=inputs))
    per_million = cost_of(model, Usage(output_tokens=1_000_000))
    if usd_in is None or per_million is None:
        if ledger.priced:
            raise ConfigError(f"{shown(model)} has no price, and a budget in dollars needs one")
        usd_in = per_million = 0.0
    kind = f"{model.provider}:{model.name}:{output}"
    price = per_million / 1_000_000
    return await ledger.reserve(inputs, output, usd_in, price, closing=closing, kind=kind)


def rough_tokens(request: Request) -> int:
    """Roughly the tokens of a request: its characters over four."""
    chars = (
        len(request.frame.system or "") + characters(request.messages) + characters(request.tail)
    )
    return (chars + sum(len(tool.description) + 200 for tool in request.frame.tools)) // 4 + 1


def tokens_of(run: Run, request: Request) -> int:
    """Roughly the tokens of a request: its characters over four. What was counted stays counted."""
    messages = request.messages
    chars = len(request.frame.system or "") + characters(request.tail)
    chars += sum(len(tool.description) + 200 for tool in request.frame.tools)
    if type(messages) is View:
        strand, size, counted = run.sized
        if strand is not messages.strand:
            size = counted = 0
        counted += characters(messages.strand.items[size : len(messages)])
        run.sized = (messages.strand, len(messages), counted)
        chars += counted
    else:
        chars += characters(messages)
    return chars // 4 + 1
