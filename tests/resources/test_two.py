"""Two processes drive one session over resources: one loses cleanly, and nothing is done twice."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.sizes import pick_size
from windlass.testing.kill import Scene
from windlass.testing.postgres import MISSING, find_binaries, shared_server

from . import scenes

ROOT = Path(__file__).parents[2]
POSTGRES = pytest.param(
    "postgres", marks=pytest.mark.skipif(find_binaries() is None, reason=MISSING)
)


def drive_two_processes(rounds: int, folder: Path, server: str | None) -> list[tuple[str, str]]:
    """Return what became of each of the two, round by round."""
    program = Path(__file__).with_name("two_processes.py")
    where = [str(folder), *([server] if server else [])]
    both = [
        subprocess.Popen(
            [sys.executable, program, str(who), str(rounds), *where],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # who loses says so in its log
            text=True,
        )
        for who in (0, 1)
    ]
    told = [one.communicate(timeout=300)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    first, second = ([json.loads(line) for line in one.splitlines()] for one in told)
    return list(zip(first, second, strict=True))


def both_at_once(rounds: int, folder: Path, server: str | None) -> None:
    ended: Counter[str] = Counter()
    for number, pair in enumerate(drive_two_processes(rounds, folder, server)):
        done = [one == "all done" for one in pair]
        assert any(done), pair  # somebody came to the end
        for one in pair:
            assert one == "all done" or "StaleWriter" in one or "SessionHeld" in one, one
        params = {"width": 1 + 2 * (number % 2), "rounds": 1, "postgres": server}
        scene = Scene(folder / str(number), params)
        assert asyncio.run(scenes.scenario(scene)) == "all done"
        assert asyncio.run(scenes.check(scene))["problems"] == ()
        ended["one lost" if not all(done) else "one after the other"] += 1
    print(f"\n{rounds} sessions, two processes each: {dict(ended)}")
    assert ended["one lost"], "they never met"


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
def test_one_loses_cleanly(kind: str, tmp_path: Path):
    server = str(shared_server().folder) if kind == "postgres" else None
    both_at_once(8, tmp_path, server)


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
def test_one_loses_cleanly_every_time(kind: str, tmp_path: Path):
    server = str(shared_server().folder) if kind == "postgres" else None
    both_at_once(pick_size(8, 100), tmp_path, server)
