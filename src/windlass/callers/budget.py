"""`with_budget`: refuse calls that would cross a limit, before anything is spent."""

from __future__ import annotations

import msgspec

from windlass.callers.caller import Layer
from windlass.callers.options import number, takes_a_dict, whole
from windlass.callers.parts import tokens_of
from windlass.errors import ConfigError
from windlass.loop.ask import OutOfBudget, hold_back, limited
from windlass.loop.ledger import Ledger, Limits, Reserve, Spent
from windlass.loop.reply import cost_of
from windlass.models.base import Emit, Model, Request, Response
from windlass.models.wrappers.holding import Holding


class Budgeted(Holding):
    """A model that is asked as long as there is something to pay it with."""

    def __init__(self, model: Model, layer: BudgetLayer) -> None:
        super().__init__(model)
        self.layer = layer

    async def respond(self, request: Request, emit: Emit) -> Response:
        """The answer; `BudgetExceeded` without asking where the call would cross a limit."""
        layer = self.layer
        layer.count()
        reserve: Reserve | None = None
        if layer.books.metered:
            reserve = await layer.hold(self.model, request)
            request = limited(request, reserve)
        spent_tokens, spent_usd = 0, 0.0
        try:
            response = await self.model.respond(request, emit)
            usage = response.usage
            spent_tokens = usage.input_tokens + usage.output_tokens
            spent_usd = cost_of(self.model, usage) or 0.0
            for aside in response.asides:
                used = aside.response.usage
                spent_tokens += used.input_tokens + used.output_tokens
                spent_usd += aside.cost_usd
        finally:
            layer.books.settle(reserve, spent_tokens, spent_usd)
        if reserve is not None and reserve.limit and response.stop_reason == "max_tokens":
            response = msgspec.structs.replace(response, shortened=reserve.limit)
        return response


class BudgetLayer(Layer):
    """What `with_budget` makes; it keeps the books of every run that uses it."""

    name = "with_budget"

    def __init__(self, usd: float | None, tokens: int | None, calls: int | None) -> None:
        self.usd, self.tokens, self.calls = usd, tokens, calls
        self.books = Ledger(Limits(usd=usd, tokens=tokens))
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
        """The model, within the budget."""
        return Budgeted(model, self)

    def count(self) -> None:
        """Count one more call, or refuse it."""
        if self.calls is not None and self.made >= self.calls:
            raise OutOfBudget(Spent("calls", self.calls, self.made))
        self.made += 1

    async def hold(self, model: Model, request: Request) -> Reserve:
        """Hold back what the call may take; a call that does not fit beside others waits."""
        try:
            output = request.settings.max_tokens or 16384
            held = await hold_back(self.books, model, tokens_of(request), output)
            if isinstance(held, Spent):
                raise OutOfBudget(held)
            return held
        except BaseException:
            self.made -= 1  # nobody is asked
            raise


@takes_a_dict
def with_budget(
    *, usd: float | None = None, tokens: int | None = None, calls: int | None = None
) -> BudgetLayer:
    """Spend at most this in all calls through this layer: `with_budget(usd=5.0)`.

    Before each call its prompt is estimated and its longest reply held back, lowered to what is left;
    calls at the same time wait for each other where they do not fit together. A call for which there
    is no room is not made: the run ends as `budget_exhausted`, `llm_call` raises `BudgetExceeded`.
    Unlike `budget=`, which is one run's, this is shared by all runs that use the same layer;
    `used_usd`, `used_tokens` and `made` say where it is.
    """
    if usd is None and tokens is None and calls is None:
        raise ConfigError("with_budget needs a limit: usd=, tokens= or calls=")
    return BudgetLayer(
        None if usd is None else number("usd", usd),
        None if tokens is None else whole("tokens", tokens, 0),
        None if calls is None else whole("calls", calls, 0),
    )
