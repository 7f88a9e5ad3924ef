"""The options of an adaptive limit on turns, which `policy.py` applies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

from windlass.errors import ConfigError
from windlass.loop.ledger import Budget
from windlass.options.checks import boolean, function, number, one_of, optional
from windlass.options.group import Option, OptionGroup, OptionStruct, Values, struct

_check_mode = one_of("fixed", "adaptive")
_check_count = optional(number(1, whole=True))


class IterationBudget(OptionStruct, frozen=True, kw_only=True):
    """A limit on turns: `IterationBudget(mode="adaptive", initial=4, max=16, extend_by=2)`."""

    mode: Annotated[Literal["fixed", "adaptive"], Option(_check_mode)] = "fixed"
    """Whether the limit grows while the run makes progress."""
    initial: Annotated[int | None, Option(_check_count)] = None
    """Turns at first: a quarter of `max` when adaptive, else `max`."""
    max: Annotated[int | None, Option(_check_count)] = None
    """Turns at most: 16 when adaptive, else 50."""
    extend_by: Annotated[int | None, Option(optional(number(0, whole=True)))] = None
    """Turns that are added at a time: 2 when adaptive, else 0."""
    expose_decisions: Annotated[bool | None, Option(optional(boolean))] = None
    """Whether the result shows the decisions; None: when adaptive."""

    def resolve(self) -> Turns:
        """Return the budget with all defaults filled in."""
        adaptive = self.mode == "adaptive"
        most = self.max if self.max is not None else 16 if adaptive else 50
        first = (
            self.initial if self.initial is not None else max(1, most // 4) if adaptive else most
        )
        if first > most:
            raise ConfigError(f"iteration_budget: initial {first} is more than max {most}")
        step = self.extend_by if self.extend_by is not None else 2 if adaptive else 0
        expose = adaptive if self.expose_decisions is None else self.expose_decisions
        return Turns(self.mode, first, most, step, expose)


class Turns(msgspec.Struct, frozen=True):
    """A limit on turns, with nothing left open."""

    mode: Literal["fixed", "adaptive"]
    initial: int
    max: int
    extend_by: int
    expose: bool


_check_struct = struct(IterationBudget, flag=False)


def check_iteration_budget(name: str, value: Any) -> IterationBudget | None:
    """Check a limit on turns: a mode, a dict, or the struct."""
    if isinstance(value, str):
        value = {"mode": _check_mode(name, value)}
    budget: IterationBudget | None = _check_struct(name, value)
    if budget is not None:
        if budget.mode == "adaptive" and budget.extend_by == 0:
            raise ConfigError(f"{name}.extend_by is a whole number of at least 1, not 0")
        budget.resolve()  # refuses an initial that is more than max
    return budget


class TurnLimitOptions(OptionGroup, frozen=True, kw_only=True):
    """Adaptive limits on turns."""

    iteration_budget: Annotated[
        IterationBudget | None,
        Option(
            optional(check_iteration_budget),
            accepts="str | dict[str, Any] | IterationBudget | None",
        ),
    ] = None
    """How many turns a run may take: a fixed number, or more while it makes progress."""
    loop_control: Annotated[Callable[..., Any] | None, Option(function)] = None
    """A function that raises the limit, or ends the run, after each turn."""


def choose_turns(values: Values, limits: Budget, budget_turns: int | None) -> Turns | None:
    """Choose the limit on turns where it is more than a number, else None.

    `budget_turns` is what the option `budget` says of turns.
    """
    if not TurnLimitOptions.is_given(values):
        return None
    options = TurnLimitOptions.read(values)
    if options.iteration_budget is not None:
        if budget_turns is not None:
            raise ConfigError("iteration_budget and budget.iterations limit the same: give one")
        return options.iteration_budget.resolve()
    if options.loop_control is None:
        return None
    most = limits.iterations or 0
    return Turns("fixed", most, most, 0, False)
