"""Kill an anchored run anywhere: the record verifies against the anchor, and ends up sealed whole."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import scenes


def test_killed_at_some_points():
    report = kill_sweep(scenes.scenario, check=scenes.check, every=5)
    print(report)
    report.assert_ok()


@pytest.mark.deep
def test_killed_at_every_point_and_commit_and_again_while_it_resumes():
    size = pick_size({"every": 5, "instants": 15}, {"every": 1, "instants": 60})
    report = kill_sweep(
        scenes.scenario, check=scenes.check, commits=True, kill_resume=True, seed=7, **size
    )
    print(report)
    report.assert_ok()
