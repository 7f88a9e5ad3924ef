"""A clean clone on a machine with Python, pip and make: the demo, then the README's code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.test_readme import first_example

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.deep


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
