"""The trace of a session while it grows: on a terminal, as lines, or as a page that loads itself again."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from windlass import seams
from windlass.cli.console import out
from windlass.cli.live.displays import FileDisplay, LineDisplay, TerminalDisplay
from windlass.cli.live.follower import Display, follow_session
from windlass.cli.live.news import list_news
from windlass.cli.live.picture import Drawing, read_picture
from windlass.cli.live.screen import cut_height
from windlass.errors import ConfigError
from windlass.files import write_private
from windlass.trace.html import page
from windlass.trace.model import Picture
from windlass.trace.progress import extend_running
from windlass.trace.text import Line


def follow_trace(
    store: str | None, session: str, drawing: Drawing, html: str | None, as_json: bool
) -> None:
    """Draw the session again and again, in the form that was asked for."""
    if as_json:
        raise click.UsageError("--json is one document: --follow has no use for it, leave one out")
    if html == "-":
        raise click.UsageError("--follow writes the page again and again: name a file with --html")
    paper = out()

    def draw_lines(picture: Picture) -> list[Line]:
        extend_running(picture, seams.now())
        return drawing.lines(picture, paper)

    display: Display[Picture]
    if html is not None:
        _check_folder(html)
        file = html

        def write(picture: Picture, live: bool) -> int:
            extend_running(picture, seams.now())
            written = seams.now() if live else None
            text = page(picture, drawing.select(picture), live=written).encode()
            try:
                write_private(file, text, linked_folders=True)
            except OSError as error:
                raise ConfigError(f"--html {file}: {error.strerror}") from None
            return len(text)

        display = FileDisplay(html, write)
    elif paper.fancy:
        display = TerminalDisplay(paper, draw_lines, cut_trace)
    else:
        display = LineDisplay(
            paper, lambda picture: list_news(picture, drawing.select(picture)), draw_lines
        )
    follow_session(store, session, read_picture, display)


def _check_folder(file: str) -> None:
    folder = os.path.dirname(os.path.abspath(file))
    if not os.path.isdir(folder):
        raise ConfigError(f"--html {file}: there is no folder {folder}")


def cut_trace(lines: Sequence[Line], rows: int) -> Sequence[Line]:
    """Cut a trace that is too high: the steps of a workflow and the newest turns stay."""
    if len(lines) <= rows:
        return lines
    texts = ["".join([one if isinstance(one, str) else one[0] for one in line]) for line in lines]
    begins = [at for at, text in enumerate(texts) if text.startswith(("turn ", "run "))]
    # the legend stands below the last blank line
    end = max([at for at, text in enumerate(texts) if not text], default=len(lines))
    head = begins[0] if begins else 0
    return cut_height(lines[: max(end, head)] if end > head else lines, rows, head)
