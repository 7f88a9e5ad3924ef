"""The coding demo keeps its word: two kills, one undo, and the tree ends right, once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from windlass.cli.demo import repository
from windlass.events import RunResumed, ToolIntended, ToolResulted, UndoEnded
from windlass.store import open_store
from windlass.toolbox.sandbox.levels import find_problem

PATIENCE = 120  # seconds; only a broken demo makes a test wait for it
pytestmark = pytest.mark.skipif(
    find_problem("workspace") is not None, reason=str(find_problem("workspace"))
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Provide what the demo said, and the folder that it left."""
    folder = tmp_path_factory.mktemp("coding")
    command = [sys.executable, "-c", "from windlass.cli.main import main; main()", "demo"]
    done = subprocess.run(
        [*command, "--coding", "--keep", str(folder / "kept")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=folder,
    )
    assert done.stderr == "" and done.returncode == 0, done.stdout + done.stderr
    return done.stdout, folder / "kept"


def test_coding_demo_tells_its_story(told: tuple[str, Path]):
    said, _ = told
    for words in (
        "The model is scripted",
        "-        self.assertEqual(Cart([30, 20]).total(discount=10), 45)",
        '↶ file_edit(path="test_cart.py")',
        "✗ SIGKILL, with the new text written beside the file and the file not yet replaced",
        "cart.py is as it was; left beside it: 1 temporary file",
        "✗ SIGKILL, with the tests at work",
        "its outcome is unknown",
        "Ran 1 test",
        "✓ The tree is right, once (2 kills; left over: nothing).",
        "✓ The chain of hashes holds",
    ):
        assert words in said, words


def test_coding_demo_leaves_the_tree_right(told: tuple[str, Path]):
    _, folder = told
    tree = folder / "repository"
    assert sorted(one.name for one in tree.iterdir()) == ["cart.py", "test_cart.py"]
    assert (tree / "cart.py").read_text() == repository.MENDED
    assert (tree / "test_cart.py").read_text() == repository.TEST


async def test_coding_demo_edits_once_and_runs_no_command_twice_by_itself(told: tuple[str, Path]):
    _, folder = told
    store = open_store(folder / "sessions.db")
    entries = await store.read(repository.SESSION)
    await store.aclose()
    assert sum(isinstance(one, RunResumed) for one in entries) == 2
    assert any(isinstance(one, UndoEnded) for one in entries)
    mends = [
        one for one in entries if isinstance(one, ToolResulted) and "cart.py" in str(one.result)
    ]
    assert sum(one.tool.startswith(("edit_", "file_edit")) for one in mends) == 2  # wrong, right
    begun = [one.call_id for one in entries if isinstance(one, ToolIntended) and one.tool == "bash"]
    assert len(begun) == len(set(begun))  # a command that was cut off is for the model to decide
    with closing(sqlite3.connect(folder / "sessions.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
