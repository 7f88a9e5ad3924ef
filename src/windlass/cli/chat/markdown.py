"""Answers in Markdown on a terminal, block by block while they are written."""

from __future__ import annotations

import re
from typing import Final

from windlass.cli.text import clean_piece
from windlass.cli.views import Terminal

_FENCE: Final = re.compile(r"\s{0,3}(```+|~~~+)")


class MarkdownTerminal(Terminal):
    """The view of a terminal that shows each block of the answer as Markdown once it is whole."""

    def words(self, text: str) -> None:
        """Show the blocks that are whole, and keep the rest above the status line."""
        shown = clean_piece(text)
        self.streamed = self.streamed or bool(shown)
        blocks, self.partial = split_blocks(self.partial + shown)
        for block in blocks:
            self._show(block)
        self.at_start = not self.partial

    def close_line(self) -> None:
        """Show the block that was begun."""
        partial, self.partial = self.partial, ""
        self.at_start = True
        if partial.strip():
            self._show(partial)

    def _show(self, block: str) -> None:
        from rich.markdown import Markdown

        # Addresses are written out: a link must not hide where it leads.
        self.answer.console.print(Markdown(block, hyperlinks=False))


def split_blocks(text: str) -> tuple[list[str], str]:
    """Split Markdown at blank lines outside of code; the rest may still grow.

    `split_blocks("one\\n\\ntwo")` is `(["one"], "two")`.
    """
    blocks: list[str] = []
    lines: list[str] = []
    fence = ""
    *whole, last = text.split("\n")
    for line in whole:
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        if line.strip() or fence:
            lines.append(line)
        elif lines:
            blocks.append("\n".join(lines))
            lines = []
    return blocks, "\n".join([*lines, last])
