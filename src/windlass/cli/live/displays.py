"""Displays of a session that is followed: a terminal, lines for a pipe, and a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

import click

from windlass import seams
from windlass.cli.console import ConsoleOutput, err
from windlass.cli.live.screen import Cut, Line, Screen
from windlass.cli.text import clean, duration

T = TypeVar("T")
FRESH_SECONDS = 5.0  # a file of a run under way is written again after this time at the latest


class News(NamedTuple):
    """Something that is printed once: its moment, and what tells it from all else."""

    key: object
    seconds: float
    text: str


class TerminalDisplay(Generic[T]):
    """A picture that is redrawn in its place, and printed whole at the end."""

    def __init__(
        self, paper: ConsoleOutput, draw: Callable[[T], Sequence[Line]], cut: Cut | None = None
    ) -> None:
        self._paper, self._draw, self._cut = paper, draw, cut
        self._screen = Screen(paper)
        self._lines: Sequence[Line] = ()

    def __enter__(self) -> TerminalDisplay[T]:
        """Change to the screen of the picture."""
        self._screen.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the terminal."""
        self._screen.__exit__(*error)

    def show(self, seen: T, *, changed: bool) -> None:
        """Draw it anew: what runs has become longer."""
        self._lines = self._draw(seen)
        self._screen.draw(self._lines, (("Ctrl-C ends this view, not the run", "dim"),), self._cut)

    def report(self, trouble: str) -> None:
        """Show the trouble below the picture."""
        self._screen.draw(self._lines, ((trouble, "yellow"),), self._cut)

    def finish(self, seen: T) -> None:
        """Print the whole picture where the command was typed."""
        for line in self._draw(seen):
            self._paper.line(*line)

    def abandon(self, seen: T) -> None:
        """Do nothing: the terminal is restored already."""


class LineDisplay(Generic[T]):
    """Lines for a pipe or a file: each piece of news once, and the picture at the end."""

    def __init__(
        self,
        paper: ConsoleOutput,
        list_news: Callable[[T], Iterable[News]],
        draw: Callable[[T], Sequence[Line]],
    ) -> None:
        self._paper, self._list_news, self._draw = paper, list_news, draw
        self._told: set[int] = set()
        self._trouble = ""

    def __enter__(self) -> LineDisplay[T]:
        """Begin."""
        return self

    def __exit__(self, *error: object) -> None:
        """End."""

    def show(self, seen: T, *, changed: bool) -> None:
        """Print what was not printed before, in the order in which it happened."""
        self._trouble = ""
        if not changed:
            return
        news = [one for one in self._list_news(seen) if hash(one.key) not in self._told]
        for one in sorted(news, key=lambda one: one.seconds):
            self._told.add(hash(one.key))
            self._paper.line(f"{_offset(one.seconds):>10}  {one.text}")

    def report(self, trouble: str) -> None:
        """Print the trouble once."""
        if trouble != self._trouble:
            err().line(trouble)
        self._trouble = trouble

    def finish(self, seen: T) -> None:
        """Print the picture."""
        if self._told:
            self._paper.line("")
        for line in self._draw(seen):
            self._paper.line(*line)

    def abandon(self, seen: T) -> None:
        """Do nothing: what was printed is right."""


class FileDisplay(Generic[T]):
    """A file that is replaced at each change; its last version is final."""

    def __init__(self, name: str, write: Callable[[T, bool], int]) -> None:
        self._name, self._write = name, write
        self._written: float | None = None

    def __enter__(self) -> FileDisplay[T]:
        """Begin."""
        return self

    def __exit__(self, *error: object) -> None:
        """End."""

    def show(self, seen: T, *, changed: bool) -> None:
        """Write the file if something has changed, or if it becomes old."""
        now = seams.monotonic()
        if self._written is None or changed or now - self._written >= FRESH_SECONDS:
            first = self._written is None
            self._write(seen, True)
            self._written = seams.monotonic()
            if first:
                click.echo(f"{clean(self._name)}: written again while the run goes on", err=True)

    def report(self, trouble: str) -> None:
        """Print the trouble."""
        err().line(trouble)

    def finish(self, seen: T) -> None:
        """Write the last version."""
        size = self._write(seen, False)
        click.echo(f"{clean(self._name)}: {size / 1000:,.0f} kB", err=True)

    def abandon(self, seen: T) -> None:
        """Write a version that waits for no other."""
        self._write(seen, False)


def _offset(seconds: float) -> str:
    return f"+{max(0.0, seconds):.2f} s" if seconds < 60 else f"+{duration(seconds)}"
