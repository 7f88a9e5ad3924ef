"""What built-in search costs: `grep` and `glob` over ripgrep alone, and the memory of a long read.

Wall time, because ripgrep uses all cores. Nothing of a search is left out: the patterns match so few
lines, and the globs so few files, that all of the tree must be looked through. Without ripgrep on the
machine the rows are left out.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from bench.sampling import REPS, Work, paired, rounds
from bench.table import Row
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.search import process
from windlass.toolbox.search.ripgrep import find_ripgrep
from windlass.toolbox.search.tools import SearchTools

FILES = 50_000
WITH, WITHOUT = 1.3, 8.0
GIGABYTE = 1 << 30
MEMORY = 1.1
_FOLDERS = 500
_WORDS = (
    "self value total price cart order item return def class import from if else for in not None raise "
    "ValueError(value) KeyError(key) TypeError(name) # todo count_12 name_7 = + ( ) : print result data"
).split()
_READ = """
import asyncio, resource, sys
from windlass.toolbox.files import FileTools
from windlass.toolbox.sandbox.paths import Workspace

files = FileTools(Workspace(sys.argv[1]))
shown = asyncio.run(files.file_read(sys.argv[2], offset=int(sys.argv[3]), limit=100))
assert len(shown.splitlines()) in (101, 102), shown[:200]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


class Task(NamedTuple):
    """Something to look for, with what ripgrep is told for the same."""

    name: str
    ours: Callable[[SearchTools], Awaitable[str]]
    theirs: tuple[str, ...]
    found: int


TASKS = (
    Task("grep for a text", lambda tools: tools.grep("needle_in_hay"), ("-n", "needle_in_hay"), 50),
    Task(
        "grep for a pattern with a text in it",
        lambda tools: tools.grep(r"\w+Error\(code=\d{7}\)"),
        ("-n", r"\w+Error\(code=\d{7}\)"),
        50,
    ),
    Task(
        "grep for a pattern without a text",
        lambda tools: tools.grep(r"\b[a-z]+_[0-9]{7}\b"),
        ("-n", r"\b[a-z]+_[0-9]{7}\b"),
        50,
    ),
    Task(
        "glob",
        lambda tools: tools.glob("**/test_7*.py"),
        ("--files", "-g", "**/test_7*.py"),
        0,
    ),
)


def rows(reps: int = REPS, files: int = FILES, gigabyte: int = GIGABYTE) -> list[Row]:
    """The rows with ripgrep, without it, and of a long read."""
    found: list[Row] = []
    ripgrep = find_ripgrep("/nowhere")
    process.SECONDS = 600.0  # on a busy machine a search is slow, not wrong
    if ripgrep is not None:
        with tempfile.TemporaryDirectory() as folder:
            make_tree(Path(folder), files)
            for task in TASKS:
                found += asyncio.run(_compare(task, folder, ripgrep, files, reps))
    return [*found, _read_slice(gigabyte)]


def make_tree(folder: Path, files: int) -> None:
    """Make a tree of source files, 7 kB each on average, of which 5 % are ignored."""
    rng = random.Random(7)
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("build/\n*.log\n/dist\n__pycache__/\n.venv\nnode_modules/\n")
    texts = [
        "".join([" ".join(rng.choices(_WORDS, k=8)) + "\n" for _ in range(rng.randint(20, 250))])
        for _ in range(200)
    ]
    rare = set(rng.sample(range(files), min(50, files // 4)))
    home = folder
    for number in range(files):
        if number % (files // _FOLDERS or 1) == 0:
            top = "build" if number % 20 == 19 else f"pkg{number % 17}"
            home = folder / f"part{number % 23}" / top / f"mod{number}"
            home.mkdir(parents=True)
        name = (
            f"test_{number}.py"
            if number % 5 == 0
            else f"file{number}.{'ts' if number % 2 else 'md'}"
        )
        text = texts[number % len(texts)]
        if number in rare:
            text += "needle_in_hay raise KeyError(code=1234567) row_7654321\n"
        (home / name).write_text(text)


async def _compare(task: Task, folder: str, ripgrep: str, files: int, reps: int) -> list[Row]:
    tools = SearchTools(Workspace(folder))
    bare = SearchTools(Workspace(folder))
    bare.ripgrep = None

    async def alone() -> bytes:
        process = await asyncio.create_subprocess_exec(
            *(ripgrep, *task.theirs), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        return (await process.communicate())[0]

    lines = len((await alone()).splitlines())
    for one in (tools, bare):
        shown = (await task.ours(one)).splitlines()
        assert lines and len(shown) == lines + 1, (task.name, lines, shown[:3])
    works = {
        "with": Work(lambda: task.ours(tools)),
        "without": Work(lambda: task.ours(bare)),
        "alone": Work(alone),
    }
    taken = await rounds(works, reps, target=0, clock=time.perf_counter)
    result: list[Row] = []
    for side, allowed in (("with", WITH), ("without", WITHOUT)):
        pair = paired(taken[side], taken["alone"])
        name = f"{task.name}, {files:,} files: {side} ripgrep, over ripgrep alone (wall time)"
        sides = f"{pair.ours * 1e3:.0f} ms", f"ripgrep: {pair.bare * 1e3:.0f} ms"
        result.append(Row(name, pair.ratio, allowed, *sides, (pair.low, pair.high)))
    return result


def _read_slice(size: int) -> Row:
    """Compare the peak of memory of a slice at the end of a long file and of a short one."""
    with tempfile.TemporaryDirectory() as folder:
        line = b"a line of a file that is far too long to be read as a whole\n"
        block = line * ((1 << 20) // len(line))
        peaks: list[float] = []
        for name, blocks in (("short", 1), ("long", size // len(block))):
            with open(os.path.join(folder, name), "wb") as file:
                for _ in range(blocks):
                    file.write(block)
            last = str(blocks * block.count(b"\n") - 99)
            command = [sys.executable, "-c", _READ, folder, name, last]
            peaks.append(float(subprocess.run(command, check=True, capture_output=True).stdout))
    short, long = peaks
    return Row(
        f"file_read of 100 lines at the end of {size / 1e9:.1f} GB: peak memory, over 1 MB",
        long / short,
        MEMORY,
        f"{long / 1e3:.1f} MB",
        f"1 MB: {short / 1e3:.1f} MB",
    )
