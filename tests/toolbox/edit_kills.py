"""A run that writes and edits files, killed at each point that it passes, and resumed.

`python -m tests.toolbox.edit_kills FOLDER EVERY` forks a process for each kill: it prints how many there were, and
each file that was neither old nor new, or was left.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import windlass as w
from windlass import seams
from windlass.cli.demo import shop
from windlass.errors import NoSuchSession
from windlass.store import open_store

OLD, NEW = "def f():\n    return 1\n" * 200, "def f():\n    return 2\n" * 200
#: What each file may hold at any time: nothing (None), or one of these, and never a part.
STATES: dict[str, tuple[str | None, ...]] = {
    "made.txt": (None, NEW),
    "sub/made.txt": (None, NEW),
    "replaced.txt": (OLD, NEW),
    "edited.py": (OLD, NEW),
    "patched.py": (OLD, NEW),
}
_EDIT = {"old_string": "return 1", "new_string": "return 2", "replace_all": True}
_PATCH = {"old_text": "return 1", "new_text": "return 2", "replace_all": True}
SCRIPT: shop.Script = (
    ("", "file_write", {"path": "made.txt", "content": NEW}),
    ("", "file_write", {"path": "sub/made.txt", "content": NEW}),
    ("", "file_read", {"path": "replaced.txt", "limit": 1}),
    ("", "file_write", {"path": "replaced.txt", "content": NEW}),
    ("", "file_edit", {"path": "edited.py", **_EDIT}),
    ("", "file_read", {"path": "patched.py", "limit": 1}),
    ("", "edit_safe_text_patch", {"path": "patched.py", **_PATCH}),
    ("done", "", {}),
)
TOOLS = ["file_read", "file_write", "file_edit", "edit_safe_text_patch"]


def build_tree(folder: Path) -> Path:
    """Make the workspace; return it."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    for name, (before, _) in STATES.items():
        if before is not None:
            (tree / name).write_text(before)
    return tree


async def work(folder: Path) -> str:
    """Run the task, or go on with it; return its status."""
    shop.THINKING = 0.0
    store = open_store(folder / "sessions.db", add_tables=True)
    agent = w.Agent(
        shop.ScriptedModel(0.0, SCRIPT), tools=TOOLS, workspace=folder / "tree", store=store
    )
    try:
        return (await agent.resume("s")).status
    except NoSuchSession:
        return (await agent.run("go", session_id="s")).status
    finally:
        await store.aclose()


def in_child(folder: Path, kill_at: int) -> int:
    """Work in a forked process that kills itself at a point; return how it ended."""
    child = os.fork()
    if child == 0:
        passed = 0

        def reached(_name: str) -> None:
            nonlocal passed
            passed += 1
            if passed == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            with seams.watch_points(reached):
                status = asyncio.run(work(folder))
            os._exit(0 if status == "done" else 3)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
        os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_tree(tree: Path, fits: Callable[[str, str | None], bool]) -> list[str]:
    """Return the files whose content is not as it must be."""
    wrong: list[str] = []
    for name in STATES:
        path = tree / name
        content = path.read_text() if path.exists() else None
        if not fits(name, content):
            wrong.append(f"{name} has {None if content is None else len(content)} characters")
    return wrong


def sweep(folder: Path, every: int) -> tuple[int, list[str]]:
    """Kill and resume at each point; return how often, and what was wrong."""
    wrong: list[str] = []
    kills = 0
    for at in range(1, 10_000, every):
        place = folder / str(at)
        tree = build_tree(place)
        ended = in_child(place, at)
        if ended == 0:
            break
        kills += 1
        if ended != -signal.SIGKILL:
            wrong.append(f"point {at}: ended with {ended}")
        half = check_tree(tree, lambda name, found: found in STATES[name])
        ended = in_child(place, -1)
        if ended != 0:
            wrong.append(f"point {at}: the resumed run ended with {ended}")
        late = check_tree(tree, lambda _name, found: found == NEW)
        left = [one.name for one in tree.rglob("*") if one.name.startswith(".")]
        wrong += [f"point {at}: {one}" for one in (*half, *late, *left)]
    return kills, wrong


if __name__ == "__main__":
    print(json.dumps(sweep(Path(sys.argv[1]), int(sys.argv[2]))))
