"""Ripgrep: where it is, and how it is asked for files.

It says which files to look at, fast. What is in them, and whether they are left out by a `.gitignore`
file, is looked at here again, through the descriptors of the workspace. Loaded by the search process
too, so it needs the standard library alone.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from windlass.toolbox.search.ignore_rules import VERSION_CONTROL
from windlass.toolbox.search.rust_pattern import Untranslatable, translate_pattern
from windlass.toolbox.search.tree import DEEPEST, Tree

#: Which files there are: as `Tree.walk` says, or some more.
_FILES: Final = (
    "--no-config --color=never --null --hidden --no-follow --one-file-system --no-messages "
    "--no-ignore-dot --no-ignore-exclude --no-ignore-global --no-ignore-parent --no-require-git"
).split()
_LINES: Final = (
    "--files-with-matches --text --encoding=none --engine=default --case-sensitive --no-crlf "
    "--no-multiline --no-fixed-strings"
).split()
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+*/")
_PIECE: Final = 1 << 20


def find_ripgrep(*folders: str) -> str | None:
    """Return the path of ripgrep: beside this Python, or on the PATH but not in these folders."""
    beside = os.path.join(os.path.dirname(sys.executable), "rg")
    if os.access(beside, os.X_OK) and os.path.isfile(beside):
        return beside
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if not os.path.isabs(folder):
            continue
        path = os.path.realpath(os.path.join(folder, "rg"))
        # An agent can write there: it must not choose what is run outside of its sandbox.
        if any([path.startswith(one.rstrip("/") + "/") for one in folders]):
            continue
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def build_arguments(glob: str | None) -> list[str]:
    """Return the arguments that choose files; a glob that ripgrep reads differently is left out."""
    arguments = [*_FILES, f"--max-depth={DEEPEST}"]
    if glob is not None and (simple := _simplify(glob)) is not None:
        arguments.append(f"--glob={simple}")
    return [*arguments, *[f"--glob=!{name}" for name in sorted(VERSION_CONTROL)]]


def _simplify(glob: str) -> str | None:
    """Return a glob as ripgrep takes it, if both surely read it in the same way."""
    text = glob.removeprefix("./")
    if not text or not _PLAIN.issuperset(text) or text.endswith("/") or "//" in text:
        return None
    for part in text.split("/"):
        if "**" in part and part != "**":
            return None
    return text


def list_matching_files(request: dict[str, Any], tree: Tree) -> list[str] | None:
    """Ask ripgrep for the files that may hold the pattern; None if it cannot say."""
    try:
        pattern = translate_pattern(request["pattern"], ignore_case=request["ignore_case"])
    except Untranslatable:
        return None
    arguments = [*_LINES, *build_arguments(request["glob"]), f"--regexp={pattern}", "--", "./"]
    os.fchdir(tree.folder)
    return parse_paths(_run([request["ripgrep"], *arguments]))


def parse_paths(output: bytes | None) -> list[str] | None:
    """Return the paths that ripgrep wrote, each ended by NUL; None if it failed."""
    if output is None:
        return None
    text = os.fsdecode(output).replace("\0./", "\0")
    paths = text.removeprefix("./").split("\0")
    paths.pop()
    return paths


def _run(command: list[str]) -> bytes | None:
    """Run ripgrep in the current folder; None if it does not work or complains of its arguments."""
    reading, writing = os.pipe()
    errors_reading, errors_writing = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_DUP2, errors_writing, 2),
    ]
    try:
        process = os.posix_spawn(command[0], command, {}, file_actions=actions)
    except OSError:
        process = None
    os.close(writing)
    os.close(errors_writing)
    pieces: list[bytes] = []
    try:
        if process is None:
            return None
        while piece := os.read(reading, _PIECE):
            pieces.append(piece)
        complaint = os.read(errors_reading, 1)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    finally:
        os.close(reading)
        os.close(errors_reading)
    # Code 2 without words: a file or folder that may not be read, which we cannot either.
    return b"".join(pieces) if code in (0, 1) or (code == 2 and not complaint) else None
