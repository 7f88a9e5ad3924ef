"""Files of a workspace, opened beneath the descriptor of its folder.

A path is never checked first and opened afterwards: between the two a folder can be swapped for a
link. `openat2` opens it in one step; where it is missing, or a link is absolute, the path is walked
folder by folder, each opened without following links.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, Final, NamedTuple

import msgspec

from windlass.errors import ConfigError, nearest
from windlass.toolbox.options import MOUNT_MODES, MountMode
from windlass.toolbox.sandbox.openat2 import HAS_OPENAT2, open_beneath
from windlass.toolbox.sandbox.path_errors import (
    InvalidPath,
    OutsideWorkspace,
    PathFailed,
    PathMissing,
    PathRefused,
    ReadOnlyPath,
    StrPath,
    WrongFileType,
    show_path,
    to_text,
)

LONGEST: Final = 4095  # bytes of a path that the kernel takes
_MOST_LINKS: Final = 40  # as the kernel
_MOST_FOLDERS: Final = 2_100  # steps of a path of 4,095 bytes
_O_PATH: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
_LOOK: Final = _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SUGGESTED_FROM: Final = 2_000  # names of a folder that are compared with a missing one
_PIECE: Final = 1 << 20


class Root(NamedTuple):
    """A folder that tools may use: the anchor, or a mount."""

    path: str
    mode: MountMode
    descriptor: int
    spellings: tuple[str, ...]


class Fingerprint(msgspec.Struct, frozen=True):
    """The state of a file, to notice that it changed: its identity, size, time and digest."""

    device: int
    inode: int
    size: int
    modified_ns: int
    digest: str


class _Place(NamedTuple):
    """A path of a call: the root that it begins in, and the rest."""

    root: Root
    inside: str


class Workspace:
    """The folder of a project, and further ones that are mounted beside it.

    ```python
    workspace = Workspace("~/shop", {"/srv/data": "read"})
    with workspace.open_read("src/cart.py") as file:
        text = file.read()
    ```
    Paths are relative to the anchor, or absolute inside the anchor or a mount. All methods raise a
    `PathRefused` that says what to do instead. They block: call them in a thread.
    """

    def __init__(self, anchor: StrPath, mounts: Mapping[str, MountMode] | None = None) -> None:
        if not {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd:
            raise ConfigError("a workspace needs a system that opens files relative to a folder")
        held: list[int] = []
        self._finalizer = weakref.finalize(self, _close_all, held)
        self._root = _open_root("workspace", anchor, "extend", held)
        folders = [
            _open_root("mounts", os.path.join(self._root.path, os.path.expanduser(one)), mode, held)
            for one, mode in (mounts or {}).items()
        ]
        self._mounts = tuple(folders)
        # The innermost folder says what may be done: a mount may lie in the workspace.
        self._by_depth = sorted((self._root, *folders), key=lambda one: -len(one.path))
        self._identities = {_identity(os.fstat(one.descriptor)): one for one in self._by_depth}

    @property
    def anchor(self) -> str:
        """The absolute path of the folder, with all links followed."""
        return self._root.path

    @property
    def mounts(self) -> Mapping[str, MountMode]:
        """The further folders, by absolute path, each with its mode."""
        return {one.path: one.mode for one in self._mounts}

    def descriptors(self) -> list[tuple[int, MountMode]]:
        """Return the open folders and what may be done in each; they stay the workspace's."""
        return [(one.descriptor, one.mode) for one in (self._root, *self._mounts)]

    def close(self) -> None:
        """Close the descriptors of the folders; nothing can be opened afterwards."""
        self._finalizer()

    # ----------------------------------------------------------------- names

    def display(self, path: StrPath) -> str:
        """Return the path as it is shown: relative to the anchor, absolute in a mount."""
        place = self._locate(path)
        inside = os.path.normpath(place.inside or ".")
        shown = inside if place.root is self._root else os.path.join(place.root.path, inside)
        return os.path.normpath(shown).encode("utf-8", "backslashreplace").decode("utf-8")

    def find_root(self, path: StrPath) -> tuple[int, str]:
        """Return the folder that a path begins in, the anchor or a mount, and the path inside it."""
        place = self._locate(path)
        return place.root.descriptor, os.path.normpath(place.inside or ".")

    def _locate(self, path: StrPath) -> _Place:
        """Find the root that a path begins in. Its links are looked at when it is opened."""
        text = to_text(path)
        if "\0" in text:
            raise InvalidPath(
                text, f"{show_path(text)} holds a NUL character; no file is called so"
            )
        if not text:
            raise InvalidPath(text, "the path is empty; '.' is the workspace itself")
        try:
            if len(os.fsencode(text)) > LONGEST:
                raise InvalidPath(text, f"{show_path(text)} is longer than {LONGEST} bytes")
        except UnicodeEncodeError:
            message = f"{show_path(text)} is not a text that a file can be called"
            raise InvalidPath(text, message) from None
        return self._find_root(text)

    def _find_root(self, text: str) -> _Place:
        whole = os.path.join(self._root.path, text)
        shortened = os.path.normpath(whole)
        for root in self._by_depth:
            for spelled in root.spellings:
                # As it is written: `..` after a link leads elsewhere than a shortened path.
                for candidate in (whole, shortened):
                    inside = _strip(candidate, spelled)
                    if inside is not None and not _climbs(inside):
                        return _Place(root, inside)
        if not os.path.isabs(text):
            return _Place(self._root, text)  # the kernel says that it leads out
        raise self._refuse_outside(text)

    def _refuse_outside(self, text: str) -> OutsideWorkspace:
        folders = ", ".join([show_path(one.path) for one in (self._root, *self._mounts)])
        return OutsideWorkspace(
            text,
            f"{show_path(text)} leads out of the workspace; use a path relative to it. Tools may use "
            f"{folders}; the option mounts adds a folder",
        )

    # ----------------------------------------------------------------- reading

    def open_read(self, path: StrPath) -> BinaryIO:
        """Open a regular file for reading: `with workspace.open_read("a.txt") as file: …`.

        Devices, FIFOs and sockets are refused before they are opened, folders are named as such.
        """
        return os.fdopen(self._open_regular(path), "rb")

    def open_folder(self, path: StrPath = ".") -> int:
        """Open a folder; the descriptor is the caller's to close, for `os.scandir` and `open_in`."""
        looked = self._look(path)
        try:
            if not stat.S_ISDIR(os.fstat(looked).st_mode):
                raise WrongFileType(path, f"{show_path(path)} is a file, not a folder")
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=looked)
        except OSError as error:
            raise self._explain(error, path) from None
        finally:
            os.close(looked)

    def list_folder(self, path: StrPath = ".") -> list[str]:
        """Return the names in a folder, sorted."""
        folder = self.open_folder(path)
        try:
            return sorted(os.listdir(folder))
        finally:
            os.close(folder)

    def stat(self, path: StrPath) -> os.stat_result:
        """Return the status of whatever is at the path, with links followed."""
        looked = self._look(path)
        try:
            return os.fstat(looked)
        finally:
            os.close(looked)

    def exists(self, path: StrPath) -> bool:
        """Check whether there is something at the path; a path that leads out raises."""
        try:
            self.stat(path)
        except PathMissing:
            return False
        return True

    def read_bytes(self, path: StrPath, limit: int | None = None) -> bytes:
        """Read a whole file, or its first `limit` bytes."""
        with self.open_read(path) as file:
            return file.read() if limit is None else file.read(limit)

    def fingerprint(self, path: StrPath) -> Fingerprint:
        """Return the state of a file, with the digest of its content."""
        with self.open_read(path) as file:
            return fingerprint_file(file)

    def digest(self, path: StrPath) -> str:
        """Return the SHA-256 of a file's content, in hex."""
        return self.fingerprint(path).digest

    def _open_regular(self, path: StrPath) -> int:
        looked = self._look(path)
        try:
            status = os.fstat(looked)
            _require_regular(path, status)
            return _reopen(looked)
        except OSError as error:
            raise self._explain(error, path) from None
        finally:
            os.close(looked)

    # ----------------------------------------------------------------- changes

    @contextmanager
    def parent_for_change(self, path: StrPath) -> Generator[tuple[int, str]]:
        """Open the folder in which a file is made, replaced or removed: its descriptor and the name.

        Links at the end of the path are followed. `ReadOnlyPath` where a mount may only be read.
        """
        folder, name = self._open_parent(path)
        try:
            yield folder, name
        except OSError as error:
            raise self._explain(error, path) from None
        finally:
            os.close(folder)

    def make_folders(self, path: StrPath) -> None:
        """Make a folder and all that are missing above it."""
        place = self._locate(path)
        done = ""
        for part in [one for one in place.inside.split("/") if one]:
            done = os.path.join(done, part)
            whole = os.path.join(place.root.path, done)
            if part == ".." or self.exists(whole):
                continue
            with self.parent_for_change(whole) as (folder, name):
                try:
                    os.mkdir(name, dir_fd=folder)
                except FileExistsError:
                    pass

    def remove(self, path: StrPath) -> None:
        """Remove a file, never a folder."""
        with self.parent_for_change(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def _open_parent(self, path: StrPath) -> tuple[int, str]:
        """Return the descriptor of the folder of a path, and the bare name in it."""
        text = to_text(path)
        for _ in range(_MOST_LINKS):
            place = self._locate(text)
            above, _, name = place.inside.rpartition("/")
            if name in ("", ".", ".."):
                raise WrongFileType(path, f"{show_path(path)} names a folder, not a file")
            folder = self._open_inside(place._replace(inside=above or "."), path, folder=True)
            try:
                self._require_writable(folder, path)
                status = _stat_name(name, folder)
                if status is None or not stat.S_ISLNK(status.st_mode):
                    if status is not None:
                        _require_regular(path, status)
                    return os.dup(folder), name
                link = os.readlink(name, dir_fd=folder)
            except OSError as error:
                raise self._explain(error, path) from None
            finally:
                os.close(folder)
            text = link if os.path.isabs(link) else os.path.join(place.root.path, above, link)
        raise WrongFileType(path, f"{show_path(path)} is a chain of links without an end")

    def _require_writable(self, folder: int, path: StrPath) -> None:
        """Raise `ReadOnlyPath` if the innermost root above a folder may only be read.

        The folders above are asked for their identity: a mount that was renamed is still the same.
        """
        at = os.dup(folder)
        try:
            for _ in range(_MOST_FOLDERS):
                identity = _identity(os.fstat(at))
                root = self._identities.get(identity)
                if root is not None:
                    break
                above = os.open("..", _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
                os.close(at)
                at = above
                if _identity(os.fstat(at)) == identity:
                    root = None
                    break
            else:
                root = None
        finally:
            os.close(at)
        if root is None:
            raise self._refuse_outside(to_text(path))
        if root.mode != "extend":
            raise ReadOnlyPath(
                path,
                f"{show_path(path)} may only be read: {show_path(root.path)} is mounted as 'read'; "
                "write somewhere else in the workspace, or have it mounted as 'extend'",
            )

    # ----------------------------------------------------------------- opening

    def _look(self, path: StrPath) -> int:
        """Open a path as what can only be looked at, with its links followed."""
        return self._open_inside(self._locate(path), path)

    def _open_inside(self, place: _Place, path: StrPath, *, folder: bool = False) -> int:
        flags = _O_PATH | os.O_CLOEXEC | (os.O_DIRECTORY if folder else 0)
        try:
            if HAS_OPENAT2:
                inside = os.fsencode(place.inside.strip("/") or ".")
                try:
                    return open_beneath(place.root.descriptor, inside, flags)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
            # A link to an absolute path inside leads out for openat2: look at each step.
            return self._walk(place, path, folder=folder)
        except OSError as error:
            raise self._explain(error, path) from None

    def _walk(self, place: _Place, path: StrPath, *, folder: bool) -> int:
        """Open a path step by step; each folder is held open, so that `..` leads where we came from."""
        parts = _split(place.inside)
        trail = [os.dup(place.root.descriptor)]
        links = 0
        try:
            while parts:
                part = parts.pop()
                if part == "..":
                    if len(trail) == 1:
                        raise self._refuse_outside(to_text(path))
                    os.close(trail.pop())
                    continue
                step = self._step(trail[-1], part, path)
                if not stat.S_ISLNK(os.fstat(step).st_mode):
                    trail.append(step)
                    continue
                os.close(step)
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = os.readlink(part, dir_fd=trail[-1])
                if os.path.isabs(target):
                    there = self._find_root(target)
                    _close_all(trail)
                    trail.append(os.dup(there.root.descriptor))
                    target = there.inside
                parts += _split(target)
            if folder and not stat.S_ISDIR(os.fstat(trail[-1]).st_mode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            return trail.pop()
        finally:
            _close_all(trail)

    def _step(self, folder: int, name: str, path: StrPath) -> int:
        """Open one name in a folder, not through a link and not into another file system."""
        try:
            if HAS_OPENAT2:
                return open_beneath(folder, os.fsencode(name), _LOOK)
            opened = os.open(name, _LOOK, dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise self._refuse_mount(path) from None
        if os.fstat(opened).st_dev != os.fstat(folder).st_dev:
            os.close(opened)
            raise self._refuse_mount(path)
        return opened

    def _refuse_mount(self, path: StrPath) -> OutsideWorkspace:
        return OutsideWorkspace(
            path,
            f"{show_path(path)} is on another file system that is mounted in the workspace; name "
            "that folder in the option mounts to let tools use it",
        )

    def _explain(self, error: OSError, path: StrPath) -> PathRefused:
        """Return the error for a path that the system refused."""
        shown = show_path(path)
        match error.errno:
            case errno.ENOENT:
                return PathMissing(path, f"there is no {shown}{self._suggest(path)}")
            case errno.ENOTDIR:
                return WrongFileType(path, f"{shown} goes through a file as if it was a folder")
            case errno.EXDEV:
                return self._refuse_outside(to_text(path))
            case errno.ELOOP:
                return WrongFileType(path, f"{shown} is a chain of links without an end")
            case errno.ENAMETOOLONG:
                return InvalidPath(path, f"{shown} has a name that is longer than 255 bytes")
            case _:
                return PathFailed(path, f"{shown}: {error.strerror or error}")

    def _suggest(self, path: StrPath) -> str:
        """Return the nearest name in the folder of a missing path, as `; did you mean …?`."""
        above, name = os.path.split(to_text(path).rstrip("/"))
        try:
            names = self.list_folder(above or ".")[:_SUGGESTED_FROM]
        except PathRefused:
            return f"; there is no folder {show_path(above)} either" if above else ""
        near = nearest(name, [one for one in names if one.isprintable()])
        return near or f"; {show_path(above or '.')} holds {len(names)} other names"


def open_in(folder: int, name: str) -> BinaryIO:
    """Open a regular file in an open folder, not through a link: for walks over a tree.

    OSError for anything else, which is not waited for.
    """
    looked = os.open(name, _LOOK, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(looked).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return os.fdopen(_reopen(looked), "rb")
    finally:
        os.close(looked)


def open_folder_in(folder: int, name: str) -> int:
    """Open a folder in an open folder, not through a link; the descriptor is the caller's."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, dir_fd=folder)


def fingerprint_file(file: BinaryIO) -> Fingerprint:
    """Return the state of an open file; it is read from its start to its end."""
    file.seek(0)
    found = hashlib.sha256()
    while piece := file.read(_PIECE):
        found.update(piece)
    status = os.fstat(file.fileno())
    return Fingerprint(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, found.hexdigest()
    )


def _open_root(option: str, folder: StrPath, mode: MountMode, held: list[int]) -> Root:
    given = os.path.abspath(os.path.expanduser(to_text(folder)))
    if mode not in MOUNT_MODES:
        raise ConfigError(
            f"{option}: {show_path(given)} is mounted as 'read' or 'extend', not {mode!r}"
        )
    try:
        real = os.path.realpath(given)
        descriptor = os.open(real, _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{option}: {show_path(given)} is no folder that can be used: {why}"
        ) from None
    held.append(descriptor)
    return Root(real, mode, descriptor, tuple(dict.fromkeys((real, given))))


def _strip(path: str, root: str) -> str | None:
    """Return the rest of a path after the root, as it is written; None if it begins elsewhere."""
    if path == root:
        return "."
    start = root.rstrip("/") + "/"
    return path[len(start) :].lstrip("/") or "." if path.startswith(start) else None


def _climbs(inside: str) -> bool:
    """Check whether a relative path leaves its start, as it is written."""
    depth = 0
    for part in inside.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False


def _split(path: str) -> list[str]:
    """Return the steps of a relative path, the first one last."""
    return [one for one in reversed(path.split("/")) if one not in ("", ".")]


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _stat_name(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _require_regular(path: StrPath, status: os.stat_result) -> None:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode))
    if kind is None:
        return
    if stat.S_ISDIR(status.st_mode):
        raise WrongFileType(path, f"{show_path(path)} is a folder, not a file")
    raise WrongFileType(path, f"{show_path(path)} is {kind}, which tools do not open")


_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


def _reopen(looked: int) -> int:
    """Open for reading what was looked at: the same file, whatever its name leads to by now."""
    if not hasattr(os, "O_PATH"):
        return os.dup(looked)
    return os.open(f"/proc/self/fd/{looked}", _READ)


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
