"""Hostile paths for a workspace, and what becomes of each.

A workspace with links of all kinds, devices and FIFOs stands beside a folder with secrets. Generated
paths are read, listed, written and removed in it, while another process swaps folders for links. No
secret may be read, nothing outside may change, no call may block.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windlass.toolbox.sandbox import paths
from windlass.toolbox.sandbox.atomic import write_atomically
from windlass.toolbox.sandbox.path_errors import PathRefused
from windlass.toolbox.sandbox.paths import Workspace

SECRET = b"SECRET-OF-THE-HOST"
_RACER = """
import ctypes, os, sys
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None)
print("ready", flush=True)
while os.getppid() == int(sys.argv[2]):
    for _ in range(2000):
        libc.renameat2(-100, b"turning", -100, b"turned", 2)
"""


def build_tree(place: Path) -> Path:
    """Make the workspace and what lies around it; return the workspace."""
    outside, inside = place / "outside", place / "ws"
    (outside / "deep").mkdir(parents=True)
    for name in ("secret.txt", "deep/secret.txt", "a.txt", "outside-only"):
        (outside / name).write_bytes(SECRET)
    (inside / "a" / "b" / "c").mkdir(parents=True)
    (inside / "read only").mkdir()
    for name in ("a.txt", "a/a.txt", "a/b/a.txt", "a/b/c/a.txt", "read only/a.txt"):
        (inside / name).write_bytes(b"inside")
    (inside / "turning").mkdir()
    (inside / "turning" / "secret.txt").write_bytes(b"inside")
    (inside / "turned").symlink_to(outside)
    links = {
        "up": "..",
        "out": "../outside",
        "abs": str(outside),
        "file": "../outside/secret.txt",
        "absfile": str(outside / "secret.txt"),
        "self": "self",
        "ping": "pong",
        "pong": "ping",
        "proc": "/proc/self/root",
        "fd": "/proc/self/fd",
        "cwd": "/proc/self/cwd",
        "root": "/",
        "dev": "/dev",
        "good": "a/b",
        "a/good": "../a/b/c",
        "inner": str(inside / "a"),
        "hop1": "hop2/../..",
        "hop2": "a",
        "a/climb": "../../outside",
        "dangling": "../outside/new.txt",
    }
    for name, target in links.items():
        (inside / name).symlink_to(target)
    for at in range(45):
        (inside / f"chain{at}").symlink_to(f"chain{at + 1}" if at < 44 else "../outside")
    os.mkfifo(inside / "fifo")
    os.mkfifo(inside / "a" / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(inside)  # a name of a socket has 107 bytes at most
    listener.bind("socket")
    os.chdir(here)
    listener.close()
    if os.geteuid() == 0:
        try:
            os.mknod(inside / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            os.mknod(inside / "a" / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except OSError:
            pass
    (inside / os.fsdecode(b"\xff\xfe")).write_bytes(b"inside")
    return inside


def generate_paths(place: Path, count: int, seed: int) -> Iterator[str]:
    """Yield hostile paths: dots, absolute ones, links, `/proc`, devices, FIFOs, long and odd names."""
    chance = random.Random(seed)
    outside = str(place / "outside")
    steps = [
        *("a", "b", "c", "good", "inner", "turning", "turned", "up", "out", "abs", "hop1", "hop2"),
        *("..", "..", ".", "", "proc", "fd", "cwd", "root", "dev", "self", "ping", "chain0"),
        *("chain30", "climb", "ws", "outside", "deep", "read only", "\udcff\udcfe", "ä", "a" * 255),
        *(
            "a" * 256,
            "~",
            "~root",
            "$HOME",
            "%2e%2e",
            "‥",
            "․․",
            "..\\..",
            "fifo",
            "socket",
            "null",
        ),
        *("zero", "\ud800", "a\nb", "-rf", "*", "\x7f", "a.txt/", "....", ". .", "..;"),
    ]
    ends = [
        *("secret.txt", "a.txt", "file", "absfile", "fifo", "socket", "null", "zero", "dangling"),
        *("new.txt", "..", ".", "", "etc/passwd", "self/environ", "1/environ", "\udcff\udcfe"),
        *("a.txt\0.png", "\0", "deep/secret.txt", "dev/tty", "dev/zero", "proc/self/mem"),
    ]
    starts = [
        *("", "", "", "", "/", "//", "./", "../", f"{outside}/", f"{place}/ws/", f"{place}/ws/../"),
        *("/proc/self/root", "/proc/self/fd/0/", "/dev/", "file://", f"file://{outside}/"),
        *("../" * 40, "a/" * 30, f"/proc/self/cwd/{outside}/", "/etc/", "turning/", "turning/"),
    ]
    for _ in range(count):
        middle = [chance.choice(steps) for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 6)))]
        yield chance.choice(starts) + "/".join([*middle, chance.choice(ends)])


def snapshot(place: Path) -> dict[str, object]:
    """Return everything outside the workspace, with content and times."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(place):
        if Path(folder) == place:
            folders[:] = [one for one in folders if one != "ws"]
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content = Path(path).read_bytes() if stat.S_ISREG(status.st_mode) else None
            found[path] = (status.st_mode, status.st_mtime_ns, status.st_nlink, content)
    return found


