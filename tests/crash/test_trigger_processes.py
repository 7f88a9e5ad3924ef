"""Six processes fire the same triggers, with clocks that step, and some are killed: each occurrence once."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import trigger_process


@pytest.mark.deep
def test_occurrence_fires_once_under_six_processes(tmp_path: Path):
    seen = trigger_process.play(tmp_path, steps=25, kills=1)
    assert seen["failed"] == [] and seen["wrong"] == [], seen
    assert seen["firings"] > 20 and seen["occurrences"] > seen["firings"]
