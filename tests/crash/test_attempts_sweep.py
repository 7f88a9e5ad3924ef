"""Kill an execution anywhere: it goes on in its attempt, and no model call is paid for twice."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import attempts_scenes as scenes


@pytest.mark.deep
def test_killed_at_points_of_an_execution():
    report = kill_sweep(
        scenes.scenario, check=scenes.check, every=pick_size(5, 1), commits=True, timeout=60
    )
    print(f"\n{report}")
    report.assert_ok()
