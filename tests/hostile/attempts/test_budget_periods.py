"""The attempts on budgets again, by several Runtimes at once under one budget of a period.

Each attempt has all the money that it wants of its own; the Runtimes share a store and nothing else,
as processes do. The models count for themselves what was spent. The controls have a large budget.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from windlass.store.base import Store
from windlass.store.memory import MemoryStore

from .budget_models import LOOSE, TIGHT, World
from .test_budgets import ATTEMPTS, ended_well

RUNTIMES = 3
ENOUGH = 100 * LOOSE  # for what all of them hold at once
NAMES = [name for name in ATTEMPTS if name != "resumes"]  # it names its session


async def try_once(world: World, store: Store, name: str, usd: float) -> tuple[Any, float]:
    """Try it in a Runtime of its own; what came of it, and what the Runtime says was paid."""
    budget = w.Budget(usd=usd, per="ever")
    async with w.Runtime(store=store, budget=budget, environ={}) as runtime:
        try:
            out = await ATTEMPTS[name](world, usd)
        except w.BudgetExceeded:
            out = "budget_exhausted"
        return out, runtime.ledger.paid_usd


async def try_together(
    world: World, store: Store, name: str, usd: float
) -> list[tuple[Any, float]]:
    return await asyncio.gather(*[try_once(world, store, name, usd) for _ in range(RUNTIMES)])


@pytest.mark.parametrize("name", NAMES)
async def test_no_attempt_of_several_runtimes_spends_more_than_the_period_has(name: str):
    world, store = World(), MemoryStore()
    made = await try_together(world, store, name, TIGHT)
    made.append(await try_once(world, store, name, TIGHT))  # whoever comes later
    rows = await store.calls()
    assert world.usd <= TIGHT + 1e-9
    assert sum(row.cost_usd for row in rows) == pytest.approx(world.usd)
    assert sum(paid for _, paid in made) == pytest.approx(world.usd)
    assert not [row for row in rows if row.outcome == "reserved"], "nothing is held for ever"


@pytest.mark.parametrize("name", NAMES)
async def test_the_same_succeeds_where_the_period_has_money(name: str):
    world, store = World(), MemoryStore()
    made = await try_together(world, store, name, ENOUGH)
    assert all(ended_well(out) for out, _ in made), made
    assert world.usd > TIGHT, "the limit was never in the way"
    assert sum(paid for _, paid in made) == pytest.approx(world.usd)
    assert not [row for row in await store.calls() if row.outcome == "reserved"]
