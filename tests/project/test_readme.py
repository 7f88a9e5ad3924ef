"""The README's first code works as it stands, offline, in a file of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def first_example() -> tuple[str, str]:
    """The first Python block, and the output that the text block after it promises."""
    readme = (ROOT / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert code, "README.md has no Python code"
    output = re.search(r"```text\n(.*?)```", readme[code.end() :], re.DOTALL)
    assert output, "README.md does not say what its code prints"
    return code[1], output[1]


def test_the_first_example_is_short():
    code, _ = first_example()
    assert len([line for line in code.splitlines() if line.strip()]) <= 14


def test_the_first_example_runs_and_prints_what_it_says(tmp_path: Path):
    code, output = first_example()
    script = tmp_path / "first.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.py"]
