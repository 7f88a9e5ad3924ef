"""Work outside a virtual-time loop: threads, executor jobs, sockets and pipes.

On Linux the kernel says whether a thread runs, and how often it has run; elsewhere only the place
where its Python code stands is known, and the loop waits longer to be sure.
"""

from __future__ import annotations

import asyncio
import enum
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any


class Work(enum.Enum):
    """What a loop may expect from outside."""

    ALONE = "alone"  # there is nothing else
    QUIET = "quiet"  # others are there, with nothing to do
    SLEEPS = "sleeps"  # someone holds work, and shows no sign of doing it
    RUNS = "runs"


#: Where a thread without work stands: (end of the file's name, function).
_IDLE = (
    ("concurrent/futures/thread.py", "_worker"),
    ("threading.py", "wait"),
    ("threading.py", "_wait_for_tstate_lock"),
    ("threading.py", "join"),
    ("queue.py", "get"),
    ("selectors.py", "select"),
)

#: The modules of store writers; each knows those that live.
_WRITERS = ("windlass.store.sqlite.writer", "windlass.store.postgres.writer")


class Job:
    """A function that runs in an executor."""

    def __init__(self, func: Callable[..., Any], under_way: set[Job]) -> None:
        self._func, self._under_way = func, under_way
        self._started = False
        under_way.add(self)

    def run(self, *args: Any) -> Any:
        """Run it, in the executor's thread."""
        self._started = True
        try:
            return self._func(*args)
        finally:
            self._under_way.discard(self)

    def on_settled(self, _future: asyncio.Future[Any]) -> None:
        """Forget a job that never started; a cancelled thread goes on all the same."""
        if not self._started:
            self._under_way.discard(self)


class Outside:
    """A watch over whoever might still call one loop."""

    def __init__(self) -> None:
        self._jobs: set[Job] = set()
        # A thread that has not run since the loop was made holds nothing of the loop's.
        self._strangers = {mark for mark, _, _ in _threads()}
        self._sleepers: frozenset[object] = frozenset()
        self._done_with: frozenset[object] = frozenset()
        self._seen: frozenset[object] = frozenset()  # the threads at the last look

    def job(self, func: Callable[..., Any]) -> Job:
        """Register a function that is about to be handed to an executor."""
        return Job(func, self._jobs)

    def reset_patience(self) -> None:
        """Wait for sleeping threads again, after something came from outside."""
        self._done_with = frozenset()

    def waited_for(self) -> None:
        """Stop waiting for the current sleepers, until something about them changes."""
        self._done_with = self._sleepers

    def look(self, fds: Sequence[int], *, for_ever: bool) -> Work:
        """Return what is going on outside; `for_ever` if the loop would wait for nothing else."""
        if _stores_work():
            return Work.RUNS
        alone = not fds
        threads: set[object] = set()
        sleepers: set[object] = {*self._jobs, *_foreign(fds, listening=for_ever)}
        for mark, state, frame in _threads():
            if mark in self._strangers:
                continue
            alone = False
            threads.add(mark)
            if state in ("R", "D"):
                return Work.RUNS
            if not _is_idle(frame) and (for_ever or not _is_idle_writer(frame)):
                sleepers.add(mark)
        before, self._seen = self._seen, frozenset(threads)
        if not alone and (self._seen != before or _unseen_runs()):
            return Work.RUNS  # one that waits for the interpreter looks idle, but it has moved
        self._sleepers = frozenset(sleepers)
        if sleepers and (for_ever or not sleepers <= self._done_with):
            return Work.SLEEPS
        return Work.ALONE if alone else Work.QUIET


def _stores_work() -> bool:
    """Check whether a store has work; its thread looks idle while it gathers or waits."""
    loaded = [sys.modules.get(name) for name in _WRITERS]
    return any(writer.at_work for one in loaded if one is not None for writer in list(one.living))


def _threads() -> Iterator[tuple[object, str, FrameType]]:
    """Yield each other thread: a mark that changes when it runs, its state, and its frame."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    if len(frames) == 1:
        return
    own = threading.get_ident()
    native = {thread.ident: thread.native_id for thread in threading.enumerate()}
    for ident, frame in frames.items():
        if ident != own:
            yield *_mark(ident, native.get(ident), frame), frame


def _unseen_runs() -> bool:
    """Check whether a thread runs that Python does not list, at its start or end."""
    known = {thread.native_id for thread in threading.enumerate()}
    try:
        names = os.listdir("/proc/self/task")
    except OSError:
        return False
    return any(_state(int(name)) in ("R", "D") for name in names if int(name) not in known)


def _state(native: int) -> str:
    try:
        stat = _read(f"/proc/self/task/{native}/stat")
    except OSError:  # it is gone
        return ""
    return stat.rpartition(b")")[2].split()[0].decode()


def _mark(ident: int, native: int | None, frame: FrameType) -> tuple[object, str]:
    if native is not None:
        try:
            ran = _read(f"/proc/self/task/{native}/schedstat").split()[2]  # times on a core
            return (native, ran), _state(native)  # an `ident` is soon given to another thread
        except (OSError, IndexError):
            pass
    return (ident, id(frame), frame.f_lasti), "?"


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1024)
    finally:
        os.close(fd)


def _is_idle(frame: FrameType) -> bool:
    code = frame.f_code
    return any(
        code.co_name == function and code.co_filename.endswith(file) for file, function in _IDLE
    )


def _is_idle_writer(frame: FrameType) -> bool:
    """Check for a store's thread that waits for work; it may still wake a waiting loop."""
    return frame.f_code.co_name == "_wait" and frame.f_code.co_filename.endswith(
        "store/sqlite/writer.py"
    )


def _foreign(fds: Sequence[int], *, listening: bool) -> Iterator[object]:
    """Yield the descriptors that someone outside this loop could write to.

    Both ends of a connection on one loop need no waiting: what one sent, the other has at once.
    """
    ends: dict[tuple[Any, Any], int] = {}
    for fd in fds:
        try:
            end = socket.socket(fileno=fd)
        except OSError:
            yield ("fd", fd)
            continue
        try:
            if end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                if listening:
                    yield ("listens", fd)
            else:
                ends[(end.getsockname(), end.getpeername())] = fd
        except OSError:
            yield ("fd", fd)
        finally:
            end.detach()  # it belongs to the loop
    for (name, peer), fd in ends.items():
        if (peer, name) not in ends:
            yield ("fd", fd)
