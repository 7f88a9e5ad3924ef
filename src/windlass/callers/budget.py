"""`with_budget`: refuse calls that would cross a limit, before anything is spent."""

from __future__ import annotations

from windlass.callers.caller import Layer
from windlass.callers.options import number, takes_a_dict, whole
from windlass.callers.parts import tokens_of
from windlass.errors import ConfigError
from windlass.loop.ask import OutOfBudget
from windlass.loop.ledger import Spent
from windlass.loop.reply import cost_of
from windlass.models.base import Emit, Model, Request, Response
from windlass.models.wrappers.holding import Holding
from windlass.usage import Usage


class Budgeted(Holding):
    """A model that is asked as long as there is something to pay it with."""

    def __init__(self, model: Model, layer: BudgetLayer) -> None:
        super().__init__(model)
        self.layer = layer

    async def respond(self, request: Request, emit: Emit) -> Response:
        """The answer; `BudgetExceeded` without asking where the call would cross a limit."""
        layer = self.layer
        tokens = tokens_of(request) if layer.tokens is not None else 0
        usd = 0.0
        if layer.usd is not None:
            inputs = tokens or tokens_of(request)
            usd = cost_of(self.model, Usage(input_tokens=inputs)) or 0.0
        layer.hold(tokens, usd)
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
            return response
        finally:
            layer.settle(tokens, usd, spent_tokens, spent_usd)


class BudgetLayer(Layer):
    """What `with_budget` makes; it keeps the books of every run that uses it."""

    name = "with_budget"

    def __init__(self, usd: float | None, tokens: int | None, calls: int | None) -> None:
        self.usd, self.tokens, self.calls = usd, tokens, calls
        self.used_usd, self.used_tokens, self.made = 0.0, 0, 0
        self._held_usd, self._held_tokens = 0.0, 0

    def wrap(self, model: Model) -> Model:
        """The model, within the budget."""
        return Budgeted(model, self)

    def hold(self, tokens: int, usd: float) -> None:
        """Hold back what the call will take at least, or refuse it."""
        for name, limit, used, more in (
            ("calls", self.calls, self.made, 1),
            ("tokens", self.tokens, self.used_tokens + self._held_tokens, tokens),
            ("usd", self.usd, self.used_usd + self._held_usd, usd),
        ):
            if limit is not None and (used >= limit or used + more > limit):
                raise OutOfBudget(Spent(name, limit, used))
        self.made += 1
        self._held_tokens += tokens
        self._held_usd += usd

    def settle(self, tokens: int, usd: float, spent_tokens: int, spent_usd: float) -> None:
        """Put what the call really took in place of what was held back."""
        self._held_tokens -= tokens
        self._held_usd -= usd
        self.used_tokens += spent_tokens
        self.used_usd += spent_usd


@takes_a_dict
def with_budget(
    *, usd: float | None = None, tokens: int | None = None, calls: int | None = None
) -> BudgetLayer:
    """Spend at most this in all calls through this layer: `with_budget(usd=5.0)`.

    A call whose prompt alone would cross a limit, or that comes when a limit is reached, is not made:
    the run ends as `budget_exhausted`, `llm_call` raises `BudgetExceeded`. How long a reply gets is
    known afterwards, so the last one may end a little over. Unlike `budget=`, which is one run's, this
    is shared by all runs that use the same layer; `used_usd`, `used_tokens` and `made` say where it is.
    """
    if usd is None and tokens is None and calls is None:
        raise ConfigError("with_budget needs a limit: usd=, tokens= or calls=")
    return BudgetLayer(
        None if usd is None else number("usd", usd),
        None if tokens is None else whole("tokens", tokens, 0),
        None if calls is None else whole("calls", calls, 0),
    )
