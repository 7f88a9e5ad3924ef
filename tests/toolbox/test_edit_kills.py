"""An edit that is killed at any point leaves the old file or the new one, and nothing beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.sizes import pick_size


def test_killed_edit_leaves_the_old_file_or_the_new_one(tmp_path: Path):
    every = pick_size(11, 1, proof="SANDBOX")
    done = subprocess.run(
        [sys.executable, "-m", "tests.toolbox.edit_kills", str(tmp_path), str(every)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kills, wrong = json.loads(done.stdout)
    assert wrong == [] and kills >= 6, done.stderr
