"""`windlass cost`: the books, day by day or by whatever is asked for."""

from __future__ import annotations

import asyncio
import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from windlass import seams
from windlass.cli import cost
from windlass.cli.console import ConsoleOutput
from windlass.cli.store_location import id_of
from windlass.store.model_calls import ModelCall
from windlass.store.sqlite.store import SqliteStore

NOON = datetime.datetime(2026, 11, 14, 12).astimezone().timestamp()
DAY = 86400.0


def call(days_ago: float = 0, **more: Any) -> ModelCall:
    fields: dict[str, Any] = {
        "at": NOON - days_ago * DAY,
        "provider": "openai",
        "model": "gpt-4o",
        "input_tokens": 1000,
        "output_tokens": 50,
        "cost_usd": 0.5,
        "latency_ms": 1500.0,
    }
    return ModelCall(**{**fields, **more})


def keep(project: Path, *calls: ModelCall) -> None:
    async def write() -> None:
        folder = project / ".windlass"
        folder.mkdir(exist_ok=True)
        store = SqliteStore(folder / "sessions.db")
        store.require_id(id_of)  # as the commands make it
        await store.record_calls(calls)
        await store.aclose()

    asyncio.run(write())


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seams, "now", lambda: NOON)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_day_by_day_with_a_total(windlass, project: Path):
    keep(
        project,
        call(1),
        call(1, outcome="timeout", cost_usd=0.0, input_tokens=0, output_tokens=0, latency_ms=500.0),
        call(0, cache_read_tokens=250),
    )
    assert rows(windlass("cost").stdout) == [
        ["DAY", "CALLS", "FAILED", "IN", "OUT", "CACHED", "LATENCY", "COST"],
        ["2026-11-13", "2", "1", "1,000", "50", "1.0", "s", "$0.5000"],
        ["2026-11-14", "1", "1,000", "50", "25%", "1.5", "s", "$0.5000"],
        ["total", "3", "1", "2,000", "100", "12%", "1.2", "s", "$1.00"],
    ]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("model", ["anthropic:claude", "openai:gpt-4o", "total"]),
        ("provider", ["anthropic", "openai", "total"]),
        ("tenant", ["acme", "(no", "total"]),
        ("caller", ["ann", "(nobody)", "total"]),
        ("session", ["s1", "(llm_call)", "total"]),
    ],
)
def test_by_what_is_asked_for_the_dearest_first(windlass, project: Path, by, names):
    dear = {"provider": "anthropic", "model": "claude", "tenant": "acme", "caller": "ann"}
    keep(project, call(door="llm_call"), call(cost_usd=9.0, session="s1", **dear))
    lines = rows(windlass("cost", "--by", by).stdout)
    assert lines[0][0] == by.upper()
    assert [line[0] for line in lines[1:]] == names


def test_since_and_until(windlass, project: Path, noon):
    keep(project, *[call(days) for days in (9, 3, 1, 0)])

    def count(*args: str) -> int:
        return json.loads(windlass("cost", "--json", *args).stdout)["total"]["calls"]

    assert count() == 4
    assert count("--since", "5d") == 3
    assert count("--since", "yesterday") == 2
    assert count("--since", "today") == 1
    assert count("--since", "2026-11-11", "--until", "2026-11-13") == 1
    assert count("--since", "2026-11-14T12:00:01") == 0
    assert "is no time; write 7d" in windlass("cost", "--since", "recently", code=2).stderr
    assert "--until 'x'" in windlass("cost", "--until", "x", code=2).stderr


def test_of_one_tenant_or_model(windlass, project: Path):
    keep(project, call(tenant="acme"), call(model="o3"))
    for option in (("--tenant", "acme"), ("--model", "o3")):
        assert json.loads(windlass("cost", "--json", *option).stdout)["total"]["calls"] == 1
    nothing = windlass("cost", "--tenant", "nobody")
    assert nothing.stdout == "" and "no model calls that are meant in " in nothing.stderr


