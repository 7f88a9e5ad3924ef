"""`--tools module:name` in a folder that somebody else has filled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOOLS = 'def hello() -> str:\n    """Say hello."""\n    return "hello"\n'
PLANTED = "import pathlib\npathlib.Path('planted').write_text('ran')\n"


def command(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-P", "-c", "from windlass.cli.main import main; main()", *args]
    if "PYTHONSAFEPATH" not in environ:
        run.remove("-P")
        run[2] = f"import sys; sys.path[:1] = []; {run[2]}"  # as the installed command has it
    env = {**os.environ, **environ}
    return subprocess.run(run, env=env, capture_output=True, text=True, timeout=60)


def test_a_module_of_the_folder_does_not_replace_an_installed_one(project: Path):
    (project / "mytools.py").write_text(TOOLS)
    for name in ("aiohttp", "yarl", "rich", "jsonschema_rs", "docstring_parser", "json", "typing"):
        (project / f"{name}.py").write_text(PLANTED)
    done = command("run", "hi", "--provider", "mock", "--tools", "mytools:hello")
    assert done.returncode == 0, done.stderr
    assert not (project / "planted").exists()


def test_in_safe_path_mode_the_folder_does_not_count(project: Path):
    (project / "mytools.py").write_text(TOOLS)
    done = command(
        "run", "hi", "--provider", "mock", "--tools", "mytools:hello", PYTHONSAFEPATH="1"
    )
    assert done.returncode == 2
    assert "there is no module 'mytools'" in done.stderr
