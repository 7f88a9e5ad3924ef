"""Kill a preview, its approval, the run by its plan and the undo: nothing happens twice."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import preview_scenes as scenes


@pytest.mark.parametrize(("width", "delegated"), [(1, False), (3, False), (1, True)])
def test_killed_anywhere(width: int, delegated: bool):
    params = {"width": width, "delegated": delegated}
    every = pick_size(9, 2)
    report = kill_sweep(
        scenes.scenario, check=scenes.check, params=params, every=every, commits=True
    )
    report.assert_ok()
