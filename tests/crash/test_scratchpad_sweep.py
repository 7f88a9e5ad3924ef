"""Kill a run with a scratchpad anywhere: the same pad, the same requests, no reorganiser asked twice."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import scratchpad_scenes as scenes


@pytest.mark.parametrize("every", [9, pytest.param(pick_size(4, 1), marks=pytest.mark.deep)])
def test_killed_anywhere(every: int):
    report = kill_sweep(scenes.scenario, check=scenes.check, every=every, commits=True)
    report.assert_ok()
