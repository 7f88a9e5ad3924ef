"""Other files of a workspace that mention a name, which a rename does not touch."""

from __future__ import annotations

import os
import re
from typing import Final

from windlass import seams
from windlass.toolbox.edits.languages import find_language
from windlass.toolbox.sandbox.path_errors import PathRefused
from windlass.toolbox.sandbox.paths import Workspace, open_folder_in, open_in

_FAMILIES: Final = (
    frozenset({"javascript", "typescript", "tsx"}),
    frozenset({"c", "cpp"}),
)
_SKIPPED: Final = frozenset(
    {"__pycache__", "build", "dist", "node_modules", "site-packages", "target", "venv"}
)
_MOST_FILES: Final = 5_000
_MOST_LISTED: Final = 20
_LARGEST: Final = 1_000_000
_SECONDS: Final = 3.0


def find_mentions(workspace: Workspace, path: str, name: str) -> list[str]:
    """List the files in the same language that have the word, as lines for a result."""
    search = _Search(path, name)
    try:
        folder = workspace.open_folder(".")
    except PathRefused:
        return []
    try:
        search.visit(folder, "")
    finally:
        os.close(folder)
    return search.lines()


class _Search:
    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.word = re.compile(rb"(?<![\w$])" + re.escape(name.encode()) + rb"(?![\w$])")
        self.name = name.encode()
        language = find_language(path)
        own = language.name if language is not None else ""
        self.family = next((one for one in _FAMILIES if own in one), frozenset({own}))
        self.found: list[str] = []
        self.files = 0
        self.deadline = seams.monotonic() + _SECONDS

    @property
    def is_over(self) -> bool:
        """Whether a limit is reached."""
        return self.files >= _MOST_FILES or seams.monotonic() > self.deadline

    def visit(self, folder: int, prefix: str) -> None:
        """Look at the files of a folder, and of those inside it; links are not followed."""
        if prefix.count("/") > 40:
            return
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return
        for name in names:
            if self.is_over:
                return
            shown = f"{prefix}{name}"
            language = find_language(name)
            if language is not None and language.name in self.family:
                if shown != self.path:
                    self._look(folder, name, shown)
                continue
            if name.startswith(".") or name in _SKIPPED or language is not None:
                continue
            try:
                inner = open_folder_in(folder, name)
            except OSError:
                continue
            try:
                self.visit(inner, f"{shown}/")
            finally:
                os.close(inner)

    def _look(self, folder: int, name: str, shown: str) -> None:
        self.files += 1
        try:
            with open_in(folder, name) as file:
                data = file.read(_LARGEST)
        except OSError:
            return
        if self.name not in data:
            return
        lines = sorted({data.count(b"\n", 0, hit.start()) + 1 for hit in self.word.finditer(data)})
        if lines:
            listed = ", ".join(map(str, lines[:8])) + (", …" if len(lines) > 8 else "")
            clean = shown.encode(errors="replace").decode()
            self.found.append(f"not touched, another file: {clean} (lines {listed})")

    def lines(self) -> list[str]:
        """Return what was found, and whether the search was complete."""
        shown = self.found[:_MOST_LISTED]
        if len(self.found) > _MOST_LISTED:
            shown.append(f"not touched: {len(self.found) - _MOST_LISTED} more files with the word")
        if self.is_over:
            shown.append(f"only the first {self.files} files were searched for the word")
        return shown
