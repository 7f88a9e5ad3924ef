"""Kill chats, simulated users, tasks and approvals in a tree anywhere: nothing is lost, nothing is done twice."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import people_scenes as scenes


# Runs with simulated users are also cut after every row, in `stories/test_simulated_users.py`.
@pytest.mark.deep
@pytest.mark.parametrize("scene", pick_size(["chat", "pending"], [*scenes.SCENES]))
def test_killed_at_points_of(scene: str):
    report = kill_sweep(
        scenes.scenario,
        check=scenes.check,
        params={"scene": scene},
        every=pick_size(40, 1),
        commits=pick_size(scene == "pending", True),
        timeout=60,
    )
    print(f"\n{report}")
    report.assert_ok()
    assert report.kills > 2