@contextmanager
def swap_folders(workspace: Path) -> Iterator[None]:
    """Swap the folder `turning` for a link out of the workspace and back, as fast as can be."""
    command = [sys.executable, "-I", "-S", "-c", _RACER, str(workspace), str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as racer:
        assert racer.stdout is not None
        racer.stdout.readline()
        try:
            yield
        finally:
            racer.kill()


class Blocked(Exception):
    """A call that did not return in time."""


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise `Blocked` in the main thread if the block takes longer."""

    def stop(*_: object) -> None:
        raise Blocked

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def try_path(workspace: Workspace, path: str) -> Counter[str]:
    """Read, list, write and remove a path; count what happened."""
    happened: Counter[str] = Counter()
    try:
        with workspace.open_read(path) as file:
            happened["read"] += 1
            if SECRET in file.read(100_000):
                happened["escape by reading"] += 1
    except PathRefused as error:
        happened[type(error).__name__] += 1
    try:
        names = workspace.list_folder(path)
        happened["listed"] += 1
        if "outside-only" in names:
            happened["escape by listing"] += 1
    except PathRefused:
        pass
    try:
        written = write_atomically(workspace, path, b"hostile")
        happened["written"] += 1
        if written.created:
            workspace.remove(path)
    except PathRefused:
        pass
    try:
        workspace.make_folders(path + "/made")
    except PathRefused:
        pass
    return happened


def run(place: Path, count: int, seed: int = 1, *, walk: bool = False) -> Counter[str]:
    """Try `count` paths, half of them during a race; the counts, with `escape …` and `blocked`."""
    inside = build_tree(place)
    workspace = Workspace(inside, {"read only": "read"})
    before, total = snapshot(place), Counter[str]()
    had, paths.HAS_OPENAT2 = paths.HAS_OPENAT2, paths.HAS_OPENAT2 and not walk  # type: ignore[misc]
    generated = list(generate_paths(place, count, seed))
    try:
        for racing in (False, True):
            half = generated[: count // 2] if not racing else generated[count // 2 :]
            with swap_folders(inside) if racing else limit_time(3600):
                for path in half:
                    try:
                        with limit_time(5):
                            total += try_path(workspace, path)
                    except Blocked:
                        total["blocked"] += 1
        if snapshot(place) != before:
            total["escape by writing"] += 1
        if (inside / "read only" / "a.txt").read_bytes() != b"inside":
            total["write into a mount for reading"] += 1
    finally:
        paths.HAS_OPENAT2 = had  # type: ignore[misc]
        workspace.close()
    total["paths"] = count
    return total


def renameat2_is_there() -> bool:
    """Check whether this system can swap two names at once."""
    return sys.platform == "linux" and hasattr(ctypes.CDLL(None), "renameat2")
