"""The policy that stops a run once its tokens or dollars are spent."""

from __future__ import annotations

from typing import Literal

from windlass.events import BudgetExhausted
from windlass.loop.ledger import ReachedLimit
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Stop
from windlass.policies.build import BuildContext, Policies


class BudgetGuard(Policy[None]):
    """A policy that checks the spending after each turn, or before its tools run.

    Turns and the room for the next call are the ledger's own business; this is for the turn that
    crossed the line.
    """

    def __init__(self, looks: Literal["after_turn", "before_tools"] = "after_turn") -> None:
        self.looks = looks

    async def after_reply(self, run: Run, turn: Turn) -> Stop | None:
        # Exactly spent is not crossed: an answer that just fits counts, and the next turn does not begin.
        return _over(run, run.ledger.exceeded_limit()) if self.looks == "before_tools" else None

    async def after_turn(self, run: Run, turn: Turn) -> Stop | None:
        return _over(run, run.ledger.reached_limit()) if self.looks == "after_turn" else None


def build(ctx: BuildContext) -> Policies:
    """Build the policy, where tokens or dollars are limited."""
    if ctx.limits.tokens is None and ctx.limits.usd is None:
        return ()
    return (BudgetGuard("after_turn" if ctx.door == "agent_loop" else "before_tools"),)


def _over(run: Run, spent: ReachedLimit | None) -> Stop | None:
    if spent is None:
        return None
    run.note(BudgetExhausted(spent.limit, spent.allowed, spent.used))
    return Stop("budget_exhausted", spent.limit)
