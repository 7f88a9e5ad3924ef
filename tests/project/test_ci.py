"""`.ci/run` adds up what the checks ran, on every Python, and fails when one of them does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GOOD = "........ [100%]\n812 passed, 1 skipped in 95.10s (0:01:35)"
DEEP = "===== \x1b[32m40 passed\x1b[0m, 900 deselected in 300.00s (0:05:00) ====="
BAD = "F [100%]\nFAILED tests/x.py::test_y - assert 5 passed in 3.0s\n2 failed, 810 passed, 1 error in 95.10s"


STORIES = "........ [100%]\n7 passed, 3 deselected in 5.10s"


def run_ci(
    tmp_path: Path,
    check: tuple[str, int],
    deep: tuple[str, int],
    stories: tuple[str, int] = (STORIES, 0),
    pythons: str = "",
) -> tuple[int, str, str]:
    """`.ci/run` with a `make` that only says what ours would: its status, last line and all lines."""
    said = {"check": check, "check-deep": deep, "check-stories": stories}
    for target, (output, status) in said.items():
        (tmp_path / target).write_text(f"{output}\n")
        (tmp_path / f"{target}.status").write_text(f"{status}\n")
    fake = tmp_path / "make"
    fake.write_text(
        f'#!/bin/sh\ncat "{tmp_path}/$1"\necho "$@"\nexit "$(cat "{tmp_path}/$1.status")"\n'
    )
    fake.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    env = {
        **os.environ,
        "PATH": path,
        "WINDLASS_CHROMIUM": "none",  # nothing is installed
        "WINDLASS_PYTHONS": pythons,
    }
    done = subprocess.run(
        [ROOT / ".ci" / "run"], env=env, capture_output=True, text=True, timeout=60
    )
    assert check[0] in done.stdout and deep[0] in done.stdout
    return done.returncode, done.stdout.splitlines()[-1], done.stdout


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
    ended = run_ci(tmp_path, check, deep)
    assert ended[:2] == (status, closing)
    assert "no other Python here" in ended[2]


@pytest.mark.parametrize(
    "stories, status, closing",
    [
        ((STORIES, 0), 0, "866 passed, 0 failed"),
        (("1 failed, 6 passed in 5.10s", 2), 1, "864 passed, 2 failed"),
    ],
)
def test_the_stories_on_other_pythons_count(
    tmp_path: Path, stories: tuple[str, int], status: int, closing: str
):
    pythons = "a/python3.12 b/python3.13"
    ended = run_ci(tmp_path, (GOOD, 0), (DEEP, 0), stories, pythons)
    assert ended[:2] == (status, closing)
    for python in pythons.split():
        assert f"check-stories PYTHON={python}" in ended[2]


def test_another_python_has_a_folder_of_its_own(tmp_path: Path):
    """`make test PYTHON=…` runs on that Python, also where .venv holds another."""
    project = tmp_path / "project"
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / "Makefile").write_text((ROOT / "Makefile").read_text())
    for name, version in {".venv/bin/python": "3.11", "same": "3.11", "other": "3.13"}.items():
        (project / name).write_text(f"#!/bin/sh\necho {version}\n")
        (project / name).chmod(0o755)

    def interpreter(*given: str) -> str:
        env = {name: value for name, value in os.environ.items() if name != "PYTHON"}
        done = subprocess.run(
            ["make", "-n", "-i", "test", *given],
            cwd=project,
            env=env,
            capture_output=True,
            text=True,
        )
        return next(line.split()[0] for line in done.stdout.splitlines() if "-m pytest" in line)

    for folder in (".venv", ".venv-3.13"):  # set up, as far as make can see
        (project / folder).mkdir(exist_ok=True)
        for stamp in (".run", ".dev"):
            (project / folder / stamp).touch()
    for lock in ("installer", "build", "run", "dev"):
        (project / "requirements").mkdir(exist_ok=True)
        (project / "requirements" / f"{lock}.lock").touch()
        os.utime(project / "requirements" / f"{lock}.lock", (0, 0))
    (project / "pyproject.toml").touch()
    os.utime(project / "pyproject.toml", (0, 0))
    assert interpreter() == ".venv/bin/python"
    assert interpreter("PYTHON=./same") == ".venv/bin/python"
    assert interpreter("PYTHON=./other") == ".venv-3.13/bin/python"
