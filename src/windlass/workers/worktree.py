"""Git worktrees of workers: made in a temporary folder, repaired after a kill, removed by rule.

The user's own tree is never touched. A worktree is whole once the file beside it says so: until then
another attempt takes apart what is there and makes it again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from windlass import seams
from windlass.errors import ConfigError, error_text, safe_repr
from windlass.files import read_regular, write_private
from windlass.json_types import JsonObject

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: git's own locks alone
    fcntl = None

TRIES: Final = 40  # of a git command that finds a lock of another git
SECONDS: Final = 120.0  # that one git command may take
_LOCKED: Final = (
    "could not lock",
    "cannot lock",
    "unable to lock",
    ".lock': file exists",
    "unable to create",
    "another git process",
)


class GitFailed(ConfigError):
    """A git command that did not succeed."""


class WorktreePlace(msgspec.Struct, frozen=True):
    """A worktree that is there: its folder, its branch, and the commit that it began with."""

    path: str
    repo: str
    branch: str
    base: str


async def prepare_worktree(repo: str, branch: str, worker_id: str) -> WorktreePlace:
    """Return the worktree of a worker; make it, or repair it, where it is not whole."""
    return await asyncio.to_thread(_prepare, repo, branch, worker_id)


async def build_patch(place: WorktreePlace) -> str:
    """Return what the worktree changed since it was made, as a patch; its index stays as it is."""
    return await asyncio.to_thread(_build_patch, place)


async def clean_up(place: WorktreePlace, rule: str) -> str | None:
    """Remove the worktree by its rule; return why it stays, or None if it is gone."""
    return await asyncio.to_thread(_clean_up, place, rule)


async def find_worktree(repo: str, worker_id: str) -> WorktreePlace | None:
    """Return the worktree of a worker if it is there and whole."""
    return await asyncio.to_thread(_find, repo, worker_id)


def _prepare(repo: str, branch: str, worker_id: str) -> WorktreePlace:
    top = find_repository(repo)
    folder, mark = _folder_of(top, worker_id)
    if (known := _read_mark(folder, mark)) is not None:
        if known.branch != branch:
            raise ConfigError(
                f"the worktree {folder} has the branch {known.branch!r}, not {branch!r}"
            )
        return known
    check_branch(top, branch)
    if not _is_whole(folder, branch):
        _add(top, folder, mark, branch)
    base = _git(top, "merge-base", "HEAD", f"refs/heads/{branch}").strip()
    place = WorktreePlace(str(folder), str(top), branch, base)
    write_private(mark, msgspec.json.encode(place))
    seams.point("worktree.after_mark")
    return place


def _add(top: Path, folder: Path, mark: Path, branch: str) -> None:
    """Make the worktree, one of a repository at a time; again where another git was half done."""
    for attempt in range(TRIES):
        try:
            with _hold(top, folder.parent):
                _add_once(top, folder, mark, branch)
            return
        except GitFailed as error:
            # What a git of a process that was killed has begun to write of its own worktree.
            if "failed to read" not in str(error) or attempt == TRIES - 1:
                raise
        time.sleep(min(0.01 * 2**attempt, 0.25))


@contextmanager
def _hold(top: Path, folder: Path) -> Generator[None]:
    """Hold the lock of a repository, which goes with the process."""
    name = hashlib.sha256(str(top).encode()).hexdigest()[:16]
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(folder / f"{name}.lock", flags, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _add_once(top: Path, folder: Path, mark: Path, branch: str) -> None:
    """Make the worktree, on a new branch or on one that nobody has checked out."""
    _take_apart(top, folder, mark)
    seams.point("worktree.before_add")
    if _has_branch(top, branch):
        where = _find_checkout(top, branch)
        if where is not None:
            raise ConfigError(
                f"branch {branch!r} is checked out in {where}: a worktree needs one of its own"
            )
        _git(top, "worktree", "add", "--quiet", str(folder), branch)
    else:
        _git(top, "worktree", "add", "--quiet", "--no-track", "-b", branch, str(folder), "HEAD")
    seams.point("worktree.after_add")


def _find(repo: str, worker_id: str) -> WorktreePlace | None:
    folder, mark = _folder_of(find_repository(repo), worker_id)
    return _read_mark(folder, mark)


def find_repository(repo: str) -> Path:
    """Return the top folder of the repository that holds this folder."""
    place = os.path.abspath(os.path.expanduser(repo))
    if not os.path.isdir(place):
        raise ConfigError(f"execution.worktree.repo: there is no folder {safe_repr(place)}")
    try:
        return Path(_git(Path(place), "rev-parse", "--show-toplevel").strip())
    except GitFailed as error:
        raise ConfigError(
            f"execution.worktree.repo: {place} is no git repository: {error}"
        ) from None


def check_branch(top: Path, branch: str) -> None:
    """Refuse what git takes for no name of a branch."""
    try:
        _git(top, "check-ref-format", "--branch", branch)
    except GitFailed:
        raise ConfigError(
            f"execution.worktree.branch: {safe_repr(branch)} is no name of a branch"
        ) from None
    try:
        _git(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except GitFailed:
        raise ConfigError(f"{top} has no commit yet: a worktree begins with one") from None


# --------------------------------------------------------------------------- the folder


def _folder_of(top: Path, worker_id: str) -> tuple[Path, Path]:
    """Return the folder of a worker's worktree, and the file that says that it is whole."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    base = Path(tempfile.gettempdir()) / f"windlass-worktrees-{user}"
    base.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(base)
    if not stat.S_ISDIR(status.st_mode) or (user and status.st_uid != user):
        raise ConfigError(f"{base} is not a folder of this user: no worktree can be made there")
    base.chmod(0o700)
    digest = hashlib.sha256(f"{top}\0{worker_id}".encode()).hexdigest()[:16]
    name = "".join([c if c.isalnum() or c in "-_" else "-" for c in worker_id])[-40:]
    folder = base / f"{name}-{digest}"
    return folder, folder.with_name(f"{folder.name}.json")


