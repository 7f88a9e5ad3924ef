"""Search finds the same with ripgrep, without it, and as plainly as it can be said."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sizes import pick_size
from tests.toolbox.search.random_trees import find_lines, make_glob, make_pattern, make_tree
from windlass.toolbox.search import worker
from windlass.toolbox.search.ignore_rules import IgnoreRules
from windlass.toolbox.search.path_globs import InvalidGlob, compile_glob
from windlass.toolbox.search.ripgrep import find_ripgrep
from windlass.toolbox.search.tree import Tree

RIPGREP = find_ripgrep("/nowhere")
TREES = pick_size(15, 400, proof="SEARCH")
PATTERNS = pick_size(8, 20, proof="SEARCH")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)  # the search process changes its folder
    yield tmp_path


def walk(folder: Path) -> list[str]:
    descriptor = os.open(folder, os.O_RDONLY)
    found: list[str] = []
    try:
        Tree(descriptor).walk(lambda _folder, _name, path: bool(found.append(path)))
    finally:
        os.close(descriptor)
    return found


def ask(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        whole = {**request, "root": descriptor, "inside": ".", "folder": descriptor, "file": None}
        return worker.grep(whole, 1e18)
    finally:
        os.close(descriptor)


@pytest.mark.skipif(RIPGREP is None, reason="there is no ripgrep")
@pytest.mark.parametrize("seed", range(TREES))
def test_grep_finds_the_same_with_ripgrep_and_without(seed: int, folder: Path) -> None:
    compare_engines(seed, folder, PATTERNS)


def compare_engines(seed: int, folder: Path, patterns: int) -> None:
    """Fill a folder, and search it in three ways for each of so many patterns."""
    rng = random.Random(seed)
    make_tree(rng, folder)
    files = walk(folder)
    for _ in range(patterns):
        pattern, ignore_case, glob = make_pattern(rng), rng.random() < 0.4, make_glob(rng)
        request = {
            "pattern": pattern,
            "ignore_case": ignore_case,
            "glob": glob,
            "most": 1000,
            "context": 0,
        }
        fits = compile_glob(glob) if glob is not None else None
        wanted: list[tuple[str, list[tuple[int, str]]]] = []
        for path in files:
            if fits is None or fits(path, path.rpartition("/")[2]):
                data = (folder / path).read_bytes()
                if lines := find_lines(data, pattern, ignore_case=ignore_case):
                    wanted.append((path, lines))
        for ripgrep in (RIPGREP, None):
            answer = ask(folder, {**request, "ripgrep": ripgrep})
            found = [
                (path, [(line.number, line.text) for line in lines])
                for path, lines in answer["files"]
            ]
            assert found == wanted, (pattern, ignore_case, glob, ripgrep)


@pytest.mark.parametrize("seed", range(pick_size(10, 300, proof="SEARCH")))
def test_walk_leaves_out_what_git_ignores(seed: int, tmp_path: Path) -> None:
    compare_with_git(seed, tmp_path)


def compare_with_git(seed: int, tmp_path: Path) -> None:
    """Fill a folder, and list its files as we do and as git does."""
    make_tree(random.Random(seed), tmp_path)
    found = walk(tmp_path)
    git = {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=git, check=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(listed, cwd=tmp_path, env=git, check=True, capture_output=True)
    theirs = {os.fsdecode(one) for one in done.stdout.split(b"\0") if one}
    assert set(found) == theirs


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a/b.py", True),
        ("*.py", "a/b.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/*.py", "x/src/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/b/c/a.py", True),
        ("**/src/*.py", "x/src/a.py", True),
        ("**/src/*.py", "src/a.py", True),
        ("/a.py", "a.py", True),
        ("/a.py", "b/a.py", False),
        ("./a.py", "b/a.py", True),
        ("src/", "src/b/a.py", True),
        ("*.{ts,tsx}", "a/b.tsx", True),
        ("{src,lib}/**", "lib/a/b", True),
        ("a{b", "a{b", True),
        ("[!a]*", "b", True),
        ("[!a]*", "a", False),
        ("[[:digit:]]x", "3x", True),
        ("[a", "[a", True),
        ("a?c", "a/c", False),
        ("\\*.py", "*.py", True),
        ("**", ".env", True),
    ],
)
def test_glob_means(glob: str, path: str, fits: bool) -> None:
    assert bool(compile_glob(glob)(path, path.rpartition("/")[2])) is fits


@pytest.mark.parametrize(
    "glob",
    [
        "",
        "/",
        "{" * 900,
        "{a,b}" * 8,
        "**/a/" * 6,
        "a" * 1001,
        "../*",
        "a/../b",
        "a\0b",
        "{" * 20 + "}" * 20,
    ],
)
def test_glob_that_cannot_be_used_is_refused(glob: str) -> None:
    with pytest.raises(InvalidGlob):
        compile_glob(glob)


@pytest.mark.parametrize(
    "glob", ["*a" * 450 + "b", "{" * 9 + "a", "[" * 900, "[a-" * 300, "\\" * 900]
)
def test_hostile_glob_is_matched_in_linear_time(glob: str) -> None:
    fits = compile_glob(glob)
    for _ in range(20):
        assert not fits("a" * 255, "a" * 255)


def test_rules_that_are_hostile_or_too_many_are_read_in_bounded_time() -> None:
    rules = IgnoreRules(
        "\n".join(["*a" * 100 + "b", "**/a/" * 9, "[", "\\", "!", *["x"] * 9_000, "late"])
    )
    assert len(rules.rules) < 5_000
    assert rules.decide("a" * 255, "a" * 255, False) is None
    assert rules.decide("b/x", "x", False) is True and rules.decide("late", "late", False) is None
