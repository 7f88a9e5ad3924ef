"""`with_budget`: refuse calls that would cross a limit, before anything is spent."""

from __future__ import annotations

import msgspec

from windlass.callers.caller import Layer
from windlass.callers.options import number, takes_a_dict, whole
from windlass.errors import ConfigError
from windlass.loop.ledger import Budget, Ledger, ReachedLimit
from windlass.loop.meter import CallMeter, OutOfBudget, require_price
from windlass.models.base import Aside, Emit, Holding, Model, Request, Response
from windlass.models.estimates import fill_usage
from windlass.models.meter import Meter, current_meter
from windlass.redaction.redactor import Redactor


class BudgetedModel(Holding):
    """A model that is called while its budget lasts."""

    def __init__(self, model: Model, layer: BudgetLayer) -> None:
        super().__init__(model)
        self.layer = layer

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the answer; raise `BudgetExceeded` if the call would exceed a limit."""
        layer, model = self.layer, self.model
        meter = CallMeter(layer.books)  # the call that the layer is part of has its own books
        request = await layer.begin(meter, model, request)
        before = current_meter.set(Both(current_meter.get(), meter))
        try:
            watched = emit if model.reports_parts else meter.watch(emit)
            response = await model.respond(request, watched)
        except BaseException as error:
            meter.give_up(error, model)
            raise
        finally:
            current_meter.reset(before)
        response = fill_usage(model, request, response)
        reserve = meter.reserve
        meter.settle(response, model)
        if reserve is not None and reserve.limit and response.stop_reason == "max_tokens":
            response = msgspec.structs.replace(response, shortened=reserve.limit)
        return response


class Both:
    """The meter of a layer's budget, and that of the call it is part of."""

    def __init__(self, outer: Meter | None, own: CallMeter) -> None:
        self.outer, self.own = outer, own

    @property
    def tenant(self) -> str | None:
        """The tenant of the call."""
        return None if self.outer is None else self.outer.tenant

    @property
    def redactor(self) -> Redactor | None:
        """The redactor of the call."""
        return None if self.outer is None else self.outer.redactor

    async def begin(self, model: Model, request: Request) -> Request:
        """Reserve in both."""
        request = self.own.restore(request)
        if self.outer is not None:
            request = await self.outer.begin(model, request)
        return await self.own.begin(model, request)

    def fail(self, error: BaseException, *, book: bool) -> None:
        """Settle in both."""
        self.own.fail(error, book=book)
        if self.outer is not None:
            self.outer.fail(error, book=book)

    def receive(self, response: Response) -> None:
        """Report the reply to both meters."""
        self.own.receive(response)
        if self.outer is not None:
            self.outer.receive(response)

    def receive_part(self, part: Response | None) -> None:
        """Report the part to both meters."""
        self.own.receive_part(part)
        if self.outer is not None:
            self.outer.receive_part(part)

    def set_aside(self, aside: Aside) -> None:
        """Settle in both."""
        self.own.set_aside(aside)
        if self.outer is not None:
            self.outer.set_aside(aside)

    def carry(self, model: Model, request: Request, response: Response) -> None:
        """Settle in both."""
        self.own.carry(model, request, response)
        if self.outer is not None:
            self.outer.carry(model, request, response)

    def watch(self, emit: Emit) -> Emit:
        """Return an emit that both meters watch."""
        emit = self.own.watch(emit)
        return emit if self.outer is None else self.outer.watch(emit)

    def branch(self, purpose: str) -> Both:
        """Return branches of both meters."""
        outer = None if self.outer is None else self.outer.branch(purpose)
        return Both(outer, self.own.branch(purpose))


class BudgetLayer(Layer):
    """The layer of `with_budget`, with the spending of every run that uses it."""

    name = "with_budget"

    def __init__(self, usd: float | None, tokens: int | None, calls: int | None) -> None:
        self.usd, self.tokens, self.calls = usd, tokens, calls
        self.books = Ledger(Budget(usd=usd, tokens=tokens))
        self.made = 0

    @property
    def used_usd(self) -> float:
        """Dollars so far."""
        return self.books.usd

    @property
    def used_tokens(self) -> int:
        """Tokens so far."""
        return self.books.tokens

    def wrap(self, model: Model) -> Model:
        """Wrap the model in the budget."""
        if self.usd is not None:
            require_price(model)
        return BudgetedModel(model, self)

    def count(self) -> None:
        """Count one more call, or refuse it."""
        if self.calls is not None and self.made >= self.calls:
            raise OutOfBudget(ReachedLimit("calls", self.calls, self.made))
        self.made += 1

    async def begin(self, meter: CallMeter, model: Model, request: Request) -> Request:
        """Count and reserve a call; one that does not fit beside others waits."""
        self.count()
        try:
            return await meter.begin(model, request)
        except BaseException:
            self.made -= 1  # no model is called
            raise


@takes_a_dict
def with_budget(
    *, usd: float | None = None, tokens: int | None = None, calls: int | None = None
) -> BudgetLayer:
    """Limit what all calls through this layer spend together: `with_budget(usd=5.0)`.

    Also `tokens` and `calls`. Before each call its prompt and its longest reply are reserved; the
    reply is limited to what is left, and parallel calls wait for each other. A call that does not
    fit is not made: the run ends as `budget_exhausted`, and `llm_call` raises `BudgetExceeded`.
    `budget=` limits one run; this layer is shared by all runs that use it. `used_usd`,
    `used_tokens` and `made` say what was spent.
    """
    if usd is None and tokens is None and calls is None:
        raise ConfigError("with_budget needs a limit: usd=, tokens= or calls=")
    return BudgetLayer(
        None if usd is None else number("usd", usd),
        None if tokens is None else whole("tokens", tokens, 0),
        None if calls is None else whole("calls", calls, 0),
    )
