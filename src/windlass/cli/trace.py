"""`windlass trace`: the trace of a session, in the terminal or as a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from windlass import seams
from windlass.cli.console import ConsoleOutput, out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import on_session
from windlass.cli.text import clean
from windlass.errors import ConfigError, NoSuchSession
from windlass.events import JournalEntry, Replied, RunStarted, ToolIntended
from windlass.files import open_private
from windlass.identifiers import CallIndex, child_session_id
from windlass.store.codec import decode
from windlass.trace.build import Append, picture_of
from windlass.trace.html import page
from windlass.trace.json_data import as_data
from windlass.trace.progress import label_unended
from windlass.trace.text import draw

if TYPE_CHECKING:
    from windlass.store.base import SessionInfo, Store
    from windlass.trace.model import Part, Picture
    from windlass.trace.text import Line

DEPTH = 4  # agents called by agents called by …


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


async def read_picture(store: Store, session_id: str) -> Picture:
    """Build the trace of a session, with the agents it called."""
    return await _read(store, await store.info(session_id), DEPTH)


def _find_called(
    session_id: str, entries: Sequence[JournalEntry], below: Sequence[str]
) -> dict[str, str]:
    """Find the sessions that work for this one, each with its call; an empty id where it has none."""
    replies = [entry for entry in entries if isinstance(entry, Replied)]
    asked = [one.id for e in replies for one in e.message.tool_calls]
    # the steps of a workflow are recorded as calls too, without a reply that asks for them
    asked += [entry.call_id for entry in entries if isinstance(entry, ToolIntended)]
    calls = CallIndex(session_id, asked)
    runs = [
        child_session_id(session_id, entry.run_id) + "."
        for entry in entries
        if isinstance(entry, RunStarted)
    ]
    found: dict[str, str] = {}
    for child_id in sorted(below, key=lambda one: (len(one), one)):
        call_id = calls.find(child_id)
        if call_id is None and child_id.startswith(tuple(runs)):
            call_id = ""
        if call_id is not None:
            found[child_id] = call_id
    return found


async def _read(store: Store, info: SessionInfo, depth: int) -> Picture:
    session_id, below = info.id, info.child_ids
    rows = [
        Append(row.at, decode(row.payload, session_id, row.seq))
        for row in await store.rows(session_id)
    ]
    called = _find_called(session_id, [entry for row in rows for entry in row.entries], below)
    children: dict[str, list[Picture]] = {}
    if depth > 0:
        for child_id, call_id in called.items():
            try:
                picture = await _read(store, await store.info(child_id), depth - 1)
            except NoSuchSession:
                continue  # deleted since
            children.setdefault(call_id, []).append(picture)
    forks = tuple([one for one in below if one not in called])
    picture = picture_of(session_id, rows, children, forks=forks)
    label_unended(picture, alive=info.alive, now=seams.now())
    return picture


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


def _select_parts(picture: Picture, number: int | None) -> list[Part]:
    if number is None:
        return picture.parts
    runs = len(picture.parts)
    if not runs or number == 0 or not -runs <= number <= runs:
        there = f"it has {runs}, counted from 1" if runs else "it has never run"
        raise click.UsageError(f"--run {number}: there is no such run of the session; {there}")
    return [picture.parts[number - 1 if number > 0 else number]]


class Drawing(NamedTuple):
    """What of a session is drawn in lines, and how."""

    number: int | None
    width: int | None
    full: bool
    turns: tuple[int, int] | None

    def select(self, picture: Picture) -> list[Part]:
        """Return the runs that are drawn."""
        return _select_parts(picture, self.number)

    def lines(self, picture: Picture, paper: ConsoleOutput) -> list[Line]:
        """Draw the session for this output."""
        columns = self.width or (paper.width if paper.fancy else 100)
        fine = paper.fancy and paper.can_write("█▒▄◆")
        only = self.select(picture)
        full, turns = self.full, self.turns
        return list(draw(picture, columns, fine=fine, full=full, only=only, turns=turns))


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
