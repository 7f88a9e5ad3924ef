"""The search process: reads a request, looks through a tree, writes the answer, ends.

A pattern can take for ever, and `re` lets nobody else run meanwhile. So it runs here, where it is
killed at its time limit, or when its owner is gone. Started without the packages of the
installation, which takes a third of the time: it needs the standard library alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import signal
import sys
import time
from typing import Any, Final

from windlass.toolbox.search.line_search import Line, LineSearch, shorten
from windlass.toolbox.search.path_globs import InvalidGlob, compile_glob
from windlass.toolbox.search.ripgrep import list_matching_files
from windlass.toolbox.search.tree import Tree, open_file, read_levels_above

MOST_MEMORY: Final = 4 << 30
GRACE: Final = 1.0  # seconds between the end of the walk and the end of the process
MOST_SHOWN: Final = 400_000  # characters of all lines


def main() -> None:
    """Answer the request on the standard input."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1 << 16)
        if not piece:
            return
        line += piece
    request = json.loads(line)
    seconds = float(request["seconds"])
    signal.setitimer(signal.ITIMER_REAL, seconds + min(GRACE, seconds))
    _end_with_owner()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    until = time.monotonic() + seconds
    try:
        answer = grep(request, until) if request["do"] == "grep" else glob(request, until)
    except InvalidGlob as error:
        answer = {"error": f"the glob cannot be used: {error}"}
    except (MemoryError, RecursionError):
        answer = {"error": "the pattern is too large: write a simpler one"}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()


def _end_with_owner() -> None:
    """Have the kernel end this process, and what it started, when the owner closes the pipe."""
    try:
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(0, fcntl.F_SETOWN, -os.getpgrp())
        flags = fcntl.fcntl(0, fcntl.F_GETFL)
        fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)
    except (AttributeError, OSError):
        pass  # then the time limit ends it


def glob(request: dict[str, Any], until: float) -> dict[str, Any]:
    """List the files whose paths match a glob."""
    fits = compile_glob(request["pattern"])
    most: int = request["most"]
    found: list[str] = []

    def visit(_folder: int, name: str, path: str) -> bool:
        if fits(path, name):
            found.append(path)
        return len(found) > most

    tree = _open_tree(request, until)
    tree.walk(visit)
    return {"files": found, "is_stopped": tree.is_stopped}


def grep(request: dict[str, Any], until: float) -> dict[str, Any]:
    """Find the lines that match a pattern."""
    try:
        search = LineSearch(request["pattern"], ignore_case=request["ignore_case"])
    except (re.error, OverflowError) as error:
        return {"error": f"the pattern is no regular expression of Python's: {error}"}
    fits = None if request["glob"] is None else compile_glob(request["glob"])
    found = _Results(search, request["most"], request["context"])
    if request["file"] is not None:
        found.search_file(request["file"], os.fstat(request["file"]).st_size, "")
        return found.to_answer(is_stopped=False)

    def visit(folder: int, name: str, path: str) -> bool:
        if fits is not None and not fits(path, name):
            return False
        opened = open_file(folder, name)
        if opened is None:
            return False
        try:
            return found.search_file(*opened, path)
        except OSError:
            return False
        finally:
            os.close(opened[0])

    tree = _open_tree(request, until)
    paths = None
    if request["ripgrep"] is not None:
        paths = list_matching_files(request, tree)
    if paths is None:
        tree.walk(visit)
    else:
        tree.visit_files(paths, visit)
    return found.to_answer(is_stopped=tree.is_stopped)


def _open_tree(request: dict[str, Any], until: float) -> Tree:
    above = read_levels_above(request["root"], request["inside"])
    return Tree(request["folder"], above, until)


class _Results:
    """The lines that were found so far."""

    def __init__(self, search: LineSearch, most: int, context: int) -> None:
        self._search = search
        self._most = most
        self._context = context
        self._files: list[tuple[str, list[Line]]] = []
        self._count = self._shown = 0
        self._has_more = False

    def search_file(self, file: int, size: int, path: str) -> bool:
        """Search one file; True if there are enough results."""
        lines: list[Line] = []
        for group in self._search.find_in(file, size, self._context):
            if not lines:
                self._files.append((path, lines))
            if self._count >= self._most or self._shown > MOST_SHOWN:
                self._has_more = True
                if not lines:
                    self._files.pop()
                return True
            self._count += 1
            self._add(lines, group)
        return False

    def _add(self, lines: list[Line], group: list[Line]) -> None:
        for line in group:
            if line.is_match:
                match: Any = self._search.match(line.text)
                line = line._replace(text=shorten(line.text, match.start()))
            if lines and lines[-1].number >= line.number:
                if not line.is_match:
                    continue  # shown already, after the match before
                while lines and lines[-1].number >= line.number:
                    lines.pop()
            lines.append(line)
            self._shown += len(line.text)

    def to_answer(self, *, is_stopped: bool) -> dict[str, Any]:
        """Return what the owner shows."""
        return {
            "files": self._files,
            "count": self._count,
            "has_more": self._has_more,
            "is_stopped": is_stopped,
        }
