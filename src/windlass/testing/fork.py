"""A function run in a child process that is killed at a chosen moment.

The child is forked from a warm parent, so it opens whatever it needs itself: a SQLite connection
must never cross a fork.
"""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import itertools
import os
import select
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union

import msgspec

from windlass import seams


class AtPoint(msgspec.Struct, frozen=True):
    """At the `number`-th passing of a point: of any, or of those with one name."""

    number: int
    name: str = ""


class AtCommit(msgspec.Struct, frozen=True):
    """At the start of SQLite's `number`-th commit."""

    number: int


class After(msgspec.Struct, frozen=True):
    """So long after its start, from outside."""

    seconds: float


Kill: TypeAlias = Union[AtPoint, AtCommit, After]


class Ended(msgspec.Struct, frozen=True):
    """The end of the child."""

    how: Literal["done", "killed", "failed", "hung"]
    at: str = ""  # the point or moment at which it was killed
    value: Any = None
    trace: str = ""
    points: dict[str, int] = {}
    commits: int = 0
    modules: tuple[str, ...] = ()  # loaded on the way
    seconds: float = 0.0


def in_child(
    body: Callable[[], Any], folder: Path, *, kill: Kill | None = None, timeout: float = 20.0
) -> Ended:
    """Run `body()` (it may be async) in a forked child, and kill the child as told.

    The folder takes the child's notes; its value must be plain data.
    """
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / "note.json"
    note.unlink(missing_ok=True)
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        _be_the_child(body, folder, kill, timeout)
    at = kill.seconds if isinstance(kill, After) else None
    status, late = _await_end(pid, at, timeout)
    seconds = time.perf_counter() - began
    if late:
        return Ended("hung", trace=_tail(folder / "stderr"), seconds=seconds)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL or kill is None:
            message = f"died of signal {os.WTERMSIG(status)}\n{_tail(folder / 'stderr')}"
            return Ended("failed", trace=message, seconds=seconds)
        where = (
            note.read_text() if note.exists() and at is None else f"after {seconds * 1000:.2f} ms"
        )
        return Ended("killed", at=where, seconds=seconds)
    try:
        ended = msgspec.json.decode(note.read_bytes(), type=Ended)
    except (OSError, msgspec.DecodeError):
        message = f"left with code {os.WEXITSTATUS(status)} and no word\n{_tail(folder / 'stderr')}"
        return Ended("failed", trace=message, seconds=seconds)
    return msgspec.structs.replace(ended, seconds=seconds)


def _await_end(pid: int, kill_after: float | None, timeout: float) -> tuple[int, bool]:
    """Wait for the child's exit status; return also whether it had to be stopped."""
    if kill_after is not None and not _ends_within(pid, kill_after):
        os.kill(pid, signal.SIGKILL)
    late = not _ends_within(pid, timeout)
    if late:
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1], late


def _ends_within(pid: int, seconds: float) -> bool:
    """Wait for the child's end without taking its status."""
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux
        until = time.perf_counter() + seconds
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.perf_counter() >= until:
                return False
            time.sleep(0.0005)
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def _tail(path: Path) -> str:
    try:
        return path.read_text(errors="replace")[-4000:]
    except OSError:
        return ""


# --------------------------------------------------------------------------- inside the child


def _be_the_child(body: Callable[[], Any], folder: Path, kill: Kill | None, timeout: float) -> None:
    """Run the body and exit: nothing of the parent (tests, exit handlers) may run here."""
    code = 1
    try:
        _redirect(folder)
        faulthandler.dump_traceback_later(max(timeout - 1, timeout / 2))
        ended = _run(body, folder, kill)
        (folder / "note.json").write_bytes(msgspec.json.encode(ended))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _redirect(folder: Path) -> None:
    for name, fd in (("stdout", 1), ("stderr", 2)):
        target = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(target, fd)
        os.close(target)


def _run(body: Callable[[], Any], folder: Path, kill: Kill | None) -> Ended:
    loaded = set(sys.modules)
    points: Counter[str] = Counter()
    passed, committed = itertools.count(1), itertools.count(1)
    commits = 0
    last_point, only = (kill.number, kill.name) if isinstance(kill, AtPoint) else (0, "")
    last_commit = kill.number if isinstance(kill, AtCommit) else 0

    def on_point(name: str) -> None:
        points[name] += 1
        if (not only or name == only) and next(passed) == last_point:
            _die(folder, name)

    def committing() -> None:
        nonlocal commits
        commits = next(committed)
        if commits == last_commit:
            _die(folder, f"commit {commits}")

    _watch_commits(committing)
    with seams.watch_points(on_point):
        try:
            value = body()
            if inspect.iscoroutine(value):
                value = asyncio.run(value)
        except BaseException:
            return Ended("failed", trace=traceback.format_exc(), points=points, commits=commits)
    new = tuple(name for name in list(sys.modules) if name not in loaded)
    return Ended(
        "done", value=msgspec.to_builtins(value), points=points, commits=commits, modules=new
    )


def _die(folder: Path, where: str) -> None:
    (folder / "note.json").write_text(where)
    os.kill(os.getpid(), signal.SIGKILL)


_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER")


def _watch_commits(committing: Callable[[], None]) -> None:
    """Call at the start of each commit of every SQLite connection opened from here on."""
    connect = sqlite3.connect

    def connect_traced(*args: Any, **keywords: Any) -> sqlite3.Connection:
        connection = connect(*args, **keywords)

        def on_statement(statement: str) -> None:
            word = statement.lstrip()[:8].upper()
            # outside a transaction, every write is a commit of its own
            alone = word.startswith(_WRITES) and not connection.in_transaction
            if alone or word.startswith(("COMMIT", "END")):
                committing()

        connection.set_trace_callback(on_statement)
        return connection

    sqlite3.connect = connect_traced
