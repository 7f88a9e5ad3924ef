"""Kill a run whose messages are projected, rewritten and decorated: it goes on with the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import projection_scenes as scenes

EVERYTHING = ["projection", "callback", "decorator"]


@pytest.mark.parametrize("every", [31, pytest.param(pick_size(7, 1), marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "params",
    [
        {"shaping": EVERYTHING},
        {
            "shaping": ["projection", "decorator"],
            "policy": {"policy": "reachability_gc", "keep_last": 2, "window_turns": 3},
        },
        pytest.param(
            {
                "shaping": ["projection"],
                "policy": {"policy": "squash_failed_calls", "keep_last": 2},
            },
            marks=pytest.mark.deep,
        ),
    ],
    ids=["everything", "reachability_gc", "squash_failed_calls"],
)
def test_killed_anywhere(params: dict[str, Any], every: int):
    report = kill_sweep(
        scenes.scenario, check=scenes.check, params=params, every=every, commits=True
    )
    report.assert_ok()
