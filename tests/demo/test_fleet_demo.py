"""The demo of the fleet keeps its word: a worker is killed, one is drained, and each bill is paid once."""

from __future__ import annotations

import re

import pytest

from scripts import demo_fleet
from windlass.testing.postgres import MISSING, find_binaries


@pytest.mark.deep
@pytest.mark.skipif(find_binaries() is None, reason=MISSING)
def test_demo_pays_each_bill_once_although_a_worker_is_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert demo_fleet.main(["8"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"Kill worker \d+", said) and "It has ended with code 0." in said
    assert "serving (procrastinate, 3 slots): cashier@1" in said  # what `windlass fleet` shows
    assert said.endswith("16 payments were asked for: 0 lost, 0 twice.\n")
