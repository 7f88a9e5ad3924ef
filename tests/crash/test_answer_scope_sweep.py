"""Kill a run whose questions are answered for the session: the answers are not lost or widened."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import answer_scope_scenes as scenes


@pytest.mark.parametrize("every", [7, pytest.param(pick_size(2, 1), marks=pytest.mark.deep)])
def test_answers_for_the_session_survive_a_kill(every: int):
    report = kill_sweep(scenes.scenario, check=scenes.check, every=every, commits=True)
    report.assert_ok()
