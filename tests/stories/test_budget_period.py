"""A Runtime's budget of a day, a month or of all time: it holds over restarts and in all processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.test_budget import priced
from windlass import seams
from windlass.loop.period import bounds
from windlass.testing import scripted

DAY = 86_400.0
NOON = 20_000 * DAY + DAY / 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [NOON]
    monkeypatch.setattr(seams, "now", lambda: now[0])
    monkeypatch.setattr(seams, "monotonic", lambda: now[0])
    return now


def runtime(path: Path, per: Any = "day", usd: float = 1.0) -> w.Runtime:
    return w.Runtime(
        store=f"sqlite:///{path / 'a.db'}", budget=w.Budget(usd=usd, per=per), environ={}
    )


def dear() -> Any:
    """Six dimes a call."""
    return priced("ok", usage={"input_tokens": 600, "output_tokens": 0})


async def spend(scope: w.Runtime) -> str:
    return (await w.Agent(dear(), max_tokens=100).run("go")).status


@pytest.mark.parametrize("per", ["day", "month", "ever"])
async def test_it_holds_over_restarts(tmp_path: Path, clock: list[float], per: str):
    statuses: list[str] = []
    for _ in range(3):
        async with runtime(tmp_path, per) as scope:
            statuses.append(await spend(scope))
            assert w.llm_session_cost().total_cost <= 0.6  # of this Runtime alone
        clock[0] += 5
    assert statuses == ["done", "done", "budget_exhausted"]


async def test_without_per_it_counts_since_it_was_opened(tmp_path: Path, clock: list[float]):
    for _ in range(3):
        async with runtime(tmp_path, None) as scope:
            assert [await spend(scope) for _ in range(3)] == ["done", "done", "budget_exhausted"]


@pytest.mark.parametrize(("per", "days"), [("day", 1), ("month", 31)])
async def test_a_new_period_begins_at_midnight_utc(
    tmp_path: Path, clock: list[float], per: str, days: int
):
    async with runtime(tmp_path, per) as scope:
        assert [await spend(scope) for _ in range(3)] == ["done", "done", "budget_exhausted"]
        clock[0] = bounds(per, NOON)[1] - 1
        assert await spend(scope) == "budget_exhausted"
        clock[0] += 1
        assert await spend(scope) == "done"
        assert clock[0] - NOON <= days * DAY


async def test_ever_is_for_ever(tmp_path: Path, clock: list[float]):
    async with runtime(tmp_path, "ever") as scope:
        assert [await spend(scope) for _ in range(3)] == ["done", "done", "budget_exhausted"]
        clock[0] += 1000 * DAY
        assert await spend(scope) == "budget_exhausted"


async def test_processes_on_one_store_share_it(tmp_path: Path, clock: list[float]):
    """Two Runtimes with stores of their own on one file: what one spent the other sees."""
    one, other = runtime(tmp_path), runtime(tmp_path)
    async with one:
        assert await spend(one) == "done"
        clock[0] += 2
    async with other:
        assert await spend(other) == "done"
        clock[0] += 2
    async with one:
        assert await spend(one) == "budget_exhausted"


async def test_single_calls_count_too(tmp_path: Path, clock: list[float]):
    async with runtime(tmp_path):
        await w.llm_call("go", model=dear(), max_tokens=100)
        await w.llm_call("go", model=dear(), max_tokens=100)
    async with runtime(tmp_path):
        with pytest.raises(w.BudgetExceeded):
            await w.llm_call("go", model=dear(), max_tokens=100)


async def test_it_is_a_runtime_s_alone():
    day = w.Budget(usd=1, per="day")
    for attempt in (
        lambda: w.Agent(scripted(), budget=day),
        lambda: w.Agent(scripted(), budget={"usd": 1, "per": "day"}),
    ):
        with pytest.raises(w.ConfigError, match="Runtime"):
            attempt()
    with pytest.raises(w.ConfigError, match="Runtime"):
        await w.agent_loop("go", model=scripted(), budget=day)
    with pytest.raises(w.ConfigError, match="Runtime"):
        await w.Agent(scripted("ok")).resume("s", budget=day)
    with pytest.raises(w.ConfigError, match="day, month, ever"):
        w.Budget(usd=1, per="week")  # type: ignore[arg-type]
    with pytest.raises(w.ConfigError, match="Budget"):
        w.Runtime(budget={"usd": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("per", "now", "since", "until"),
    [
        ("day", NOON, NOON - DAY / 2, NOON + DAY / 2),
        ("day", NOON - DAY / 2, NOON - DAY / 2, NOON + DAY / 2),
        ("month", 1_709_208_000.0, 1_706_745_600.0, 1_709_251_200.0),  # the 29th of February 2024
        ("month", 1_735_603_200.0, 1_733_011_200.0, 1_735_689_600.0),  # New Year's Eve
    ],
)
def test_where_periods_begin_and_end(per: str, now: float, since: float, until: float):
    assert bounds(per, now) == (since, until)
