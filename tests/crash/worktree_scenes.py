"""Worktrees of several workers on one repository, made while the process is killed."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from pathlib import Path

from windlass.testing.kill import Scene, Seen
from windlass.workers import worktree

WORKERS = 3


def git(folder: Path | str, *arguments: str) -> str:
    """Run git and return what it prints."""
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def prepare(scene: Scene) -> Path:
    """Make the repository with an uncommitted change, if it is not there."""
    repo, trees = scene.folder / "repo", scene.folder / "trees"
    tempfile.tempdir = str(trees)
    if not (scene.folder / "ready").exists():
        trees.mkdir(parents=True, exist_ok=True)
        repo.mkdir(exist_ok=True)
        git(repo, "init", "--quiet", "--initial-branch=main")
        (repo / "a.txt").write_text("one\n")
        git(repo, "add", "a.txt")
        git(repo, "commit", "--quiet", "--allow-empty", "-m", "first")
        (repo / "a.txt").write_text("mine\n")
        (scene.folder / "ready").write_text("")
    return repo


def scenario(scene: Scene) -> None:
    """Make the worktrees side by side, from wherever it was cut off."""
    asyncio.run(_make(prepare(scene), _count(scene)))


def _count(scene: Scene) -> int:
    return int(scene.params.get("workers", WORKERS))


async def _make(repo: Path, workers: int) -> None:
    made = [worktree.prepare_worktree(str(repo), f"b{n}", f"worker_{n}") for n in range(workers)]
    await asyncio.gather(*made)


def check(scene: Scene) -> Seen:
    """Look whether every worktree is whole, and the user's tree as it was."""
    repo = prepare(scene)
    problems = list[str]()
    for n in range(_count(scene)):
        place = asyncio.run(worktree.find_worktree(str(repo), f"worker_{n}"))
        if place is None:
            problems.append(f"worktree {n} is not whole")
        elif git(place.path, "status", "--porcelain") or not Path(place.path, "a.txt").exists():
            problems.append(f"worktree {n} has not all of its files")
    if git(repo, "status", "--porcelain").strip() != "M a.txt":
        problems.append("the user's tree was touched")
    listed = len(git(repo, "worktree", "list").splitlines())
    return Seen(state=[listed, (repo / "a.txt").read_text()], problems=tuple(problems))
