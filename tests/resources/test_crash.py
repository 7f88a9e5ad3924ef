"""Kill a run over resources anywhere: effects, audit rows and results stay the same multiset."""

from __future__ import annotations

import sqlite3

import pytest

from tests.sizes import pick_size
from windlass.testing import kill_sweep
from windlass.testing.kill import Scene
from windlass.testing.postgres import MISSING, find_binaries, shared_server

from . import scenes


def sweep(width: int, rounds: int, postgres: str | None = None, **how):
    params = {"width": width, "rounds": rounds, "postgres": postgres}
    report = kill_sweep(scenes.scenario, check=scenes.check, params=params, **how)
    print(f"\nwidth {width}, {rounds} rounds: {report}")
    return report


@pytest.mark.parametrize(("width", "every"), [(1, 1), (3, 3)])
def test_killed_at_every_point_and_commit_of_a_short_run(width, every):
    report = sweep(width, 1, every=every, commits=width == 1)
    report.assert_ok()
    assert {"tool.before_commit", "journal.after_commit"} <= set(report.points)


async def test_the_check_sees_a_row_that_is_missing_or_one_too_many(tmp_path):
    scene = Scene(tmp_path, {"width": 1, "rounds": 1})
    await scenes.scenario(scene)
    assert (await scenes.check(scene))["problems"] == ()
    db = sqlite3.connect(tmp_path / "runs.db")
    db.execute("DELETE FROM windlass_audit WHERE n = (SELECT max(n) FROM windlass_audit)")
    db.execute("DELETE FROM windlass_audit WHERE n = (SELECT max(n) FROM windlass_audit)")
    db.execute(
        "INSERT INTO entry (_tenant, id, counter, amount, _version) VALUES ('x', 9, 'a', 1, 1)"
    )
    db.commit()
    db.close()
    assert len((await scenes.check(scene))["problems"]) == 3


@pytest.mark.deep
@pytest.mark.parametrize("width", [1, 3])
def test_killed_at_every_commit_of_a_longer_run(width):
    sweep(width, 4, every=pick_size(13, 7), commits=True, timeout=60).assert_ok()


@pytest.mark.deep
@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.skipif(find_binaries() is None, reason=MISSING)),
    ],
)
def test_killed_at_random_instants(kind):
    """Many moments come when a run is over already, so it goes on until enough have met one.

    `make prove-kills`: 300 on SQLite. A start costs more on Postgres: half of it there.
    """
    wanted = pick_size(3, 150) if kind == "postgres" else pick_size(6, 300)
    server = str(shared_server().folder) if kind == "postgres" else None
    killed = 0
    for seed in range(40):
        how = {"every": 1000, "instants": pick_size(8, 50), "seed": seed, "timeout": 60}
        report = sweep(1 + 2 * (seed % 2), 1 if server else 4, postgres=server, **how)
        report.assert_ok()
        killed += report.instants
        if killed >= wanted:
            break
    assert killed >= wanted


@pytest.mark.deep
def test_killed_and_killed_again_while_it_resumes():
    sweep(1, 2, kill_resume=True, every=pick_size(7, 1), seed=3, timeout=60).assert_ok()


@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
def test_killed_at_some_points_on_postgres():
    sweep(3, 1, every=9, timeout=60, postgres=str(shared_server().folder)).assert_ok()


@pytest.mark.deep
@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
@pytest.mark.parametrize("width", [1, 3])
def test_killed_at_every_point_on_postgres(width):
    """Its points stand before and after each commit, so every commit is among them."""
    report = sweep(
        width, 1, every=pick_size(11, 1), timeout=60, postgres=str(shared_server().folder)
    )
    report.assert_ok()
    assert {"journal.before_commit", "journal.after_commit"} <= set(report.points)


@pytest.mark.deep
@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
def test_killed_and_killed_again_while_it_resumes_on_postgres():
    server = str(shared_server().folder)
    sweep(
        3, 1, kill_resume=True, every=pick_size(23, 6), seed=7, timeout=60, postgres=server
    ).assert_ok()
