"""A picture that is redrawn in its place, on the second screen of the terminal.

What the terminal showed before comes back when the picture is left. A picture that is higher than the terminal is cut
in the middle: its head and its newest lines stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from windlass.cli.console import ConsoleOutput, Part, to_rich_text
from windlass.trace.format import count

_ENTER: Final = "\x1b[?1049h"
_LEAVE: Final = "\x1b[?7h\x1b[?1049l"
_HOME: Final = "\x1b[?7l\x1b[H"  # without wrapping: a line that is wider than thought stays one
_CLEAR: Final = "\x1b[2J"
_TO_END: Final = "\x1b[J"
_END_OF_LINE: Final = "\x1b[K"
_WRAP: Final = "\x1b[?7h"
HEAD: Final = 6  # lines that stay where a picture is too high


Line: TypeAlias = "tuple[Part, ...]"
Cut: TypeAlias = "Callable[[Sequence[Line], int], Sequence[Line]]"


class Screen:
    """The second screen of a terminal: `with Screen(out()) as screen: screen.draw(lines, foot)`."""

    def __init__(self, paper: ConsoleOutput) -> None:
        self._paper = paper
        self._size: tuple[int, int] | None = None
        self._shown = ""

    @property
    def size(self) -> tuple[int, int]:
        """The columns and rows of the terminal, which may change at any time."""
        found = shutil.get_terminal_size((100, 24))
        return max(1, found.columns), max(1, found.lines)

    def __enter__(self) -> Screen:
        """Change to the second screen."""
        self._write(_ENTER)
        return self

    def __exit__(self, *error: object) -> None:
        """Go back to the first one."""
        self._write(_LEAVE)

    def draw(self, lines: Sequence[Line], foot: Line, cut: Cut | None = None) -> None:
        """Draw the lines from the top, and one at the foot; `cut` says what stays of too many."""
        columns, rows = size = self.size
        shown = [*(cut or cut_height)(lines, rows - 1), foot] if rows > 1 else list(lines[-1:])
        # Erased before it is written: at the last column the cursor stands on the last letter.
        rendered = [f"{_END_OF_LINE}{self._render(line, columns)}" for line in shown[:-1]]
        rendered += [f"{_TO_END}{self._render(line, columns)}" for line in shown[-1:]]
        body = "\r\n".join(rendered)
        if (size, body) == (self._size, self._shown):
            return
        clear = _CLEAR if self._size is not None and size != self._size else ""
        self._size, self._shown = size, body
        self._write(f"{clear}{_HOME}{body}{_WRAP}")

    def _render(self, line: Line, columns: int) -> str:
        text = to_rich_text(*line)
        text.truncate(columns)
        console = self._paper.console
        with console.capture() as captured:
            console.print(text, soft_wrap=True, end="")
        return captured.get()

    def _write(self, text: str) -> None:
        self._paper.file.write(text)
        self._paper.file.flush()


def cut_height(lines: Sequence[Line], rows: int, head: int = HEAD) -> list[Line]:
    """Cut the lines to so many rows, in the middle, with a note of how many are missing."""
    if len(lines) <= rows:
        return list(lines)
    head = min(head, rows * 2 // 3)
    tail = max(0, rows - head - 1)
    missing = len(lines) - head - tail
    note = ((f"  ({count(missing, 'line')} not shown until the end)", "dim"),)
    return [*lines[:head], note, *(lines[-tail:] if tail > 0 else ())][:rows]
