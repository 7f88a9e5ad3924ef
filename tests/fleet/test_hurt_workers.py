"""Workers that are killed, frozen and replaced, and sessions that sleep.

Each is the play of `make prove-fleet` at the smallest size that still fails without what it proves.
"""

from __future__ import annotations

import pytest

from tests.fleet.deploy import play_deploy
from tests.fleet.sleepers import Sleep, play_sleep
from tests.fleet.takeover import Size, play
from windlass.testing.postgres import MISSING, find_binaries

ENGINE = "procrastinate"
pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(find_binaries() is None, reason=MISSING),
]


async def test_runs_of_killed_and_frozen_workers_are_taken_over_without_loss_or_repetition():
    size = Size(ENGINE, processes=3, runs=20, seconds=4, kills=2, zombies=(1.0,), lease=1.5)
    report = await play(size)
    assert report.books.problems == []
    assert report.books.ended["done"] == 20
    assert report.kills >= 2
    assert report.zombies == 1


async def test_workers_are_replaced_under_load_and_no_run_fails_for_it():
    report = await play_deploy(Size(ENGINE, processes=1, runs=8, seconds=1, kills=0, lease=1.5))
    assert report.report.books.problems == []
    assert report.codes == [0]
    assert report.by_hand == "suspended"  # nobody has taken it


async def test_sleepers_that_are_due_are_woken_once_although_their_waker_is_killed():
    report = await play_sleep(Sleep(ENGINE, sleepers=300, due=40, idle_seconds=0.1, lease=1.5))
    assert report.problems == []
    assert report.woken == 40
