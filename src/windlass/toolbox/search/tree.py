"""The files of a folder tree in the order of their paths, without what `.gitignore` leaves out.

Every folder is opened by its name in the one above, never through a link and never on another file
system. Loaded by the search process too, so it needs the standard library alone.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from heapq import heapify, heappop
from typing import Final, NamedTuple, TypeAlias

from windlass.toolbox.search.ignore_rules import (
    VERSION_CONTROL,
    IgnoreRules,
    read_rules,
    to_byte_text,
)

DEEPEST: Final = 256  # folders in each other that are looked into
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

#: Called with the folder of a file, its name and its path; True ends the walk.
Visit: TypeAlias = Callable[[int, str, str], bool]


class Level(NamedTuple):
    """The rules of one folder, and where paths relative to it begin in those of the tree."""

    rules: IgnoreRules
    cut: int
    above: str = ""


class Tree:
    """A folder to look through, by its descriptor, and the rules of the folders above it."""

    def __init__(self, folder: int, above: tuple[Level, ...] = (), until: float = 1e18) -> None:
        self.folder = folder
        self._device = os.fstat(folder).st_dev
        self._above = above
        self._until = until
        self.is_stopped = False
        """Whether the time was over before the walk was."""

    def walk(self, visit: Visit) -> None:
        """Visit the regular files, in the order of their paths."""
        self._walk(self.folder, "", self._above, 0, visit)

    def _walk(
        self, folder: int, prefix: str, levels: tuple[Level, ...], depth: int, visit: Visit
    ) -> bool:
        if time.monotonic() > self._until:
            self.is_stopped = True
            return True
        with os.scandir(folder) as found:
            entries = sorted([(entry.name, entry) for entry in found])
        names = {name for name, _ in entries}
        levels = self._enter(folder, prefix, levels) if ".gitignore" in names else levels
        for name, entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if name in VERSION_CONTROL:
                continue
            path = prefix + name
            if levels and is_ignored(levels, path, name, is_folder):
                continue
            if is_folder:
                if depth + 1 < DEEPEST and self._descend(
                    folder, name, path + "/", levels, depth + 1, visit
                ):
                    return True
            elif entry.is_file(follow_symlinks=False) and visit(folder, name, path):
                return True
        return False

    def _descend(
        self,
        above: int,
        name: str,
        prefix: str,
        levels: tuple[Level, ...],
        depth: int,
        visit: Visit,
    ) -> bool:
        folder = self._open_folder(above, name)
        if folder is None:
            return False
        try:
            return self._walk(folder, prefix, levels, depth, visit)
        except OSError:
            return False  # it went away, or may not be read
        finally:
            os.close(folder)

    def _open_folder(self, above: int, name: str) -> int | None:
        try:
            folder = os.open(name, _FOLDER, dir_fd=above)
        except OSError:
            return None
        if os.fstat(folder).st_dev == self._device:
            return folder
        os.close(folder)
        return None

    @staticmethod
    def _enter(folder: int, prefix: str, levels: tuple[Level, ...]) -> tuple[Level, ...]:
        rules = read_rules(folder)
        return levels if rules is None else (Level(rules, len(prefix)), *levels)

    def visit_files(self, paths: list[str], visit: Visit) -> None:
        """Visit those of these paths that `walk` would visit, in their order."""
        stack: list[tuple[str, int, tuple[Level, ...]]] = []
        levels = self._enter(self.folder, "", self._above)
        base = ("", self.folder, levels)
        try:
            for path in _iterate_in_order(paths):
                if time.monotonic() > self._until:
                    self.is_stopped = True
                    return
                while stack and not path.startswith(stack[-1][0]):
                    os.close(stack.pop()[1])
                found = self._climb(path, stack, base)
                if found is None:
                    continue
                folder, name = found
                if _is_regular(folder, name) and visit(folder, name, path):
                    return
        finally:
            while stack:
                os.close(stack.pop()[1])

    def _climb(
        self,
        path: str,
        stack: list[tuple[str, int, tuple[Level, ...]]],
        base: tuple[str, int, tuple[Level, ...]],
    ) -> tuple[int, str] | None:
        """Open the folders of a path that are not open yet; None if it is left out or gone."""
        prefix, folder, levels = stack[-1] if stack else base
        *folders, name = path[len(prefix) :].split("/")
        for one in folders:
            inside = prefix + one
            if one in VERSION_CONTROL or len(stack) + 1 >= DEEPEST:
                return None
            if levels and is_ignored(levels, inside, one, True):
                return None
            opened = self._open_folder(folder, one)
            if opened is None:
                return None
            prefix, folder = inside + "/", opened
            levels = self._enter(folder, prefix, levels)
            stack.append((prefix, folder, levels))
        if name in VERSION_CONTROL or (levels and is_ignored(levels, path, name, False)):
            return None
        return folder, name


def is_ignored(levels: tuple[Level, ...], path: str, name: str, is_folder: bool) -> bool:
    """Check a path against the rules, those of the innermost folder first."""
    for level in levels:
        inside = level.above + path[level.cut :]
        if not inside.isascii():  # a `?` stands for a byte, to git and to ripgrep
            inside, name = to_byte_text(inside), to_byte_text(inside.rpartition("/")[2])
        decided = level.rules.decide(inside, name, is_folder)
        if decided is not None:
            return decided
    return False


def read_levels_above(root: int, inside: str) -> tuple[Level, ...]:
    """Read the rules of the root and of the folders between it and a folder inside."""
    parts = [one for one in inside.split("/") if one not in ("", ".")]
    levels: list[Level] = []
    folder = os.dup(root)
    try:
        for number, part in enumerate(parts):
            rules = read_rules(folder)
            if rules is not None:
                levels.insert(0, Level(rules, 0, "/".join(parts[number:]) + "/"))
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
    except OSError:
        pass  # a link: the folder that it leads to lies elsewhere
    finally:
        os.close(folder)
    return tuple(levels)


def open_file(folder: int, name: str) -> tuple[int, int] | None:
    """Open a regular file in an open folder: its descriptor and its size."""
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode):
        return file, status.st_size
    os.close(file)
    return None


def _is_regular(folder: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _iterate_in_order(paths: list[str]) -> Iterator[str]:
    """Yield paths as a walk does: the files in a folder before a longer name beside it.

    Most often only the first are asked for, so that they are not all sorted.
    """
    heap = [path.replace("/", "\0") for path in paths]
    heapify(heap)
    while heap:
        yield heappop(heap).replace("\0", "/")
