"""Writing a file of a workspace at once: readers see the old content or the new, never a part."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from typing import Final

import msgspec

from windlass import seams
from windlass.toolbox.sandbox.path_errors import FileChanged, StrPath, show_path, to_text
from windlass.toolbox.sandbox.paths import Fingerprint, Workspace, fingerprint_file, open_in

_TEMPORARY: Final = re.compile(r"\.windlass-(\d+)-(\d+)-[0-9a-f]{12}\.tmp")
_FORGOTTEN: Final = 3600.0  # seconds after which a temporary file of an unknown process is litter


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a write did."""

    created: bool
    """Whether there was no file before."""
    after: Fingerprint
    notes: tuple[str, ...] = ()
    """What could not be kept: the owner, an attribute."""


def write_atomically(
    workspace: Workspace,
    path: StrPath,
    content: bytes,
    *,
    expect: Fingerprint | None = None,
    create: bool | None = None,
    make_folders: bool = False,
) -> Written:
    """Replace or make a file: `write_atomically(workspace, "a.txt", b"…", expect=as_read)`.

    Mode, owner and extended attributes of the file stay. With `expect` a file that is not as it was
    raises `FileChanged`; `create=True` refuses a file that is there, `create=False` one that is not.
    """
    above = os.path.dirname(to_text(path))
    if make_folders and above:
        workspace.make_folders(above)
    with workspace.parent_for_change(path) as (folder, name):
        remove_litter(folder)
        before = _check_state(folder, name, path, expect, create)
        beside = _temporary_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(beside, flags, 0o666, dir_fd=folder)
        seams.point("file.after_create")
        try:
            try:
                _write_all(handle, content)
                notes = () if before is None else _keep_attributes(handle, folder, name, before)
                os.fsync(handle)
            finally:
                os.close(handle)
            _check_state(folder, name, path, expect, create)
            seams.point("file.before_rename")
            os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            _unlink_quietly(beside, folder)
            raise
        seams.point("file.after_rename")
        _sync_folder(folder)
        with open_in(folder, name) as file:
            return Written(created=before is None, after=fingerprint_file(file), notes=notes)


def remove_litter(folder: int) -> int:
    """Remove temporary files of processes that were killed while they wrote here; count them."""
    removed = 0
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        for name in os.listdir(readable):
            found = _TEMPORARY.fullmatch(name)
            if found is not None and _is_litter(int(found[1]), int(found[2]), name, folder):
                removed += _unlink_quietly(name, folder)
    finally:
        os.close(readable)
    return removed


def _is_litter(space: int, pid: int, name: str, folder: int) -> bool:
    if space == _pid_space():
        return not _is_alive(pid)
    try:  # of a container that shares the folder: its processes cannot be asked for
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return time.time() - status.st_mtime > _FORGOTTEN


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _pid_space() -> int:
    """Return the number of the pid namespace, in which process ids mean something."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _temporary_name() -> str:
    return f".windlass-{_pid_space()}-{os.getpid()}-{os.urandom(6).hex()}.tmp"


def _check_state(
    folder: int,
    name: str,
    path: StrPath,
    expect: Fingerprint | None,
    create: bool | None,
) -> os.stat_result | None:
    """Return the status of the file that is replaced, or None; `FileChanged` if it is another."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        status = None
    shown = show_path(path)
    if status is None:
        if expect is not None or create is False:
            raise FileChanged(path, f"{shown} is gone since it was read; look for it again")
        return None
    if create is True:
        raise FileChanged(path, f"{shown} is there already; read it first, then write it")
    if not stat.S_ISREG(status.st_mode):
        raise FileChanged(path, f"{shown} is no regular file any more; look at it again")
    if expect is not None:
        with open_in(folder, name) as file:
            now = fingerprint_file(file)
        if now.digest != expect.digest:
            raise FileChanged(
                path,
                f"{shown} changed since it was read ({expect.size:,} bytes then, {now.size:,} now); "
                "read it again",
            )
    return status


def _write_all(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]


def _keep_attributes(
    handle: int, folder: int, name: str, before: os.stat_result
) -> tuple[str, ...]:
    """Give the new file the owner, mode and extended attributes of the old one."""
    notes: list[str] = []
    made = os.fstat(handle)
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        try:  # before the mode: a change of the owner clears its set-id bits
            os.fchown(handle, before.st_uid, before.st_gid)
        except PermissionError:
            notes.append("the file now belongs to the user of this process")
    os.fchmod(handle, stat.S_IMODE(before.st_mode))
    if not hasattr(os, "listxattr"):
        return tuple(notes)
    with open_in(folder, name) as old:
        try:
            names = os.listxattr(old.fileno())
        except OSError:
            names = []
        for attribute in names:
            try:
                os.setxattr(handle, attribute, os.getxattr(old.fileno(), attribute))
            except OSError as error:
                if error.errno != errno.ENODATA:
                    notes.append(f"the attribute {attribute} could not be kept")
    return tuple(notes)


def _sync_folder(folder: int) -> None:
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(readable)
    except OSError:  # some file systems cannot
        pass
    finally:
        os.close(readable)


def _unlink_quietly(name: str, folder: int) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return False
    return True