def _read_mark(folder: Path, mark: Path) -> WorktreePlace | None:
    """Read the file beside a worktree; None where the worktree is not whole."""
    try:
        place = msgspec.json.decode(read_regular(mark), type=WorktreePlace)
    except (OSError, ValueError, msgspec.DecodeError):
        return None
    if not (folder / ".git").is_file():
        return None
    try:
        _git(folder, "rev-parse", "--git-dir")
    except GitFailed:
        return None  # the repository does not know it any more
    return place


def _is_whole(folder: Path, branch: str) -> bool:
    """Check whether git has finished making the worktree, of which the mark is not there."""
    if not (folder / ".git").is_file():
        return False
    try:
        own = Path(folder, _git(folder, "rev-parse", "--git-dir").strip())
        on = _git(folder, "symbolic-ref", "--short", "HEAD").strip()
    except GitFailed:
        return False
    # git keeps it locked while it makes it
    return on == branch and (own / "index").is_file() and not (own / "locked").exists()


def _take_apart(top: Path, folder: Path, mark: Path) -> None:
    """Remove what an attempt that was killed has left of a worktree."""
    mark.unlink(missing_ok=True)
    if folder.exists() or str(folder) in _list_worktrees(top):
        try:  # twice: git keeps one that was being made locked
            _git(top, "worktree", "remove", "--force", "--force", str(folder))
        except GitFailed:
            shutil.rmtree(folder, ignore_errors=True)
            _git(top, "worktree", "prune", "--expire", "now")
    if folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def _list_worktrees(top: Path) -> dict[str, str]:
    """Return the worktrees that git knows: their folders and their branches."""
    found: dict[str, str] = {}
    at = ""
    for line in _git(top, "worktree", "list", "--porcelain").splitlines():
        key, _, value = line.partition(" ")
        if key == "worktree":
            at = value
            found[at] = ""
        elif key == "branch":
            found[at] = value.removeprefix("refs/heads/")
    return found


def _has_branch(top: Path, branch: str) -> bool:
    try:
        _git(top, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
    except GitFailed:
        return False
    return True


def _find_checkout(top: Path, branch: str) -> str | None:
    return next((at for at, one in _list_worktrees(top).items() if one == branch), None)


# --------------------------------------------------------------------------- its end


def _build_patch(place: WorktreePlace) -> str:
    folder = Path(place.path)
    with tempfile.TemporaryDirectory(prefix="windlass-index-") as own:
        # An index of its own: what the worker has staged stays as it is.
        index = {"GIT_INDEX_FILE": os.path.join(own, "index")}
        _git(folder, "read-tree", "HEAD", env=index)
        _git(folder, "add", "--all", env=index)
        return _git(folder, "diff", "--cached", "--binary", "--no-ext-diff", place.base, env=index)


def _clean_up(place: WorktreePlace, rule: str) -> str | None:
    folder, top = Path(place.path), Path(place.repo)
    mark = folder.with_name(f"{folder.name}.json")
    if rule == "preserve":
        return "preserved"
    if not folder.exists():
        mark.unlink(missing_ok=True)
        return None
    if _git(folder, "status", "--porcelain").strip():
        return "it has changes that are not committed"
    seams.point("worktree.before_remove")
    mark.unlink(missing_ok=True)
    _git(top, "worktree", "remove", str(folder))
    seams.point("worktree.after_remove")
    return None


# --------------------------------------------------------------------------- git


def _git(folder: Path, *arguments: str, env: JsonObject | None = None) -> str:
    """Run a git command; try again while another git holds a lock."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-C", str(folder), *arguments]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
        **(env or {}),
    }
    for attempt in range(TRIES):
        done = _execute(command, environment)
        if done.returncode == 0:
            return done.stdout.decode("utf-8", "surrogateescape")
        words = done.stderr.decode("utf-8", "replace").strip()
        if not any([sign in words.lower() for sign in _LOCKED]) or attempt == TRIES - 1:
            raise GitFailed(f"git {arguments[0]}: {words or f'exit code {done.returncode}'}")
        # In a thread, beside other processes: the virtual clock has no say here.
        time.sleep(min(0.01 * 2**attempt, 0.25) * (0.5 + seams.rng.random()))
    raise AssertionError("unreachable")


def _execute(
    command: Sequence[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(f"git cannot be run: {error_text(error)}") from error
