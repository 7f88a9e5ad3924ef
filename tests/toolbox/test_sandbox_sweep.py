"""A run with commands that ends at any point leaves no process, descriptor or temporary file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.toolbox.sandbox_sweep import How, sweep
from windlass.toolbox.sandbox.levels import find_problem

EVERYTHING = os.environ.get("WINDLASS_PROVE_SANDBOX") == "1"
EVERY: dict[How, int] = {"cancel": 8, "abort": 12, "kill": 25, "timeout": 15}


@pytest.mark.skipif(find_problem("workspace") is not None, reason=str(find_problem("workspace")))
@pytest.mark.parametrize("how", list(EVERY))
def test_run_with_commands_that_ends_anywhere_leaves_nothing(tmp_path: Path, how: How):
    count, left = sweep(how, tmp_path, 1 if EVERYTHING else EVERY[how])
    assert left == [] and count >= 2
