"""Generated trees of runs keep to their limit, and journals, books and results agree.

`make prove-budgets` plays 500 of them. Here are as many as are needed to notice each part of the
ledger when it is taken out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.loop.budget_trees import play_seed
from windlass.engine import driver, resume
from windlass.events import CallReserved, JournalEntry
from windlass.loop.ledger import Ledger, Reserve
from windlass.loop.spend import Spending

SEEDS = (*range(13), 185)


def problems(seeds: Any = SEEDS) -> list[str]:
    return [f"seed {seed}: {wrong}" for seed in seeds for wrong in play_seed(seed)[2]]


def test_trees_keep_to_their_limit_and_their_sums_agree():
    assert problems() == []


# --------------------------------------------------------------------------- without a part


@contextmanager
def children_forgotten(patch: pytest.MonkeyPatch) -> Iterator[None]:
    async def nothing(*_: Any) -> None: ...

    patch.setattr(driver, "read_children", nothing)
    patch.setattr(resume, "read_children", nothing)
    yield


@contextmanager
def reserves_not_on_record(patch: pytest.MonkeyPatch) -> Iterator[None]:
    whole = Spending.apply

    def apply(self: Spending, entry: JournalEntry) -> None:
        if type(entry) is not CallReserved:
            whole(self, entry)

    patch.setattr(Spending, "apply", apply)
    yield


@contextmanager
def nothing_held_back(patch: pytest.MonkeyPatch) -> Iterator[None]:
    def hold(self: Ledger, reserve: Reserve) -> None:
        reserve.held_tokens, reserve.held_usd = 0, 0.0

    patch.setattr(Ledger, "_hold", hold)
    yield


@contextmanager
def counted_twice(patch: pytest.MonkeyPatch) -> Iterator[None]:
    whole = Ledger.restore

    def restore(
        self: Ledger, iterations: int, tokens: int, usd: float, seconds: float = 0.0
    ) -> None:
        whole(self, iterations, tokens, usd, seconds)
        if self.parent is not None:
            self.parent.tokens += tokens

    patch.setattr(Ledger, "restore", restore)
    yield


@contextmanager
def replies_stored_late(patch: pytest.MonkeyPatch) -> Iterator[None]:
    patch.setattr(Ledger, "shared", property(lambda self: False))
    yield


@pytest.mark.parametrize(
    "without",
    [
        children_forgotten,
        reserves_not_on_record,
        nothing_held_back,
        counted_twice,
        replies_stored_late,
    ],
)
def test_it_would_be_noticed(without: Any, monkeypatch: pytest.MonkeyPatch):
    with without(monkeypatch):
        assert problems()
