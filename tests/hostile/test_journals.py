"""Damaged journals, thousands of them: a typed error or a right answer, and nothing is executed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sizes import pick_size
from windlass.testing.kill import RAM_DISK

ROOT = Path(__file__).resolve().parents[2]


def damage(folder: Path, seed: int, count: int) -> None:
    """The sweep, in a process of its own: an audit hook cannot be taken off again."""
    ended = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "tests.hostile.journal_fuzz",
            str(folder),
            str(seed),
            str(count),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr[-8000:]
    met = json.loads(ended.stdout.splitlines()[-1])
    assert met["right"] + met["wrong"] == count
    assert met["wrong"] >= count / 2
    assert met["counts"]["Corrupt"] > count / 10
    assert met["counts"]["right answer"] > count / 10


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory):
    """In memory where the system has such a place: nothing here is about what a disk does."""
    import tempfile

    if not RAM_DISK.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=RAM_DISK) as made:
        yield Path(made)


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_journals(seed: int, folder: Path) -> None:
    damage(folder, seed, 1000)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10, 11))
def test_many_damaged_journals(seed: int, folder: Path) -> None:
    damage(folder, seed, pick_size(1500, 5000, proof="HOSTILE"))


def test_the_hook_sees_what_it_should(folder: Path) -> None:
    """The sweep would notice: an import, a file, a process, while it watches."""
    program = """
import subprocess, sys
from tests.hostile.journal_fuzz import AUDIT
sys.addaudithook(AUDIT.hook)
AUDIT.begin(None)
import tests.hostile.option_pools
open(sys.argv[1] + "/x", "w").close()
exec("1")
subprocess.run([sys.executable, "-c", ""])
AUDIT.end()
print(",".join(sorted({event.split()[0] for event in AUDIT.seen})))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert {"import", "open", "exec", "compile", "subprocess.Popen"} <= set(
        ended.stdout.strip().split(",")
    ), ended
