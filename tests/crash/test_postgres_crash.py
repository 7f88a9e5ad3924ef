"""The same on Postgres: kill it anywhere; nothing is lost, nothing is done twice."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep
from windlass.testing.postgres import MISSING, find_binaries, shared_server

from . import scenes
from .test_crash import KINDS, SHAPES

pytestmark = pytest.mark.skipif(find_binaries() is None, reason=MISSING)


# A short run has few points of a kind: threads that change their order leave no step but 1.
SAMPLE = {"serial": 2, "parallel": 3, "mixed": 3, "parked": 2}


def sweep(shape: str, turns: int, **how):
    params = {**SHAPES[shape], "turns": turns, "postgres": str(shared_server().folder)}
    report = kill_sweep(scenes.scenario, check=scenes.check, params=params, timeout=60, **how)
    print(f"\n{shape}, {turns} turns: {report}")
    return report


def test_killed_at_some_points_of_a_short_run():
    report = sweep("parallel", 1, every=8)
    report.assert_ok()


@pytest.mark.deep
@pytest.mark.parametrize("shape", SHAPES)
def test_killed_at_every_point_of_a_short_run(shape):
    report = sweep(shape, 2, every=pick_size(SAMPLE[shape], 1))
    report.assert_ok()
    assert KINDS <= set(report.points)


@pytest.mark.deep
@pytest.mark.parametrize("shape", SHAPES)
def test_killed_at_random_instants(shape):
    sweep(shape, 6, every=pick_size(89, 29), instants=pick_size(2, 20), seed=11).assert_ok()


@pytest.mark.deep
def test_killed_and_killed_again_while_it_resumes():
    sweep("parallel", 2, kill_resume=True, every=pick_size(13, 2), seed=5).assert_ok()
