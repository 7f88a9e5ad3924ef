"""Kill a run with guardrails anywhere: what they refused stays refused, and nothing is done twice."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import guardrail_scenes as scenes


@pytest.mark.parametrize("trips", ["pass", "input", "output"])
@pytest.mark.parametrize("every", [9, pytest.param(pick_size(2, 1), marks=pytest.mark.deep)])
def test_killed_anywhere(trips: str, every: int):
    report = kill_sweep(
        scenes.scenario, check=scenes.check, params={"trips": trips}, every=every, commits=True
    )
    report.assert_ok()
