"""Kill a worker anywhere: another process goes on with it, and nothing is done twice."""

from __future__ import annotations

import shutil

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep

from . import worker_scenes as scenes
from . import worktree_scenes


def test_worker_killed_at_points_goes_on():
    report = kill_sweep(scenes.scenario, check=scenes.check, every=pick_size(9, 1), timeout=60)
    print(f"\n{report}")
    report.assert_ok()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_worktrees_killed_while_they_are_made_are_repaired():
    report = kill_sweep(
        worktree_scenes.scenario,
        check=worktree_scenes.check,
        every=pick_size(4, 1),
        instants=pick_size(2, 100),
        timeout=60,
    )
    print(f"\n{report}")
    report.assert_ok()


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["inherit", "fork", "reset"])
def test_worker_killed_at_commits_goes_on(mode: str):
    report = kill_sweep(
        scenes.scenario,
        check=scenes.check,
        params={"mode": mode},
        every=pick_size(15, 1),
        commits=True,
        timeout=60,
    )
    print(f"\n{report}")
    report.assert_ok()
