"""A newcomer: what the pages tell to type, and a clean clone with the demo and the README's code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.newcomer import Differs, build_environment, check_quotes, walk
from scripts.newcomer_steps import SHORT, START, STEPS, shell
from tests.project.test_readme import first_example

ROOT = Path(__file__).parents[2]


def test_steps_of_a_newcomer_stand_on_the_pages():
    assert len(STEPS) >= 60
    check_quotes(STEPS)
    with pytest.raises(Differs):
        check_quotes((shell(START, "windlass no such line"),))


def test_the_short_form_ends_with_an_approval_by_another_process(tmp_path: Path):
    (tmp_path / "work").mkdir()
    env = build_environment(tmp_path, str(Path(sys.executable).parent))
    assert walk(SHORT, tmp_path / "work", env, quiet=True) == []


def test_a_step_that_shows_something_else_is_reported(tmp_path: Path):
    (tmp_path / "work").mkdir()
    env = build_environment(tmp_path, str(Path(sys.executable).parent))
    steps = (shell(START, "windlass --version", "windlass 99"), shell(START, "cd windlass"))
    wrong = walk(steps, tmp_path / "work", env, quiet=True)
    assert len(wrong) == 2 and "windlass 99" in wrong[0] and "ended with 1" in wrong[1]


def bare_environment() -> dict[str, str]:
    """Ours without what an active environment or a parent `make` puts into it."""
    ours = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTEST")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("newcomer") / "windlass"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    return folder


def run(*command: str | Path, cwd: Path, timeout: float = 600) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=bare_environment(), capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.deep
def test_demo_then_the_first_example(clone: Path, tmp_path: Path):
    base = (
        Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    )
    shown = run("make", f"PYTHON={base}", "demo", cwd=clone)
    assert "refund" in shown
    code, output = first_example()
    (tmp_path / "first.py").write_text(code)
    assert run(clone / ".venv" / "bin" / "python", "first.py", cwd=tmp_path) == output
    again = run("make", f"PYTHON={base}", "demo", cwd=clone)
    assert "setting up" not in again
