"""Kill a run with everything around its tool calls: nothing is done twice, nobody is asked twice."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import middleware_scenes as scenes


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("every", [5, pytest.param(pick_size(2, 1), marks=pytest.mark.deep)])
def test_killed_anywhere(concurrency: int, every: int):
    params = {"concurrency": concurrency}
    report = kill_sweep(
        scenes.scenario, check=scenes.check, params=params, every=every, commits=True
    )
    report.assert_ok()