def test_json_is_exact(windlass, project: Path):
    keep(project, call(cache_read_tokens=10, reasoning_tokens=5, gpu_ms=2.5))
    found = json.loads(windlass("cost", "--json").stdout)
    one = {
        "calls": 1,
        "failed": 0,
        "input_tokens": 1000,
        "output_tokens": 50,
        "cache_read_tokens": 10,
        "reasoning_tokens": 5,
        "gpu_ms": 2.5,
        "cost_usd": 0.5,
        "mean_latency_ms": 1500.0,
        "price_unknown": [],
    }
    assert found == {
        "by": "day",
        "groups": [{"name": "2026-11-14", **one}],
        "total": {"name": "total", **one},
    }


def test_an_unknown_price_is_said(windlass, project: Path):
    keep(
        project,
        call(model="mystery-9", cost_usd=0.0),
        call(provider="ollama", cost_usd=0.0),
        call(provider="mock", cost_usd=0.0),
        call(via="cache", model="x", cost_usd=0.0),
    )
    shown = windlass("cost", "--by", "provider").stdout
    assert shown.splitlines()[-1].startswith("price unknown: openai:mystery-9; ")
    costs = {line[0]: line[-1] for line in rows(shown)[1:-1]}
    assert costs == {"openai": "unknown", "ollama": "$0.00", "mock": "$0.00", "total": "unknown"}
    keep(project, call(cost_usd=0.25))
    assert "≥$0.2500" in windlass("cost").stdout


def test_nothing_kept_makes_nothing(windlass, project: Path):
    done = windlass("cost")
    assert done.stdout == "" and "no model calls in " in done.stderr
    none = json.loads(windlass("cost", "--json").stdout)
    assert none["groups"] == [] and none["total"]["calls"] == 0
    assert list(project.iterdir()) == []


def test_what_cannot_be_asked_for(windlass):
    assert "did you mean 'model'?" in windlass("cost", "--by", "modle", code=2).stderr


def test_a_run_is_on_the_books(windlass, project: Path):
    windlass("run", "hi", "--provider", "mock", "--session", "talk")
    [group] = json.loads(windlass("cost", "--by", "session", "--json").stdout)["groups"]
    assert (group["name"], group["calls"]) == ("talk", 1)
    windlass("sessions", "delete", "talk", "--yes")
    assert json.loads(windlass("cost", "--json").stdout)["total"]["calls"] == 1


def test_another_store(windlass, project: Path, tmp_path: Path):
    keep(tmp_path, call())
    place = str(tmp_path / ".windlass" / "sessions.db")
    assert json.loads(windlass("cost", "--store", place, "--json").stdout)["total"]["calls"] == 1


def test_names_are_cleaned(windlass, project: Path):
    keep(project, call(tenant="a\x1b[2Jb"))
    assert "\x1b" not in windlass("cost", "--by", "tenant").stdout
    assert "\x1b" not in windlass("cost", "--by", "tenant", "--json").stdout


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_terminal_has_bars_and_no_line_is_too_long(width: int, capsys):
    class Terminal(ConsoleOutput):
        fancy = True  # pyright: ignore[reportAssignmentType]
        shown: list[str] = []

        def __init__(self) -> None:
            self.shown = []

        @property
        def width(self) -> int:
            return width

        def line(self, *parts: Any) -> None:
            self.shown.append("".join(p if isinstance(p, str) else p[0] for p in parts))

    calls = [call(model=f"model-{n}-with-a-long-name", cost_usd=float(n)) for n in range(1, 4)]
    groups = [cost.Group(f"openai:{one.model}", [one]) for one in calls]
    paper = Terminal()
    cost._show(paper, "model", groups, cost.Group("total", calls))
    table = paper.shown
    assert max(map(len, table)) <= max(width, 66)
    bars = [line.count(cost.BAR) for line in table[1:4]]
    assert bars == sorted(bars) and (bars[-1] > 0) == (width > 80)
