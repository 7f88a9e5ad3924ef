"""Output of commands: styled on a terminal, plain everywhere else.

Rich is loaded only when there is a terminal to show it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias, TypeVar

from windlass.cli.text import clean, json_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Part: TypeAlias = "str | tuple[str, str]"  # text, or text and its style
_T = TypeVar("_T")
PLAIN_WIDTH = 160  # of a line without a terminal


class ConsoleOutput:
    """Lines for people: `paper.line(("done", "green"), " after 3 turns")`."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.fancy = file.isatty() and os.environ.get("TERM") != "dumb"
        self._console: Console | None = None

    @property
    def width(self) -> int:
        """The width of a line."""
        return shutil.get_terminal_size((100, 24)).columns if self.fancy else PLAIN_WIDTH

    def can_write(self, letters: str) -> bool:
        """Check whether the terminal can print these characters."""
        try:
            letters.encode(self.file.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    @property
    def console(self) -> Console:
        """Rich's console on this file."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self.file, highlight=False, markup=False, emoji=False)
        return self._console

    def line(self, *parts: Part) -> None:
        """Write one line. What comes from models and tools must be cleaned before."""
        if self.fancy:
            self.console.print(to_rich_text(*parts), soft_wrap=True)
        else:
            self.file.write("".join(p if isinstance(p, str) else p[0] for p in parts) + "\n")
            self.file.flush()

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        right: Sequence[str] = (),
        spare: Sequence[str] = (),
    ) -> None:
        """Print columns under headings; those named in `right` are aligned there.

        Where a terminal is too narrow, those in `spare` are left out, the first of them first.
        """
        rows = [[_on_a_line(cell) for cell in row] for row in rows]
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        for name in spare:
            if sum(widths) + 2 * len(widths) - 2 <= self.width:
                break
            at = head.index(name)
            head, widths = _without(head, at), _without(widths, at)
            rows = [_without(row, at) for row in rows]
        for number, row in enumerate((head, *rows)):
            cells = [
                cell.rjust(width) if name in right else cell.ljust(width)
                for cell, width, name in zip(row, widths, head, strict=True)
            ]
            text = "  ".join(cells).rstrip()
            self.line((text, "bold") if number == 0 else text)

    def json(self, value: Any) -> None:
        """Print one JSON document."""
        self.file.write(json_text(value) + "\n")
        self.file.flush()


def _without(row: Sequence[_T], at: int) -> list[_T]:
    return [*row[:at], *row[at + 1 :]]


def to_rich_text(*parts: Part) -> Text:
    """Build Rich's text of some parts."""
    from rich.text import Text

    return Text.assemble(*parts)


def stop_writing() -> None:
    """Discard all further output, after the reader of standard output has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def out() -> ConsoleOutput:
    """Return standard output: answers, lists, documents."""
    return ConsoleOutput(sys.stdout)


def err() -> ConsoleOutput:
    """Return standard error: progress, hints and problems."""
    return ConsoleOutput(sys.stderr)


def _on_a_line(cell: str) -> str:
    """Put a cell on one line, so that it makes no row of its own."""
    return cell if cell.isprintable() else " ".join(clean(cell).splitlines())
