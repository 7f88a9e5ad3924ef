"""`windlass trace`: the trace of a session, in the terminal or as a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli.console import out
from windlass.cli.live.picture import Drawing, read_picture
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import on_session
from windlass.cli.text import clean
from windlass.errors import ConfigError
from windlass.files import open_private
from windlass.trace.html import page
from windlass.trace.json_data import as_data

if TYPE_CHECKING:
    from windlass.trace.model import Part, Picture


@click.command()
@click.argument("session")
@store_option
@click.option(
    "--run",
    "number",
    type=int,
    metavar="N",
    help="One run of the session, counted from 1; -1 is the last.",
)
@click.option("--all", "every", is_flag=True, help="All its runs; the default shows them too.")
@click.option("--turns", metavar="A-B", help="Only these turns, with the time axis to themselves.")
@click.option("--full", is_flag=True, help="Do not fold the quiet turns of a long run.")
@click.option("--html", metavar="FILE", help="Write one self-contained page; - is standard output.")
@click.option(
    "--width",
    type=click.IntRange(min=60, max=1000),
    metavar="N",
    help="Columns to draw in; default: those of the terminal.",
)
@click.option(
    "--follow", "-f", is_flag=True, help="Draw it again as it grows, until its run ends or parks."
)
@json_option
@debug_option
def trace(
    session: str,
    store: str | None,
    number: int | None,
    every: bool,
    turns: str | None,
    full: bool,
    html: str | None,
    width: int | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Draw SESSION: its turns and calls on a time axis, decisions, tokens and cost.

    An agent that was called as a tool is drawn below its call. SESSION may be cut to as much of
    its beginning as tells it from all others.
    """
    if every and number is not None:
        raise click.UsageError("--all and --run N contradict each other: give one of them")
    if html is not None and as_json:
        raise click.UsageError("--html and --json are two forms of the same: give one of them")
    wanted = _turns(turns)
    drawing = Drawing(number, width, full, wanted)
    if follow:
        # Loaded when a session is followed: everybody else draws and is done.
        from windlass.cli.live.traces import follow_trace

        follow_trace(store, session, drawing, html, as_json)
        return
    picture = on_session(store, session, read_picture)
    parts = drawing.select(picture)
    if as_json:
        out().json(as_data(picture, parts))
    elif html is not None:
        _write_page(html, picture, parts)
    else:
        paper = out()
        for line in drawing.lines(picture, paper):
            paper.line(*line)


def _turns(given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    first, dash, last = given.partition("-")
    try:
        found = int(first or 0), int(last or 10**9) if dash else int(first)
    except ValueError:
        raise click.UsageError(f"--turns {given!r}: write it as 3, 3-9, 3- or -9") from None
    if found[0] > found[1]:
        raise click.UsageError(f"--turns {given!r}: the first comes after the last")
    return found


def _write_page(file: str, picture: Picture, parts: Sequence[Part]) -> None:
    text = page(picture, parts)
    if file == "-":
        click.echo(text, nl=False)
        return
    try:
        with os.fdopen(open_private(file, linked_folders=True), "w", encoding="utf-8") as kept:
            kept.write(text)
    except OSError as error:
        raise ConfigError(f"--html {file}: {error.strerror}") from None
    click.echo(f"{clean(file)}: {len(text.encode()) / 1000:,.0f} kB", err=True)
