"""Kill it anywhere: nothing is lost, nothing is done twice."""

from __future__ import annotations

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import scenes

SHAPES = {
    "serial": {"tools": ["charge", "reserve", "look"]},
    "parallel": {"tools": ["charge", "reserve", "look"], "width": 3, "concurrency": 3},
    "mixed": {
        "tools": ["mail", "charge", "fax", "reserve", "look"],
        "width": 2,
        "concurrency": 2,
        "unknowns": True,
    },
    "parked": {"tools": ["charge", "ask", "reserve"], "width": 2},
}


KINDS = {"model.before_request", "tool.before_call", "journal.after_commit"}
SOME = {"every": 67, "instants": 12}
MANY = {"every": 11, "instants": 75}


def sweep(shape: str, turns: int, **how):
    params = {**SHAPES[shape], "turns": turns}
    report = kill_sweep(scenes.scenario, check=scenes.check, params=params, **how)
    print(f"\n{shape}, {turns} turns: {report}")
    return report


@pytest.mark.parametrize("shape", SHAPES)
def test_killed_at_every_point_of_a_short_run(shape):
    report = sweep(shape, 2, commits=True)
    report.assert_ok()
    assert KINDS <= set(report.points)


@pytest.mark.deep
@pytest.mark.parametrize("shape", SHAPES)
def test_killed_at_every_point_of_thirty_turns(shape):
    report = sweep(shape, 30, every=pick_size(11, 1), timeout=60)
    report.assert_ok()
    assert KINDS <= set(report.points)


@pytest.mark.deep
@pytest.mark.parametrize("shape", SHAPES)
def test_killed_at_commits_and_random_instants_of_thirty_turns(shape):
    sweep(shape, 30, **pick_size(SOME, MANY), commits=True, seed=7, timeout=60).assert_ok()


@pytest.mark.deep
def test_killed_and_killed_again_while_it_resumes():
    sweep("parallel", 5, kill_resume=True, every=pick_size(5, 1), seed=3, timeout=60).assert_ok()
