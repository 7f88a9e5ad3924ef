"""Files in folders that are not trusted: regular, of bounded size, of this user.

A project folder can be a download. Opening a FIFO in it blocks, a device has no end, and a file that
another user can write is under that user's control.
"""

from __future__ import annotations

import logging
import os
import stat
from typing import Final

LARGEST: Final = 4_000_000  # bytes of a source or a text that a command looks into
LARGEST_EXPORT: Final = 1_000_000_000  # bytes of a transcript, a tape or seals
_log = logging.getLogger("windlass")


def read_regular(path: str | os.PathLike[str], limit: int = LARGEST) -> bytes:
    """Read a regular file of at most `limit` bytes: `read_regular("windlass.toml")`.

    Anything else raises `OSError` and is never waited for.
    """
    # O_NONBLOCK: opening a FIFO without it waits for a writer
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "it is not a regular file", os.fspath(path))
        if status.st_size > limit:
            raise OSError(None, f"it is larger than {limit:,} bytes", os.fspath(path))
        content = bytearray()
        while piece := os.read(handle, min(1 << 20, limit + 1 - len(content))):
            content += piece
            if len(content) > limit:  # it grew
                raise OSError(None, f"it is larger than {limit:,} bytes", os.fspath(path))
    finally:
        os.close(handle)
    _log.debug("read %s", path)
    return bytes(content)


def owner_problem(path: str | os.PathLike[str]) -> str | None:
    """Return why the file cannot be trusted: another's, or writable by others; else None.

    Files of root are taken: root can do anything anyway.
    """
    if not hasattr(os, "geteuid"):
        return None
    status = os.stat(path)
    if status.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    if status.st_mode & stat.S_IWOTH:
        return "everybody may write to it (chmod o-w)"
    if status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid():
        return "another group may write to it (chmod g-w)"
    return None


def open_private(
    path: str | os.PathLike[str],
    *,
    append: bool = False,
    make_folders: bool = False,
    linked_folders: bool = False,
) -> int:
    """Open a file of this user for writing: `open_private("audit.log", append=True)`.

    The file is made when missing, with `make_folders` its folders too, for this user alone. A symbolic link in its
    place, or on the way to it unless `linked_folders`, another's file and whatever is no regular
    file raise `OSError`. The descriptor may be read, too; without `append` the file is emptied.
    """
    place = os.path.abspath(path)
    _refuse_links(place, linked_folders)
    if make_folders:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | (os.O_APPEND if append else 0)
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    handle = os.open(place, flags, 0o600)
    try:
        status = os.fstat(handle)
        _check_owned(status, place)
        if hasattr(os, "geteuid") and stat.S_IMODE(status.st_mode) != 0o600:
            os.fchmod(handle, 0o600)
        if not append:
            os.ftruncate(handle, 0)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _refuse_links(place: str, linked_folders: bool) -> None:
    """Raise for a link in the file's place, or in its path unless the system made it."""
    if os.path.islink(place):
        raise OSError(None, "it is a symbolic link", place)
    folder = os.path.dirname(place)
    while not linked_folders and (above := os.path.dirname(folder)) not in (folder, ""):
        # links in the root folder, and links of root for other users, are the system's
        if os.path.islink(folder) and os.path.dirname(above) != above:
            owner = os.lstat(folder).st_uid
            if owner != 0 or not hasattr(os, "geteuid") or os.geteuid() == 0:
                raise OSError(None, f"the folder {folder} is a symbolic link", place)
        folder = above


def check_private(path: str | os.PathLike[str], *, linked_folders: bool = False) -> None:
    """Raise `OSError` where `open_private` would: `check_private("cache.db")`.

    For files that something else opens; a file of this user becomes private.
    """
    place = os.path.abspath(path)
    _refuse_links(place, linked_folders)
    try:
        status = os.lstat(place)
    except FileNotFoundError:
        return
    _check_owned(status, place)
    if hasattr(os, "geteuid") and stat.S_IMODE(status.st_mode) != 0o600:
        os.chmod(place, 0o600)


def write_private(
    path: str | os.PathLike[str],
    content: bytes,
    *,
    linked_folders: bool = False,
    keep_mode: bool = False,
) -> None:
    """Replace a file at once, readable by this user only: `write_private("a.json", b"{}")`.

    What `open_private` refuses raises `OSError` here too. With `keep_mode` a file that is there
    stays as readable as it was.
    """
    place = os.path.abspath(path)
    _refuse_links(place, linked_folders)
    mode = 0o600
    if os.path.lexists(place):
        status = os.lstat(place)
        _check_owned(status, place)
        mode = stat.S_IMODE(status.st_mode) if keep_mode else mode
    folder, name = os.path.split(place)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    beside = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode != 0o600:
            os.chmod(beside, mode)
        os.replace(beside, place)
    except BaseException:
        os.unlink(beside)
        raise


def _check_owned(status: os.stat_result, place: str) -> None:
    """Raise unless it is a regular file of this user with one name."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(None, "it is not a regular file", place)
    if hasattr(os, "geteuid"):
        if status.st_uid != os.geteuid():
            raise OSError(None, "it belongs to another user", place)
        if status.st_nlink > 1:
            raise OSError(None, "it has another name (a hard link)", place)
