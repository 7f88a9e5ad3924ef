"""Workers of `spawn_agent` whose process is killed: another one ends them, each once, and wakes the parent.

`make prove-fleet` plays a parent with 50 of them.
"""

from __future__ import annotations

import pytest

from tests.fleet.family import Family, play_family
from windlass.testing.postgres import MISSING, find_binaries, shared_server

pytestmark = pytest.mark.deep


async def test_workers_of_a_process_that_is_killed_are_ended_by_another_one_each_once(tmp_path):
    """One process drives here, and the others stand by."""
    size = Family(f"sqlite:///{tmp_path}/family.db", children=5, processes=2, kills=1)
    report = await play_family(size, tmp_path)
    assert report.problems == []
    assert (report.status, report.kills) == ("done", 1)
    assert report.resumed >= 1


@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
async def test_family_on_a_queue_is_driven_by_several_processes(tmp_path):
    size = Family(
        shared_server().schema(),
        children=4,
        processes=2,
        kills=1,
        engine="procrastinate",
        lease=1.5,
        slots=2,
    )
    report = await play_family(size, tmp_path)
    assert report.problems == []
    assert (report.status, report.kills) == ("done", 1)
