"""The level `isolated`: a command line for bubblewrap, which gives a command a system of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import Final

from windlass.toolbox.options import MountMode
from windlass.toolbox.sandbox.system_folders import (
    PROGRAMS,
    SETTINGS,
    interpreter_folders,
)

INSTALL: Final = (
    "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap; "
    "Alpine: apk add bubblewrap; Arch: pacman -S bubblewrap)"
)
_TEMPORARY: Final = os.path.join(os.sep, "tmp")  # where programs look for it, whatever TMPDIR says
#: Address families inside: the network namespace has its own, empty network.
FAMILIES: Final = (1, 2, 10)


def find_bubblewrap() -> str | None:
    """Return the path of `bwrap`, or None."""
    return shutil.which("bwrap")


def build_arguments(
    bwrap: str,
    folders: list[tuple[str, MountMode]],
    cwd: str,
    home: str,
    *,
    network: bool,
) -> list[str]:
    """Return the command line up to `--`; `{seccomp}` stands for the descriptor of the filter."""
    arguments = [bwrap, "--unshare-all", "--unshare-user", "--disable-userns"]
    arguments += ["--share-net"] if network else []
    arguments += ["--cap-drop", "ALL", "--die-with-parent", "--new-session"]
    for path in PROGRAMS:
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    for path in SETTINGS:
        arguments += ["--ro-bind", path, path] if os.path.exists(path) else []
    # Without write access to /proc/sys root could set, say, the program for core dumps.
    arguments += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    arguments += ["--tmpfs", _TEMPORARY]
    for path in interpreter_folders():
        arguments += ["--ro-bind", path, path]
    # The outer folder first: a mount in it comes on top.
    for path, mode in sorted(folders, key=lambda one: len(one[0])):
        arguments += ["--bind" if mode == "extend" else "--ro-bind", path, path]
    arguments += [
        "--bind",
        home,
        home,
        "--remount-ro",
        "/",
        "--chdir",
        cwd,
        "--seccomp",
        "{seccomp}",
        "--",
    ]
    return arguments


@cache
def find_isolation_problem() -> str | None:
    """Return why `isolated` cannot be had here, with the fix; None if it can. Asked once."""
    bwrap = find_bubblewrap()
    if bwrap is None:
        return f"bubblewrap is not installed; {INSTALL}"
    arguments = build_arguments(bwrap, [], "/", _TEMPORARY, network=False)
    at = arguments.index("--seccomp")
    del arguments[at : at + 2]
    try:
        done = subprocess.run(
            [*arguments, "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap could not be started: {error}"
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        return f"bubblewrap cannot make namespaces here ({said}); allow user namespaces"
    return None
