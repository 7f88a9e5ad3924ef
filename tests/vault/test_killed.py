"""Kill it anywhere: what was found stays found, and every request is the same to the byte."""

from __future__ import annotations

from windlass.testing import kill_sweep

from . import scenes


def test_what_was_found_survives_a_kill_at_every_point() -> None:
    report = kill_sweep(scenes.scenario, check=scenes.check, commits=True)
    report.assert_ok()
    assert {"model.before_request", "tool.before_call", "journal.after_commit"} <= set(
        report.points
    )
