"""Kill it anywhere: what was found stays found, and every request is the same to the byte."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import scenes


@pytest.mark.parametrize("every", [3, pytest.param(pick_size(2, 1), marks=pytest.mark.deep)])
def test_what_was_found_survives_a_kill_anywhere(every: int) -> None:
    report = kill_sweep(scenes.scenario, check=scenes.check, commits=True, every=every)
    report.assert_ok()
    kinds = {"model.before_request", "tool.before_call", "journal.after_commit"}
    assert kinds <= set(report.points)
