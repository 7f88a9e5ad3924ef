"""Errors of paths in a workspace. Each message says how to mend the call."""

from __future__ import annotations

import os
from typing import TypeAlias

from windlass.errors import WindlassError

StrPath: TypeAlias = str | os.PathLike[str]


def to_text(path: StrPath) -> str:
    """Return a path as the text that it is written with."""
    return path if isinstance(path, str) else path.__fspath__()


def show_path(path: StrPath) -> str:
    """Return a path as text that can be written anywhere, in quotes, of a bounded length."""
    text = to_text(path)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return repr(text if len(text) <= 300 else f"{text[:140]}…{text[-140:]}")


class PathRefused(WindlassError):
    """A path that tools may not use, and what to use instead: `error.path`."""

    def __init__(self, path: StrPath, message: str) -> None:
        super().__init__(message)
        self.path = to_text(path)


class InvalidPath(PathRefused):
    """A text that no file can have as its path."""


class OutsideWorkspace(PathRefused):
    """A path that leads out of the workspace and its mounts."""


class PathMissing(PathRefused):
    """A path at which there is nothing."""


class WrongFileType(PathRefused):
    """A folder where a file is needed, a file where a folder is, or a device, FIFO or socket."""


class ReadOnlyPath(PathRefused):
    """A path that may be read and not written."""


class FileChanged(PathRefused):
    """A file that is not as it was when it was read."""


class PathFailed(PathRefused):
    """A path that the system refuses for another reason: permissions, a full disk."""
