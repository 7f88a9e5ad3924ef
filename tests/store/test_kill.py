"""Kill it anywhere: what the store promised is there, and an effect never stands without its record."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_points.py")


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_sweep_reaches_the_end(cases):
    assert [case["ended"] for case in cases[:-1]] == [9] * (len(cases) - 1)
    assert cases[-1]["ended"] == 0, cases[-1]["said"]
    assert cases[-1]["said"][-1] == "taken"
    assert len(cases) > 25  # two points around each of a dozen commits, and those of open and post


def test_every_promise_holds_after_every_kill(cases):
    for case in cases:
        assert case["looked"] == 0, case
        found, said = case["found"][0], case["said"]
        promised = [int(line.split()[1]) for line in said if str(line).startswith("row")]
        happened = [int(line.split()[1]) for line in said if str(line).startswith("effect")]
        assert found["rows"] == list(range(1, len(found["rows"]) + 1)), case
        assert found["rows"][: len(promised)] == promised, case
        assert len(found["rows"]) <= len(promised) + 1, case
        assert found["effects"] == found["results"], case
        assert found["results"][: len(happened)] == happened, case
        assert found["verified"] >= len(found["rows"]), case
        if "posted" in said:
            assert found["mail"] + found["taken"] == 1, case
