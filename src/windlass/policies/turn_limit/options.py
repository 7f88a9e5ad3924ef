"""A limit on turns, as it is given and with nothing left open. `policy.py` moves it."""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.errors import ConfigError


class IterationBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit on turns: `IterationBudget(mode="adaptive", initial=4, max=16, extend_by=2)`."""

    mode: Literal["fixed", "adaptive"] = "fixed"
    initial: int | None = None  # a quarter of max when adaptive, else max
    max: int | None = None  # 16 when adaptive, else 50
    extend_by: int | None = None  # 2 when adaptive, else 0
    expose_decisions: bool | None = None  # in the result; None: when adaptive

    def resolved(self) -> Turns:
        """With every default in its place."""
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
