"""Generated trees of agents: sums agree in every place, and no budget is exceeded.

`make prove-trees` plays 500 of them. Here are as many as are needed to notice a child that is lost.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import windlass as w
from tests.loop.agent_trees import ROOT, Forest, build_level, play_seed
from tests.sizes import pick_size
from windlass.cli.main import cli
from windlass.identifiers import CallIndex
from windlass.loop import spend

SEEDS = pick_size((1, 2, 6, 8, 11), tuple(range(500)), proof="TREES")


def find_problems(seeds: tuple[int, ...]) -> list[str]:
    return [f"seed {seed}: {wrong}" for seed in seeds for wrong in play_seed(seed)[2]]


def test_agent_trees_keep_to_their_budgets_and_their_sums_agree():
    assert find_problems(SEEDS) == []


def test_agent_trees_whose_numbered_children_are_lost_are_noticed(monkeypatch: pytest.MonkeyPatch):
    class Forgetful(CallIndex):
        def find(self, child_id: str) -> str | None:
            return self._calls.get(child_id)

    monkeypatch.setattr(spend, "CallIndex", Forgetful)
    assert find_problems((6,)) != []


def test_agent_tree_costs_what_windlass_cost_says(tmp_path: Path):
    """The same tree in a file: result, books and command agree to the last token."""
    world, store = Forest(2), f"sqlite:///{tmp_path / 'runs.db'}"
    world.pace, world.deaths = 0.0, 0

    async def play() -> w.AgentResult[str]:
        async with w.Runtime(store=store, environ={}):
            return await build_level(world, 1).run("go", session_id=ROOT)

    out = asyncio.run(play())
    assert len(out.children) > 0
    shown = CliRunner().invoke(cli, ["cost", "--by", "session", "--store", store, "--json"])
    assert shown.exit_code == 0, shown.output
    total = json.loads(shown.output)["total"]
    assert total["input_tokens"] + total["output_tokens"] == out.usage.total_tokens
    assert total["cost_usd"] == pytest.approx(out.cost_usd)
    assert out.cost_usd == pytest.approx(world.spent)
