"""`.ci/run` adds up what both checks ran, and fails when either does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GOOD = "........ [100%]\n812 passed, 1 skipped in 95.10s (0:01:35)"
DEEP = "===== \x1b[32m40 passed\x1b[0m, 900 deselected in 300.00s (0:05:00) ====="
BAD = "F [100%]\nFAILED tests/x.py::test_y - assert 5 passed in 3.0s\n2 failed, 810 passed, 1 error in 95.10s"


def run_ci(tmp_path: Path, check: tuple[str, int], deep: tuple[str, int]) -> tuple[int, str]:
    """`.ci/run` with a `make` that only says what ours would."""
    for target, (output, _) in {"check": check, "check-deep": deep}.items():
        (tmp_path / target).write_text(f"{output}\n")
    fake = tmp_path / "make"
    fake.write_text(
        f'#!/bin/sh\ncat "{tmp_path}/$1"\ncase "$1" in check) exit {check[1]};; *) exit {deep[1]};; esac\n'
    )
    fake.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "WINDLASS_CHROMIUM": "none"}  # nothing is installed
    done = subprocess.run(
        [ROOT / ".ci" / "run"], env=env, capture_output=True, text=True, timeout=60
    )
    assert check[0] in done.stdout and deep[0] in done.stdout
    return done.returncode, done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "check, deep, status, closing",
    [
        ((GOOD, 0), (DEEP, 0), 0, "852 passed, 0 failed"),
        ((BAD, 2), (DEEP, 0), 1, "850 passed, 3 failed"),
        ((GOOD, 0), ("no tests ran in 0.1s", 2), 1, "812 passed, 0 failed"),
        (("error: ruff found 3 problems", 2), (DEEP, 0), 1, "40 passed, 0 failed"),
        ((GOOD, 0), ("1 failed, 39 passed in 3.00s", 2), 1, "851 passed, 1 failed"),
    ],
)
def test_the_closing_line(
    tmp_path: Path, check: tuple[str, int], deep: tuple[str, int], status: int, closing: str
):
    assert run_ci(tmp_path, check, deep) == (status, closing)
