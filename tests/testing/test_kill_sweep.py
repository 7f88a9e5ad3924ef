"""The kill sweep finds what a crash would break, and clears what it would not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from windlass.errors import ConfigError, WindlassError
from windlass.testing import EffectLog, kill_sweep

_spec = importlib.util.spec_from_file_location(
    "kill_toys", Path(__file__).with_name("kill_programs.py")
)
assert _spec and _spec.loader
toys = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(toys)


def kinds(report) -> set[str]:
    return {trouble.kind for trouble in report.troubles}


def test_a_sound_program_is_cleared_at_every_point():
    report = kill_sweep(toys.keyed, check=toys.ledger_is_the_same)
    report.assert_ok()
    assert report.points == {
        "effect.before": 3,
        "effect.after": 3,
        "ledger.before_commit": 3,
        "ledger.after_commit": 3,
    }
    assert (report.kills, report.untouched) == (12, 1)


def test_commits_and_random_instants_are_swept_too():
    report = kill_sweep(toys.keyed, commits=True, instants=10, seed=3)
    report.assert_ok()
    assert report.commits == 4, "the table and three steps"
    assert report.instants + report.untouched >= 10


def test_every_second_point_and_each_name_that_this_skips():
    report = kill_sweep(toys.keyed, every=2)
    assert report.points == {
        "effect.before": 3,
        "ledger.before_commit": 3,
        "effect.after": 1,
        "ledger.after_commit": 1,
    }


def test_shards_share_the_work():
    shards = [kill_sweep(toys.keyed, instants=4, shard=(index, 2)) for index in (0, 1)]
    assert [report.points for report in shards] == [
        {"effect.before": 3, "ledger.before_commit": 3},
        {"effect.after": 3, "ledger.after_commit": 3},
    ]
    assert sum(report.instants + report.untouched for report in shards) >= 4


def test_an_async_scenario_and_one_on_a_thread():
    assert kill_sweep(toys.keyed_async, every=5).ok
    assert kill_sweep(toys.threaded, every=5).ok


def test_effects_before_their_record_are_caught_doubled():
    report = kill_sweep(toys.doubles)
    assert (report.doubled, report.lost) == (3, 0)
    assert kinds(report) == {"doubled"}
    with pytest.raises(AssertionError, match=r"doubled \(killed at ledger.before_commit\): step-0"):
        report.assert_ok()


def test_records_before_their_effect_are_caught_lost():
    report = kill_sweep(toys.loses)
    assert (report.doubled, report.lost) == (0, 3)


def test_a_marked_gap_is_unknown_and_not_lost():
    report = kill_sweep(toys.at_most_once, check=toys.unknowns)
    report.assert_ok()
    assert report.unknown == 6, "each step: after its intent and before its end"
    unmarked = kill_sweep(toys.at_most_once)
    assert (unmarked.lost, unmarked.doubled) == (3, 0)


def test_a_commit_that_no_point_shows_is_caught():
    assert kill_sweep(toys.quiet, params={"rows": 3}).kills == 0
    report = kill_sweep(toys.quiet, params={"rows": 3}, commits=True)
    assert (report.commits, report.doubled) == (4, 3)


def test_a_random_instant_catches_what_has_no_points():
    report = kill_sweep(toys.quiet, params={"rows": 400}, instants=12, seed=1)
    assert report.instants > 0
    assert report.lost == 0


def test_the_resume_is_killed_as_well():
    report = kill_sweep(toys.keyed, check=toys.ledger_is_the_same, kill_resume=True, every=3)
    report.assert_ok()
    assert report.kills > 4
    assert kill_sweep(toys.doubles, kill_resume=True).doubled > 3


def test_a_different_end_is_caught():
    report = kill_sweep(toys.counts_attempts, check=toys.ledger_is_the_same)
    assert kinds(report) == {"different"}
    assert "attempt-1" in str(report)


def test_a_resume_that_fails_is_caught():
    report = kill_sweep(toys.keyed, resume=toys.gives_up, every=6)
    assert {"failed", "lost"} == kinds(report)
    assert "I do not know how to go on" in str(report)


def test_a_resume_that_hangs_is_caught_with_its_stack():
    report = kill_sweep(toys.never_returns, timeout=1.5)
    assert kinds(report) == {"hung"}
    assert "never_returns" in report.troubles[0].what


def test_an_unreadable_store_is_caught():
    report = kill_sweep(toys.doubles, check=toys.cannot_read)
    assert report.unreadable == 1
    assert "does not parse" in str(report)


def test_a_broken_promise_is_caught():
    report = kill_sweep(toys.doubles, check=toys.finds_a_problem)
    assert "problem" in kinds(report)
    assert "charged twice" in str(report)


def test_a_scenario_that_fails_by_itself_is_no_sweep():
    with pytest.raises(WindlassError, match="I do not know how to go on"):
        kill_sweep(toys.gives_up)
    with pytest.raises(WindlassError, match="it never works"):
        kill_sweep(toys.keyed, check=toys.always_a_problem)


def test_what_cannot_be_loaded_elsewhere_is_refused():
    with pytest.raises(ConfigError, match="top of a module"):
        kill_sweep(lambda scene: None)
    for impossible in ({"every": 0}, {"instants": -1}, {"shard": (2, 2)}):
        with pytest.raises(ConfigError, match="every >= 1"):
            kill_sweep(toys.keyed, **impossible)


def test_an_effect_log_hides_nothing(tmp_path):
    log = EffectLog(tmp_path / "effects.jsonl", fsync=True)
    assert log.read() == []
    log.write("a", amount=1)
    log.write("a", amount=1)
    log.write("b")
    assert log.counts() == {"a": 2, "b": 1}
    assert log.read()[0] == {"key": "a", "amount": 1}
    with log.path.open("ab") as file:
        file.write(b'{"key": "c')
    assert sum(log.counts().values()) == 4, "a line cut short happened too"
