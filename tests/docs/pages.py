"""Pages as the tests see them: their fenced blocks, and what a block is for.

A `python` block is run, in the order of the page, and a `text` block right after it is what it
prints. A `console` block is commands (`$ …`) with their output. A block whose first line is a
comment with a file's name (`# shop.py`) is written to that file first. In expected output `…`
stands for anything, and a line of `…` alone for any lines.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```([\w-]*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w.-]+\.(?:py|toml|ini))\n")
RUN = ("windlass", "python", "pytest")  # commands that work offline in an empty folder


class Block(NamedTuple):
    """A fenced block: its language, its text, its first line in the page, and the output it shows."""

    kind: str
    code: str
    line: int
    output: str | None = None

    @property
    def file(self) -> str | None:
        """The file that the block shows, if it says so."""
        found = _FILE.match(self.code)
        return found[1] if found else None

    @property
    def commands(self) -> list[tuple[str, str]]:
        """The commands of a console block, each with the output shown below it."""
        found: list[tuple[str, str]] = []
        for line in self.code.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            elif found:
                command, shown = found[-1]
                found[-1] = (command, f"{shown}{line}\n")
        return found


def pages() -> list[Path]:
    """List every page that is written for users."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(text: str) -> list[Block]:
    """Parse the blocks of a page, each output joined to the code that prints it."""
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        block = Block(match[1], match[2], text.count("\n", 0, match.start()) + 2)
        follows = not text[end : match.start()].strip()
        if block.kind == "text" and follows and found and found[-1].kind == "python":
            found[-1] = found[-1]._replace(output=block.code)
        else:
            found.append(block)
        end = match.end()
    return found


def matches(expected: str, printed: str) -> bool:
    """Check whether the output is what the page promised."""
    lines = [
        r"(?:.*\n)*?"
        if line.strip() == "…"
        else re.escape(line.rstrip()).replace("…", ".*?") + "\n"
        for line in expected.strip("\n").splitlines()
    ]
    shown = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch("".join(lines), shown) is not None
