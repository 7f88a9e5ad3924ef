"""Files that conditions wait for: what is compared to see that one has changed."""

from __future__ import annotations

import os
import socket
from functools import cache

from windlass.json_types import JsonObject


@cache
def name_machine() -> str:
    """Return the name of this machine: files are watched where they were first looked at."""
    return socket.gethostname()


def describe_file(path: str) -> list[int] | None:
    """Return what changes when a file does: time, size and inode; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return [found.st_mtime_ns, found.st_size, found.st_ino]


def resolve_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths as absolute ones: whoever looks at them later stands elsewhere."""
    return tuple([os.path.abspath(path) for path in paths])


def describe_files(paths: tuple[str, ...]) -> JsonObject:
    """Return the state of a file trigger: the machine, and each file as it is now."""
    return {"host": name_machine(), "files": {path: describe_file(path) for path in paths}}
